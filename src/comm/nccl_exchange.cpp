#include <chrono>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/group_exchange.h"

namespace autotrain {

std::unique_ptr<Exchange> make_nccl_exchange(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                                             const ExchangeOptions& options) {
  // Its watchdog would end the process when a rank is lost; this one saves first, whatever a job's script
  // says.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
  auto with = c10d::ProcessGroupNCCL::Options::create();
  with->timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * options.seconds));
  return make_group_exchange(c10::make_intrusive<c10d::ProcessGroupNCCL>(
                                 c10::make_intrusive<c10d::PrefixStore>("nccl", store),
                                 static_cast<int>(place.rank), static_cast<int>(place.world), with),
                             place, options.seconds);
}

}  // namespace autotrain
