#include "sweep/serving_plan.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/text.h"
#include "sweep/rate_search.h"

namespace autotrain {
namespace {

constexpr double kLargestNumber = 1e6;
constexpr int64_t kFewestRequests = 100, kMostRequests = 100'000;
constexpr size_t kOneOfWarmUp = 10;  // one in so many

}  // namespace

std::vector<double> numbers_in(const std::string& text, const char* option, double least) {
  std::vector<double> numbers;
  for (const std::string& part : split(text, ',')) {
    double number = 0;
    if (!parse_real(trim(part), number) || number < least || number > kLargestNumber) {
      throw Error(ExitCode::kUsage, option,
                  cat(quote(part), " is no number from ", shortest(least), " to ", shortest(kLargestNumber)),
                  cat("give one or several with commas between them: ", option, " 50,100"));
    }
    if (std::ranges::count(numbers, number) == 0) numbers.push_back(number);
  }
  return numbers;
}

std::vector<Serving> combinations_of(const ServingAxes& axes) {
  std::vector<Serving> all;
  const auto add = [&](Serving serving) {
    if (serving.most == 1) serving.window_ms = 0;
    if (serving.servers == 1) serving.processes = false;
    if (std::ranges::count(all, serving) == 0) all.push_back(serving);
  };
  for (const bool ahead : {false, true}) {
    if (ahead && !axes.load_ahead) continue;
    for (const int64_t servers : axes.servers) {
      for (const bool processes : {false, true}) {
        if (processes && !axes.processes) continue;
        for (const int64_t batch : axes.batches) {
          for (const double window : axes.windows_ms)
            add({.most = batch,
                 .window_ms = window,
                 .servers = servers,
                 .processes = processes,
                 .load_ahead = ahead});
        }
      }
    }
  }
  return all;
}

std::vector<double> rates_below_and_above(double capacity) {
  std::vector<double> rates;
  for (const double share : {0.2, 0.4, 0.6, 0.8, 0.9, 1.1}) rates.push_back(three_digits(share * capacity));
  return rates;
}

RequestCount requests_at(double rate, double seconds, std::optional<int64_t> asked) {
  const auto come = static_cast<int64_t>(std::min(std::ceil(rate * seconds), double{kMostRequests}));
  const auto counted = static_cast<size_t>(asked.value_or(std::max(come, kFewestRequests)));
  return {.counted = counted, .warm_up = counted / kOneOfWarmUp};
}

RequestCount requests_of_trace(size_t arrivals) {
  const size_t warm_up = arrivals / kOneOfWarmUp;
  return {.counted = arrivals - warm_up, .warm_up = warm_up};
}

std::string file_word(const Serving& serving) {
  return cat("batch-", serving.most, "-window-", shortest(serving.window_ms), "-servers-", serving.servers,
             serving.processes ? "-processes" : "", serving.load_ahead ? "-ahead" : "");
}

}  // namespace autotrain
