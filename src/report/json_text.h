#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace autotrain {

/// As indented text with a last newline. Bytes that are no UTF-8, as paths and messages of the system may
/// have, become U+FFFD instead of an exception.
inline std::string text_of_json(const nlohmann::ordered_json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace autotrain
