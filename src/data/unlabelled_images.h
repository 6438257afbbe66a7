#pragma once

#include <filesystem>
#include <memory>

#include "autotrain/data.h"
#include "autotrain/recipe.h"

namespace autotrain {

/// The JPEG and PNG files in `root`, as deep in folders as they lie, by their paths below it, or the one file
/// that it is: samples without labels, made as the samples of another data set are.
/// @param like    that data set in a recipe.
/// @param samples the same, as it was made.
/// @throws Error(kBadRecipe) when the other's samples are no images, or none that files could stand for;
/// Error(kMissingFile, kBadData) as the files are found.
std::unique_ptr<Dataset> make_unlabelled_images(const std::filesystem::path& root, const Choice& like,
                                                const Dataset& samples);

}  // namespace autotrain
