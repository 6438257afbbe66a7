#include "device/kernel_caches.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr int64_t kShareOfBudget = 8;  // one part in so many
constexpr int64_t kKernelBytes = 128 * kKiB;
constexpr int64_t kFewest = 64;
constexpr int64_t kMost = 1024;  // what either library keeps by itself

struct Variable {
  const char* name;
  const char* former_name;  // which the library reads too
  int64_t least;            // PyTorch crashes with an LRU cache of none
};

constexpr std::array kVariables = {
    Variable{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY", 0},
    Variable{"LRU_CACHE_CAPACITY", nullptr, 1}};

// The capacity that the environment asks for; nothing where it does not.
std::optional<int64_t> asked_for(const Variable& variable) {
  for (const char* const name : {variable.name, variable.former_name}) {
    const char* const asked = name != nullptr ? std::getenv(name) : nullptr;
    if (asked == nullptr) continue;
    int64_t capacity = 0;
    constexpr int64_t kLargest = std::numeric_limits<int>::max();
    if (parse_integer(asked, capacity) && capacity >= variable.least && capacity <= kLargest) return capacity;
    throw Error(ExitCode::kUsage, name,
                cat("is ", quote(asked), " and should be a number from ", variable.least, " to ", kLargest),
                "unset it: the budget then says how many kernels are kept");
  }
  return std::nullopt;
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
  if (bounded) return;
  const std::string capacity = std::to_string(kernel_cache_capacity(budget_bytes));
  for (const Variable& variable : kVariables) {
    if (const std::optional<int64_t> asked = asked_for(variable)) {
      log::info("device", cat(variable.name, "=", *asked, " from the environment stands; ", capacity,
                              " would suit the budget"));
    } else {
      ::setenv(variable.name, capacity.c_str(), /*overwrite=*/0);
    }
  }
  bounded = true;
}

void release_kernels() {
  const int64_t capacity = asked_for(kVariables[0]).value_or(kMost);
  try {
    // A copy of so many elements is a kernel of its own, which nothing has to be compiled for.
    for (int64_t elements = 1; elements <= std::min(capacity, kMost); ++elements)
      at::empty({elements}, at::kBFloat16).to_mkldnn();
  } catch (const std::exception& error) {
    log::debug("device", cat("kernels were not released: ", error.what()));
  }
}

}  // namespace autotrain
