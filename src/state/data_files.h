#pragma once

#include <filesystem>
#include <string>

#include "state/identity.h"

namespace autotrain {

/// The name of the fact that says what a file or folder of a run's data was, by its path in the recipe.
std::string fact_of_file(const std::string& path);

/// The path that such a fact is about; "": it is about something else.
std::string file_of_fact(const std::string& fact);

/// The facts of files alone. Those of samples change with keys of the recipe; these never do.
Identity files_in(const Identity& identity);

/// Tells what a file of weights holds, or all files of an index, as fingerprint_of does.
/// @throws Error as that, and as the index does.
std::string fingerprint_of_weights(const std::filesystem::path& named);

}  // namespace autotrain
