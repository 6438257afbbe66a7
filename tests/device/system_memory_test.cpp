#include "device/system_memory.h"

#include "base/units.h"
#include "device/cpu_device.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

void write_process(const TemporaryFolder& root) {
  root.write("proc/self/status", "Name:\tx\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\n");
  root.write("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n");
}

void write_mounts(const TemporaryFolder& root, const std::string& line) {
  root.write("proc/self/mountinfo", "20 1 0:5 / /proc rw - proc proc rw\n" + line + "\n");
}

const MemoryBound* find(const std::vector<MemoryBound>& bounds, const std::string& name) {
  for (const MemoryBound& bound : bounds) {
    if (bound.name == name) return &bound;
  }
  return nullptr;
}

TEST(SystemMemory, AvailableMemoryIsAlwaysABound) {
  const TemporaryFolder root;
  write_process(root);
  const auto bounds = memory_bounds({}, root.path());
  ASSERT_EQ(bounds.size(), 1u);
  EXPECT_EQ(bounds[0].available_bytes(), 8 * kGiB);
}

TEST(SystemMemory, ResourceLimitsCountWhatTheProcessHas) {
  const TemporaryFolder root;
  write_process(root);
  const auto bounds = memory_bounds({.address_space = 3 * kGiB, .data = kGiB}, root.path());
  EXPECT_EQ(find(bounds, "RLIMIT_AS (ulimit -v)")->available_bytes(), 2 * kGiB);
  EXPECT_EQ(find(bounds, "RLIMIT_DATA (ulimit -d)")->available_bytes(), kGiB / 2);
  EXPECT_EQ(tightest(bounds).name, "RLIMIT_DATA (ulimit -d)");
}

TEST(SystemMemory, EveryAncestorOfACgroupVersion2Counts) {
  const TemporaryFolder root;
  write_process(root);
  write_mounts(root, "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.current", "1000\n");
  root.write("sys/fs/cgroup/job/memory.max", std::to_string(2 * kGiB) + "\n");
  root.write("sys/fs/cgroup/job/memory.current", std::to_string(kGiB) + "\n");
  root.write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file " + std::to_string(kGiB / 2) + "\n");
  const auto bounds = memory_bounds({}, root.path());
  const MemoryBound* const job = find(bounds, "cgroup /job");
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->available_bytes(), 3 * kGiB / 2) << "file pages that the kernel drops do not count";
  EXPECT_EQ(find(bounds, "cgroup /job/step"), nullptr) << "no limit is no bound";
}

TEST(SystemMemory, ALimitBeyondWhichACgroupIsThrottledCountsAsOne) {
  const TemporaryFolder root;
  write_process(root);
  write_mounts(root, "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.high", std::to_string(kGiB) + "\n");
  root.write("sys/fs/cgroup/job/step/memory.current", std::to_string(kGiB / 4) + "\n");
  root.write("sys/fs/cgroup/job/memory.max", std::to_string(kGiB) + "\n");
  root.write("sys/fs/cgroup/job/memory.high", std::to_string(2 * kGiB) + "\n");
  root.write("sys/fs/cgroup/job/memory.current", "0\n");
  const auto bounds = memory_bounds({}, root.path());
  const MemoryBound *const step = find(bounds, "cgroup /job/step"), *const job = find(bounds, "cgroup /job");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->available_bytes(), 3 * kGiB / 4);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->available_bytes(), kGiB) << "the smaller of two";
}

TEST(SystemMemory, CgroupVersion1InAContainerWhoseMountShowsOnlyItself) {
  const TemporaryFolder root;
  write_process(root);
  write_mounts(root, "31 20 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  root.write("proc/self/cgroup", "5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(kGiB) + "\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kGiB / 4) + "\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n");
  const auto bounds = memory_bounds({}, root.path());
  ASSERT_NE(find(bounds, "cgroup /"), nullptr);
  EXPECT_EQ(find(bounds, "cgroup /")->available_bytes(), 3 * kGiB / 4);
  EXPECT_EQ(tightest(bounds).name, "cgroup /");
}

TEST(SystemMemory, GarbledFilesAreNoBounds) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "what\nis: this\n");
  write_mounts(root, "- - - -\n31 20 0:27 / /sys/fs/cgroup rw - cgroup2 x y");
  root.write("proc/self/cgroup", "::\nnonsense\n0::/\n");
  root.write("sys/fs/cgroup/memory.max", "lots\n");
  EXPECT_TRUE(memory_bounds({}, root.path()).empty());
}

TEST(SystemMemory, OutsideMemoryOfThisProcessIsSeen) {
  const int64_t before = ProcessMemory::now().anonymous_bytes;
  std::vector<char> block(64 * kMiB, 1);
  EXPECT_NEAR(static_cast<double>(ProcessMemory::now().anonymous_bytes - before), 64.0 * kMiB, 4.0 * kMiB);
  EXPECT_EQ(block[5], 1);
}

TEST(SystemMemory, WhatOthersUseLeavesThisProcessOut) {
  const TemporaryFolder root;
  root.write("proc/self/status", "VmRSS: 1048576 kB\n");
  root.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
  EXPECT_EQ(memory_of_other_processes_bytes(root.path()), 7 * kGiB);
}

TEST(Budget, IsResolvedAgainstWhatTheMachineGives) {
  EXPECT_EQ(resolve_budget({}, 10 * kGiB, "memory").bytes, 10 * kGiB);
  EXPECT_EQ(resolve_budget(*Budget::parse("50%"), 10 * kGiB, "memory").bytes, 5 * kGiB);
  EXPECT_EQ(resolve_budget(*Budget::parse("2GiB"), 10 * kGiB, "memory").bytes, 2 * kGiB);
  const auto clamped = resolve_budget(*Budget::parse("20GiB"), 10 * kGiB, "RLIMIT_DATA");
  EXPECT_EQ(clamped.bytes, 10 * kGiB);
  EXPECT_TRUE(test::holds(clamped.source, "RLIMIT_DATA"));
}

}  // namespace
}  // namespace autotrain
