#include "autotrain/error.h"
#include "comm/group_exchange.h"

namespace autotrain {

std::unique_ptr<Exchange> make_nccl_exchange(const c10::intrusive_ptr<c10d::Store>&, const Place&,
                                             const ExchangeOptions&) {
  throw Error(ExitCode::kBadRecipe, "execution.device", "this build has no NCCL, by which GPUs work together",
              "set execution.device to cpu, use one rank, or build against a LibTorch with CUDA");
}

}  // namespace autotrain
