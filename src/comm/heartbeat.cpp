#include "comm/heartbeat.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/text.h"

namespace autotrain {
namespace {

// A beat is three lines: its number, the phase, the host.
std::vector<uint8_t> encode(int64_t beat, const std::string& phase, const std::string& host) {
  const std::string text = cat(beat, '\n', phase, '\n', host);
  return {text.begin(), text.end()};
}

// Seconds that a connection may take: c10d asks for the names of addresses, which takes a resolver that does
// not answer 5 seconds and more.
constexpr double kToConnect = 60;

}  // namespace

struct Heartbeat::Shared {
  struct Peer {
    std::string last = {}, host = {}, phase = {};  // last: the number of its last beat; empty: none came
    double heard = steady_seconds();
  };

  bool heard(int64_t rank) const {
    const std::lock_guard lock(mutex);
    return !peers[static_cast<size_t>(rank)].last.empty();
  }

  // Takes what a rank's key holds; the same as the last time is no sign of life.
  void take(int64_t rank, const std::string& value) {
    const std::vector<std::string> parts = split(value, '\n');
    const std::lock_guard lock(mutex);
    Peer& peer = peers[static_cast<size_t>(rank)];
    if (parts.size() != 3 || parts[0] == peer.last) return;
    peer = {.last = parts[0], .host = parts[2], .phase = parts[1], .heard = steady_seconds()};
  }

  c10::intrusive_ptr<c10d::Store> store;
  Place place;
  double every = 1;
  double late = 8;
  std::atomic<const char*> phase = "starting";

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Peer> peers;
  bool connected = false;              // the heartbeat has its connection
  double answered = steady_seconds();  // when the store last answered all that was asked; at first: the start
  bool failed = false;
  bool over = false;
};

std::string describe(const SilentRank& silent) {
  const std::string who = cat("rank ", silent.rank, silent.host.empty() ? "" : " on " + silent.host);
  if (!silent.heard) return who + ", never heard of";
  return cat(who, ", silent for ", fixed(silent.seconds, 0), " s, last in its phase ", quote(silent.phase));
}

Heartbeat::Heartbeat(const c10::intrusive_ptr<c10d::Store>& store, const Place& place, double every,
                     double late)
    : shared_(std::make_shared<Shared>()) {
  shared_->store = store;
  shared_->place = place;
  shared_->every = every;
  shared_->late = late;
  shared_->peers.resize(static_cast<size_t>(place.world));
  std::thread([shared = shared_] { beat(shared); }).detach();
}

Heartbeat::~Heartbeat() {
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

void Heartbeat::enter(const char* phase) {
  shared_->phase = phase;
}

void Heartbeat::beat(const std::shared_ptr<Shared>& shared) {
  const auto key = [](int64_t rank) { return cat("heartbeat/", rank); };
  const Place& place = shared->place;
  c10::intrusive_ptr<c10d::Store> store;  // a connection of its own
  for (int64_t number = 0;; ++number) {
    try {
      if (!store) {
        store = shared->store->clone();
        const std::lock_guard lock(shared->mutex);
        shared->connected = true;
        shared->answered = steady_seconds();
      }
      store->set(key(place.rank), encode(number, shared->phase.load(), place.host));
      // Those that were heard of have their keys in the store, and are read in one call.
      std::vector<int64_t> ranks;
      std::vector<std::string> keys;
      for (int64_t rank = 0; rank < place.world; ++rank) {
        if (rank == place.rank || (!shared->heard(rank) && !store->check({key(rank)}))) continue;
        ranks.push_back(rank);
        keys.push_back(key(rank));
      }
      const auto values = keys.empty() ? std::vector<std::vector<uint8_t>>() : store->multiGet(keys);
      for (size_t i = 0; i < values.size(); ++i)
        shared->take(ranks[i], std::string(values[i].begin(), values[i].end()));
    } catch (const std::exception&) {
      const std::lock_guard lock(shared->mutex);
      shared->failed = true;
      return;  // a store that failed once is not trusted again
    }
    std::unique_lock lock(shared->mutex);
    shared->answered = steady_seconds();
    shared->changed.wait_for(lock, std::chrono::duration<double>(shared->every),
                             [&] { return shared->over; });
    if (shared->over) return;
  }
}

std::vector<SilentRank> Heartbeat::silent(double seconds) const {
  std::vector<SilentRank> found;
  const std::lock_guard lock(shared_->mutex);
  // A store that has fallen silent tells of nobody, so ranks are judged by the time of its last answer.
  const double known_until = shared_->answered;
  for (int64_t rank = 0; rank < shared_->place.world; ++rank) {
    const Shared::Peer& peer = shared_->peers[static_cast<size_t>(rank)];
    const double since = known_until - peer.heard;
    if (rank != shared_->place.rank && since > seconds)
      found.push_back({rank, !peer.last.empty(), peer.host, peer.phase, since});
  }
  std::ranges::stable_sort(found, std::greater{}, &SilentRank::seconds);
  return found;
}

bool Heartbeat::store_answers() const {
  const std::lock_guard lock(shared_->mutex);
  const double late = shared_->connected ? shared_->every + shared_->late : kToConnect;
  return !shared_->failed && steady_seconds() - shared_->answered < late;
}

}  // namespace autotrain
