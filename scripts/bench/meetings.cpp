// Simulates the meetings of many ranks, as threads that have connections of their own to one store of this
// machine: how long an exchange of notes takes, and how soon the others name a rank that gives no signs any
// more. Prints a JSON line for each number of ranks.
#include <c10/util/Flags.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/meeting_place.h"
#include "programs.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

constexpr int kWarmUp = 5, kMeetings = 30;
constexpr double kPatience = 600;

// What rank 0 saw.
struct Seen {
  std::vector<double> meetings;
  double named_after = 0;  // seconds since the last rank gave its last sign
};

void be_rank(int64_t rank, int64_t world, int64_t port, std::barrier<>& all, Seen& seen) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      std::to_string(world), c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
  auto agreement = std::make_unique<Agreement>(store, Place{.rank = rank, .world = world, .host = "here"});
  agreement->exchange("{}", kPatience);
  for (int i = 0; i < kWarmUp + kMeetings; ++i) {
    const Stopwatch watch;
    agreement->exchange("{}", kPatience);
    if (rank == 0 && i >= kWarmUp) seen.meetings.push_back(watch.seconds());
  }
  all.arrive_and_wait();
  const bool lost = rank == world - 1;
  const Stopwatch watch;
  if (lost) agreement.reset();  // with its heartbeat
  try {
    if (agreement) agreement->exchange("{}", kPatience);
  } catch (const Error&) {
    if (rank == 0) seen.named_after = watch.seconds();
  }
  all.arrive_and_wait();
}

}  // namespace

int meetings(int argc, char** argv) {
  FLAGS_caffe2_log_level = 2;  // errors: a store that is asked to wait for a moment would warn of each one
  const int64_t most = std::stoll(argument(argc, argv, "ranks", "1024"));
  MeetingPlace place;
  place.serve();
  for (int64_t world = 2; world <= most; world *= 2) {
    std::barrier<> all(world);
    Seen seen;
    std::vector<std::thread> ranks;
    for (int64_t rank = 0; rank < world; ++rank)
      ranks.emplace_back([&, rank] {
        try {
          be_rank(rank, world, place.port(), all, seen);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank %lld: %s\n", static_cast<long long>(rank), error.what());
          std::_Exit(1);  // the others wait for it
        }
      });
    for (std::thread& rank : ranks) rank.join();
    std::ranges::sort(seen.meetings);
    const nlohmann::ordered_json line = {{"ranks", world},
                                         {"meeting_seconds", seen.meetings[seen.meetings.size() / 2]},
                                         {"least", seen.meetings.front()},
                                         {"largest", seen.meetings.back()},
                                         {"lost_rank_named_after_seconds", seen.named_after}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace autotrain::bench
