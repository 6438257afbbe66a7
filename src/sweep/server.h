#pragma once

#include <cstdint>
#include <functional>

#include "measure/subject.h"
#include "sweep/request_queue.h"

namespace autotrain {

/// Takes a batch that was read through copying, forward pass and output, and notes when each was done.
/// @param now the clock of the times.
void compute_batch(InferenceSubject& subject, const Batch& read, const std::function<double()>& now,
                   ServedBatch& times);

/// Serves requests on the calling thread until the queue has none: each batch is loaded, computed and brought
/// to main memory before the next one is taken, or, with `load_ahead`, a thread of its own takes and loads
/// the next batch meanwhile. The i-th request is for the data's i-th sample.
/// @throws what the data set and the model throw, and Error(kInterrupted).
void serve(InferenceSubject& subject, RequestQueue& queue, bool load_ahead);

/// The same by so many threads, which share the model; on a GPU each has a stream of its own.
/// @param prepare called by each of them before the clock starts.
void serve_by_threads(InferenceSubject& subject, RequestQueue& queue, int64_t servers, bool load_ahead,
                      const std::function<void()>& prepare);

/// So many processes, each of which calls `work`; this one waits for them. @throws Error with the code of the
/// first that failed.
void serve_by_processes(RequestQueue& queue, int64_t servers, const std::function<void()>& work);

}  // namespace autotrain
