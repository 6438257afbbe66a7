#include <barrier>

#include "comm/exchange.h"

namespace autotrain {
namespace {

// Holds what the ranks of one world show each other between two meetings: a tensor each.
struct Table {
  explicit Table(int64_t world) : shown(static_cast<size_t>(world)), meeting(world) {}
  std::vector<torch::Tensor> shown;
  std::barrier<> meeting;
};

class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<Table> table, int64_t rank)
      : table_(std::move(table)), rank_(rank), world_(static_cast<int64_t>(table_->shown.size())) {}

  void to_all(const torch::Tensor& receive, const torch::Tensor& send) override {
    show(send,
         [&](int64_t rank) { part_of(receive, rank, world_).copy_(part_of(theirs(rank), rank_, world_)); });
  }

  void spread(const torch::Tensor& flat) override {
    show(flat, [&](int64_t rank) {
      if (rank != rank_) part_of(flat, rank, world_).copy_(part_of(theirs(rank), rank, world_));
    });
  }

  void copy_from_first(const torch::Tensor& tensor) override {
    show(tensor, [&](int64_t rank) {
      if (rank == 0 && rank_ != 0) tensor.copy_(theirs(0));
    });
  }

 private:
  const torch::Tensor& theirs(int64_t rank) const { return table_->shown[static_cast<size_t>(rank)]; }

  template <class Look>
  void show(const torch::Tensor& mine, Look look) {
    const torch::NoGradGuard no_gradients;
    table_->shown[static_cast<size_t>(rank_)] = mine;
    table_->meeting.arrive_and_wait();
    for (int64_t rank = 0; rank < world_; ++rank) look(rank);
    table_->meeting.arrive_and_wait();
  }

  std::shared_ptr<Table> table_;
  int64_t rank_, world_;
};

}  // namespace

std::vector<std::unique_ptr<Exchange>> make_thread_exchanges(int64_t world) {
  const auto table = std::make_shared<Table>(world);
  std::vector<std::unique_ptr<Exchange>> all;
  for (int64_t rank = 0; rank < world; ++rank) all.push_back(std::make_unique<ThreadExchange>(table, rank));
  return all;
}

}  // namespace autotrain
