#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "device/device.h"

namespace autotrain {

/// What one device of this machine is and does, measured.
struct MachineFigures {
  std::string device;  ///< "cpu", "cuda:0"
  std::string name;    ///< as the maker calls it
  std::string software;
  int64_t processors = 0;    ///< logical ones that this process may run on
  int64_t cores = 0;         ///< physical ones among them, no more than the cgroup's quota
  int64_t threads = 0;       ///< that LibTorch computes with
  int64_t budget_bytes = 0;  ///< of `execution.memory.budget: auto`
  std::string budget_source;
  double copy_bytes_per_second = 0;  ///< read plus written, of random numbers far larger than the caches

  struct Rate {
    std::string precision;
    double flops = 0;  ///< operations per second of a product of random matrices, its best of several
  };
  std::vector<Rate> rates = {};

  struct Level {
    std::string name;      ///< "L1", "L2", "L3", "memory"
    int64_t bytes = 0;     ///< all that the compute threads have of it; 0: of memory
    double read_rate = 0;  ///< bytes a second, of a working set of half of it
  };
  std::vector<Level> levels = {};  ///< smallest first; of a GPU memory only
};

inline constexpr double kMachineSeconds = 0.25;

/// Takes some seconds. Leaves products of float32 plain, whatever they were before.
/// @param seconds of each of its measurements.
MachineFigures measure_machine(Device& device, double seconds = kMachineSeconds);

/// The figures as docs/formats.md describes them.
nlohmann::ordered_json to_json(const MachineFigures& machine);

/// Logical processors that this process may run on.
int64_t usable_processors();

}  // namespace autotrain
