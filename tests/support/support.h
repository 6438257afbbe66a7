#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "autotrain/error.h"

namespace autotrain::test {

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  /// Writes a file, making its folders.
  std::filesystem::path write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

/// The Error that `action` throws; fails the test when it throws none.
Error expect_error(ExitCode code, const std::function<void()>& action);

/// Whether `text` holds `part`, with both in the message when not.
testing::AssertionResult holds(const std::string& text, const std::string& part);

/// Whether every case is asked for (AUTOTRAIN_SOAK=1), not only a part that takes seconds.
bool soaking();

/// Returns once `condition` holds, which it asks every millisecond. @throws std::runtime_error after ten
/// minutes, which only something that hangs can need.
void wait_until(const std::function<bool()>& condition);

/// The content of a file.
std::string slurp(const std::filesystem::path& path);

}  // namespace autotrain::test
