#pragma once

namespace autotrain::bench {

/// One timed segment of training steps with one CPU allocator, as a JSON line.
int allocator_step(int argc, char** argv);

/// Trials of the search beside doubling and bisecting, over simulated memory shapes, as a table.
int search_simulation(int argc, char** argv);

}  // namespace autotrain::bench
