#include "compare/compare_exports.h"

#include <set>

#include "base/text.h"
#include "compare/compare_tables.h"
#include "report/csv_file.h"

namespace autotrain {
namespace {

// Text with what means something to the format in its stead.
std::string escaped(const std::string& text, std::string (*in_place_of)(char c)) {
  std::string out;
  for (const char c : text) out += in_place_of(c);
  return out;
}

std::string in_markdown(char c) {
  switch (c) {
    case '|':
    case '\\':
    case '`':
    case '*':
    case '_':
    case '<':
    case '[': return std::string("\\") + c;
    case '\n': return " ";
    default: return std::string(1, c);
  }
}

std::string in_latex(char c) {
  switch (c) {
    case '&':
    case '%':
    case '$':
    case '#':
    case '_':
    case '{':
    case '}': return std::string("\\") + c;
    case '~': return "\\textasciitilde{}";
    case '^': return "\\textasciicircum{}";
    case '\\': return "\\textbackslash{}";
    case '<': return "\\textless{}";
    case '>': return "\\textgreater{}";
    case '\n': return " ";
    default: return std::string(1, c);
  }
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + by.size()))
    text.replace(at, part.size(), by);
  return text;
}

// Signs that LaTeX's fonts for text do not have.
std::string latex_text(const std::string& text) {
  std::string out = escaped(text, in_latex);
  for (const auto& [sign, command] : {std::pair("±", "$\\pm$"),
                                      {"−", "$-$"},
                                      {"×", "$\\times$"},
                                      {"≤", "$\\leq$"},
                                      {"≥", "$\\geq$"},
                                      {"µ", "$\\mu$"},
                                      {"→", "$\\to$"},
                                      {"÷", "$\\div$"}})
    out = replaced(out, sign, command);
  return out;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += cat(" ", escaped(cell, in_markdown), " |");
  return row + "\n";
}

std::string latex_row(const std::vector<std::string>& cells) {
  std::vector<std::string> parts;
  for (const std::string& cell : cells) parts.push_back(latex_text(cell));
  return join(parts, " & ") + " \\\\\n";
}

// "Written 2026-11-27 19:30 UTC by autotrain 0.1.0: autotrain compare …"; "": not known.
std::string made_by(const Provenance& made) {
  if (made.date.empty()) return "";
  return cat("Written ", made.date, " by autotrain ", made.program,
             made.command.empty() ? "" : cat(": ", made.command));
}

}  // namespace

std::string comparison_to_markdown(const Comparison& c) {
  std::string text;
  for (const std::string& note : notes_of(c)) text += cat(escaped(note, in_markdown), "\n\n");
  for (const page::Table& table : tables_of(c)) {
    text += cat("**", escaped(table.title, in_markdown), "**\n\n", markdown_row(table.header), "|");
    for (size_t i = 0; i < table.header.size(); ++i) text += " --- |";
    text += "\n";
    for (const auto& row : table.rows) text += markdown_row(row);
    text += "\n";
  }
  if (const std::string made = made_by(c.terms.provenance); !made.empty())
    text += cat(escaped(made, in_markdown), "\n");
  return text;
}

std::string comparison_to_latex(const Comparison& c) {
  std::string text = "% \\usepackage{booktabs}\n";
  if (const std::string made = made_by(c.terms.provenance); !made.empty()) text += cat("% ", made, "\n");
  for (const page::Table& table : tables_of(c)) {
    text +=
        cat("\n\\begin{table}\n\\centering\n\\caption{", latex_text(table.title), "}\n\\begin{tabular}{",
            std::string(table.header.size(), 'l'), "}\n\\toprule\n", latex_row(table.header), "\\midrule\n");
    for (const auto& row : table.rows) text += latex_row(row);
    text += "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
  }
  return text;
}

std::string curves_to_csv(const Comparison& c) {
  std::set<std::string> figures;
  for (const RunOutcome& run : c.runs) {
    for (const CurvePoint& point : run.curve) {
      for (const auto& [name, value] : point.figures) figures.insert(name);
    }
  }
  std::vector<std::string> header = {"recipe", "seed", "update", "samples", "seconds", "epoch"};
  header.insert(header.end(), figures.begin(), figures.end());
  std::string text = csv_line(header);
  for (const RunOutcome& run : c.runs) {
    for (const CurvePoint& point : run.curve) {
      std::vector<std::string> cells = {run.recipe,
                                        std::to_string(run.seed),
                                        std::to_string(point.update),
                                        std::to_string(point.samples),
                                        csv_number(point.seconds),
                                        csv_number(point.epoch)};
      for (const std::string& name : figures) {
        const auto found = point.figures.find(name);
        cells.push_back(found == point.figures.end() ? "" : csv_number(found->second));
      }
      text += csv_line(cells);
    }
  }
  return text;
}

}  // namespace autotrain
