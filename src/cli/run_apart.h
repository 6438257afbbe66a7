#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace autotrain {

/// Does a part of a command's work, such as its "range test", in a process of its own that stops with this
/// one.
/// @param work its result is the exit code.
/// @param log  gets what the process prints; empty: the terminal.
/// @throws Error that the work threw; kInterrupted after a signal; where the process ended in another way
/// than with 0, one about `where`.
void run_apart(const char* command, const std::string& where, const std::string& part,
               const std::function<int()>& work, const std::filesystem::path& log = {});

}  // namespace autotrain
