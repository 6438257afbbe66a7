#include "data/csv.h"

#include "support/support.h"

namespace autotrain {
namespace {

using Records = std::vector<std::vector<std::string>>;

Records read(const std::string& content, char separator = ',') {
  CsvReader reader(content, "t.csv", separator);
  Records records;
  std::vector<CsvField> fields;
  while (reader.next(fields)) {
    records.emplace_back();
    for (const CsvField& field : fields) records.back().emplace_back(field.text);
  }
  return records;
}

TEST(Csv, LinesEndInEveryUsualWay) {
  const Records expected = {{"a", "b"}, {"c", ""}};
  for (const char* content : {"a,b\nc,", "a,b\nc,\n", "a,b\r\nc,\r\n", "a,b\r\nc,\r", "\n\na,b\n\r\n\nc,\n\n",
                              "\xef\xbb\xbf"
                              "a,b\nc,\n"}) {
    EXPECT_EQ(read(content), expected) << testing::PrintToString(content);
  }
}

TEST(Csv, QuotedFieldsHoldSeparatorsQuotesAndLines) {
  EXPECT_EQ(read("\"a,b\",\"say \"\"hi\"\"\"\r\n\"\",\"\"\"\"\n\"1\r\n2\",x"),
            (Records{{"a,b", "say \"hi\""}, {"", "\""}, {"1\r\n2", "x"}}));
  EXPECT_EQ(read("\"a\"\"b\",\"c\"\"d\",\"e\"\n"), (Records{{"a\"b", "c\"d", "e"}}));
}

TEST(Csv, AQuoteInsideAFieldIsACharacter) {
  EXPECT_EQ(read("5\" pipe,a\"\"b\n"), (Records{{"5\" pipe", "a\"\"b"}}));
}

TEST(Csv, SeparatesByAnyCharacter) {
  EXPECT_EQ(read("a,b\tc\n", '\t'), (Records{{"a,b", "c"}}));
}

TEST(Csv, AFirstLineThatNamesTheSeparatorIsNoRecord) {
  EXPECT_EQ(CsvReader::named_separator("sep=;\r\na;b\n"), ';');
  EXPECT_EQ(CsvReader::named_separator("\xef\xbb\xbfsep=\t\na\tb\n"), '\t');
  for (const char* other : {"sep=", "sep=\n", "sep=;;\n", "sep;a\n", "a;sep=;\n"})
    EXPECT_EQ(CsvReader::named_separator(other), 0) << other;
  EXPECT_EQ(read("sep=;\r\na;b\n", ';'), (Records{{"a", "b"}}));
}

TEST(Csv, AFileOfNothingHasNoRecords) {
  for (const char* content : {"", "\n", "\r\n\n", "\xef\xbb\xbf"}) EXPECT_TRUE(read(content).empty());
}

TEST(Csv, PositionsCountQuotedAndBlankLines) {
  CsvReader reader(
      "\xef\xbb\xbf"
      "a,b\r\n\n\"1\n2\"\"\n3\",x\ny,z\n",
      "t.csv", ',');
  std::vector<CsvField> fields;
  const auto places = [&] {
    EXPECT_TRUE(reader.next(fields));
    std::vector<std::pair<int64_t, int64_t>> out;
    for (const CsvField& field : fields) out.emplace_back(field.line, field.column);
    return out;
  };
  EXPECT_EQ(places(), (std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 3}}));
  EXPECT_EQ(places(), (std::vector<std::pair<int64_t, int64_t>>{{3, 1}, {5, 4}}));
  EXPECT_EQ(places(), (std::vector<std::pair<int64_t, int64_t>>{{6, 1}, {6, 3}}));
}

TEST(Csv, BrokenQuotesAreNamedWithTheirPlace) {
  const auto fail_at = [](const std::string& content, const std::string& where) {
    const Error error = test::expect_error(ExitCode::kBadData, [&] { read(content); });
    EXPECT_EQ(error.where(), where);
  };
  fail_at("a,b\nc,\"never\nclosed", "t.csv:2:3");
  fail_at("a,\"b\"c\n", "t.csv:1:6");
  fail_at("a,\"b\"\r,c\n", "t.csv:1:6");
  fail_at("\"a\"\"", "t.csv:1:1");
}

}  // namespace
}  // namespace autotrain
