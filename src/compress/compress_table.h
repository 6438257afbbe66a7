#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compress/compress.h"

namespace autotrain {

/// What came of it, as a table for people with sentences below, as docs/formats.md describes the JSON, and as
/// CSV with a row for each method.
std::string to_text(const CompressionResult& result);
nlohmann::ordered_json to_json(const CompressionResult& result);
std::string to_csv(const CompressionResult& result);

}  // namespace autotrain
