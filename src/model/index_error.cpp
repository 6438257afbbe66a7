#include "model/index_error.h"

#include <array>
#include <string_view>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {

void refuse_index(const std::string& reason, const std::string& where) {
  constexpr std::array<std::string_view, 4> kWords = {"out of range", "out of bounds", "out-of-bounds",
                                                      "Class values must be"};  // the last of one_hot
  for (const std::string_view words : kWords) {
    if (reason.find(words) == std::string::npos) continue;
    throw Error(
        ExitCode::kBadData, "data",
        cat("the model met an index that it has no place for: ", reason, " (", where, ")"),
        "look for whole numbers below 0, as padding is written, or beyond the model's tables: tokens of "
        "another vocabulary, targets that are none of the classes");
  }
}

}  // namespace autotrain
