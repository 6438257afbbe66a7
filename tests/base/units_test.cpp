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

TEST(Units, WholePartsAreThoseOfTheDecimalNumbers) {
  EXPECT_EQ(samples_of_epochs(1.15, 50'000), 57'500);
  EXPECT_EQ(samples_of_epochs(0.07, 100), 7);
  EXPECT_EQ(samples_of_epochs(0.37, 10), 3);
  EXPECT_EQ(samples_of_epochs(0.9999999, 1'000'000), 999'999);
  for (int64_t hundredths = 1; hundredths <= 1000; ++hundredths)
    EXPECT_EQ(samples_of_epochs(static_cast<double>(hundredths) / 100, 50'000), hundredths * 500);
  EXPECT_EQ(nearest_whole(0.57 * 50), 29) << "28.5";
  EXPECT_EQ(nearest_whole(28.49), 28);
  EXPECT_EQ(whole_part(1e300), kMostCounted);
  EXPECT_EQ(parse_bytes("4.35MB"), 4'350'000);
}

TEST(Units, ProductsOfCountsDoNotOverflow) {
  EXPECT_EQ(counted_product(int64_t{1} << 53, int64_t{1} << 53), kMostCounted);
  EXPECT_EQ(counted_product(3, 4), 12);
  EXPECT_EQ(counted_product(int64_t{1} << 53, 0), 0);
}

TEST(Units, WhatIsNoFiniteNumberIsNoPercentage) {
  EXPECT_EQ(parse_percent("12.5 %"), 0.125);
  for (const char* bad : {"nan%", "inf%", "-inf%", "NaN %", "infinity%", "1e999%", ".inf%", ".nan%"})
    EXPECT_FALSE(parse_percent(bad)) << bad;
}

}  // namespace
}  // namespace autotrain
