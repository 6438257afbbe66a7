#include "comm/roll_call.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace {

// All that have come, a line each; what one of them has found; how many know of it.
constexpr const char *kCome = "come", *kFound = "found", *kKnow = "know";

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string words_in(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// A process that has come.
struct Comer {
  Place place;
  int64_t process = 0;  // its id on its host
};

// "rank world process host": a host's name may hold anything but the end of the line.
std::string line_of(const Place& place) {
  return cat(place.rank, ' ', place.world, ' ', ::getpid(), ' ', place.host, '\n');
}

std::vector<Comer> comers_in(const std::string& lines) {
  std::vector<Comer> comers;
  for (const std::string& line : split(lines, '\n')) {
    const size_t rank = line.find(' '), world = line.find(' ', rank + 1), id = line.find(' ', world + 1);
    Comer comer;
    if (rank == std::string::npos || world == std::string::npos || id == std::string::npos ||
        !parse_integer(line.substr(0, rank), comer.place.rank) ||
        !parse_integer(line.substr(rank + 1, world - rank - 1), comer.place.world) ||
        !parse_integer(line.substr(world + 1, id - world - 1), comer.process))
      continue;
    comer.place.host = line.substr(id + 1);
    comers.push_back(comer);
  }
  return comers;
}

// One that died before all have met may be started again. Of processes on other hosts nothing is known.
bool has_died(const Comer& comer, const Place& mine) {
  return comer.place.host == mine.host && ::kill(static_cast<pid_t>(comer.process), 0) != 0 && errno == ESRCH;
}

std::string name_of(const Place& place) {
  return cat("rank ", place.rank, " on ", place.host);
}

// Why these ranks are not those of one run; "" where they may be.
std::string conflict(std::vector<Comer> come, const Place& mine) {
  std::erase_if(come, [&](const Comer& comer) { return has_died(comer, mine); });
  const auto other =
      std::ranges::find_if(come, [&](const Comer& comer) { return comer.place.world != mine.world; });
  if (other != come.end())
    return cat(name_of(mine), " was started as one of ", mine.world, " ranks, and ", name_of(other->place),
               " as one of ", other->place.world);
  const auto is_me = [&](const Comer& comer) { return comer.place.rank == mine.rank; };
  if (std::ranges::count_if(come, is_me) < 2) return "";
  return cat("two processes were started as rank ", mine.rank, ", on ",
             std::ranges::find_if(come, is_me)->place.host, " and on ", mine.host);
}

}  // namespace

RollCall::RollCall(c10::intrusive_ptr<c10d::Store> store, const Place& place, bool serves)
    : store_(std::move(store)), place_(place), serves_(serves) {}

void RollCall::call_store(std::function<void()> call, const std::function<void()>& look) {
  constexpr double kAnswer = 60;  // seconds, of a store that all ranks have just found
  try {
    if (calls_.run(kAnswer, std::move(call), look)) return;
  } catch (const Error&) {  // of `look`
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error("the store that ranks meet at failed: " + first_line(error));
  }
  throw std::runtime_error("the store that ranks meet at does not answer");
}

void RollCall::answer(const std::function<void()>& look) {
  const auto come = std::make_shared<std::string>();
  call_store(
      [store = store_, line = line_of(place_), come] {
        store->append(kCome, bytes_of(line));
        *come = words_in(store->get(kCome));
      },
      look);
  const std::string problem = conflict(comers_in(*come), place_);
  if (problem.empty()) return fail_if_refused();
  call_store([store = store_, problem] { store->set(kFound, bytes_of(problem)); });
  refuse(problem);
}

void RollCall::fail_if_refused() {
  const auto found = std::make_shared<std::string>();
  call_store([store = store_, found] {
    if (store->check({kFound})) *found = words_in(store->get(kFound));
  });
  if (!found->empty()) refuse(*found);
}

bool RollCall::all_know() {
  const auto all = std::make_shared<bool>();
  call_store([store = store_, all] {
    *all = store->add(kKnow, 0) >= std::ssize(comers_in(words_in(store->get(kCome))));
  });
  return *all;
}

// Whoever serves the store takes it along, and with it what the others have to hear.
void RollCall::refuse(const std::string& problem) {
  constexpr double kToHear = 5;  // seconds
  call_store([store = store_] { store->add(kKnow, 1); });
  for (const Stopwatch watch; serves_ && watch.seconds() < kToHear && !all_know();)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  throw Error(ExitCode::kUsage, name_of(place_), problem,
              "give every process the same number of ranks (WORLD_SIZE) and a rank of its own (RANK)");
}

}  // namespace autotrain
