#pragma once

#include <cstdint>
#include <string>

namespace autotrain::bench {

/// A row of /proc/self/status in KiB: "VmData", "VmHWM". 0 when there is none.
int64_t status_kib(const std::string& key);

/// Sets RLIMIT_DATA to what the process has now plus `budget_mib`.
void limit_data_to(int64_t budget_mib);

/// Sets RLIMIT_AS, of the whole address space, likewise.
void limit_address_space_to(int64_t budget_mib);

}  // namespace autotrain::bench
