#include "data/held_tokens.h"

#include <algorithm>
#include <cstring>

#include "autotrain/error.h"

namespace autotrain {
namespace {

constexpr int64_t kChunk = 1 << 20;  // tokens that are held together or not at all

// Calls `use` with a value of the unsigned type that takes so many bytes.
template <class Use>
void with_token_type(int64_t bytes, Use use) {
  switch (bytes) {
    case 1: return use(uint8_t{});
    case 2: return use(uint16_t{});
    default: return use(uint32_t{});
  }
}

}  // namespace

int64_t HeldTokens::token_bytes() const {
  if (vocabulary() <= 1 << 8) return 1;
  return vocabulary() <= 1 << 16 ? 2 : 4;
}

int64_t HeldTokens::ram_bytes() const {
  return bytes_.empty() ? size() * token_bytes() : 0;
}

bool HeldTokens::holds(int64_t first, int64_t count) const {
  if (held_.empty()) return false;
  const auto begin = held_.begin() + first / kChunk, end = held_.begin() + (first + count - 1) / kChunk + 1;
  return std::find(begin, end, 0) == end;
}

void HeldTokens::read(int64_t first, int64_t count, int64_t* out) const {
  if (count == 0) return;
  if (!holds(first, count)) return source_->read(first, count, out);
  with_token_type(token_bytes(), [&]<class Token>(Token token) {
    const uint8_t* from = bytes_.data() + first * static_cast<int64_t>(sizeof(Token));
    for (int64_t i = 0; i < count; ++i, from += sizeof(Token)) {
      std::memcpy(&token, from, sizeof(Token));
      out[i] = static_cast<int64_t>(token);
    }
  });
}

void HeldTokens::hold(const PreloadWork& work) {
  bytes_.resize(static_cast<size_t>(size() * token_bytes()));
  held_.assign(static_cast<size_t>((size() + kChunk - 1) / kChunk), 0);
  visit_all(static_cast<int64_t>(held_.size()), work, [this](int64_t chunk) { hold_chunk(chunk); });
}

void HeldTokens::hold_chunk(int64_t chunk) {
  const int64_t first = chunk * kChunk, count = std::min(kChunk, size() - first);
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  try {
    source_->read(first, count, tokens.data());
  } catch (const Error&) {
    return;
  }
  with_token_type(token_bytes(), [&]<class Token>(Token token) {
    uint8_t* to = bytes_.data() + first * static_cast<int64_t>(sizeof(Token));
    for (const int64_t value : tokens) {
      token = static_cast<Token>(value);
      std::memcpy(to, &token, sizeof(Token));
      to += sizeof(Token);
    }
  });
  held_[static_cast<size_t>(chunk)] = 1;
}

}  // namespace autotrain
