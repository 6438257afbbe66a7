#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "compare/compare_columns.h"
#include "report/csv_file.h"

namespace autotrain {
namespace {

std::string number_in(const std::map<std::string, double>& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? "" : csv_number(found->second);
}

std::string text_in(const nlohmann::ordered_json& plan, const char* key) {
  if (!plan.contains(key)) return "";
  return plain_text(plan.at(key));
}

std::set<std::string> figures_in(const Comparison& c) {
  std::set<std::string> names;
  for (const RunOutcome& run : c.runs) {
    if (run.curve.empty()) continue;
    for (const auto& [name, value] : run.curve.back().figures) names.insert(name);
  }
  return names;
}

std::vector<std::string> header_of(const Comparison& c, const std::set<std::string>& figures) {
  std::vector<std::string> header = {"recipe", "seed", "share", "code", "failure"};
  for (const DifferingKey& axis : c.terms.axes) header.push_back(axis.path);
  for (const PlanColumn& column : kPlanColumns) header.emplace_back(column.key);
  for (std::string& name : csv_header(run_columns())) header.push_back(std::move(name));
  for (const std::string& name : figures) header.push_back("final_" + name);
  for (const std::string& name : figures) header.push_back("training_set_" + name);
  for (const SharpnessFigure& figure : sharpness_figures())
    header.push_back(std::string("sharpness_") + figure.name);
  return header;
}

}  // namespace

std::string comparison_to_csv(const Comparison& c) {
  const std::set<std::string> figures = figures_in(c);
  const std::vector<std::string> header = header_of(c, figures);
  std::string text = csv_line(header);
  for (const RunOutcome& run : c.runs) {
    const auto recipe =
        static_cast<size_t>(std::ranges::find(c.terms.recipes, run.recipe) - c.terms.recipes.begin());
    std::vector<std::string> cells = {run.recipe, cat(run.seed), csv_number(run.share), cat(run.code),
                                      run.failure.empty() ? run.unfinished : run.failure};
    for (const DifferingKey& axis : c.terms.axes)
      cells.push_back(recipe < axis.values.size() ? axis.values[recipe] : "");
    for (const PlanColumn& column : kPlanColumns) cells.push_back(text_in(run.plan, column.key));
    if (!run.curve.empty()) {
      for (std::string& cell : csv_cells(run_columns(), {c, run})) cells.push_back(std::move(cell));
      for (const std::string& name : figures) cells.push_back(number_in(run.curve.back().figures, name));
      for (const std::string& name : figures) cells.push_back(number_in(run.training_set, name));
      for (const SharpnessFigure& figure : sharpness_figures())
        cells.push_back(run.sharpness ? csv_number(figure.of(*run.sharpness)) : "");
    }
    cells.resize(header.size());
    text += csv_line(cells);
  }
  return text;
}

}  // namespace autotrain
