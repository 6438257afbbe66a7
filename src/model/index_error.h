#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace autotrain {

/// Where a user's model met an index that its tables do not have, says so as of the data, whence indices come:
/// tokens beyond the vocabulary, -1 as padding, targets that are no classes.
/// @param where in the model: "operator 3 of the model file, aten::embedding".
/// @throws Error(kBadData) in the place of such an error; of others nothing.
void refuse_index(const c10::Error& error, const std::string& where);

}  // namespace autotrain
