#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/without_locale.h"
#include "device/system_memory.h"
#include "device/telemetry.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Ticks of all processors, as {busy, all}, from the first line of /proc/stat.
std::pair<double, double> read_processors(const fs::path& path) {
  WithoutLocale<std::ifstream> in(path);
  std::string word;
  double ticks = 0, all = 0, idle = 0;
  in >> word;
  for (int column = 0; column < 8 && in >> ticks; ++column) {
    all += ticks;
    if (column == 3 || column == 4) idle += ticks;  // idle, and idle while waiting for a disk
  }
  return {all - idle, all};
}

// Seconds that the process has computed in all its threads: columns 14 and 15 of /proc/self/stat, counted
// from behind the name, which may hold anything.
double read_process_seconds(const fs::path& path) {
  WithoutLocale<std::ifstream> in(path);
  std::string line;
  std::getline(in, line);
  WithoutLocale<std::istringstream> rest(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int column = 3; column < 14; ++column) rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class ProcessTelemetry final : public TelemetrySource {
 public:
  ProcessTelemetry(fs::path root, std::function<double()> clock)
      : proc_(std::move(root) / "proc"), clock_(std::move(clock)), before_(count()) {}

  void read(TelemetryValues& values) override {
    const Counts now = count();
    const double seconds = now.at - before_.at;
    const auto rate = [&](const char* name, double count_now, double count_before) {
      if (seconds > 0) values[name] = (count_now - count_before) / seconds;
    };
    rate("cpu_cores", now.cpu_seconds, before_.cpu_seconds);
    if (now.all_ticks > before_.all_ticks) {
      values["machine_cpu_fraction"] =
          (now.busy_ticks - before_.busy_ticks) / (now.all_ticks - before_.all_ticks);
    }
    for (const auto& [counter, name] : kRates) {
      if (now.counters.contains(counter) && before_.counters.contains(counter)) {
        rate(name, static_cast<double>(now.counters.at(counter)),
             static_cast<double>(before_.counters.at(counter)));
      }
    }
    if (now.counters.contains("VmRSS"))
      values["resident_bytes"] = 1024.0 * static_cast<double>(now.counters.at("VmRSS"));
    if (now.counters.contains("Threads")) values["threads"] = static_cast<double>(now.counters.at("Threads"));
    before_ = now;
  }

 private:
  struct Counts {
    double at = 0;
    double cpu_seconds = 0;
    double busy_ticks = 0, all_ticks = 0;
    std::map<std::string, int64_t> counters = {};  // as the kernel names them
  };

  static constexpr std::pair<const char*, const char*> kRates[] = {
      {"read_bytes", "disk_read_bytes_per_second"},
      {"write_bytes", "disk_written_bytes_per_second"},
      {"voluntary_ctxt_switches", "voluntary_switches_per_second"},
      {"nonvoluntary_ctxt_switches", "involuntary_switches_per_second"}};

  Counts count() const {
    Counts counts{.at = clock_(), .cpu_seconds = read_process_seconds(proc_ / "self/stat")};
    std::tie(counts.busy_ticks, counts.all_ticks) = read_processors(proc_ / "stat");
    counts.counters = read_kernel_table(proc_ / "self/status");
    counts.counters.merge(read_kernel_table(proc_ / "self/io"));
    return counts;
  }

  fs::path proc_;
  std::function<double()> clock_;
  Counts before_;
};

}  // namespace

std::unique_ptr<TelemetrySource> process_telemetry(const fs::path& root, std::function<double()> clock) {
  return std::make_unique<ProcessTelemetry>(root, std::move(clock));
}

}  // namespace autotrain
