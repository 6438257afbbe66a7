#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace autotrain {

/// Columns of the terminal that help is written for.
constexpr size_t kHelpWidth = 80;

/// What a command does, how it is called, what it takes, and its footer as it is.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

/// A name and its sentence, wrapped beside it, `column` columns from the left.
std::string help_row(const std::string& name, const std::string& sentence, size_t column);

}  // namespace autotrain
