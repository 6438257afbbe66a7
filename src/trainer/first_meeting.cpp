#include "trainer/first_meeting.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "trainer/identity.h"

namespace autotrain {
namespace {

// What ranks tell of their machines.
constexpr const char *kFacts = "facts", *kHost = "host", *kBudget = "budget", *kDevice = "device";

// NCCL lets no two ranks work on one GPU.
void refuse_shared_gpu(const std::vector<Ranks::Note>& notes, size_t rank) {
  for (size_t other = 0; other < rank; ++other) {
    if (notes[other].at(kHost) != notes[rank].at(kHost) ||
        notes[other].at(kDevice) != notes[rank].at(kDevice))
      continue;
    throw Error(ExitCode::kBadRecipe, "execution.device",
                cat("ranks ", other, " and ", rank, " on ", notes[rank].at(kHost).get<std::string>(),
                    " both have ", notes[rank].at(kDevice).get<std::string>()),
                "start no more ranks on a host than it has GPUs, with execution.device: auto");
  }
}

}  // namespace

std::vector<std::string> agree_on_the_machine(const Recipe& recipe, const Workbench& bench) {
  Ranks& ranks = *bench.ranks;
  if (!ranks.several()) return {};
  Device& device = *bench.device;
  const auto notes = ranks.meet({{kFacts, facts_of_rank(recipe, bench)},
                                 {kHost, ranks.place().host},
                                 {kDevice, device.torch_device().str()},
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
    if (!device.torch_device().is_cpu() && rank > 0) refuse_shared_gpu(notes, rank);
    if (note.at(kBudget).get<int64_t>() < notes[least].at(kBudget).get<int64_t>()) least = rank;
  }
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
