#include "comm/agreement.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace {

constexpr double kLook = 0.5;  // seconds between two looks at the heartbeats while waiting
constexpr double kAnswer = 5;  // seconds that a store has to answer a call that does not wait

std::string key_of(int64_t round, int64_t rank) {
  return cat("agreement/", round, '/', rank);
}

std::string names_of(const std::vector<SilentRank>& ranks) {
  std::vector<std::string> names;
  for (const SilentRank& each : ranks) names.push_back(describe(each));
  return join(names, "; ");
}

// Waits for a moment, and returns all messages if all are there by then. The store's own exception says no
// more than that the time was over.
std::vector<std::string> take(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<std::string> messages;
  try {
    store.wait(keys, std::chrono::milliseconds(static_cast<int64_t>(1000 * kLook)));
  } catch (const c10::DistStoreError&) {
    return messages;
  }
  for (const std::vector<uint8_t>& value : store.multiGet(keys))
    messages.emplace_back(value.begin(), value.end());
  return messages;
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

std::vector<int64_t> Agreement::missing(const std::vector<std::string>& keys) {
  const auto ranks = std::make_shared<std::vector<int64_t>>();
  call_store([store = store_, keys, ranks] {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!store->check({keys[i]})) ranks->push_back(static_cast<int64_t>(i));
    }
  });
  return *ranks;
}

// Gives this round's message, and drops those that nobody needs any more: whoever gave one in a round that
// this rank has completed had read all the rounds before it.
std::function<void()> Agreement::giving(const std::string& mine) {
  std::vector<std::string> unneeded;
  for (; oldest_ < completed_; ++oldest_) unneeded.push_back(key_of(oldest_, place_.rank));
  return [store = store_, key = key_of(round_++, place_.rank), unneeded,
          value = std::vector<uint8_t>(mine.begin(), mine.end())] {
    store->set(key, value);
    for (const std::string& old : unneeded) store->deleteKey(old);
  };
}

void Agreement::post(const std::string& mine) {
  call_store(giving(mine));
}

// Where nobody is late it is one call: handing one over to another thread takes longer than the store does.
std::vector<std::string> Agreement::exchange(const std::string& mine, double seconds) {
  const int64_t round = round_;
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < place_.world; ++rank) keys.push_back(key_of(round, rank));
  const auto messages = std::make_shared<std::vector<std::string>>();
  call_store([give = giving(mine), store = store_, keys, messages] {
    give();
    *messages = take(*store, keys);
  });
  for (const Stopwatch watch; messages->empty();) {
    fail_if_lost();
    if (watch.seconds() > seconds) fail_if_late(keys, seconds);
    call_store([store = store_, keys, messages] { *messages = take(*store, keys); });
  }
  completed_ = round;
  return *messages;
}

std::map<int64_t, std::string> Agreement::posted() {
  const auto messages = std::make_shared<std::map<int64_t, std::string>>();
  call_store([store = store_, messages, round = round_, world = place_.world] {
    for (int64_t rank = 0; rank < world; ++rank) {
      const std::string key = key_of(round, rank);
      if (!store->check({key})) continue;
      const std::vector<uint8_t> value = store->get(key);
      messages->emplace(rank, std::string(value.begin(), value.end()));
    }
  });
  return *messages;
}

// A rank that was never heard of may still be loading its data.
void Agreement::fail_if_lost(const std::string& about) {
  if (!heartbeat_.store_answers()) fail("the store that ranks meet at does not answer" + about);
  std::vector<SilentRank> lost = heartbeat_.silent(options_.silence_seconds);
  std::erase_if(lost, [](const SilentRank& rank) { return !rank.heard; });
  if (!lost.empty()) fail(cat("lost ", names_of(lost), about));
}

void Agreement::fail_if_late(const std::vector<std::string>& keys, double seconds) {
  constexpr double kAlive = 4;    // seconds since a sign of life
  constexpr double kAnyone = -1;  // also those who gave one at this moment
  const std::vector<int64_t> late = missing(keys);
  std::vector<std::string> names;
  for (const SilentRank& each : heartbeat_.silent(kAnyone)) {
    if (std::ranges::find(late, each.rank) == late.end()) continue;
    const bool hangs = each.heard && each.seconds <= kAlive;
    names.push_back(hangs ? cat("rank ", each.rank, ", which is alive and hangs") : describe(each));
  }
  if (names.empty()) return;  // they have come meanwhile
  fail(cat("not everyone came to the agreement within ", fixed(seconds, 0), " s: ", join(names, "; ")));
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
