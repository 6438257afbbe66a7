#include "comm/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace autotrain {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int failed = ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text.data() : "";
}

bool means_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// Of the first interface that others may reach; "" when there is none.
std::string first_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const bool usable = each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                        (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) return text_of(each->ifa_addr, sizeof(sockaddr_in));
  }
  return "";
}

// The source address that the system would choose towards this one. Nothing is sent.
std::string source_towards(const addrinfo& target) {
  const int descriptor = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return "";
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool found = ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(descriptor);
  return found ? text_of(reinterpret_cast<const sockaddr*>(&own), size) : "";
}

}  // namespace

std::string address_for_peers(const Launch& launch) {
  if (launch.place.local_world == launch.place.world) return kLoopback;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(launch.meeting_port);
  if (::getaddrinfo(launch.meeting_host.c_str(), port.c_str(), &wanted, &found) != 0)
    return launch.meeting_host;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::string own = source_towards(*found);
  if (means_loopback(own)) own = first_address();
  return own.empty() ? launch.meeting_host : own;
}

bool is_loopback(const std::string& host) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  return means_loopback(text_of(found->ai_addr, found->ai_addrlen));
}

}  // namespace autotrain
