// From the start of the process to the first applied update, as `autotrain --config` gets there.
#include <unistd.h>

#include <cstdio>

#include "autotrain/trainer.h"
#include "programs.h"
#include "workloads.h"

namespace autotrain::bench {

int first_update(int argc, char** argv) {
  const std::string micro_batch = argument(argc, argv, "micro-batch", "64");
  const Recipe recipe =
      load_recipe(argument(argc, argv, "config", "recipes/fashion_mnist_mlp.yaml"),
                  {"batch.effective=64", "execution.micro_batch=" + micro_batch, "execution.precision=fp32",
                   "stop.updates=1", "execution.memory.budget=auto", "execution.search.plan_cache=false"});
  Trainer trainer = Trainer::from_recipe(recipe, {.write_files = false});
  trainer.on_update([](const UpdateRecord&) -> Flow {
    std::puts("first update");
    std::fflush(stdout);
    ::_exit(0);
  });
  trainer.fit();
  return 1;
}

}  // namespace autotrain::bench
