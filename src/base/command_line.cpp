#include "base/command_line.h"

#include <algorithm>
#include <array>
#include <ctime>
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
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts)};
}

}  // namespace autotrain
