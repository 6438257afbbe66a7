#include "process_memory.h"

#include <sys/resource.h>

#include <fstream>

namespace autotrain::bench {

int64_t status_kib(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1));
  }
  return 0;
}

namespace {

void limit(__rlimit_resource resource, const char* used, int64_t budget_mib) {
  const auto bytes = static_cast<rlim_t>(status_kib(used) * 1024 + budget_mib * (int64_t{1} << 20));
  const rlimit wanted{bytes, RLIM_INFINITY};
  ::setrlimit(resource, &wanted);
}

}  // namespace

void limit_data_to(int64_t budget_mib) {
  limit(RLIMIT_DATA, "VmData", budget_mib);
}

void limit_address_space_to(int64_t budget_mib) {
  limit(RLIMIT_AS, "VmSize", budget_mib);
}

}  // namespace autotrain::bench
