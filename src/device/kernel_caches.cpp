#include "device/kernel_caches.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kShareOfBudget = 8;  // one part in so many
constexpr int64_t kKernelBytes = 128 * kKiB;
constexpr int64_t kFewest = 64;
constexpr int64_t kMost = 1024;  // what either library keeps by itself

constexpr std::array kVariables = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"};

// oneDNN still reads its former name too.
const char* asked_for(const char* variable) {
  const char* const asked = std::getenv(variable);
  return asked == nullptr && variable == kVariables[0] ? std::getenv("DNNL_PRIMITIVE_CACHE_CAPACITY") : asked;
}

}  // namespace

int64_t kernel_cache_capacity(int64_t budget_bytes) {
  return std::clamp(budget_bytes / kShareOfBudget / kKernelBytes, kFewest, kMost);
}

int64_t kernel_cache_bytes(int64_t budget_bytes) {
  return kernel_cache_capacity(budget_bytes) * kKernelBytes;
}

void bound_kernel_caches(int64_t budget_bytes) {
  static bool bounded = false;
  if (std::exchange(bounded, true)) return;
  const std::string capacity = std::to_string(kernel_cache_capacity(budget_bytes));
  for (const char* const variable : kVariables) {
    if (const char* const asked = asked_for(variable)) {
      log::info("device", cat(variable, "=", asked, " from the environment stands; ", capacity,
                              " would suit the budget"));
    } else {
      ::setenv(variable, capacity.c_str(), /*overwrite=*/0);
    }
  }
}

void release_kernels() {
  const char* const asked = asked_for(kVariables[0]);
  int64_t capacity = kMost;
  if (asked != nullptr && !parse_integer(asked, capacity)) return;
  try {
    // A copy of so many elements is a kernel of its own, which nothing has to be compiled for.
    for (int64_t elements = 1; elements <= std::min(capacity, kMost); ++elements)
      at::empty({elements}, at::kBFloat16).to_mkldnn();
  } catch (const std::exception& error) {
    log::debug("device", cat("kernels were not released: ", error.what()));
  }
}

}  // namespace autotrain
