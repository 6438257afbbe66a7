#include "device/kernel_caches.h"

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
    if (const char* const asked = std::getenv(variable)) {
      log::info("device", cat(variable, "=", asked, " from the environment stands; ", capacity,
                              " would suit the budget"));
    } else {
      ::setenv(variable, capacity.c_str(), /*overwrite=*/0);
    }
  }
}

}  // namespace autotrain
