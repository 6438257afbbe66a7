#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/child.h"
#include "comm/launch.h"

namespace autotrain {

/// The store where the ranks of one machine meet: it listens on the loopback interface, so that no other
/// machine reaches it, at a port that the system chose. It is there while this object lives.
///
/// Start the ranks before `serve`, which starts threads: a process that is copied (fork) while one of them
/// holds a lock of the C library has that lock for good. Ranks that come earlier wait.
class MeetingPlace {
 public:
  /// @throws Error(kInputOutput).
  MeetingPlace();
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  /// Begins to answer. Once. @throws Error(kInputOutput) when no more files may be opened.
  void serve();

  int64_t port() const { return port_; }

  /// Starts `work(rank)` as `world` ranks that find this place as under torchrun, each a process, and serves.
  /// @param log_of the file that takes what a rank prints; an empty path: it prints where this process does.
  std::vector<std::unique_ptr<Child>> start_ranks(
      int64_t world, const std::function<int(int64_t rank)>& work,
      const std::function<std::filesystem::path(int64_t rank)>& log_of);

 private:
  struct Store;
  void become(int64_t rank, int64_t world) const;
  int64_t port_ = 0;
  int descriptor_ = -1;  // listens; the store's once it serves
  std::unique_ptr<Store> store_;
};

/// A socket that listens for the server of a store on the interface that has this address, and on no other.
/// @return its descriptor, closed by exec; the caller owns it. Negative when the address is not this host's,
/// or its port is taken: errno is EADDRINUSE then.
int listen_on(const std::string& host, int64_t port);

/// A socket that listens where the ranks of a launch meet, as `listen_on` makes it. It is negative also where
/// ranks of other hosts could not reach it, because this host takes its own name for the loopback interface:
/// the store then listens on all.
int listen_for(const Launch& launch);

}  // namespace autotrain
