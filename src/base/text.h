#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/without_locale.h"

namespace autotrain {

/// The arguments, printed one after the other, without a locale as everything here.
template <class... Parts>
std::string cat(const Parts&... parts) {
  WithoutLocale<std::ostringstream> out;
  (out << ... << parts);
  return out.str();
}

/// `value` with `digits` decimals: `fixed(0.8125, 2)` is "0.81".
std::string fixed(double value, int digits);

/// `value` in the fewest digits that read back as the same number: "0.001", "1e-08", "3".
std::string shortest(double value);

/// `value` for people, in at most `digits` significant digits: `brief(0.00059292, 4)` is "0.0005929".
std::string brief(double value, int digits = 4);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// "a, b or c".
std::string join_choices(const std::vector<std::string>& words);

std::string_view trim(std::string_view text);

/// Without the mark of UTF-8 that editors of Windows begin files with.
std::string_view without_byte_order_mark(std::string_view text);

/// What stands before the first end of a line.
std::string first_line(std::string_view text);

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Whether it is one of A to Z and a to z.
constexpr bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// With the letters A to Z in lower case; other bytes as they are.
std::string lower(std::string_view text);

/// The pieces of `text` between separators; "a..b" split at '.' is {"a", "", "b"}.
std::vector<std::string> split(std::string_view text, char separator);

/// The first eight of the names, for a message, and how many more there are.
std::string some_of(const std::vector<std::string>& names);

/// Whether a name matches a pattern of the shell's kind: * stands for any letters, dots among them, ? for
/// one.
bool matches_pattern(const std::string& name, const std::string& pattern);

/// How many columns of a terminal a UTF-8 text takes, of characters that take one each.
size_t display_width(std::string_view text);

/// The words of `text` on lines of at most `width` columns; a longer word has a line to itself.
std::vector<std::string> wrap(std::string_view text, size_t width);

/// The candidate nearest to `word` in edit distance (insert, delete, replace, swap neighbours),
/// or "" when none is near enough to be a likely slip.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The whole text as a finite number, or false. Accepts what a person writes: "1e-3", "+5"; refuses "1_000",
/// "inf" and "nan".
bool parse_integer(std::string_view text, int64_t& value);
bool parse_real(std::string_view text, double& value);

/// Text with control characters made visible and long text cut, to be quoted in a message.
std::string quote(std::string_view text);

}  // namespace autotrain
