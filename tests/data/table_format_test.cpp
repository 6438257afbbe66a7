#include "data/table_format.h"

#include "autotrain/error.h"
#include "support/support.h"

namespace autotrain {
namespace {

TableFormat format_of(const std::string& content, const TableFormatOptions& options = {}) {
  return find_table_format(content, "t.csv", options);
}

TEST(TableFormat, TheSeparatorGivesAllLinesAsManyFields) {
  EXPECT_EQ(format_of("a;b\n1,5;2\n1;2\n").separator, ';');
  EXPECT_EQ(format_of("a,b\n1;2;3,5\n1,2\n").separator, ',');
  EXPECT_EQ(format_of("a\tb\n1,5\t2\n", {.likely_separator = ','}).separator, '\t');
  EXPECT_EQ(format_of("a,b\n1,2\n", {.likely_separator = '\t'}).separator, ',');
  EXPECT_EQ(format_of("\"a,b\";c\n\"1,2\";3\n").separator, ';');
  EXPECT_EQ(format_of("sep=|\na|b,c\n1|2,3\n").separator, '|');
  EXPECT_EQ(format_of("a,b\n1,2\n3\n").separator, ',') << "a line that lacks a field";
  EXPECT_EQ(format_of("a\n1\n").separator, ',');
}

TEST(TableFormat, TwoSeparatorsThatBothFitAreRefused) {
  const Error error =
      test::expect_error(ExitCode::kBadData, [] { format_of("1,5;2,5\n2,5;3,5\n", {.header = false}); });
  EXPECT_TRUE(test::holds(error.what(), "may be separated by \",\" or by \";\""));
}

TEST(TableFormat, DecimalsStandAfterWhatAloneExplainsTheNumbers) {
  using enum DecimalMark;
  EXPECT_EQ(format_of("a;b\n1,5;2\n").decimal, kComma);
  EXPECT_EQ(format_of("a;b\n1.234,5;2\n").decimal, kComma);
  EXPECT_EQ(format_of("a;b\n1,234.5;2\n").decimal, kPoint);
  EXPECT_EQ(format_of("a;b\n1,234;2\n").decimal, kPoint) << "undecided: no number then";
  EXPECT_EQ(format_of("a;b\n1,5E+03;2\n").decimal, kComma);
  EXPECT_EQ(format_of("a;b\n-1,234e-2;2\n").decimal, kComma) << "thousands have no exponent";
  EXPECT_EQ(format_of("a;b\n1,5e;2\n").decimal, kPoint) << "no number";
  EXPECT_EQ(format_of("a,b\n1,5\n").decimal, kPoint);
  EXPECT_EQ(format_of("a,b\n\"1,5\",5\n").decimal, kComma);
  EXPECT_EQ(format_of("a;b\n1,5;2\n", {.decimal = kPoint}).decimal, kPoint);
}

TEST(TableFormat, FilesOfOtherBytesAreNamed) {
  for (const std::string content : {std::string("\xff\xfe"
                                                "a\0,\0",
                                                6),
                                    std::string("a\0,\0b\0", 6)}) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { format_of(content); });
    EXPECT_TRUE(test::holds(error.what(), "UTF-16"));
  }
  const Error error = test::expect_error(ExitCode::kBadData, [] { format_of("a,b\r1,2\r3,4\r"); });
  EXPECT_TRUE(test::holds(error.what(), "carriage return"));
}

TEST(TableFormat, NumbersByEitherMark) {
  EXPECT_EQ(field_number(" 1.5 "), 1.5);
  EXPECT_EQ(field_number("-1,5e3", DecimalMark::kComma), -1500);
  EXPECT_EQ(field_number("7", DecimalMark::kComma), 7);
  for (const char* none : {"", ",", "1,5", "1e39", "inf", "nan", "0x10", "1_000"})
    EXPECT_FALSE(field_number(none)) << none;
  for (const char* none : {"1.5", "1.234,5", "1,2,3", ","})
    EXPECT_FALSE(field_number(none, DecimalMark::kComma)) << none;
}

TEST(TableFormat, WhatWasMeantAsANumberLooksLikeOne) {
  for (const char* text : {"12%", "12 %", "1,234.5", "1.234,5", "1,234", "1,00,000", "~1100", "<5", "$ 5",
                           "5 €", "inf", "-Infinity", "1 234 567", "(5.20)", "1'234", "1,5e3", "−5", "1e999"})
    EXPECT_TRUE(looks_like_number(text)) << text;
  for (const char* text : {"", "-", "5 km", "12a", "2024-01-15", "12.05.2024", "12:30", "1/2", "10-20",
                           "0x10", "e5", "192.168.0.1", "red", "555 1234"})
    EXPECT_FALSE(looks_like_number(text)) << text;
}

TEST(TableFormat, CodesHaveLeadingZeros) {
  for (const char* code : {"007", "01.5", "-01", " 00"}) EXPECT_TRUE(has_leading_zeros(code)) << code;
  for (const char* number : {"0", "0.5", "10", "", "-0"}) EXPECT_FALSE(has_leading_zeros(number)) << number;
}

}  // namespace
}  // namespace autotrain
