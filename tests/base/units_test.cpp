#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace autotrain {
namespace {

TEST(Units, BytesAreReadInEveryUsualSpelling) {
  EXPECT_EQ(parse_bytes("2GiB"), 2 * kGiB);
  EXPECT_EQ(parse_bytes(" 1.5 GiB "), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("256 MiB"), 256 * kMiB);
  EXPECT_EQ(parse_bytes("512m"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("1048576"), 1048576);
  for (const char* bad : {"", "GiB", "2 GIBS", "-1GiB", "0", "2..5GiB", "1e400", "99999999999TiB", "2GiB2"}) {
    EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
  }
}

TEST(Units, BytesAreShownWithThreeDigits) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(256 * kMiB), "256 MiB");
  EXPECT_EQ(format_bytes(kGiB), "1.00 GiB");
  EXPECT_EQ(format_bytes(-1), "unlimited");
}

TEST(Units, SecondsAreShownAsPeopleSayThem) {
  EXPECT_EQ(format_seconds(0.042), "0.042 s");
  EXPECT_EQ(format_seconds(8.25), "8.2 s");
  EXPECT_EQ(format_seconds(59.4), "59 s");
  EXPECT_EQ(format_seconds(200), "3 min 20 s");
  EXPECT_EQ(format_seconds(7500), "2 h 05 min");
  EXPECT_EQ(format_seconds(90000), "1 d 1 h");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Units, CountsAreGrouped) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-1000), "-1,000");
}

TEST(Units, CeilingDivisionDoesNotOverflow) {
  EXPECT_EQ(ceil_div(7, 2), 4);
  EXPECT_EQ(ceil_div(std::numeric_limits<int64_t>::max(), 2), std::numeric_limits<int64_t>::max() / 2 + 1);
}

}  // namespace
}  // namespace autotrain
