#include "report/column.h"

#include <gtest/gtest.h>

#include <cmath>

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

struct Measurement {
  int64_t peak_bytes = 0;
  double seconds = 0;
  std::optional<double> share = {};
  std::string why = {};
};

ColumnsOf<Measurement> columns_of_a_test() {
  using M = Measurement;
  return {
      column<M>("peak_bytes", &M::peak_bytes, {.heading = "peak", .unit = Unit::kBytes}),
      column<M>("share", &M::share, {.heading = "share", .unit = Unit::kShare}),
      column<M>("why", &M::why),
      {.heading = "in words", .text = [](const M& m) { return "because " + m.why; }},
  };
}

const Measurement kMeasured = {.peak_bytes = 3 << 20, .seconds = 0.25, .why = "so, or so"};

TEST(Column, AFigureThatIsAddedStandsInEveryOutput) {
  ColumnsOf<Measurement> columns = columns_of_a_test();
  columns.push_back(column<Measurement>("added_seconds", &Measurement::seconds,
                                        {.heading = "added ms", .unit = Unit::kMilliseconds}));
  const Json json = json_of(columns, kMeasured);
  EXPECT_EQ(json.dump(), R"({"peak_bytes":3145728,"share":null,"why":"so, or so","added_seconds":0.25})");
  EXPECT_EQ(csv_header(columns, "one_"),
            (Cells{"one_peak_bytes", "one_share", "one_why", "one_added_seconds"}));
  EXPECT_EQ(csv_line(csv_cells(columns, kMeasured)), "3145728,,\"so, or so\",0.25\r\n");
  EXPECT_EQ(headings_of(columns), (Cells{"peak", "share", "in words", "added ms"}));
  EXPECT_EQ(table_row(columns, kMeasured), (Cells{"3.00 MiB", "-", "because so, or so", "250"}));
  Measurement read;
  read_record(columns, json, read);
  EXPECT_EQ(json_of(columns, read), json);
}

TEST(Column, PrintsEachUnitAsPeopleReadIt) {
  EXPECT_EQ(in_unit(0.025134, Unit::kNumber), "0.02513");
  EXPECT_EQ(in_unit(12800, Unit::kCount), "12,800");
  EXPECT_EQ(in_unit(1610612736, Unit::kBytes), "1.50 GiB");
  EXPECT_EQ(in_unit(200, Unit::kSeconds), "3 min 20 s");
  EXPECT_EQ(in_unit(0.0251, Unit::kMilliseconds), "25.1");
  EXPECT_EQ(in_unit(45.6e6, Unit::kRate), "45.6M");
  EXPECT_EQ(in_unit(0.874, Unit::kShare), "87.4 %");
  EXPECT_EQ(in_unit("narrow", Unit::kNumber), "narrow");
  EXPECT_EQ(in_unit(true, Unit::kNumber), "yes");
  EXPECT_EQ(in_unit(nullptr, Unit::kBytes), "-");
  EXPECT_EQ(in_unit(NAN, Unit::kSeconds), "-");
}

TEST(Column, IsReadStrictlyOrAsFarAsItIsThere) {
  const ColumnsOf<Measurement> columns = columns_of_a_test();
  const Json damaged = {{"peak_bytes", "many"}, {"why", "known"}};
  Measurement read{.peak_bytes = 7};
  EXPECT_THROW(read_record(columns, damaged, read), nlohmann::json::exception);
  read_what_is_there(columns, damaged, read);
  EXPECT_EQ(read.peak_bytes, 7);
  EXPECT_EQ(read.why, "known");
}

TEST(Column, RowsLeaveOutASparseOneThatIsNull) {
  ColumnsOf<Measurement> columns = columns_of_a_test();
  columns[1].sparse = true;
  EXPECT_FALSE(json_of(columns, kMeasured).contains("share"));
  EXPECT_TRUE(json_of(columns, Measurement{.share = 0.5}).contains("share"));
}

TEST(Column, WhatIsNotFiniteIsNullInJsonAndReadBackAsSuch) {
  const ColumnsOf<Measurement> columns = {column<Measurement>("seconds", &Measurement::seconds)};
  const Json json = json_of(columns, Measurement{.seconds = INFINITY});
  EXPECT_TRUE(json.at("seconds").is_null());
  const std::string text = json.dump();
  EXPECT_EQ(text, R"({"seconds":null})");
  Measurement read;
  read_record(columns, Json::parse(text), read);
  EXPECT_TRUE(std::isnan(read.seconds));
}

}  // namespace
}  // namespace autotrain
