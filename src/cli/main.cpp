#include <cstdio>
#include <cstdlib>

#include "autotrain/program.h"

int main(int argc, char** argv) {
  const int code = autotrain::run_main(argc, argv);
  std::fflush(nullptr);
  // LibTorch would take its registries of operators apart, for a quarter of a second of every command.
  std::_Exit(code);
}
