#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autotrain {

/// What the machine says of its GPUs before anything is computed on one.
struct GpuFacts {
  int64_t devices = 0;                      ///< that this process sees
  int error = 0;                            ///< of counting them, by CUDA's number; 0: none
  std::string error_text = {};              ///< as CUDA says it
  int64_t driver = 0;                       ///< the newest CUDA that the driver takes, as 12080; 0: no driver
  int64_t runtime = 0;                      ///< CUDA of this LibTorch
  bool in_build = true;                     ///< false: this LibTorch has no CUDA
  std::optional<std::string> visible = {};  ///< CUDA_VISIBLE_DEVICES; unset: all
  bool in_machine = false;                  ///< the kernel shows a GPU of NVIDIA's
  std::vector<std::string> capabilities = {};  ///< of the devices: "9.0"
};

/// Whether the machine's kernel shows a GPU of NVIDIA's, with a driver or without. Asks no library, so that
/// processes which are started afterwards can still compute on it.
bool kernel_shows_a_gpu();

/// Asks driver and kernel, or whatever takes their place.
GpuFacts gpu_facts();

/// While it lives, `facts` are the machine's: for tests.
class GpuFactsScope {
 public:
  explicit GpuFactsScope(GpuFacts facts);
  ~GpuFactsScope();
  GpuFactsScope(const GpuFactsScope&) = delete;
  GpuFactsScope& operator=(const GpuFactsScope&) = delete;
};

/// Why this process does not have a GPU, and what would help.
struct GpuFault {
  std::string what;
  std::string cure;
  bool meant = false;  ///< whoever started the process wants it so
};

/// Says why the GPU of this number cannot be used; unset where it can.
std::optional<GpuFault> gpu_fault(const GpuFacts& facts, int64_t index = 0);

/// Adds what CUDA says. In a build without it, that there is none.
void ask_cuda(GpuFacts& facts);

}  // namespace autotrain
