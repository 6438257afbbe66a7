#include "comm/ranks.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <signal.h>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Flags.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "comm/address.h"
#include "comm/group_exchange.h"
#include "comm/meeting_place.h"
#include "comm/roll_call.h"
#include "device/failure.h"

namespace autotrain {
namespace {

constexpr double kFarewell = 5;  // seconds that a rank waits for the others when it leaves

constexpr const char* kLeaves = "farewell";

constexpr const char* kSameForAll = "start all ranks with the same command and the same options";

std::string farewell(const Place& place) {
  return write_message({.note = kLeaves, .host = place.host});
}

std::string who(int64_t rank, const Message& message) {
  return cat("rank ", rank, " on ", message.host.empty() ? "a host without a name" : message.host);
}

// Not an interrupted run: started again, it would find the port taken again.
[[noreturn]] void refuse_taken_port(const Launch& launch) {
  throw Error(
      ExitCode::kUsage, cat("rank ", launch.place.rank, " on ", launch.place.host),
      cat("port ", launch.meeting_port,
          " (MASTER_PORT), where the ranks are to meet, is taken on this host by another process"),
      "give all ranks another MASTER_PORT, or end what has this one; is another process rank 0, too?");
}

// Serves the store of the ranks for as long as the process lives: one run may follow another in it.
void serve_store(const Launch& launch) {
  static c10::intrusive_ptr<c10d::TCPStore>* server = nullptr;
  if (server != nullptr) return;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.meeting_port);
  options.isServer = true;
  options.waitWorkers = false;
  const int descriptor = listen_for(launch);
  if (descriptor < 0 && errno == EADDRINUSE) refuse_taken_port(launch);
  if (descriptor >= 0) options.masterListenFd = descriptor;
  try {
    server = new auto(c10::make_intrusive<c10d::TCPStore>(launch.meeting_host, options));
  } catch (const std::exception& error) {
    if (std::string_view(error.what()).find("EADDRINUSE") != std::string_view::npos)
      refuse_taken_port(launch);
    throw;
  }
}

// What a rank does while it waits for others to start: a signal ends that, and whoever looks on is told once.
class FirstWait {
 public:
  explicit FirstWait(std::string where) : where_(std::move(where)) {}

  /// @param whom it waits for. @throws Error(kInterrupted).
  void look(const std::string& whom) {
    constexpr double kPatience = 5;  // seconds, more than ranks that are started together are apart
    stop_if_interrupted(where_.c_str(),
                        cat("a signal ended the waiting for ", whom, "; nothing else was begun yet").c_str());
    if (told_ || watch_.seconds() < kPatience) return;
    told_ = true;
    log::warn("comm", cat("waiting for ", whom, " at ", where_, " (SIGTERM ends the waiting)"));
  }

 private:
  std::string where_;
  Stopwatch watch_;
  bool told_ = false;
};

std::string server_of(const Launch& launch) {
  return launch.agent_store ? "torchrun's store" : "rank 0";
}

// The store of all ranks, which c10d tries to reach for as long as it takes them to start.
c10::intrusive_ptr<c10d::Store> reach_store(const Launch& launch, FirstWait& wait) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.meeting_port);
  options.waitWorkers = false;
  const auto made = std::make_shared<c10::intrusive_ptr<c10d::Store>>();
  const auto connect = [made, options, host = launch.meeting_host] {
    *made = c10::make_intrusive<c10d::TCPStore>(host, options);
  };
  const std::string server = server_of(launch);
  constexpr double kLonger = 60;  // seconds that c10d may take beyond its own limit
  if (!AbandonableThread().run(Ranks::kToCome + kLonger, connect, [&] { wait.look(server); }))
    throw std::runtime_error(server + " does not answer");
  return *made;
}

// Whether an error says all itself of ranks that have not met: a refusal, or that a signal came.
bool says_all(const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  return own != nullptr && (own->code() != ExitCode::kInterrupted || pending_interrupt() == Interrupt::kStop);
}

void prepare_process() {
  FLAGS_caffe2_log_level = 2;  // errors: a store that is asked to wait for a moment would warn of each one
  ::signal(SIGPIPE, SIG_IGN);  // a rank that is lost must not take this one with it
}

// A connection of our own to the caller's store, below a prefix that no run before this one had: each rank
// counts its runs there.
c10::intrusive_ptr<c10d::Store> store_for_a_run(const RankGroup& group, double patience) {
  const auto made = std::make_shared<c10::intrusive_ptr<c10d::Store>>();
  const bool answered = AbandonableThread().run(patience, [made, store = group.store(), rank = group.rank()] {
    const c10::intrusive_ptr<c10d::Store> own = store->clone();
    const int64_t run = own->add(cat("autotrain/runs/", rank), 1);
    *made = c10::make_intrusive<c10d::PrefixStore>(cat("autotrain/", run), own);
  });
  if (!answered) throw std::runtime_error("the store does not answer");
  return *made;
}

}  // namespace

// Makes the calls of another exchange where they can be given up.
class Ranks::Watched final : public Exchange {
 public:
  explicit Watched(Ranks& ranks) : ranks_(ranks) {}

  void to_all(const torch::Tensor& receive, const torch::Tensor& send) override {
    watch(send, [raw = ranks_.raw_exchange_, receive, send] { raw->to_all(receive, send); });
  }
  void spread(const torch::Tensor& flat) override {
    watch(flat, [raw = ranks_.raw_exchange_, flat] { raw->spread(flat); });
  }
  void copy_from_first(const torch::Tensor& tensor) override {
    watch(tensor, [raw = ranks_.raw_exchange_, tensor] { raw->copy_from_first(tensor); });
  }

 private:
  // In the thread that makes the call work is queued where the caller queued what made the tensors: on
  // another stream nothing would wait for them.
  void watch(const torch::Tensor& tensor, std::function<void()> call) {
    if (tensor.is_cpu()) return ranks_.call_watched(std::move(call));
    const c10::Stream stream = c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
    ranks_.call_watched([stream, call = std::move(call)] {
      const c10::StreamGuard here(stream);
      call();
    });
  }

  Ranks& ranks_;
};

// What one run after the other may have, but no two at once: they would take each other's tensors.
class Ranks::Claim {
 public:
  explicit Claim(const RankGroup& group) : group_(group.identity()) {
    const std::lock_guard lock(mutex());
    if (taken().insert(group_).second) return;
    throw Error(ExitCode::kUsage, "RankGroup", "another trainer of this process uses the process group now",
                "destroy that one first, or make a group for each");
  }
  ~Claim() {
    const std::lock_guard lock(mutex());
    taken().erase(group_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex all;
    return all;
  }
  static std::set<const void*>& taken() {
    static std::set<const void*> groups;
    return groups;
  }

  const void* const group_;
};

Ranks::Ranks() = default;

Ranks::Ranks(c10::intrusive_ptr<c10d::Store> store, const Place& place, std::unique_ptr<Exchange> exchange,
             const std::string& address)
    : place_(place),
      store_(std::move(store)),
      address_(address),
      agreement_(std::make_unique<Agreement>(c10::make_intrusive<c10d::PrefixStore>("notes", store_), place)),
      raw_exchange_(std::move(exchange)),
      exchange_(std::make_unique<Watched>(*this)),
      calls_(std::make_unique<AbandonableThread>()) {}

std::unique_ptr<Ranks> Ranks::open(const Launch& launch, double patience) {
  if (launch.place.world == 1) return std::make_unique<Ranks>();
  static std::atomic<int64_t> opened = 0;  // by every rank equally often
  prepare_process();
  const std::string where = cat(launch.meeting_host, ":", launch.meeting_port);
  try {
    const bool serves = launch.place.rank == 0 && !launch.agent_store;
    if (serves) serve_store(launch);
    FirstWait wait(where);
    const auto store = c10::make_intrusive<c10d::PrefixStore>(
        cat("autotrain/", launch.restart, '/', opened.fetch_add(1)), reach_store(launch, wait));
    RollCall roll(c10::make_intrusive<c10d::PrefixStore>("roll", store), launch.place, serves);
    roll.answer([&] { wait.look(server_of(launch)); });
    auto ranks = std::make_unique<Ranks>(store, launch.place, nullptr, address_for_peers(launch));
    ranks->serves_ = serves;
    ranks->meet("here", patience, [&] {
      roll.fail_if_refused();
      wait.look(ranks->not_heard_of());
    });
    return ranks;
  } catch (const std::exception& error) {
    if (says_all(error)) throw;
    throw Error(ExitCode::kInterrupted, cat("rank ", launch.place.rank),
                cat("the ", launch.place.world, " ranks cannot meet at ", where, ": ", first_line(error)),
                "did all of them start, and can all of them reach this address?");
  }
}

std::unique_ptr<Ranks> Ranks::over(const std::shared_ptr<const RankGroup>& group,
                                   const Environment& environment, double patience) {
  check_group(environment, group->rank(), group->size());
  if (group->size() == 1) return std::make_unique<Ranks>();
  auto claim = std::make_unique<Claim>(*group);
  prepare_process();
  try {
    auto ranks = std::make_unique<Ranks>(store_for_a_run(*group, patience),
                                         Place{group->rank(), group->size(), own_host()}, nullptr);
    ranks->group_ = group;
    ranks->claim_ = std::move(claim);
    ranks->find_neighbours(patience);
    return ranks;
  } catch (const std::exception& error) {
    if (says_all(error)) throw;
    throw Error(ExitCode::kInterrupted, cat("rank ", group->rank()),
                cat("the ", group->size(), " ranks of the process group cannot meet: ", first_line(error)),
                "do all of them make a trainer over the group, and does its store still answer?");
  }
}

// Ranks of one host share what it has.
void Ranks::find_neighbours(double patience) {
  FirstWait wait("the store of the process group");
  const std::vector<Note> hosts = meet(place_.host, patience, [&] { wait.look(not_heard_of()); });
  const auto mine = hosts.begin() + place_.rank;
  place_.local_rank = std::count(hosts.begin(), mine, *mine);
  place_.local_world = std::count(hosts.begin(), hosts.end(), *mine);
}

// Who keeps the first meeting waiting, as far as this rank can tell.
std::string Ranks::not_heard_of() const {
  constexpr double kEver = -1;
  std::set<int64_t> ranks;
  for (const SilentRank& each : agreement_->heartbeat().silent(kEver)) {
    if (!each.heard) ranks.insert(each.rank);
  }
  if (ranks.empty()) return "the other ranks";
  std::vector<std::string> names;
  for (const int64_t rank : ranks) names.push_back(std::to_string(rank));
  return cat(names.size() == 1 ? "rank " : "ranks ", some_of(names), " of ", place_.world);
}

void Ranks::connect(c10::Device device) {
  if (!agreement_ || raw_exchange_) return;
  const c10::intrusive_ptr<c10d::Backend> callers = group_ ? group_->backend_for(device) : nullptr;
  meet("connecting");  // whoever does not come is named
  const ExchangeOptions options{.address = address_, .seconds = kLongest};
  const auto made = std::make_shared<std::shared_ptr<Exchange>>();
  call_watched([made, device, options, callers, store = store_, place = place_] {
    // A thread has a current device of its own.
    if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
    *made = callers           ? make_group_exchange(callers, place, options.seconds)
            : device.is_cpu() ? make_gloo_exchange(store, place, options)
                              : make_nccl_exchange(store, place, options);
    const torch::Tensor one = torch::zeros({place.world}, torch::TensorOptions().device(device));
    (*made)->to_all(torch::empty_like(one), one);
    (*made)->spread(one);
    (*made)->copy_from_first(one);
  });
  raw_exchange_ = *made;
}

Ranks::~Ranks() {
  if (!agreement_) return;
  try {
    if (!apart_) agreement_->exchange(farewell(place_), serves_ ? kLongest : kFarewell);
  } catch (const std::exception&) {
    apart_ = true;
  }
  if (!apart_) return;
  // Threads that wait for a rank that is lost may never end, and whoever waited for them would hang as well.
  // The caller's own group is left to the caller.
  if (group_) raw_exchange_.reset();
  [[maybe_unused]] const auto* const left_behind = new std::shared_ptr<Exchange>(std::move(raw_exchange_));
  [[maybe_unused]] const auto* const with_it = agreement_.release();
}

void Ranks::enter(const char* phase) {
  if (agreement_) agreement_->heartbeat().enter(phase);
}

std::vector<Ranks::Note> Ranks::meet(const Note& mine, double patience, const std::function<void()>& look) {
  if (!agreement_) return {mine};
  std::vector<std::string> texts;
  try {
    texts = agreement_->exchange(write_message({.note = mine}), patience, look);
  } catch (const std::exception&) {
    apart_ = true;
    throw;
  }
  std::vector<Message> messages;
  for (const std::string& text : texts) messages.push_back(read_message(text));
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].end) fail_as(static_cast<int64_t>(rank), messages[rank]);
  }
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].note == kLeaves) fail_as_left(static_cast<int64_t>(rank), messages[rank]);
  }
  std::vector<Note> notes;
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    Message& message = messages[rank];
    if (const auto& failure = message.failure) {
      throw FailureElsewhere(static_cast<Failure>(failure->kind),
                             cat(who(static_cast<int64_t>(rank), message), ": ", failure->what));
    }
    notes.push_back(std::move(message.note));
  }
  return notes;
}

// Takes another rank's end as this one's. Its farewell comes next, as comes this one's.
void Ranks::fail_as(int64_t rank, const Message& message) {
  const Error& error = *message.end;
  over_ = true;
  throw Error(error.code(), who(rank, message) + (error.where().empty() ? "" : ": " + error.where()),
              error.problem(), error.hint());
}

// A rank that has come to its end while this one has not was started to do something else.
void Ranks::fail_as_left(int64_t rank, const Message& message) {
  apart_ = true;
  throw Error(ExitCode::kUsage, who(rank, message),
              "has done all that it was to do, and other ranks have not", kSameForAll);
}

void Ranks::agree_on(const std::string& what) {
  if (!agreement_) return;
  constexpr const char *kWhat = "what", *kHost = "host";
  const std::vector<Note> notes = meet({{kWhat, what}, {kHost, place_.host}});
  const auto doing = [&](size_t rank) {
    const std::string told = text_in(notes[rank], kWhat);
    return told.empty() ? "do something else" : told;
  };
  const auto name = [&](size_t rank) {
    return who(static_cast<int64_t>(rank), {.host = text_in(notes[rank], kHost)});
  };
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    if (doing(rank) == doing(0)) continue;
    throw Error(ExitCode::kUsage, name(rank),
                cat("is to ", doing(rank), ", and ", name(0), " is to ", doing(0)), kSameForAll);
  }
}

void Ranks::fail_if_one_ended() {
  for (const auto& [rank, text] : agreement_->posted()) {
    const Message message = read_message(text);
    if (!message.end) continue;
    agreement_->post(farewell(place_));  // in the place of the note that this round would have had
    fail_as(rank, message);
  }
}

Ranks::Note Ranks::from_first(const Note& mine) {
  return meet(first() ? mine : Note()).front();
}

void Ranks::share(const std::exception& failure) {
  if (!agreement_ || dynamic_cast<const FailureElsewhere*>(&failure) != nullptr) return;
  try {
    const Message::Shared shared{static_cast<int>(classify_failure(failure)), first_line(failure)};
    agreement_->post(write_message({.host = place_.host, .failure = shared}));
  } catch (const Error&) {
    apart_ = true;
    throw;
  }
}

void Ranks::share_end(const Error& error) noexcept {
  if (!agreement_ || apart_ || over_) return;
  over_ = true;
  try {
    agreement_->post(write_message({.host = place_.host, .end = error}));
  } catch (const std::exception&) {
    apart_ = true;  // they will find out by themselves
  }
}

// Meanwhile another rank may be lost, or may have ended where this one waits for it.
void Ranks::call_watched(std::function<void()> call) {
  const auto look = [this] {
    agreement_->fail_if_lost(" while tensors were exchanged");
    fail_if_one_ended();
  };
  try {
    if (!calls_->run(kLongest, std::move(call), look))
      agreement_->fail_about(cat("exchanging tensors took longer than ", fixed(kLongest, 0), " s"));
  } catch (const Error&) {
    apart_ = true;
    throw;
  } catch (const std::exception& error) {
    if (is_device_lost(error)) throw;  // of this rank, which says so to the others
    fail_if_one_ended();
    apart_ = true;
    agreement_->fail_about("exchanging tensors failed: " + first_line(error));
  }
}

}  // namespace autotrain
