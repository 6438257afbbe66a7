#include "comm/agreement.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/gathered.h"
#include "device/failure.h"

namespace autotrain {
namespace {

constexpr double kLook = 0.5;  // seconds between two looks at the heartbeats while waiting
constexpr double kAlive = 4;   // seconds since its last sign of life for which a rank surely lives
constexpr double kAnswer = 5;  // seconds that a store has to answer a call that does not wait

// The messages of a round gather in one value, so that each rank asks for one key, however many ranks there
// are.
struct RoundKeys {
  explicit RoundKeys(int64_t round)
      : messages(cat("agreement/", round)), count(messages + "/count"), complete(messages + "/complete") {}

  std::string messages;
  std::string count;     // how many of them there are
  std::string complete;  // is there once all are
};

void give(c10d::Store& store, const RoundKeys& keys, const Place& place, const std::string& mine) {
  store.append(keys.messages, gathered_part(place.rank, mine));
  if (store.add(keys.count, 1) == place.world) store.set(keys.complete, std::vector<uint8_t>{1});
}

// Those that are there.
std::map<int64_t, std::string> look(c10d::Store& store, const RoundKeys& keys, int64_t world) {
  if (!store.check({keys.messages})) return {};
  return read_gathered(store.get(keys.messages), world);
}

std::string names_of(const std::vector<SilentRank>& ranks) {
  std::vector<std::string> names;
  for (const SilentRank& each : ranks) names.push_back(describe(each));
  return join(names, "; ");
}

// Waits for a moment for all of them; nothing where they are not there by then. The store's own exception
// says no more than that the time was over.
std::map<int64_t, std::string> take(c10d::Store& store, const RoundKeys& keys, int64_t world) {
  try {
    store.wait({keys.complete}, std::chrono::milliseconds(static_cast<int64_t>(1000 * kLook)));
  } catch (const c10::DistStoreError&) {
    return {};
  }
  return read_gathered(store.get(keys.messages), world);
}

}  // namespace

Agreement::Agreement(c10::intrusive_ptr<c10d::Store> store, const Place& place, const Options& options)
    : store_(std::move(store)), place_(place), options_(options), heartbeat_(store_, place) {}

void Agreement::fail(const std::string& what) const {
  throw Error(
      ExitCode::kInterrupted, cat("rank ", place_.rank), what,
      "the run's last checkpoint is whole: start it again with --resume and the ranks that there are");
}

void Agreement::call_store(std::function<void()> call) {
  try {
    if (calls_.run(kAnswer, std::move(call))) return;
  } catch (const std::exception& error) {
    fail("the store that ranks meet at failed: " + first_line(error));
  }
  fail("the store that ranks meet at does not answer");
}

// Gives this round's message. The first rank drops the rounds that nobody needs any more: whoever gave a
// message in a round that it has completed had read all the rounds before it.
std::function<void()> Agreement::giving(const std::string& mine) {
  std::vector<RoundKeys> unneeded;
  if (place_.rank == 0) {
    for (; oldest_ < completed_; ++oldest_) unneeded.emplace_back(oldest_);
  }
  return [store = store_, keys = RoundKeys(round_++), place = place_, unneeded, mine] {
    give(*store, keys, place, mine);
    for (const RoundKeys& old : unneeded) {
      for (const std::string& key : {old.messages, old.count, old.complete}) store->deleteKey(key);
    }
  };
}

void Agreement::post(const std::string& mine) {
  call_store(giving(mine));
}

// Where nobody is late it is one call: handing one over to another thread takes longer than the store does.
std::vector<std::string> Agreement::exchange(const std::string& mine, double seconds,
                                             const std::function<void()>& look) {
  const int64_t round = round_;
  const auto messages = std::make_shared<std::map<int64_t, std::string>>();
  const auto taking = [store = store_, keys = RoundKeys(round), world = place_.world, messages] {
    *messages = take(*store, keys, world);
  };
  call_store([give = giving(mine), taking] {
    give();
    taking();
  });
  for (const Stopwatch watch; messages->empty();) {
    if (look) look();
    fail_if_lost();
    if (watch.seconds() > seconds) fail_if_late(round, seconds);
    call_store(taking);
  }
  if (std::ssize(*messages) < place_.world) fail("the store that ranks meet at has lost what they gave it");
  if (completed_ < 0) heartbeat_.all_have_come();
  completed_ = round;
  std::vector<std::string> in_order;
  for (auto& [rank, text] : *messages) in_order.push_back(std::move(text));
  return in_order;
}

std::map<int64_t, std::string> Agreement::posted() {
  return there(round_);
}

std::map<int64_t, std::string> Agreement::there(int64_t round) {
  const auto messages = std::make_shared<std::map<int64_t, std::string>>();
  call_store([store = store_, keys = RoundKeys(round), world = place_.world, messages] {
    *messages = look(*store, keys, world);
  });
  return *messages;
}

// A process that was frozen itself hears of the store a moment after it goes on.
bool Agreement::store_is_lost() const {
  constexpr auto kMoment = std::chrono::seconds(1);
  if (heartbeat_.store_answers()) return false;
  std::this_thread::sleep_for(kMoment);
  return !heartbeat_.store_answers();
}

// Before all have come, a rank that was never heard of may not have been started yet.
void Agreement::fail_if_lost(const std::string& about) {
  if (store_is_lost()) fail("the store that ranks meet at does not answer" + about);
  std::vector<SilentRank> lost = heartbeat_.silent(options_.silence_seconds);
  if (completed_ < 0) std::erase_if(lost, [](const SilentRank& rank) { return !rank.heard; });
  if (!lost.empty()) fail(cat("lost ", names_of(lost), about));
}

void Agreement::fail_if_late(int64_t round, double seconds) {
  constexpr double kAnyone = -1;  // also those who gave one at this moment
  const std::map<int64_t, std::string> come = there(round);
  std::vector<std::string> names;
  for (const SilentRank& each : heartbeat_.silent(kAnyone)) {
    if (come.contains(each.rank)) continue;
    given_up_.insert(each.rank);
    const bool hangs = each.heard && each.seconds <= kAlive;
    names.push_back(hangs ? cat("rank ", each.rank, ", which is alive and hangs") : describe(each));
  }
  if (names.empty()) return;  // they have come meanwhile
  fail(cat("not everyone came to the agreement within ", fixed(seconds, 0), " s: ", join(names, "; ")));
}

bool Agreement::lives(int64_t rank) const {
  const auto silent_for = [&](double seconds) {
    return std::ranges::any_of(heartbeat_.silent(seconds),
                               [&](const SilentRank& r) { return r.rank == rank; });
  };
  for (;;) {
    if (given_up_.contains(rank) || !heartbeat_.store_answers()) return false;
    if (!silent_for(kAlive)) return true;
    if (silent_for(options_.silence_seconds)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void Agreement::fail_about(const std::string& what) {
  constexpr double kMore = 3;
  for (const Stopwatch watch; watch.seconds() < options_.silence_seconds + kMore;) {
    fail_if_lost(" (" + what + ")");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  fail(what + "; all ranks still give signs of life");
}

}  // namespace autotrain
