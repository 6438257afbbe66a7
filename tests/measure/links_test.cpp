#include "measure/links.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

TEST(Links, OneThatComputesClearlyLessThanMostIsAStraggler) {
  EXPECT_EQ(straggler_of({{"a", 10}}), -1);
  EXPECT_EQ(straggler_of({{"a", 10}, {"a", 11}, {"b", 9}}), -1);
  EXPECT_EQ(straggler_of({{"a", 10}, {"a", 11}, {"b", 5}, {"b", 10}}), 2);
  EXPECT_EQ(straggler_of({{"a", 2}, {"b", 10}}), 0);
}

}  // namespace
}  // namespace autotrain
