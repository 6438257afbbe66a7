#include "device/cores.h"

#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

constexpr const char* kVersion2 = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
constexpr const char* kVersion1 =
    "31 20 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

void write_cgroup(const TemporaryFolder& root, const std::string& mounts, const std::string& cgroup) {
  root.write("proc/self/mountinfo", "20 1 0:5 / /proc rw - proc proc rw\n" + mounts);
  root.write("proc/self/cgroup", cgroup);
}

TEST(UsableCores, AreThoseOfTheAffinityWhereThereIsNoQuota) {
  const TemporaryFolder root;
  const UsableCores cores = usable_cores(root.path());
  EXPECT_GE(cores.count, 1);
  EXPECT_TRUE(test::holds(cores.bound, "processors it may run on"));
}

TEST(UsableCores, TheLeastQuotaOfAllAncestorsCountsInVersion2) {
  const TemporaryFolder root;
  write_cgroup(root, kVersion2, "0::/job/step/task\n");
  root.write("sys/fs/cgroup/job/step/task/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/job/step/cpu.max", "10000000 100000\n");
  root.write("sys/fs/cgroup/job/cpu.max", "50000 100000\n");
  const UsableCores cores = usable_cores(root.path());
  EXPECT_EQ(cores.count, 1) << "half a processor is one thread";
  EXPECT_TRUE(test::holds(cores.bound, "the quota of cgroup /job, 0.5 CPUs"));
}

TEST(UsableCores, TheLeastQuotaOfAllAncestorsCountsInVersion1) {
  const TemporaryFolder root;
  write_cgroup(root, kVersion1, "4:cpu,cpuacct:/batch/job\n");
  const std::string group = "sys/fs/cgroup/cpu,cpuacct/batch/";
  root.write(group + "job/cpu.cfs_quota_us", "-1\n");
  root.write(group + "job/cpu.cfs_period_us", "100000\n");
  root.write(group + "cpu.cfs_quota_us", "20000\n");
  root.write(group + "cpu.cfs_period_us", "100000\n");
  const UsableCores cores = usable_cores(root.path());
  EXPECT_EQ(cores.count, 1);
  EXPECT_TRUE(test::holds(cores.bound, "the quota of cgroup /batch, 0.2 CPUs"));
}

TEST(UsableCores, AQuotaOfMoreThanThereAreCoresIsNoBound) {
  const TemporaryFolder root;
  const int64_t cores = usable_cores(root.path()).count;
  write_cgroup(root, kVersion2, "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "100000000000 100000\n");
  EXPECT_EQ(usable_cores(root.path()).count, cores);
}

TEST(UsableCores, AContainerThatShowsAPathOutsideItsMountHasItsTop) {
  const TemporaryFolder root;
  write_cgroup(root, kVersion2, "0::/../other\n");
  root.write("sys/fs/other/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/cpu.max", "30000 100000\n");
  EXPECT_TRUE(test::holds(usable_cores(root.path()).bound, "the quota of cgroup /, 0.3 CPUs"));
}

TEST(UsableCores, GarbledFilesAreNoQuota) {
  const TemporaryFolder root;
  const int64_t cores = usable_cores(root.path()).count;
  write_cgroup(root, kVersion2, "0::/job\n");
  root.write("sys/fs/cgroup/job/cpu.max", "some 100000\n");
  root.write("sys/fs/cgroup/cpu.max", "10000 0\n");
  EXPECT_EQ(usable_cores(root.path()).count, cores);
}

}  // namespace
}  // namespace autotrain
