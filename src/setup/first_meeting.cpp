#include "setup/first_meeting.h"

#include <map>
#include <utility>

#include "autotrain/error.h"
#include "base/text.h"
#include "state/identity.h"

namespace autotrain {
namespace {

// What ranks tell of their machines.
constexpr const char *kFacts = "facts", *kHost = "host", *kBudget = "budget", *kDevice = "device";

std::vector<DeviceOfRank> devices_in(const std::vector<Ranks::Note>& notes) {
  std::vector<DeviceOfRank> devices;
  for (const Ranks::Note& note : notes)
    devices.push_back({note.at(kHost).get<std::string>(), note.at(kDevice).get<std::string>()});
  return devices;
}

}  // namespace

void refuse_shared_gpus(const std::vector<DeviceOfRank>& devices) {
  std::map<std::pair<std::string, std::string>, size_t> taken;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const auto& [host, bus_id] = devices[rank];
    if (bus_id.empty()) continue;
    const auto [first, is_free] = taken.try_emplace({host, bus_id}, rank);
    if (is_free) continue;
    throw Error(ExitCode::kBadRecipe, "execution.device",
                cat("ranks ", first->second, " and ", rank, " on ", host, " both have the GPU at ", bus_id,
                    ", and NCCL takes one rank for each GPU"),
                "start no more ranks on a host than it has GPUs, with execution.device: auto");
  }
}

std::vector<std::string> agree_on_the_machine(const Recipe& recipe, const Workbench& bench) {
  Ranks& ranks = *bench.ranks;
  if (!ranks.several()) return {};
  Device& device = *bench.device;
  const auto notes = ranks.meet({{kFacts, facts_of_rank(recipe, bench)},
                                 {kHost, ranks.place().host},
                                 {kDevice, device.bus_id()},
                                 {kBudget, device.budget_bytes()}});
  const Ranks::Note& first = notes.front();
  size_t least = 0;
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    const Ranks::Note& note = notes[rank];
    for (const auto& [fact, value] : first.at(kFacts).items()) {
      if (note.at(kFacts).value(fact, "nothing") == value) continue;
      throw Error(ExitCode::kUsage, cat("rank ", rank, " on ", note.at(kHost).get<std::string>()),
                  cat(fact, " is ", note.at(kFacts).value(fact, "nothing"), ", and ",
                      value.get<std::string>(), " on rank 0 on ", first.at(kHost).get<std::string>()),
                  "start all ranks with the same program, recipe and data, on machines of one kind");
    }
    if (note.at(kBudget).get<int64_t>() < notes[least].at(kBudget).get<int64_t>()) least = rank;
  }
  refuse_shared_gpus(devices_in(notes));
  const int64_t bytes = notes[least].at(kBudget).get<int64_t>();
  if (bytes != device.budget_bytes()) {
    device.set_budget({bytes, cat("of rank ", least, " on ", notes[least].at(kHost).get<std::string>(),
                                  ", the smallest of ", notes.size(), " ranks")});
  }
  ranks.connect(device.torch_device());
  std::vector<std::string> hosts;
  for (const Ranks::Note& note : notes) hosts.push_back(note.at(kHost).get<std::string>());
  return hosts;
}

}  // namespace autotrain
