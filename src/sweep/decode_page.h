#pragma once

#include <filesystem>
#include <vector>

#include "report/page.h"
#include "sweep/decode.h"

namespace autotrain {

/// Every batch and context with its times, bytes and bound.
page::Table decode_cells(const DecodeVariant& variant);

/// Static beside continuous batches, a row for each variant of which they are known.
page::Table batching_cells(const DecodeSweep& sweep);

page::Page decode_page(const DecodeSweep& sweep);

/// Writes decode.json, decode.csv and report.html. @return the files.
std::vector<std::filesystem::path> write_decode(const DecodeSweep& sweep,
                                                const std::filesystem::path& folder);

/// Whether a folder holds a sweep of decoding.
bool is_decode_folder(const std::filesystem::path& folder);

/// Writes the files anew from decode.json. @throws Error(kBadData) when it is none.
std::vector<std::filesystem::path> draw_decode(const std::filesystem::path& folder);

}  // namespace autotrain
