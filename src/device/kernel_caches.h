#pragma once

#include <cstdint>

namespace autotrain {

/// oneDNN compiles a kernel for every shape that it meets, and it and LibTorch keep 1,024 of them each. Where
/// samples differ in length, or a search tries many sizes, that comes to hundreds of megabytes in bf16.

/// How many kernels either of them may keep for a run of this budget: an eighth of it, at 128 KiB each,
/// though never fewer than a small model's update needs nor more than they would keep anyway.
int64_t kernel_cache_capacity(int64_t budget_bytes);

/// What kernels may come to take in such a run.
int64_t kernel_cache_bytes(int64_t budget_bytes);

/// Bounds both caches by the environment, which each of them reads once, when it is first used: so before
/// anything is computed, and once in a process. A user's own setting stands.
/// @throws Error(kUsage) when that is no number: the libraries would take it for 0, or crash.
void bound_kernel_caches(int64_t budget_bytes);

/// Has oneDNN forget all kernels that it keeps and nobody uses, those of a few bytes excepted: it has no call
/// for that, so as many tiny ones as it keeps take their place. Some 0.2 ms for each; kernels that are needed
/// again are compiled again.
void release_kernels();

}  // namespace autotrain
