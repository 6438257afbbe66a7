#include "comm/heartbeat.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/small_thread.h"
#include "base/text.h"
#include "comm/gathered.h"

namespace autotrain {
namespace {

// A beat is three lines: its number, the phase, the host.
std::string encode(int64_t beat, const std::string& phase, const std::string& host) {
  return cat(beat, '\n', phase, '\n', host);
}

void set(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string beat_key(int64_t rank) {
  return cat("heartbeat/", rank);
}

// Whoever has given a beat is in this value, which is read in one call.
constexpr const char* kBegun = "heartbeats/begun";

std::string report_key(int64_t rank) {
  return cat("heartbeats/", rank);
}

// The ranks that read everybody's beats: all of a small run. In a large one the others read what these
// report, lest all together read the square of their number every second. Far from each other in the order of
// ranks, they are hardly on one host.
std::vector<int64_t> reporters_of(int64_t world) {
  constexpr int64_t kSmall = 32, kReporters = 3;
  const int64_t count = world <= kSmall ? world : kReporters;
  std::vector<int64_t> reporters;
  for (int64_t i = 0; i < count; ++i) reporters.push_back(i * world / count);
  return reporters;
}

// Seconds that a connection may take: c10d asks for the names of addresses, which takes a resolver that does
// not answer 5 seconds and more.
constexpr double kToConnect = 60;

}  // namespace

struct Heartbeat::Shared {
  struct Peer {
    std::string text = {};  // its last beat; empty: none came
    int64_t number = -1;
    std::string host = {}, phase = {};
    double heard = steady_seconds();
  };

  // Takes a beat of a rank; one that is not newer than the last is no sign of life.
  void take(int64_t rank, const std::string& text) {
    const std::vector<std::string> parts = split(text, '\n');
    int64_t number = -1;
    const std::lock_guard lock(mutex);
    Peer& peer = peers[static_cast<size_t>(rank)];
    if (parts.size() != 3 || !parse_integer(parts[0], number) || number <= peer.number) return;
    informed = steady_seconds();
    peer = {.text = text, .number = number, .host = parts[2], .phase = parts[1], .heard = informed};
  }

  void give_beat(c10d::Store& connection, int64_t number, const std::string& beat);
  void read_beats(c10d::Store& connection);
  void write_report(c10d::Store& connection, const std::string& own_beat) const;
  void read_report(c10d::Store& connection, int64_t reporter);

  c10::intrusive_ptr<c10d::Store> store;
  Place place;
  std::vector<int64_t> reporters;
  bool reports = false;  // this rank is one of them
  double every = 1;
  double late = 8;
  std::atomic<const char*> phase = "starting";

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Peer> peers;
  bool connected = false;              // the heartbeat has its connection
  double answered = steady_seconds();  // when the store last answered all that was asked; at first: the start
  double informed = steady_seconds();  // when somebody's newer beat last came
  bool failed = false;
  bool over = false;
};

void Heartbeat::Shared::give_beat(c10d::Store& connection, int64_t number, const std::string& beat) {
  set(connection, beat_key(place.rank), beat);
  if (number == 0) connection.append(kBegun, gathered_part(place.rank, ""));
}

void Heartbeat::Shared::read_beats(c10d::Store& connection) {
  std::vector<int64_t> ranks;
  std::vector<std::string> keys;
  for (const auto& [rank, empty] : read_gathered(connection.get(kBegun), place.world)) {
    if (rank == place.rank) continue;
    ranks.push_back(rank);
    keys.push_back(beat_key(rank));
  }
  if (keys.empty()) return;
  const std::vector<std::vector<uint8_t>> values = connection.multiGet(keys);
  for (size_t i = 0; i < values.size(); ++i) take(ranks[i], std::string(values[i].begin(), values[i].end()));
}

void Heartbeat::Shared::write_report(c10d::Store& connection, const std::string& own_beat) const {
  std::vector<uint8_t> report = gathered_part(place.rank, own_beat);
  {
    const std::lock_guard lock(mutex);
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      if (peers[rank].number < 0) continue;
      const std::vector<uint8_t> part = gathered_part(static_cast<int64_t>(rank), peers[rank].text);
      report.insert(report.end(), part.begin(), part.end());
    }
  }
  connection.set(report_key(place.rank), report);
}

void Heartbeat::Shared::read_report(c10d::Store& connection, int64_t reporter) {
  if (!connection.check({report_key(reporter)})) return;
  for (const auto& [rank, text] : read_gathered(connection.get(report_key(reporter)), place.world)) {
    if (rank != place.rank) take(rank, text);
  }
}

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
  shared_->reporters = reporters_of(place.world);
  shared_->reports = std::ranges::find(shared_->reporters, place.rank) != shared_->reporters.end();
  shared_->every = every;
  shared_->late = late;
  shared_->peers.resize(static_cast<size_t>(place.world));
  start_detached_thread([shared = shared_] { beat(shared); });
}

Heartbeat::~Heartbeat() {
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

void Heartbeat::enter(const char* phase) {
  shared_->phase = phase;
}

void Heartbeat::all_have_come() {
  const std::lock_guard lock(shared_->mutex);
  for (Shared::Peer& peer : shared_->peers) {
    if (peer.number < 0) peer.heard = steady_seconds();
  }
}

void Heartbeat::beat(const std::shared_ptr<Shared>& shared) {
  const Place& place = shared->place;
  const std::vector<int64_t>& reporters = shared->reporters;
  c10::intrusive_ptr<c10d::Store> store;  // a connection of its own
  for (int64_t number = 0;; ++number) {
    try {
      if (!store) {
        store = shared->store->clone();
        const std::lock_guard lock(shared->mutex);
        shared->connected = true;
        shared->answered = steady_seconds();
      }
      const std::string beat = encode(number, shared->phase.load(), place.host);
      shared->give_beat(*store, number, beat);
      if (shared->reports) {
        shared->read_beats(*store);
        if (std::ssize(reporters) < place.world) shared->write_report(*store, beat);
      } else {
        shared->read_report(*store, reporters[static_cast<size_t>(number) % reporters.size()]);
      }
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
  // A store that has fallen silent tells of nobody, so ranks are judged by the time of its last answer; and
  // those of which only others report by that of the last report that had anything new.
  const auto known_until = [&](int64_t rank) {
    const bool seen =
        shared_->reports || std::ranges::find(shared_->reporters, rank) != shared_->reporters.end();
    return seen ? shared_->answered : shared_->informed;
  };
  for (int64_t rank = 0; rank < shared_->place.world; ++rank) {
    const Shared::Peer& peer = shared_->peers[static_cast<size_t>(rank)];
    const double since = known_until(rank) - peer.heard;
    if (rank != shared_->place.rank && since > seconds)
      found.push_back({rank, peer.number >= 0, peer.host, peer.phase, since});
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
