#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace autotrain {

/// A rank's text as it is added to the end of one value of a store, in which those of all ranks gather.
std::vector<uint8_t> gathered_part(int64_t rank, const std::string& text);

/// The texts in such a value, by rank. What follows a part that nobody of these ranks has written is left
/// out.
std::map<int64_t, std::string> read_gathered(const std::vector<uint8_t>& value, int64_t world);

}  // namespace autotrain
