#pragma once

#include <string>

namespace autotrain {

/// Refuses the data where a user's model met an index that its tables do not have: indices come from the
/// data, as tokens beyond the vocabulary, -1 as padding, or targets that are no classes.
/// @param where in the model: "operator 3 of the model file, aten::embedding".
/// @param reason of LibTorch, one line.
/// @throws Error(kBadData) where it is such an error.
void refuse_index(const std::string& reason, const std::string& where);

}  // namespace autotrain
