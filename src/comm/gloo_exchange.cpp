#include "comm/gloo_exchange.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <exception>

namespace autotrain {
namespace {

constexpr int kThreads = 2;

class GlooExchange final : public Exchange {
 public:
  GlooExchange(const c10::intrusive_ptr<c10d::Store>& store, const Place& place, const GlooOptions& options)
      : world_(place.world), timeout_(static_cast<int64_t>(1000 * options.seconds)) {
    auto with = c10d::ProcessGroupGloo::Options::create(timeout_);
    with->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
    with->threads = kThreads;
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store), static_cast<int>(place.rank),
        static_cast<int>(world_), with);
  }

  void to_all(const torch::Tensor& receive, const torch::Tensor& send) override {
    torch::Tensor out = receive, in = send;
    std::vector<int64_t> equal_parts;
    c10d::AllToAllOptions options;
    options.timeout = timeout_;
    group_->alltoall_base(out, in, equal_parts, equal_parts, options)->wait();
  }

  // Has as many broadcasts in flight as there are ranks, in place: an all-gather would make a copy of the
  // whole.
  void spread(const torch::Tensor& flat) override {
    const int64_t size = flat.numel() / world_;
    std::vector<c10::intrusive_ptr<c10d::Work>> under_way;
    for (int64_t rank = 0; rank < world_; ++rank) {
      c10d::BroadcastOptions options;
      options.rootRank = rank;
      options.timeout = timeout_;
      std::vector<torch::Tensor> part = {flat.narrow(0, rank * size, size)};
      under_way.push_back(group_->broadcast(part, options));
    }
    // All of them, also after one has failed: they write into the caller's tensor.
    std::exception_ptr failure;
    for (const auto& work : under_way) {
      try {
        work->wait();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

 private:
  int64_t world_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Exchange> make_gloo_exchange(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                                             const GlooOptions& options) {
  return std::make_unique<GlooExchange>(store, place, options);
}

}  // namespace autotrain
