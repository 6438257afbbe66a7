#include "device/telemetry.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "loop/telemetry_sampler.h"
#include "report/metrics_file.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

void write_proc(const TemporaryFolder& root, int64_t cpu_ticks, int64_t busy, int64_t idle,
                int64_t read_bytes) {
  root.write("proc/self/stat", "7 (a name) with) brackets) S 1 2 3 4 5 6 7 8 9 10 " +
                                   std::to_string(cpu_ticks) + " 0 0 0 20 0\n");
  root.write("proc/stat", "cpu  " + std::to_string(busy) + " 0 0 " + std::to_string(idle) + " 0 0 0 0 0 0\n");
  root.write("proc/self/status", "Name:\tx\nVmRSS:\t2048 kB\nThreads:\t5\nvoluntary_ctxt_switches:\t10\n");
  root.write("proc/self/io", "rchar: 5\nread_bytes: " + std::to_string(read_bytes) + "\n");
}

TEST(ProcessTelemetry, GivesRatesSinceTheLastReading) {
  const TemporaryFolder root;
  write_proc(root, 100, 1000, 1000, 0);
  double now = 100;
  const auto source = process_telemetry(root.path(), [&] { return now; });
  now += 4;
  write_proc(root, 100 + ::sysconf(_SC_CLK_TCK), 1300, 1100, 4096);
  TelemetryValues values;
  source->read(values);
  EXPECT_DOUBLE_EQ(values.at("cpu_cores"), 0.25) << "one second computed in four";
  EXPECT_DOUBLE_EQ(values.at("machine_cpu_fraction"), 0.75);
  EXPECT_DOUBLE_EQ(values.at("disk_read_bytes_per_second"), 1024);
  EXPECT_EQ(values.at("voluntary_switches_per_second"), 0);
  EXPECT_EQ(values.at("resident_bytes"), 2048 * 1024);
  EXPECT_EQ(values.at("threads"), 5);
  EXPECT_FALSE(values.contains("disk_written_bytes_per_second")) << "what is not told is left out";
}

TEST(ProcessTelemetry, LeavesOutWhatTheMachineDoesNotTell) {
  const TemporaryFolder root;
  TelemetryValues values;
  process_telemetry(root.path())->read(values);
  EXPECT_FALSE(values.contains("resident_bytes"));
  EXPECT_FALSE(values.contains("machine_cpu_fraction"));
}

TEST(ProcessTelemetry, ReadsThisMachine) {
  const auto source = process_telemetry();
  TelemetryValues values;
  volatile double work = 0;
  // The kernel counts in hundredths of a second; how long this process must wait for a core does not matter.
  while (values["cpu_cores"] == 0) {
    for (int i = 0; i < 1'000'000; ++i) work = work + 1;
    source->read(values);
  }
  EXPECT_GT(values.at("resident_bytes"), 1 << 20);
}

TEST(GpuTelemetry, IsAbsentWithoutComplaintOnACpu) {
  EXPECT_EQ(gpu_telemetry(""), nullptr);
}

class Counting final : public TelemetrySource {
 public:
  void read(TelemetryValues& values) override { values["count"] = static_cast<double>(++count_); }

 private:
  int count_ = 0;
};

TEST(TelemetrySampler, WritesRowsWithTheUpdateAndStopsAtOnce) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<TelemetrySource>> sources;
  sources.push_back(std::make_unique<Counting>());
  TelemetryValues means;
  {
    TelemetrySampler sampler(std::move(sources), folder / "t.jsonl", 0.01, steady_seconds() - 100);
    sampler.on_update({.update = 7}, 0);
    for (const Stopwatch watch; sampler.means()["count"] < 2 && watch.seconds() < 10;)
      std::this_thread::yield();
    means = sampler.means();
  }
  const auto rows = read_metrics(folder / "t.jsonl");
  ASSERT_GE(rows.size(), 3U);
  EXPECT_EQ(rows[2].at("count"), 3);
  EXPECT_EQ(rows[2].at("update"), 7);
  EXPECT_GT(rows[2].at("seconds").get<double>(), 100);
  EXPECT_GE(means.at("count"), 2);
  // One that would sample next in an hour does not keep a run waiting for its end.
  const Stopwatch watch;
  TelemetrySampler({}, "", 3600, 0);
  EXPECT_LT(watch.seconds(), 60);
}

}  // namespace
}  // namespace autotrain
