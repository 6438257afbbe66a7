#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "autotrain/recipe.h"

namespace autotrain {

/// Tells whether a file or folder is what it was: "6,812 bytes, 3f29…". Of a file up to 64 MiB all bytes
/// count, of a longer one its ends; of a folder the names and sizes of all files in it that are not hidden,
/// and all bytes where these are up to 64 MiB.
/// @throws Error(kInputOutput) when it cannot be read.
std::string fingerprint_of(const std::filesystem::path& path);

/// Whether it is of all bytes, so that who has it holds the same, and not of the same names and sizes.
bool tells_every_byte(const std::string& fingerprint);

/// Those of every file and folder that the parameters of a data set name, by the texts that name them there:
/// paths, patterns of files and "name=path" of several inputs.
std::map<std::string, std::string> fingerprints_of_data(const Choice& choice);

/// The same in one text; "" where they name none.
std::string fingerprint_of_data(const Choice& choice);

/// The file of a run's training data by whose rows all its data are read: which columns, categories and
/// classes there are, and the mean and deviation of each. "": its data are not read by any.
std::string file_read_by(const Choice& training);

}  // namespace autotrain
