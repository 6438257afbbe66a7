#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "autotrain/amounts.h"
#include "base/units.h"
#include "support/locale_scope.h"

namespace autotrain {
namespace {

TEST(Text, WrapsWordsAtAWidthInColumns) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("α β γ δ", 3), (std::vector<std::string>{"α β", "γ δ"})) << "bytes are no columns";
  EXPECT_EQ(wrap("a longer-than-that b", 6), (std::vector<std::string>{"a", "longer-than-that", "b"}));
}

TEST(Text, NearestFindsSlipsAndIgnoresStrangers) {
  const std::vector<std::string> keys = {"micro_batch", "memory", "precision", "device"};
  EXPECT_EQ(nearest("micro_bacth", keys), "micro_batch");
  EXPECT_EQ(nearest("memry", keys), "memory");
  EXPECT_EQ(nearest("devise", keys), "device");
  EXPECT_EQ(nearest("optimizer", keys), "");
  EXPECT_EQ(nearest("", keys), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), keys), "");
}

TEST(Text, IntegersAreReadWholeOrNotAtAll) {
  int64_t value = 0;
  EXPECT_TRUE(parse_integer("+5", value));
  EXPECT_EQ(value, 5);
  EXPECT_TRUE(parse_integer("-9223372036854775808", value));
  for (const char* bad : {"", "5 ", "5.0", "1e3", "0x10", "+-5", "++5", "9223372036854775808", "five"}) {
    EXPECT_FALSE(parse_integer(bad, value)) << bad;
  }
}

TEST(Text, RealsAreReadAsPeopleWriteThem) {
  double value = 0;
  for (const auto& [text, expected] : {std::pair{"1e-3", 0.001}, {"+0.5", 0.5}, {"3", 3.0}, {".25", 0.25}}) {
    EXPECT_TRUE(parse_real(text, value)) << text;
    EXPECT_EQ(value, expected);
  }
  for (const char* bad : {"", "1,5", "1.5x", "1e", "--1"}) EXPECT_FALSE(parse_real(bad, value)) << bad;
}

TEST(Text, ShortestReadsBackAsTheSameNumber) {
  for (const double value : {0.1, 1e-8, 1.0 / 3, 3.0, 6.02e23, -2.5}) {
    double back = 0;
    EXPECT_TRUE(parse_real(shortest(value), back));
    EXPECT_EQ(back, value);
  }
}

TEST(Text, QuoteShowsControlCharactersAndCutsLongText) {
  EXPECT_EQ(quote("a\nb"), "\"a\\x0ab\"");
  EXPECT_LT(quote(std::string(1000, 'a')).size(), 100u);
}

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("a..b", '.'), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", '.'), (std::vector<std::string>{""}));
}

TEST(Text, ChoicesReadAsASentence) {
  EXPECT_EQ(join_choices({"a", "b", "c"}), "a, b or c");
  EXPECT_EQ(join_choices({"a"}), "a");
  EXPECT_EQ(join_choices({}), "");
}

TEST(Text, RealNumbersAreFinite) {
  double value = 7;
  EXPECT_TRUE(parse_real("+1e-3", value));
  EXPECT_EQ(value, 0.001);
  for (const char* bad : {"", "nan", "inf", "-inf", "infinity", ".inf", "-.inf", ".nan", "1e999", "1 "})
    EXPECT_FALSE(parse_real(bad, value)) << bad;
}

TEST(Text, AGlobalLocaleChangesNoText) {
  const test::LocaleScope locale;
  EXPECT_EQ(cat("update-", 1000, " of ", int64_t{123456}, " at ", 0.25), "update-1000 of 123456 at 0.25");
  EXPECT_EQ(fixed(1234.5, 2), "1234.50");
  EXPECT_EQ(brief(12345.678), "1.235e+04");
  EXPECT_EQ(brief(0.25), "0.25");
  EXPECT_EQ(shortest(1234.5), "1234.5");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_seconds(3723), "1 h 02 min");
  EXPECT_EQ(Budget::parse("1.5GiB")->text(), "1536MiB");
  EXPECT_EQ(Interval::parse("1000 updates")->text(), "1000 updates");
  double value = 0;
  EXPECT_TRUE(parse_real("1234.5", value));
  EXPECT_EQ(value, 1234.5);
}

// As the C library's printf wrote them, digit for digit.
TEST(Text, RoundedNumbersAreThoseOfPrintf) {
  EXPECT_EQ(fixed(0.8125, 2), "0.81");
  EXPECT_EQ(fixed(2.5, 0), "2");
  EXPECT_EQ(fixed(-0.0, 1), "-0.0");
  EXPECT_EQ(fixed(1e300, 0).size(), 301u);
  EXPECT_EQ(fixed(std::numeric_limits<double>::infinity(), 1), "inf");
  EXPECT_EQ(brief(1e-5), "1e-05");
  EXPECT_EQ(brief(100000, 6), "100000");
  EXPECT_EQ(brief(0), "0");
  EXPECT_EQ(brief(0.1, 17), "0.10000000000000001");
}

TEST(Text, PatternsKnowOnlyBytes) {
  EXPECT_TRUE(matches_pattern("layer1.0.weight", "layer?.*"));
  EXPECT_FALSE(matches_pattern("layer10.weight", "layer?.*"));
}

}  // namespace
}  // namespace autotrain
