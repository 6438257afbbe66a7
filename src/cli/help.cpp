#include "cli/help.h"

#include "base/text.h"

namespace autotrain {
namespace {

constexpr size_t kOptionColumn = 26;

// "N" of "INT:INT in [1 - 9]", whose range is an error's to tell, and "a|b" of "TEXT:{a,b}".
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (const size_t begin = type.find('{'); begin != std::string::npos)
    return join(split(type.substr(begin + 1, type.find('}') - begin - 1), ','), "|");
  const std::string name = type.substr(0, type.find(':'));
  return name == "INT" ? "N" : name == "FLOAT" ? "X" : name;
}

std::string option_label(const CLI::Option& option) {
  if (option.get_positional()) return value_name(option);
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return join(names, ", ") + (option.get_type_size() == 0 ? "" : " " + value_name(option));
}

// "--run DIR", or "RECIPE…" of a positional one.
std::string usage_of(const CLI::Option& option) {
  const std::string name = option.get_positional() ? "" : option.get_name() + " ";
  return name + value_name(option);
}

std::string usage_line(const CLI::App& app) {
  std::string line = cat("Usage: ", app.get_parent()->get_name(), " ", app.get_name());
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required()) line += " " + usage_of(*option);
  }
  return line + " [OPTIONS]\n";
}

std::string option_rows(const CLI::App& app) {
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const std::string preset = option->get_default_str();
    rows +=
        help_row(option_label(*option),
                 option->get_description() + (preset.empty() ? "" : "; default: " + preset), kOptionColumn);
  }
  return rows;
}

}  // namespace

std::string help_row(const std::string& name, const std::string& sentence, size_t column) {
  std::string rows = "  " + name;
  bool beside = display_width(rows) + 2 <= column;
  for (const std::string& line : wrap(sentence, kHelpWidth - column)) {
    rows += beside ? std::string(column - display_width(rows), ' ') : "\n" + std::string(column, ' ');
    rows += line;
    beside = false;
  }
  return rows + "\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  std::string help;
  for (const std::string& line : wrap(app->get_description(), kHelpWidth)) help += line + "\n";
  if (app->get_parent() != nullptr) help += cat("\n", usage_line(*app), "\nOptions:\n", option_rows(*app));
  return help + app->get_footer();
}

}  // namespace autotrain
