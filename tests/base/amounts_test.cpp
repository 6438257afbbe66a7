#include "autotrain/amounts.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

TEST(Amounts, BudgetsAreReadAndWrittenBack) {
  for (const char* text : {"auto", "2GiB", "512MiB", "1000", "50%", "12.5%"}) {
    const auto budget = Budget::parse(text);
    ASSERT_TRUE(budget) << text;
    EXPECT_EQ(budget->text(), text);
  }
  for (const char* bad :
       {"", "half", "0%", "101%", "-1GiB", "0", "2 GiB of it", "nan%", "inf%", "nan", "inf"}) {
    EXPECT_FALSE(Budget::parse(bad)) << bad;
  }
}

TEST(Amounts, IntervalsAreReadAndWrittenBack) {
  for (const char* text : {"never", "1 epoch", "0.5 epochs", "500 updates", "10000 samples", "10 minutes"}) {
    const auto interval = Interval::parse(text);
    ASSERT_TRUE(interval) << text;
    EXPECT_EQ(interval->text(), text);
  }
  for (const char* bad : {"", "1", "epoch", "0 epochs", "-1 epoch", "1.5 updates", "1 day", "1 epochs more",
                          "nan epochs", "inf minutes", "1e300 updates"}) {
    EXPECT_FALSE(Interval::parse(bad)) << bad;
  }
}

TEST(Amounts, SpansAreReadAndWrittenBack) {
  for (const char* text : {"5%", "200 updates", "1 update", "100000 samples"}) {
    const auto span = Span::parse(text);
    ASSERT_TRUE(span) << text;
    EXPECT_EQ(span->text(), text);
  }
  EXPECT_EQ(Span::parse("0")->count, 0);
  for (const char* bad : {"", "5", "-5%", "150%", "1.5 updates", "5 epochs", "nan%", "inf%", "-nan%",
                          "nan updates", "inf samples", "1e300 samples"})
    EXPECT_FALSE(Span::parse(bad)) << bad;
}

}  // namespace
}  // namespace autotrain
