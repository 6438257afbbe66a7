#include "device/cache_levels.h"

#include <fstream>

#include "support/support.h"

namespace autotrain {
namespace {

void write_cache(const std::filesystem::path& root, int index, const std::vector<std::string>& values) {
  const auto folder = root / "sys/devices/system/cpu/cpu0/cache" / ("index" + std::to_string(index));
  std::filesystem::create_directories(folder);
  const char* const names[] = {"level", "type", "size", "shared_cpu_list"};
  for (size_t i = 0; i < values.size(); ++i) std::ofstream(folder / names[i]) << values[i] << "\n";
}

TEST(CacheLevels, AreThoseThatHoldDataWithTheProcessorsThatShareThem) {
  const test::TemporaryFolder root;
  write_cache(root.path(), 0, {"1", "Data", "32K", "0"});
  write_cache(root.path(), 1, {"1", "Instruction", "32K", "0"});
  write_cache(root.path(), 2, {"2", "Unified", "1024K", "0,8"});
  write_cache(root.path(), 3, {"3", "Unified", "32M", "0-3,8-11"});
  const auto levels = cache_levels(root.path());
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].name, "L1");
  EXPECT_EQ(levels[0].bytes, 32 << 10);
  EXPECT_EQ(levels[1].bytes, 1 << 20);
  EXPECT_EQ(levels[1].processors, 2);
  EXPECT_EQ(levels[2].bytes, 32 << 20);
  EXPECT_EQ(levels[2].processors, 8);
}

TEST(CacheLevels, AreEmptyWhereLinuxDoesNotTell) {
  EXPECT_TRUE(cache_levels(test::TemporaryFolder().path()).empty());
}

}  // namespace
}  // namespace autotrain
