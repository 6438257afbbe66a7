#include "comm/meeting_place.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "autotrain/error.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/text.h"
#include "comm/address.h"
#include "device/failure.h"

namespace autotrain {

struct MeetingPlace::Store {
  c10::intrusive_ptr<c10d::TCPStore> server;
};

int listen_on(const std::string& host, int64_t port) {
  errno = 0;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int descriptor = ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    if (descriptor < 0) continue;
    if (::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        ::bind(descriptor, each->ai_addr, each->ai_addrlen) == 0 && ::listen(descriptor, SOMAXCONN) == 0)
      return descriptor;
    const int error = errno;
    ::close(descriptor);
    errno = error;
  }
  return -1;
}

int listen_for(const Launch& launch) {
  const bool one_host = launch.place.local_world == launch.place.world;
  errno = 0;
  if (!one_host && is_loopback(launch.meeting_host)) return -1;
  return listen_on(launch.meeting_host, launch.meeting_port);
}

MeetingPlace::MeetingPlace() : descriptor_(listen_on("127.0.0.1", 0)), store_(std::make_unique<Store>()) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (descriptor_ < 0 || ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw_io_error("127.0.0.1", "listening");
  port_ = ntohs(address.sin_port);
}

MeetingPlace::~MeetingPlace() {
  if (!store_->server) ::close(descriptor_);
}

void MeetingPlace::serve() {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port_);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = descriptor_;
  try {
    store_->server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  } catch (
      const std::exception& error) {  // c10d says of a process that may open no more files only where it fell
    throw Error(ExitCode::kInputOutput, cat("127.0.0.1:", port_),
                "the store where ranks meet cannot be served: " + first_line(error), kMoreOpenFiles);
  }
}

std::vector<std::unique_ptr<Child>> MeetingPlace::start_ranks(
    int64_t world, const std::function<int(int64_t rank)>& work,
    const std::function<std::filesystem::path(int64_t rank)>& log_of) {
  // A process that may open no more files does not say that it refuses connections to the store, and ranks
  // would wait for it.
  constexpr int64_t kOwn = 32, kOfRank = 8;
  require_open_files(kOwn + kOfRank * world, cat(world, " ranks"));
  std::vector<std::unique_ptr<Child>> ranks;
  for (int64_t rank = 0; rank < world; ++rank) {
    const auto as_rank = [&] {
      become(rank, world);
      return work(rank);
    };
    ranks.push_back(std::make_unique<Child>(as_rank, log_of(rank)));
  }
  serve();
  return ranks;
}

// Makes this process one of the ranks, by the variables that torchrun sets.
void MeetingPlace::become(int64_t rank, int64_t world) const {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), /*overwrite=*/1);
  };
  for (const char* const name : {"RANK", "LOCAL_RANK"}) set(name, std::to_string(rank));
  for (const char* const name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) set(name, std::to_string(world));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port_));
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  set("TORCHELASTIC_RESTART_COUNT", "0");
}

}  // namespace autotrain
