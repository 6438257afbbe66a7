#pragma once

#include <cstdint>

/// What the Python package calls, by way of ctypes: nothing of it depends on Python. Texts are UTF-8; what is
/// returned as `char*` is JSON, given back with autotrain_free. Where something failed it has one member,
/// "error". Calls are made from one thread at a time.
extern "C" {

/// A part of a trial, as StepPart and StepSaid name them.
typedef int (*AutotrainRunStep)(int part, const int64_t* micro_batches, int64_t count);

/// A record of the log: 0 debug, 1 information, 2 warning, 3 error.
typedef void (*AutotrainLog)(int level, const char* room, const char* text);

const char* autotrain_version();
void autotrain_free(char* text);
void autotrain_log_to(AutotrainLog log);

/// From now on the process's tensors in main memory come from the caching allocator, without a limit. What
/// was allocated before stays what it was. @param budget of the search to come: libraries that have not
/// computed yet keep kernels in proportion to it.
char* autotrain_install(const char* budget);

/// {"allocated_bytes"} of all tensors that came from it.
char* autotrain_allocated();

/// What an exception with this text means for the size that was tried, as StepSaid.
int autotrain_classify(const char* text);

/// Opens a device and holds the process to a budget on it, until it is closed.
/// @param request {"device", "budget", "carried_bytes"}. @param session null where it failed.
char* autotrain_open(const char* request, void** session);

/// {"budget_bytes", "budget_source", "allocated_bytes", "reserved_bytes", "outside_bytes", "peak_bytes",
/// "peak_allocated_bytes", "carried_bytes"} now, of what the budget counts.
char* autotrain_memory(void* session);

/// Counts what is used beside tensors now into the peak.
void autotrain_sample(void* session);

/// Gives back what is cached, and has peaks counted from now on.
void autotrain_begin(void* session);

void autotrain_close(void* session);

/// The gradient noise scale of updates, {"samples", "low", "high"}; null where it cannot be told.
/// @param updates a list of {"pieces": [[samples, squared norm of the mean gradient], …], "square": of all}.
char* autotrain_noise_scale(const char* updates);

/// The search. {"plan": as in plan.json, …}; {"stopped": true} where a part said so.
char* autotrain_find(void* session, const char* request, AutotrainRunStep run);
}
