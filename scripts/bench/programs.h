#pragma once

namespace autotrain::bench {

/// One timed segment of training steps with one CPU allocator, as a JSON line.
int allocator_step(int argc, char** argv);

/// COCO's figures of boxes in a file, and the seconds that they take, as a JSON line.
int coco_evaluation(int argc, char** argv);

/// What ranks of this machine exchange: notes, and exact sums beside gloo's all-reduce, as a JSON line.
int exchange(int argc, char** argv);

/// The notes of many ranks that are threads, as JSON lines.
int meetings(int argc, char** argv);

/// What the device is and does at most, and how fast batches reach it, as JSON.
int facts(int argc, char** argv);

/// Seconds from the start of the process to the first update, for a driver to time.
int first_update(int argc, char** argv);

/// Timed segments of loading, as standard input asks for them.
int loader_turns(int argc, char** argv);

/// Timed segments of updates by each optimizer, as standard input asks for them.
int optimizer_turns(int argc, char** argv);

/// Our search under RLIMIT_DATA, then 50 updates and an evaluation, as a JSON line.
int search_step(int argc, char** argv);

/// The update step with and without static buffers in turns, as a JSON line.
int static_step(int argc, char** argv);

/// Timed segments of a sweep's point, as standard input asks for them.
int sweep_turns(int argc, char** argv);

/// Timed segments of the harness and of a bare loop, as standard input asks for them.
int turns(int argc, char** argv);

/// Trials of the search beside doubling and bisecting, over simulated memory shapes, as a table.
int search_simulation(int argc, char** argv);

}  // namespace autotrain::bench
