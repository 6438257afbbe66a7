#include "sweep/queue_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace autotrain {
namespace {

StageSeconds scaled(const StageSeconds& s, double factor) {
  return {s.loading * factor, s.copying * factor, s.forward * factor, s.output * factor};
}

StageSeconds between(const StageSeconds& a, const StageSeconds& b, double share) {
  return {std::lerp(a.loading, b.loading, share), std::lerp(a.copying, b.copying, share),
          std::lerp(a.forward, b.forward, share), std::lerp(a.output, b.output, share)};
}

// When a server may take its next batch, and when what it computes is done.
struct ServerClock {
  double free = 0;
  double computed = 0;
};

ServedBatch serve(const StageSeconds& seconds, double taken, ServerClock& server, bool load_ahead) {
  ServedBatch batch{.taken = taken, .loaded = taken + seconds.loading};
  batch.begun = std::max(batch.loaded, server.computed);
  batch.copied = batch.begun + seconds.copying;
  batch.computed = batch.copied + seconds.forward;
  batch.done = batch.computed + seconds.output;
  server.computed = batch.done;
  server.free = load_ahead ? batch.begun : batch.done;
  return batch;
}

}  // namespace

StageSeconds ServiceTimes::at(int64_t samples) const {
  const auto above = measured_.lower_bound(samples);
  const auto place = static_cast<double>(samples);
  if (above == measured_.end()) {
    const auto& [largest, seconds] = *measured_.rbegin();
    return scaled(seconds, place / static_cast<double>(largest));
  }
  if (above->first == samples || above == measured_.begin()) return above->second;
  const auto below = std::prev(above);
  const auto low = static_cast<double>(below->first), high = static_cast<double>(above->first);
  return between(below->second, above->second, (place - low) / (high - low));
}

std::vector<ServedBatch> simulate_queue(const std::vector<double>& arrivals, const Batching& batching,
                                        const Servers& servers, const ServiceTimes& times) {
  std::vector<ServerClock> clocks(static_cast<size_t>(servers.count));
  std::vector<ServedBatch> served;
  for (size_t first = 0; first < arrivals.size();) {
    ServerClock& server = *std::ranges::min_element(clocks, {}, &ServerClock::free);
    const double taken = batch_start(batching, arrivals, first, server.free);
    const size_t samples = batch_size(batching, arrivals, first, taken);
    ServedBatch batch = serve(times.at(static_cast<int64_t>(samples)), taken, server, servers.load_ahead);
    batch.first = first;
    batch.samples = samples;
    served.push_back(batch);
    first += samples;
  }
  return served;
}

double capacity_of(const Batching& batching, const Servers& servers, const ServiceTimes& times) {
  const StageSeconds full = times.at(batching.most);
  const double each = servers.load_ahead ? std::max(full.loading, full.after_loading()) : full.all();
  return static_cast<double>(servers.count * batching.most) / each;
}

double waiting_of_md1(double rate, double service_seconds) {
  const double load = rate * service_seconds;
  if (load >= 1) return std::numeric_limits<double>::infinity();
  return load / (2 * (1 - load)) * service_seconds;
}

}  // namespace autotrain
