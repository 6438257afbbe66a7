#pragma once

namespace autotrain::bench {

/// One timed segment of training steps with one CPU allocator, as a JSON line.
int allocator_step(int argc, char** argv);

}  // namespace autotrain::bench
