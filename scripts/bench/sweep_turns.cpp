// Timed segments of a sweep's point in turns with another program: reads lines "sweep SECONDS" from standard
// input and answers each with one JSON line, the batch ÷ the median latency of a call.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autotrain/trainer.h"
#include "base/clock.h"
#include "measure/subject.h"
#include "measure/timing.h"
#include "programs.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

double median_latency(Subject& subject, double seconds) {
  subject.call();  // warms caches that the other side has evicted
  std::vector<double> latencies;
  for (const Stopwatch all; all.seconds() < seconds || latencies.size() < 3;) {
    const Stopwatch watch;
    subject.call();
    latencies.push_back(watch.seconds());
  }
  std::ranges::sort(latencies);
  return quantile(latencies, 0.5);
}

}  // namespace

int sweep_turns(int argc, char** argv) {
  const std::string width = argument(argc, argv, "width", "64");
  const int64_t batch = std::stoll(argument(argc, argv, "batch", "1"));
  const std::string precision = argument(argc, argv, "precision", "fp32");
  const Recipe recipe =
      load_recipe("recipes/roofline_mlp.yaml", {"model.width=" + width, "execution.precision=" + precision});
  const auto subject = make_subject(recipe);
  subject->load(batch);
  for (std::string side; std::cin >> side;) {
    double seconds = 1;
    std::cin >> seconds;
    const double rate = static_cast<double>(batch) / median_latency(*subject, seconds);
    const nlohmann::ordered_json line = {{"side", side}, {"samples_per_second", rate}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace autotrain::bench
