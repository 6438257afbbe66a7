// Trials and samples of the search beside doubling and bisecting, over simulated memory shapes.
#include <algorithm>
#include <cstdio>

#include "programs.h"
#include "support/simulated_memory.h"

namespace autotrain::bench {
namespace {

struct Cost {
  int64_t runs = 0, trials = 0, most = 0;
  double relative_samples = 0;  // ÷ capacity

  void add(const test::SimulatedSearch& search, const test::SimulatedDevice& device, double capacity) {
    ++runs;
    trials += search.trials;
    most = std::max(most, search.trials);
    relative_samples += static_cast<double>(device.samples_run()) / capacity;
  }
};

Cost cost_of(NextSize next, const test::MemoryShape& shape) {
  Cost cost;
  for (const double capacity : {1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6}) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      test::SimulatedDevice device(shape, capacity, 0.1, seed);
      const SearchLimits limits{.budget_bytes = device.budget_bytes(),
                                .cap = int64_t{1} << 40,
                                .floor_bytes = device.floor_bytes(),
                                .max_probes = 100};
      cost.add(test::simulate(next, device, limits), device, capacity);
    }
  }
  return cost;
}

void print(const char* name, const Cost& cost) {
  std::printf("  %-24s trials: mean %.1f, most %lld; samples ÷ capacity: %.2f\n", name,
              static_cast<double>(cost.trials) / static_cast<double>(cost.runs),
              static_cast<long long>(cost.most), cost.relative_samples / static_cast<double>(cost.runs));
}

}  // namespace

int search_simulation(int, char**) {
  for (const test::MemoryShape& shape : test::memory_shapes()) {
    std::printf("%s\n", shape.name.c_str());
    print("interpolated", cost_of(&next_size_in_band, shape));
    print("doubling and bisecting", cost_of(&test::doubling_and_bisecting, shape));
  }
  return 0;
}

}  // namespace autotrain::bench
