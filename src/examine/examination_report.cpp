#include "examine/examination_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "report/live_text.h"
#include "report/page.h"
#include "report/table.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 40;   // of a table on a terminal
constexpr size_t kMostBars = 20;   // of a plot on a terminal
constexpr size_t kWidestBar = 30;  // characters
constexpr size_t kWidestCell = 40;

std::string words_of(const LookCell& cell) {
  if (const auto* const text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* const count = std::get_if<int64_t>(&cell)) return format_count(*count);
  return brief(std::get<double>(cell));
}

// A cell on a terminal is one short line.
std::string short_words_of(const LookCell& cell) {
  const std::string words = words_of(cell);
  const size_t characters = std::ranges::count_if(words, [](char c) { return (c & 0xC0) != 0x80; });
  return characters <= kWidestCell ? words : cut_to(words, kWidestCell - 1) + "…";
}

double part_of_most(const LookBars& bars, size_t i) {
  const int64_t most = *std::ranges::max_element(bars.counts);
  return most > 0 ? static_cast<double>(bars.counts[i]) / static_cast<double>(most) : 0;
}

std::string more_line(size_t shown, size_t of) {
  return of > shown
             ? cat("    and ", format_count(static_cast<int64_t>(of - shown)), " more (--json has all)\n")
             : "";
}

// Whole lines, each moved to the right.
std::string indented(std::string_view lines, std::string_view indent) {
  std::string out;
  while (!lines.empty()) {
    const size_t length = lines.find('\n') + 1;
    out += cat(indent, lines.substr(0, length));
    lines.remove_prefix(length);
  }
  return out;
}

std::string text_of(const LookTable& table) {
  TextTable text(table.header);
  for (size_t i = 0; i < std::min(kMostRows, table.rows.size()); ++i) {
    std::vector<std::string> cells;
    for (const LookCell& cell : table.rows[i]) cells.push_back(short_words_of(cell));
    text.add_row(std::move(cells));
  }
  return cat("  ", table.title, "\n", indented(text.text(), "    "), more_line(kMostRows, table.rows.size()));
}

std::string text_of(const LookBars& bars) {
  TextTable text({});
  const size_t shown = std::min(kMostBars, bars.counts.size());
  for (size_t i = 0; i < shown; ++i) {
    std::string bar;
    const auto length = static_cast<size_t>(std::lround(part_of_most(bars, i) * kWidestBar));
    for (size_t c = 0; c < length; ++c) bar += "█";
    text.add_row({short_words_of(bars.labels[i]), format_count(bars.counts[i]), bar});
  }
  return cat("  ", bars.title, "\n", indented(text.text(), "    "), more_line(shown, bars.counts.size()));
}

std::string text_of(const Doubt& doubt) {
  std::string text = cat("  ", doubt.stops ? "fault" : "warning", ": ", in_words(doubt), "\n");
  for (const std::string& place : doubt.places) text += cat("    ", place, "\n");
  if (!doubt.places.empty()) text += more_line(doubt.places.size(), static_cast<size_t>(doubt.count));
  if (!doubt.cure.empty()) text += cat("    try: ", doubt.cure, "\n");
  return text;
}

std::string doubts_of(const ExaminedSet& set) {
  std::string text;
  for (const Doubt& doubt : set.look.doubts) text += text_of(doubt);
  if (!set.failure.empty()) text += cat("  fault: ", set.failure, "\n");
  return text;
}

std::string text_of(const ExaminedSet& set) {
  std::string text = cat(set.role, "  ", set.look.what, "\n");
  TextTable facts({});
  for (const auto& [name, value] : set.look.facts) facts.add_row({name, value});
  text += indented(facts.text(), "  ");
  for (const LookTable& table : set.look.tables) text += text_of(table);
  for (const LookBars& bars : set.look.bars) {
    if (!bars.counts.empty()) text += text_of(bars);
  }
  return text + doubts_of(set) + "\n";
}

Json json_of(const LookTable& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json cells = Json::array();
    for (const LookCell& cell : row) std::visit([&](const auto& value) { cells.push_back(value); }, cell);
    rows.push_back(std::move(cells));
  }
  return {{"title", table.title}, {"header", table.header}, {"rows", std::move(rows)}};
}

Json json_of(const Doubt& doubt) {
  return {{"kind", doubt.kind},
          {"stops", doubt.stops},
          {"count", doubt.count},
          {"places", doubt.places},
          {"cure", doubt.cure}};
}

Json json_of(const ExaminedSet& set) {
  Json out = {{"role", set.role},        {"what", set.look.what},   {"facts", Json::object()},
              {"tables", Json::array()}, {"counts", Json::array()}, {"doubts", Json::array()}};
  for (const auto& [name, value] : set.look.facts) out["facts"][name] = value;
  for (const LookTable& table : set.look.tables) out["tables"].push_back(json_of(table));
  for (const LookBars& bars : set.look.bars)
    out["counts"].push_back({{"title", bars.title}, {"labels", bars.labels}, {"counts", bars.counts}});
  for (const Doubt& doubt : set.look.doubts) out["doubts"].push_back(json_of(doubt));
  out["failure"] = set.failure.empty() ? Json(nullptr) : Json(set.failure);
  return out;
}

page::Table table_of(const LookBars& bars) {
  page::Table table{.title = bars.title, .header = {"", "count"}};
  for (size_t i = 0; i < bars.counts.size(); ++i) {
    table.rows.push_back({bars.labels[i], format_count(bars.counts[i])});
    table.bars.push_back(part_of_most(bars, i));
  }
  return table;
}

page::Table table_of(const std::vector<Doubt>& doubts) {
  page::Table table{.title = "doubts", .header = {"", "what", "count", "the first of them", "what helps"}};
  for (const Doubt& doubt : doubts) {
    table.rows.push_back({doubt.stops ? "fault" : "warning", doubt.kind, format_count(doubt.count),
                          join(doubt.places, "\n"), doubt.cure});
  }
  return table;
}

page::Picture picture_of(const SampleSheet& sheet) {
  return {.caption = cat("samples as a model gets them, in the first epoch; black is ", brief(sheet.least),
                         ", white ", brief(sheet.greatest)),
          .png = sheet.png};
}

page::Table table_of(const SampleSheet& sheet) {
  page::Table table{.title = "samples of the sheet, row by row",
                    .header = {"place", "sample", "target", "file"}};
  for (size_t i = 0; i < sheet.entries.size(); ++i) {
    const SampleSheet::Entry& entry = sheet.entries[i];
    const auto at = static_cast<int64_t>(i);
    table.rows.push_back({cat(at / sheet.columns + 1, ", ", at % sheet.columns + 1),
                          std::to_string(entry.sample), entry.target, entry.name});
  }
  return table;
}

page::Section section_of(const ExaminedSet& set) {
  page::Section section{.title = cat(set.role, ": ", set.look.what)};
  if (!set.failure.empty()) section.paragraphs.push_back("Fault: " + set.failure);
  if (!set.look.doubts.empty()) section.tables.push_back(table_of(set.look.doubts));
  page::Table facts{.title = "what was understood"};
  for (const auto& [name, value] : set.look.facts) facts.rows.push_back({name, value});
  if (!facts.rows.empty()) section.tables.push_back(std::move(facts));
  for (const LookTable& look : set.look.tables) {
    page::Table table{.title = look.title, .header = look.header};
    for (const auto& row : look.rows) {
      std::vector<std::string> cells;
      for (const LookCell& cell : row) cells.push_back(words_of(cell));
      table.rows.push_back(std::move(cells));
    }
    section.tables.push_back(std::move(table));
  }
  for (const LookBars& bars : set.look.bars) {
    if (!bars.counts.empty()) section.tables.push_back(table_of(bars));
  }
  if (set.sheet) {
    section.pictures.push_back(picture_of(*set.sheet));
    section.tables.push_back(table_of(*set.sheet));
  }
  return section;
}

std::string counted(int64_t count, const char* one) {
  return cat(count == 0 ? "no" : format_count(count), " ", one, count == 1 ? "" : "s");
}

}  // namespace

std::string text_of(const Examination& found) {
  std::string text;
  for (const ExaminedSet& set : found.sets) text += text_of(set);
  return text;
}

std::string doubts_text_of(const Examination& found) {
  std::string text;
  for (const ExaminedSet& set : found.sets) {
    const std::string doubts = doubts_of(set);
    if (!doubts.empty()) text += cat(set.role, "\n", doubts);
  }
  return text;
}

nlohmann::ordered_json json_of(const Examination& found) {
  Json sets = Json::array();
  for (const ExaminedSet& set : found.sets) sets.push_back(json_of(set));
  return {{"sets", std::move(sets)},
          {"faults", found.faults()},
          {"warnings", found.warnings()},
          {"seconds", found.seconds}};
}

std::string page_of(const Examination& found, const std::string& subtitle) {
  page::Page page{.title = "Data: " + closing_line(found), .subtitle = subtitle};
  for (const ExaminedSet& set : found.sets) page.sections.push_back(section_of(set));
  return page::render(page);
}

std::string closing_line(const Examination& found) {
  return cat(counted(found.faults(), "fault"), ", ", counted(found.warnings(), "warning"), " in ",
             format_seconds(found.seconds));
}

}  // namespace autotrain
