#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "autotrain/error.h"
#include "autotrain/program.h"

namespace {

// Runs before shared libraries are initialised: those of LibTorch end the process, in words about a library
// of theirs, where the working folder was removed. Nothing of C++ is ready yet.
void check_working_folder(int, char**, char**) {
  constexpr std::string_view kTold =
      "error: the working directory: is not there any more: it was removed\n"
      "  try: cd into a folder that is there\n";
  std::array<char, PATH_MAX> path{};
  if (::getcwd(path.data(), path.size()) != nullptr || errno != ENOENT) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kTold.data(), kTold.size());
  ::_exit(static_cast<int>(autotrain::ExitCode::kMissingFile));
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const first_of_all)(int, char**,
                                                                         char**) = check_working_folder;

}  // namespace

int main(int argc, char** argv) {
  const int code = autotrain::run_main(argc, argv);
  std::fflush(nullptr);
  // LibTorch would take its registries of operators apart, for a quarter of a second of every command.
  std::_Exit(code);
}
