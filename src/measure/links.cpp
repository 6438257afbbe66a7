#include "measure/links.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "comm/exact_sum.h"
#include "measure/timing.h"

namespace autotrain {
namespace {

constexpr int kMeetings = 200, kSums = 5;
constexpr double kProductSeconds = 1;
constexpr double kMuchSlower = 0.8;  // of the median

// Median time of `action`, which all ranks begin together.
double time_together(Ranks& ranks, int times, const std::function<void()>& action) {
  std::vector<double> seconds;
  for (int i = 0; i <= times; ++i) {
    ranks.meet({});
    const Stopwatch watch;
    action();
    if (i > 0) seconds.push_back(watch.seconds());  // the first one touches the memory
  }
  return median_of(std::move(seconds));
}

LinkFigures::Sum time_sum(Ranks& ranks, const Device& device, int64_t bytes) {
  const auto options = torch::TensorOptions().device(device.torch_device());
  const torch::Tensor flat = at::ones({bytes / 4}, options);
  ExactSum sum(ranks.exchange(), ranks.place(), flat.numel(), flat.options());
  const double seconds = time_together(ranks, kSums, [&] {
    sum(flat);
    device.synchronize();
  });
  const auto world = static_cast<double>(ranks.place().world);
  return {bytes, seconds, 2 * (world - 1) / world * static_cast<double>(bytes) / seconds};
}

// Of products that every rank computes at the same time, so that they take from each other what they will
// take in training.
double product_flops(Ranks& ranks, const Device& device) {
  constexpr int64_t kSide = 512;
  const torch::Tensor matrix = at::ones({kSide, kSide}, torch::TensorOptions().device(device.torch_device()));
  at::matmul(matrix, matrix);
  device.synchronize();
  ranks.meet({});
  const Stopwatch watch;
  int64_t products = 0;
  for (; watch.seconds() < kProductSeconds; ++products) {
    at::matmul(matrix, matrix);
    device.synchronize();
  }
  return static_cast<double>(2 * kSide * kSide * kSide * products) / watch.seconds();
}

}  // namespace

LinkFigures measure_links(Ranks& ranks, const Device& device) {
  LinkFigures links{.meeting_seconds = time_together(ranks, kMeetings, [&] { ranks.meet({}); })};
  for (const int64_t bytes :
       {int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 24, int64_t{1} << 26})
    links.sums.push_back(time_sum(ranks, device, bytes));
  constexpr const char *kHost = "host", *kFlops = "flops";
  const Ranks::Note mine = {{kHost, ranks.place().host}, {kFlops, product_flops(ranks, device)}};
  for (const Ranks::Note& note : ranks.meet(mine))
    links.ranks.push_back({note.at(kHost).get<std::string>(), note.at(kFlops).get<double>()});
  return links;
}

int64_t straggler_of(const std::vector<LinkFigures::Rank>& ranks) {
  std::vector<double> rates;
  for (const LinkFigures::Rank& rank : ranks) rates.push_back(rank.flops);
  const auto slowest = std::ranges::min_element(rates);
  std::vector<double> sorted = rates;
  std::ranges::sort(sorted);
  const double middle = sorted[sorted.size() / 2];  // of two ranks the faster one
  return *slowest < kMuchSlower * middle ? slowest - rates.begin() : -1;
}

nlohmann::ordered_json to_json(const LinkFigures& links) {
  nlohmann::ordered_json sums = nlohmann::ordered_json::array(), ranks = sums;
  for (const LinkFigures::Sum& sum : links.sums)
    sums.push_back({{"bytes", sum.bytes}, {"seconds", sum.seconds}, {"bytes_per_second", sum.rate}});
  for (const LinkFigures::Rank& rank : links.ranks)
    ranks.push_back({{"host", rank.host}, {"flops", rank.flops}});
  return {{"meeting_seconds", links.meeting_seconds}, {"exact_sums", sums}, {"ranks", ranks}};
}

}  // namespace autotrain
