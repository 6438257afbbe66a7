#include "step/loss_terms.h"

#include <string_view>

#include "base/text.h"
#include "device/failure.h"

namespace autotrain {
namespace {

constexpr const char* kWhere = "model";
constexpr std::string_view kProblem = "normalises single values";

}  // namespace

LossTerms loss_terms(Task& task, const Batch& batch) {
  try {
    return task.loss(batch);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    const size_t at = text.find("Expected more than 1 ");
    if (at == std::string_view::npos) throw;
    throw Error(ExitCode::kBadRecipe, kWhere,
                cat(kProblem, ", of which there are no statistics: ", first_line(text.substr(at))),
                "batch normalisation needs more samples at a time (batch.effective, execution.micro_batch), "
                "instance and group normalisation larger maps");
  }
}

bool is_of_single_values(const Error& error) {
  return error.where() == kWhere && error.problem().starts_with(kProblem);
}

}  // namespace autotrain
