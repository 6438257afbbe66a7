#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "data/datasets.h"
#include "recipe/keys.h"

namespace autotrain {

/// What the data sets of sequences share: files read end to end, cut into windows of tokens.

/// The files that `patterns` match, in this order; the matches of one pattern are sorted. A file that is
/// named again, by a pattern, too, or by a symbolic link, is there once: one that were read twice would be on
/// both sides of a split.
/// @throws Error(kBadRecipe) when there is no pattern, Error(kMissingFile) when one matches no file.
std::vector<std::filesystem::path> matching_files(const std::string& dataset,
                                                  const std::vector<std::string>& patterns);

/// Doubts files that are named more than once, files of validation data that are training data, too, unless
/// each reads its own part of them by `split`, and other files of which `split` leaves a part out. Both data
/// sets have the keys `files`, `split` and `validation_share`.
void doubt_files(const LookRequest& request, DataLook& look);

/// Which file holds which items of files that are read end to end.
class FileSpans {
 public:
  /// The next file has so many items.
  void add(int64_t items) { ends_.push_back(this->items() + items); }
  int64_t items() const { return ends_.empty() ? 0 : ends_.back(); }

  /// Calls `visit(file, at, count)` for the pieces of [first, first + count), which must be below items():
  /// `count` items of the file number `file`, from its item `at` on.
  template <class Visit>
  void for_each_piece(int64_t first, int64_t count, Visit visit) const {
    auto end = std::upper_bound(ends_.begin(), ends_.end(), first);
    for (; count > 0; ++end) {
      const int64_t start = end == ends_.begin() ? 0 : *(end - 1);
      const int64_t take = std::min(count, *end - first);
      if (take > 0) visit(static_cast<size_t>(end - ends_.begin()), first - start, take);
      first += take, count -= take;
    }
  }

 private:
  std::vector<int64_t> ends_;
};

/// A long sequence of tokens. `read` is called from several threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;        ///< in tokens
  virtual int64_t vocabulary() const = 0;  ///< every token that `read` gives is in [0, vocabulary())

  /// Writes the tokens [first, first + count), below size(), to `out`.
  /// @throws Error(kBadData) with file and offset.
  virtual void read(int64_t first, int64_t count, int64_t* out) const = 0;
};

/// The keys of the data sets made by make_windows; `unit` is "bytes" or "tokens".
std::vector<KeySpec> window_keys(const std::string& unit);

/// Sample i has as input the `context` tokens from first + i × stride on, and as target those one later.
/// @throws Error(kBadData) when the split that is asked for has less than one window.
std::unique_ptr<Dataset> make_windows(const std::string& dataset, const std::string& unit,
                                      const Parameters& parameters,
                                      std::unique_ptr<const TokenSource> source);

}  // namespace autotrain
