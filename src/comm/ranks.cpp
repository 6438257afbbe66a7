#include "comm/ranks.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <signal.h>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Flags.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/text.h"
#include "comm/address.h"
#include "comm/group_exchange.h"
#include "comm/meeting_place.h"
#include "device/failure.h"

namespace autotrain {
namespace {

constexpr double kFarewell = 5;  // seconds that a rank waits for the others when it leaves

std::string farewell() {
  return write_message({.note = "farewell"});
}

std::string who(int64_t rank, const Message& message) {
  return cat("rank ", rank, " on ", message.host.empty() ? "a host without a name" : message.host);
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
  if (descriptor >= 0) options.masterListenFd = descriptor;
  server = new auto(c10::make_intrusive<c10d::TCPStore>(launch.meeting_host, options));
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
  try {
    const bool serves = launch.place.rank == 0 && !launch.agent_store;
    if (serves) serve_store(launch);
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(launch.meeting_port);
    options.waitWorkers = false;
    const c10::intrusive_ptr<c10d::Store> client =
        c10::make_intrusive<c10d::TCPStore>(launch.meeting_host, options);
    auto ranks =
        std::make_unique<Ranks>(c10::make_intrusive<c10d::PrefixStore>(
                                    cat("autotrain/", launch.restart, '/', opened.fetch_add(1)), client),
                                launch.place, nullptr, address_for_peers(launch));
    ranks->serves_ = serves;
    ranks->meet("here", patience);
    return ranks;
  } catch (const std::exception& error) {
    throw Error(ExitCode::kInterrupted, cat("rank ", launch.place.rank),
                cat("the ", launch.place.world, " ranks cannot meet at ", launch.meeting_host, ":",
                    launch.meeting_port, ": ", first_line(error)),
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
    throw Error(ExitCode::kInterrupted, cat("rank ", group->rank()),
                cat("the ", group->size(), " ranks of the process group cannot meet: ", first_line(error)),
                "do all of them make a trainer over the group, and does its store still answer?");
  }
}

// Ranks of one host share what it has.
void Ranks::find_neighbours(double patience) {
  const std::vector<Note> hosts = meet(place_.host, patience);
  const auto mine = hosts.begin() + place_.rank;
  place_.local_rank = std::count(hosts.begin(), mine, *mine);
  place_.local_world = std::count(hosts.begin(), hosts.end(), *mine);
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
    if (!apart_) agreement_->exchange(farewell(), serves_ ? kLongest : kFarewell);
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

std::vector<Ranks::Note> Ranks::meet(const Note& mine, double patience) {
  if (!agreement_) return {mine};
  std::vector<std::string> texts;
  try {
    texts = agreement_->exchange(write_message({.note = mine}), patience);
  } catch (const Error&) {
    apart_ = true;
    throw;
  }
  std::vector<Message> messages;
  for (const std::string& text : texts) messages.push_back(read_message(text));
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].end) fail_as(static_cast<int64_t>(rank), messages[rank]);
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

void Ranks::fail_if_one_ended() {
  for (const auto& [rank, text] : agreement_->posted()) {
    const Message message = read_message(text);
    if (!message.end) continue;
    agreement_->post(farewell());  // in the place of the note that this round would have had
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
