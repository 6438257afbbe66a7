#include "base/text.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/c_locale.h"

namespace autotrain {
namespace {

// Damerau–Levenshtein distance in its optimal string alignment form.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::string_view without_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

}  // namespace

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // whose sign says nothing
  std::array<char, 512> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  return std::string(buffer.data(), end.ptr);
}

std::string shortest(double value) {
  std::array<char, 64> buffer;
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-5 && size < 1e15);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::general;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  return std::string(buffer.data(), end.ptr);
}

std::string brief(double value, int digits) {
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits);
  return std::string(buffer.data(), end.ptr);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string join_choices(const std::vector<std::string>& words) {
  if (words.size() < 2) return join(words, "");
  return join({words.begin(), words.end() - 1}, ", ") + " or " + words.back();
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string_view trim(std::string_view text) {
  const char* const blanks = " \t\r\n";
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t at; (at = text.find(separator, start)) != std::string_view::npos; start = at + 1) {
    parts.emplace_back(text.substr(start, at - start));
  }
  parts.emplace_back(text.substr(start));
  return parts;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  for (const std::string& word : split(text, ' ')) {
    if (!lines.empty() && display_width(lines.back()) + 1 + display_width(word) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;  // nobody misspells a key of this length; bounds the work
  if (word.empty() || word.size() > kLongest) return "";
  const size_t allowed = std::max<size_t>(1, word.size() / 3);
  std::string best;
  size_t best_distance = allowed + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

bool parse_integer(std::string_view text, int64_t& value) {
  text = without_plus(text);
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size();
}

bool parse_real(std::string_view text, double& value) {
  text = without_plus(text);
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size() &&
         std::isfinite(value);
}

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongest ? "…\"" : "\"");
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  if (names.size() <= kMost) return join(names, ", ");
  return cat(join({names.begin(), names.begin() + kMost}, ", "), " and ", names.size() - kMost, " more");
}

bool matches_pattern(const std::string& name, const std::string& pattern) {
  const CLocaleScope bytes;  // of which "?" then is one
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace autotrain
