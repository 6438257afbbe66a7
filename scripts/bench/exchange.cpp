// Times what ranks of one machine exchange, each a process with one thread: the notes of a meeting, and the
// exact sum in turns with gloo's own all-reduce. Beside the time of an exact sum stands that of the cores on
// which all ranks together ran meanwhile: what is left of the machine's cores is all that passes could use
// that overlapped with it. Prints a JSON line.
#include <ATen/Parallel.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/child.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/exact_sum.h"
#include "comm/meeting_place.h"
#include "comm/ranks.h"
#include "programs.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

constexpr int kMeetings = 1000, kRounds = 9;

nlohmann::ordered_json summary_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 2], values.front(), values.back()};  // median, least, largest
}

double time_of(Ranks& ranks, const std::function<void()>& action) {
  ranks.meet({});
  const Stopwatch watch;
  action();
  return watch.seconds();
}

// Seconds of all cores, for all threads of this process and what the kernel did for them.
double processor_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The cores that all ranks kept busy during the action: their processors' time ÷ the slowest one's.
double busy_cores(Ranks& ranks, double seconds, double processor) {
  double slowest = 0, sum = 0;
  for (const Ranks::Note& note : ranks.meet({seconds, processor})) {
    slowest = std::max(slowest, note.at(0).get<double>());
    sum += note.at(1).get<double>();
  }
  return sum / slowest;
}

// A group of gloo's own beside the one that the ranks have.
c10::intrusive_ptr<c10d::ProcessGroupGloo> plain_group(const MeetingPlace& meeting, const Place& place) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting.port());
  options.waitWorkers = false;
  auto with = c10d::ProcessGroupGloo::Options::create();
  with->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "plain", c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(place.rank),
                                                     static_cast<int>(place.world), with);
}

int run_rank(const MeetingPlace& meeting, int64_t rank, int64_t world) {
  at::set_num_threads(1);
  Launch launch{.place = {rank, world, "here", rank, world},
                .meeting_host = "127.0.0.1",
                .meeting_port = meeting.port(),
                .agent_store = true};
  const auto ranks = Ranks::open(launch);
  ranks->connect(torch::Device(torch::kCPU));
  const auto group = plain_group(meeting, launch.place);
  std::vector<double> meetings;
  for (int i = 0; i < kMeetings; ++i) meetings.push_back(1e6 * time_of(*ranks, [&] { ranks->meet({}); }));
  nlohmann::ordered_json result = {{"ranks", world}, {"meeting_microseconds", summary_of(meetings)}};
  for (const int64_t mebibytes : {1, 4, 16, 32, 64, 256}) {
    torch::Tensor flat = torch::ones({mebibytes << 18});
    ExactSum exact(ranks->exchange(), launch.place, flat.numel(), flat.options());
    std::vector<double> ours, theirs, ratios, busy;
    for (int round = 0; round <= kRounds; ++round) {
      double processor = 0;
      const double own = time_of(*ranks, [&] {
        processor = processor_seconds();
        exact(flat);
        processor = processor_seconds() - processor;
      });
      const double cores = busy_cores(*ranks, own, processor);
      const double other = time_of(*ranks, [&] {
        std::vector<torch::Tensor> tensors = {flat};
        group->allreduce(tensors)->wait();
      });
      if (round == 0) continue;  // the first one touches the memory
      ours.push_back(own), theirs.push_back(other), ratios.push_back(own / other), busy.push_back(cores);
    }
    result["sums"].push_back({{"mebibytes", mebibytes},
                              {"exact_seconds", summary_of(ours)},
                              {"all_reduce_seconds", summary_of(theirs)},
                              {"exact / all_reduce", summary_of(ratios)},
                              {"cores_busy_in_exact", summary_of(busy)}});
  }
  if (rank == 0) std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace

int exchange(int argc, char** argv) {
  const int64_t world = std::stoll(argument(argc, argv, "ranks", "2"));
  MeetingPlace meeting;
  std::vector<std::unique_ptr<Child>> ranks;
  for (int64_t rank = 0; rank < world; ++rank)
    ranks.push_back(std::make_unique<Child>([&, rank] { return run_rank(meeting, rank, world); }));
  meeting.serve();
  int code = 0;
  for (const auto& rank : ranks) code = std::max(code, std::abs(rank->wait()));
  return code;
}

}  // namespace autotrain::bench
