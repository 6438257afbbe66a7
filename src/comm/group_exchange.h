#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "comm/exchange.h"

namespace autotrain {

struct ExchangeOptions {
  std::string address = "127.0.0.1";  ///< of the interface to listen on, or its host's name; gloo's
  double seconds = 60;                ///< that one call may take
};

/// The calls of an exchange by a process group of c10d. Every call returns when it is done, on a GPU too.
std::unique_ptr<Exchange> make_group_exchange(c10::intrusive_ptr<c10d::Backend> group, const Place& place,
                                              double seconds);

/// Tensors of main memory over TCP, by c10d's gloo.
/// @param store where ranks tell each other their ports, with a prefix of its own like an Agreement's.
/// @throws std::exception of c10d when a rank does not come in time, as every call of the exchange does.
/// After one has failed, destroying the exchange may take as long as its calls: a process that is about to
/// end should leave with `_exit`.
std::unique_ptr<Exchange> make_gloo_exchange(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                                             const ExchangeOptions& options);

/// Tensors of GPUs, by NCCL; the calling thread's current device is this rank's.
/// @throws Error(kBadRecipe) in a build without NCCL, std::exception as the gloo exchange.
std::unique_ptr<Exchange> make_nccl_exchange(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                                             const ExchangeOptions& options);

}  // namespace autotrain
