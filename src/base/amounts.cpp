#include "autotrain/amounts.h"

#include <array>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

struct Counted {
  double count;
  std::string_view unit;
};

constexpr double kMostInAmounts = 0x1p53;  // beyond it neighbouring whole numbers are one

// "500 updates" → {500, "updates"}; the number alone has an empty unit.
std::optional<Counted> parse_counted(std::string_view text) {
  text = trim(text);
  const size_t end = text.find_first_not_of("0123456789.eE+-");
  // "1 epoch": the blank ends the number; "1epoch" would swallow the "e".
  const size_t blank = text.find(' ');
  const size_t cut = std::min(std::min(end, blank), text.size());
  double count = 0;
  if (!parse_real(text.substr(0, cut), count) || std::abs(count) > kMostInAmounts) return std::nullopt;
  return Counted{count, trim(text.substr(cut))};
}

struct UnitWord {
  Interval::Unit unit;
  std::string_view one, many;
};

constexpr std::array kIntervalWords = {
    UnitWord{Interval::Unit::kEpochs, "epoch", "epochs"},
    UnitWord{Interval::Unit::kUpdates, "update", "updates"},
    UnitWord{Interval::Unit::kSamples, "sample", "samples"},
    UnitWord{Interval::Unit::kMinutes, "minute", "minutes"},
};

}  // namespace

std::optional<Budget> Budget::parse(std::string_view text) {
  text = trim(text);
  if (text == "auto") return Budget{};
  if (const auto share = parse_percent(text)) {
    if (*share <= 0 || *share > 1) return std::nullopt;
    return Budget{.kind = Kind::kShare, .share = *share};
  }
  const auto bytes = parse_bytes(text);
  if (!bytes) return std::nullopt;
  return Budget{.kind = Kind::kBytes, .bytes = *bytes};
}

std::string Budget::text() const {
  if (kind == Kind::kAuto) return "auto";
  if (kind == Kind::kShare) return shortest(share * 100) + "%";
  for (const auto& [unit, name] : {std::pair{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}) {
    if (bytes % unit == 0) return cat(bytes / unit, name);
  }
  return std::to_string(bytes);
}

std::optional<Interval> Interval::parse(std::string_view text) {
  if (trim(text) == "never") return Interval{};
  const auto counted = parse_counted(text);
  if (!counted || counted->count <= 0) return std::nullopt;
  for (const UnitWord& word : kIntervalWords) {
    if (counted->unit != word.one && counted->unit != word.many) continue;
    const bool whole = counted->count == std::floor(counted->count);
    const bool divisible = word.unit == Unit::kEpochs || word.unit == Unit::kMinutes;
    if (!whole && !divisible) return std::nullopt;
    return Interval{word.unit, counted->count};
  }
  return std::nullopt;
}

std::string Interval::text() const {
  for (const UnitWord& word : kIntervalWords) {
    if (unit == word.unit) return cat(shortest(count), " ", count == 1 ? word.one : word.many);
  }
  return "never";
}

std::optional<Span> Span::parse(std::string_view text) {
  if (const auto fraction = parse_percent(text)) {
    if (*fraction < 0 || *fraction > 1) return std::nullopt;
    return Span{Unit::kFraction, *fraction};
  }
  const auto counted = parse_counted(text);
  if (!counted || counted->count < 0 || counted->count != std::floor(counted->count)) {
    return std::nullopt;
  }
  if (counted->unit == "update" || counted->unit == "updates") return Span{Unit::kUpdates, counted->count};
  if (counted->unit == "sample" || counted->unit == "samples") return Span{Unit::kSamples, counted->count};
  if (counted->unit.empty() && counted->count == 0) return Span{};
  return std::nullopt;
}

std::string Span::text() const {
  if (unit == Unit::kFraction) return shortest(count * 100) + "%";
  if (count == 0) return "0 updates";
  const char* const word = unit == Unit::kUpdates ? " update" : " sample";
  return cat(shortest(count), word, count == 1 ? "" : "s");
}

}  // namespace autotrain
