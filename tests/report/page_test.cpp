#include "report/page.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/random.h"
#include "report/thin.h"
#include "support/support.h"

namespace autotrain::page {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Series ramp(size_t points) {
  Series series{.name = "ramp", .x = {std::vector<double>(points)}, .y = std::vector<double>(points)};
  std::iota(series.x[0].begin(), series.x[0].end(), 1.0);
  std::iota(series.y.begin(), series.y.end(), 100.0);
  return series;
}

Page page_with(Series series) {
  return {
      .title = "t",
      .sections = {{.title = "s", .charts = {{.title = "c", .x = {{"x"}}, .series = {std::move(series)}}}}}};
}

// The page's script will read this.
nlohmann::json data_of(const std::string& html) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = html.find(begin) + begin.size();
  return nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Page, HoldsTheNumbersOfItsSeries) {
  Series series = ramp(3);
  series.y[1] = kNone;
  series.low = series.high = series.y;
  const auto data = data_of(render(page_with(series)));
  const auto& drawn = data["sections"][0]["charts"][0]["series"][0];
  EXPECT_EQ(drawn["y"].dump(), "[100,null,102]");
  EXPECT_EQ(data["columns"][drawn["x"][0].get<size_t>()].dump(), "[1,2,3]");
  EXPECT_EQ(drawn["each"], 1);
}

TEST(Page, NamesTheEdgesOfABandAsItIsTold) {
  Series series = ramp(2 * kMostPoints);
  series.low = series.high = series.y;
  series.band = {"p50", "p99"};
  const auto edges = [](const Series& drawn) {
    return data_of(render(page_with(drawn)))["sections"][0]["charts"][0]["series"][0]["band"].dump();
  };
  EXPECT_EQ(edges(series), R"(["p50","p99"])");
  EXPECT_EQ(edges(ramp(2 * kMostPoints)), R"(["least","greatest"])");
}

TEST(Page, AColumnThatSeriesShareStandsInItOnce) {
  Page page = page_with(ramp(100));
  page.sections[0].charts[0].series.push_back(ramp(100));
  page.sections[0].charts.push_back(page.sections[0].charts[0]);
  EXPECT_EQ(data_of(render(page))["columns"].size(), 1u);
}

TEST(Page, NoTextEndsItsScriptOrBecomesAnElement) {
  const std::string hostile = "</script><script>alert(1)</script><!-- {{version}} \" \\ \n \x01 \xff";
  Series series = ramp(1);
  series.name = hostile;
  series.labels = {hostile};
  Page page = page_with(series);
  page.title = page.subtitle = hostile;
  page.sections[0].paragraphs = {hostile};
  page.sections[0].tables = {{hostile, {hostile}, {{hostile}}}};
  page.sections[0].listings = {{hostile, hostile}};
  page.sections[0].charts[0].marks = {{{1}, hostile}};
  page.sections[0].charts[0].ranges = {{0, 1, hostile}};
  const std::string harmless = render(page_with(ramp(1))), html = render(page);
  for (const char* const part : {"<script", "</script", "<!--"})
    EXPECT_EQ(occurrences(html, part), occurrences(harmless, part)) << part;
  EXPECT_TRUE(test::holds(data_of(html)["title"].get<std::string>(), "</script><script>alert(1)"));
  EXPECT_TRUE(test::holds(data_of(html)["title"].get<std::string>(), "{{version}}"));
}

TEST(Page, NeedsNoOtherFile) {
  const std::string html = render(page_with(ramp(1)));
  for (const char* const part : {" src=", " href=", "@import", "url("})
    EXPECT_EQ(occurrences(html, part), 0u) << part;
  EXPECT_TRUE(test::holds(html, "Chart.js v3"));
  EXPECT_TRUE(test::holds(html, "Permission is hereby granted"));
}

TEST(Page, ASeriesWhoseColumnsDoNotAgreeIsABug) {
  Series series = ramp(3);
  series.x[0].pop_back();
  EXPECT_THROW(render(page_with(series)), std::logic_error);
}

TEST(Thin, AShortSeriesStaysAsItIs) {
  const Thinned thinned = thin(ramp(10), 10);
  EXPECT_EQ(thinned.rows_each, 1u);
  EXPECT_EQ(thinned.series.y, ramp(10).y);
  EXPECT_TRUE(thinned.series.low.empty());
}

TEST(Thin, KeepsMeanAndExtremesOfRandomSeries) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const auto rows = static_cast<size_t>(1 + random.below(500)),
               most = static_cast<size_t>(1 + random.below(50));
    Series series = ramp(rows);
    for (double& value : series.y) value = random.uniform() < 0.1 ? kNone : random.normal();
    const Thinned thinned = thin(series, most);
    ASSERT_LE(thinned.series.y.size(), most);
    if (thinned.rows_each == 1) continue;
    for (size_t point = 0; point < thinned.series.y.size(); ++point) {
      const size_t begin = point * thinned.rows_each, end = std::min(rows, begin + thinned.rows_each);
      double sum = 0, low = kNone, high = kNone, count = 0;
      for (size_t i = begin; i < end; ++i) {
        if (std::isnan(series.y[i])) continue;
        sum += series.y[i], ++count;
        low = std::fmin(low, series.y[i]), high = std::fmax(high, series.y[i]);
      }
      EXPECT_EQ(thinned.series.x[0][point], static_cast<double>(end));
      if (count == 0) {
        EXPECT_TRUE(std::isnan(thinned.series.y[point]));
      } else {
        EXPECT_NEAR(thinned.series.y[point], sum / count, 1e-12);
        EXPECT_EQ(thinned.series.low[point], low);
        EXPECT_EQ(thinned.series.high[point], high);
      }
    }
  }
}

TEST(Thin, ABandCoversTheBandsOfItsRows) {
  Series series = ramp(4);
  series.low = {1, 0, 3, 2};
  series.high = {200, 300, 250, 400};
  const Series thinned = thin(series, 2).series;
  EXPECT_EQ(thinned.low, (std::vector<double>{0, 2}));
  EXPECT_EQ(thinned.high, (std::vector<double>{300, 400}));
}

// Vectors of RFC 4648, section 10.
TEST(Page, HoldsPicturesInBase64) {
  for (const auto& [bytes, text] : {std::pair("", ""),
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    const Page page{.title = "t", .sections = {{.title = "s", .pictures = {{"c", bytes}}}}};
    const nlohmann::json picture = data_of(render(page))["sections"][0]["pictures"][0];
    EXPECT_EQ(picture["png"], text);
    EXPECT_EQ(picture["caption"], "c");
  }
}

}  // namespace
}  // namespace autotrain::page
