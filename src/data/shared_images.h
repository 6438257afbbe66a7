#pragma once

#include <filesystem>
#include <vector>

#include "data/file_names.h"
#include "data/image_survey.h"

namespace autotrain {

/// Image files by their names below a folder.
struct NamedImages {
  std::filesystem::path folder;
  const FileNames& names;
};

/// Doubts other data than the training data of which images that were seen are among the training data, too:
/// files of the same name with the same bytes.
/// @param seen of the own images, by their numbers there.
void doubt_shared_images(const std::vector<SeenImage>& seen, const NamedImages& own,
                         const NamedImages& training, const LookOptions& options, DataLook& look);

}  // namespace autotrain
