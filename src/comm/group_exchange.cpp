#include "comm/group_exchange.h"

#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

namespace autotrain {
namespace {

constexpr int kGlooThreads = 2;
constexpr auto kLookAgain = std::chrono::microseconds(50);

using Work = c10::intrusive_ptr<c10d::Work>;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

// On a GPU `wait` only puts the work before what is queued behind it. Seen to be done first, it can be given
// up while that is still free to go on.
void finish(const Work& work, bool on_gpu) {
  while (on_gpu && !work->isCompleted()) std::this_thread::sleep_for(kLookAgain);
  if (work->exception()) std::rethrow_exception(work->exception());
  work->wait();
}

class GroupExchange final : public Exchange {
 public:
  GroupExchange(c10::intrusive_ptr<c10d::Backend> group, int64_t world, double seconds)
      : group_(std::move(group)), world_(world), timeout_(milliseconds_of(seconds)) {}

  void to_all(const torch::Tensor& receive, const torch::Tensor& send) override {
    torch::Tensor out = receive, in = send;
    std::vector<int64_t> equal_parts;
    c10d::AllToAllOptions options;
    options.timeout = timeout_;
    finish(group_->alltoall_base(out, in, equal_parts, equal_parts, options), send.is_cuda());
  }

  // Has as many broadcasts in flight as there are ranks, in place: an all-gather would make a copy of the
  // whole.
  void spread(const torch::Tensor& flat) override {
    std::vector<Work> under_way;
    for (int64_t rank = 0; rank < world_; ++rank)
      under_way.push_back(broadcast(part_of(flat, rank, world_), rank));
    // All of them, also after one has failed: they write into the caller's tensor.
    std::exception_ptr failure;
    for (const Work& work : under_way) {
      try {
        finish(work, flat.is_cuda());
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  void copy_from_first(const torch::Tensor& tensor) override {
    finish(broadcast(tensor, 0), tensor.is_cuda());
  }

 private:
  Work broadcast(const torch::Tensor& tensor, int64_t root) {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = timeout_;
    std::vector<torch::Tensor> tensors = {tensor};
    return group_->broadcast(tensors, options);
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  int64_t world_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::unique_ptr<Exchange> make_group_exchange(c10::intrusive_ptr<c10d::Backend> group, const Place& place,
                                              double seconds) {
  return std::make_unique<GroupExchange>(std::move(group), place.world, seconds);
}

std::unique_ptr<Exchange> make_gloo_exchange(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                                             const ExchangeOptions& options) {
  auto with = c10d::ProcessGroupGloo::Options::create(milliseconds_of(options.seconds));
  with->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  with->threads = kGlooThreads;
  return make_group_exchange(c10::make_intrusive<c10d::ProcessGroupGloo>(
                                 c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                 static_cast<int>(place.rank), static_cast<int>(place.world), with),
                             place, options.seconds);
}

}  // namespace autotrain
