#include "report/page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "autotrain/error.h"
#include "base/enum_names.h"
#include "base/json.h"
#include "base/version.h"
#include "report/page_parts.h"
#include "report/thin.h"

namespace autotrain::page {

constexpr auto enum_names(Format) {
  return std::to_array<EnumName<Format>>({{Format::kNumber, "number"},
                                          {Format::kBytes, "bytes"},
                                          {Format::kSeconds, "seconds"},
                                          {Format::kPercent, "percent"}});
}

constexpr auto enum_names(Draw) {
  return std::to_array<EnumName<Draw>>({{Draw::kLine, "line"},
                                        {Draw::kLineAndPoints, "line_and_points"},
                                        {Draw::kPoints, "points"},
                                        {Draw::kStep, "step"},
                                        {Draw::kDashed, "dashed"}});
}

namespace {

using Json = nlohmann::ordered_json;

// More digits than a plot shows make the page larger only.
constexpr int kDigits = 7;
constexpr int kDigitsOfX = 12;

Json rounded(double value, int digits) {
  if (!std::isfinite(value)) return nullptr;
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits);
  double near = 0;
  std::from_chars(text.data(), end.ptr, near);
  const bool whole = near == std::floor(near) && std::abs(near) < 0x1p53;
  return whole ? Json(static_cast<int64_t>(near)) : Json(near);
}

Json rounded(const std::vector<double>& values, int digits) {
  Json list = Json::array();
  for (const double value : values) list.push_back(rounded(value, digits));
  return list;
}

// Series share most of their x columns; each stands in the page once.
class ColumnStore {
 public:
  size_t index_of(const std::vector<double>& column) {
    Json numbers = rounded(column, kDigitsOfX);
    const auto [entry, added] = index_.emplace(words_of_json(numbers), columns_.size());
    if (added) columns_.push_back(std::move(numbers));
    return entry->second;
  }

  const Json& json() const { return columns_; }

 private:
  Json columns_ = Json::array();
  std::map<std::string, size_t> index_;
};

void check_lengths(const Chart& chart) {
  for (const Series& series : chart.series) {
    const auto agrees = [&](size_t length) { return length == series.y.size(); };
    const auto agrees_or_empty = [&](size_t length) { return length == 0 || agrees(length); };
    check_invariant(series.x.size() == chart.x.size(), "a series has a column for each x axis");
    for (const auto& column : series.x) check_invariant(agrees(column.size()), "x is as long as y");
    check_invariant(agrees_or_empty(series.low.size()) && agrees_or_empty(series.high.size()) &&
                        agrees_or_empty(series.labels.size()),
                    "bands and labels are as long as y");
  }
}

Json axis_json(const Axis& axis) {
  return {{"label", axis.label}, {"log", axis.log}, {"format", to_string(axis.format)}};
}

Json series_json(const Series& whole, ColumnStore& columns) {
  const Thinned thinned = thin(whole, kMostPoints);
  const Series& series = thinned.series;
  Json x = Json::array();
  for (const auto& column : series.x) x.push_back(columns.index_of(column));
  return {{"name", series.name},
          {"x", x},
          {"y", rounded(series.y, kDigits)},
          {"low", rounded(series.low, kDigits)},
          {"high", rounded(series.high, kDigits)},
          {"band", series.band},
          {"labels", series.labels},
          {"draw", to_string(series.draw)},
          {"smooth", series.smoothable},
          {"colour", series.colour ? Json(*series.colour) : Json(nullptr)},
          {"each", thinned.rows_each}};
}

Json chart_json(const Chart& chart, ColumnStore& columns) {
  check_lengths(chart);
  Json json = {{"title", chart.title},    {"x", Json::array()},     {"y", axis_json(chart.y)},
               {"series", Json::array()}, {"marks", Json::array()}, {"ranges", Json::array()}};
  for (const Axis& axis : chart.x) json["x"].push_back(axis_json(axis));
  for (const Series& series : chart.series) json["series"].push_back(series_json(series, columns));
  for (const Mark& mark : chart.marks) {
    json["marks"].push_back({{"x", rounded(mark.x, kDigitsOfX)},
                             {"text", mark.text},
                             {"colour", mark.colour ? Json(*mark.colour) : Json(nullptr)}});
  }
  for (const Range& range : chart.ranges) {
    json["ranges"].push_back(
        {{"low", rounded(range.low, kDigits)}, {"high", rounded(range.high, kDigits)}, {"text", range.text}});
  }
  return json;
}

// RFC 4648, section 4.
std::string in_base64(std::string_view bytes) {
  constexpr std::string_view kDigits64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    for (size_t i = 0; i < count; ++i) group |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (16 - 8 * i);
    for (size_t i = 0; i < 4; ++i) out += i <= count ? kDigits64[(group >> (18 - 6 * i)) & 63] : '=';
  }
  return out;
}

Json section_json(const Section& section, ColumnStore& columns) {
  Json json = {{"title", section.title},   {"open", section.open},    {"paragraphs", section.paragraphs},
               {"charts", Json::array()},  {"tables", Json::array()}, {"listings", Json::array()},
               {"pictures", Json::array()}};
  for (const Picture& picture : section.pictures)
    json["pictures"].push_back({{"caption", picture.caption}, {"png", in_base64(picture.png)}});
  for (const Chart& chart : section.charts) json["charts"].push_back(chart_json(chart, columns));
  for (const Table& table : section.tables) {
    json["tables"].push_back({{"title", table.title},
                              {"header", table.header},
                              {"rows", table.rows},
                              {"shade", table.shade},
                              {"bars", table.bars}});
  }
  for (const Listing& listing : section.listings) {
    json["listings"].push_back({{"title", listing.title}, {"text", listing.text}});
  }
  return json;
}

// JSON that may stand inside <script>: without "<" nothing in it can end or open an element.
std::string json_of(const Page& page) {
  ColumnStore columns;
  Json json = {{"title", page.title}, {"subtitle", page.subtitle}, {"sections", Json::array()}};
  for (const Section& section : page.sections) json["sections"].push_back(section_json(section, columns));
  json["columns"] = columns.json();
  std::string out;
  for (const char c : words_of_json(json)) {
    c == '<' ? out += "\\u003c" : out += c;
  }
  return out;
}

// The template with every {{name}} replaced; what is put in is not looked at again.
std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  for (;;) {
    const size_t begin = text.find("{{"), end = text.find("}}");
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::string name(text.substr(begin + 2, end - begin - 2));
    const auto value = values.find(name);
    out += value == values.end() ? part(name) : value->second;
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::string render(const Page& page) {
  return filled(part("page.html"), {{"data", json_of(page)}, {"version", version()}});
}

}  // namespace autotrain::page
