#include <array>
#include <cstdio>
#include <string_view>

#include "programs.h"

namespace {

struct Program {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr std::array kPrograms = {
    Program{"allocator_step", &autotrain::bench::allocator_step},
    Program{"coco_evaluation", &autotrain::bench::coco_evaluation},
    Program{"exchange", &autotrain::bench::exchange},
    Program{"meetings", &autotrain::bench::meetings},
    Program{"facts", &autotrain::bench::facts},
    Program{"first_update", &autotrain::bench::first_update},
    Program{"loader_turns", &autotrain::bench::loader_turns},
    Program{"optimizer_turns", &autotrain::bench::optimizer_turns},
    Program{"search_step", &autotrain::bench::search_step},
    Program{"search_simulation", &autotrain::bench::search_simulation},
    Program{"static_step", &autotrain::bench::static_step},
    Program{"sweep_turns", &autotrain::bench::sweep_turns},
    Program{"turns", &autotrain::bench::turns},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Program& program : kPrograms) {
    if (argc > 1 && program.name == argv[1]) return program.run(argc - 1, argv + 1);
  }
  std::fprintf(stderr, "usage: autotrain_bench PROGRAM [--option value]…, with PROGRAM one of:\n");
  for (const Program& program : kPrograms) std::fprintf(stderr, "  %s\n", program.name.data());
  return 64;
}
