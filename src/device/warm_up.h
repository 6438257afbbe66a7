#pragma once

namespace autotrain {

/// Starts the thread pool and loads oneDNN and the matrix library on throw-away tensors, so that
/// their stacks, arenas and compiled kernels belong to the start of the process and to nobody's
/// budget, and no thread has to be started once memory is short.
void warm_up_cpu();

}  // namespace autotrain
