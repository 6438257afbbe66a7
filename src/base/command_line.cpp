#include "base/command_line.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "base/files.h"
#include "base/text.h"

namespace autotrain {

std::vector<std::string> own_command_line() {
  std::vector<std::string> words = split(read_file("/proc/self/cmdline"), '\0');
  if (!words.empty() && words.back().empty()) words.pop_back();
  return words;
}

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string own_command() {
  std::vector<std::string> words;
  for (const std::string& word : own_command_line()) words.push_back(shell_word(word));
  if (!words.empty()) words[0] = std::filesystem::path(words[0]).filename().string();
  return join(words, " ");
}

std::string utc_date() {
  using namespace std::chrono;
  const auto now = floor<minutes>(system_clock::now());
  const auto today = floor<days>(now);
  const year_month_day date(today);
  const hh_mm_ss time(now - today);
  const auto two = [](auto number) { return cat(number < 10 ? "0" : "", number); };
  return cat(static_cast<int>(date.year()), "-", two(static_cast<unsigned>(date.month())), "-",
             two(static_cast<unsigned>(date.day())), " ", two(time.hours().count()), ":",
             two(time.minutes().count()), " UTC");
}

}  // namespace autotrain
