#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace autotrain {

/// Opens /dev/null as whichever of standard input, output and error is closed, so that no file of this
/// program gets that number, and with it what is printed.
void fill_standard_descriptors();

/// The descriptor itself, or in its place a copy with a number above standard error's: a program that closed
/// that and embeds this one still prints there. Keeps a failed call's -1 and `errno`.
int above_standard(int descriptor);

/// Lets this process have as many files open as its hard limit (RLIMIT_NOFILE) allows.
void raise_limit_of_open_files();

/// Whether the error is that of a limit of open files.
bool is_limit_of_open_files(int error);

/// The hint of errors that name such a limit.
inline constexpr const char* kMoreOpenFiles = "raise the limit of open files (ulimit -n)";

/// Throws when a file or folder could not be opened for such an error, which says nothing about it.
/// @throws Error(kInputOutput) naming `path`.
void refuse_limit_of_open_files(const std::filesystem::path& path, int error);

/// Refuses to begin what would stand still half-way for want of open files.
/// @throws Error(kInputOutput) naming `what` where this process may have fewer than `files` open at a time.
void require_open_files(int64_t files, const std::string& what);

}  // namespace autotrain
