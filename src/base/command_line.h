#pragma once

#include <string>
#include <vector>

namespace autotrain {

/// The words that this process was started with, the program's name first. @throws Error(kInputOutput).
std::vector<std::string> own_command_line();

/// A word as a shell reads it, in quotes where it has to be.
std::string shell_word(const std::string& text);

/// The command line of this process as one would type it.
std::string own_command();

/// The time now in UTC, to the minute: "2026-11-27 19:30 UTC".
std::string utc_date();

}  // namespace autotrain
