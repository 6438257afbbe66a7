#pragma once

#include <memory>
#include <vector>

#include "data/preload.h"
#include "data/windows.h"

namespace autotrain {

/// A token source that can be held in memory, each token in as few bytes as the vocabulary needs.
class HeldTokens final : public TokenSource {
 public:
  explicit HeldTokens(std::unique_ptr<const TokenSource> source) : source_(std::move(source)) {}

  int64_t size() const override { return source_->size(); }
  int64_t vocabulary() const override { return source_->vocabulary(); }
  void read(int64_t first, int64_t count, int64_t* out) const override;

  int64_t ram_bytes() const;

  /// Must not be called while other threads `read`. A file that cannot be read stays an error of who asks for
  /// it.
  void hold(const PreloadWork& work);

 private:
  int64_t token_bytes() const;
  bool holds(int64_t first, int64_t count) const;
  void hold_chunk(int64_t chunk);

  std::unique_ptr<const TokenSource> source_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> held_;  // whether each chunk is; bytes, since threads write it
};

}  // namespace autotrain
