#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compress/compress.h"
#include "report/page.h"

namespace autotrain {

/// A row for each method that is for this model.
page::Table table_of(const CompressionResult& result);

/// What is to be said beside it: of which samples figures are, what was left whole, what was refused.
std::vector<std::string> sentences_of(const CompressionResult& result);

/// What came of it, as a table for people with sentences below, as docs/formats.md describes the JSON, and as
/// CSV with a row for each method.
std::string to_text(const CompressionResult& result);
nlohmann::ordered_json to_json(const CompressionResult& result);
std::string to_csv(const CompressionResult& result);

}  // namespace autotrain
