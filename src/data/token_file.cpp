#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "autotrain/error.h"
#include "base/text.h"
#include "data/file_kinds.h"

namespace autotrain {
namespace {

constexpr size_t kLookedAt = 1 << 16;  // tokens
constexpr size_t kFewest = 64;         // tokens that show how they were written

uint64_t number_at(std::span<const uint8_t> bytes, size_t at, size_t width, bool swapped) {
  uint64_t number = 0;
  for (size_t i = 0; i < width; ++i) number |= uint64_t{bytes[at + i]} << 8 * (swapped ? width - 1 - i : i);
  return number;
}

// The first numbers of a file in a width and an order that it may have been written in.
std::vector<uint64_t> numbers(std::span<const uint8_t> bytes, size_t width, bool swapped = false) {
  std::vector<uint64_t> all(std::min(bytes.size() / width, kLookedAt));
  for (size_t i = 0; i < all.size(); ++i) all[i] = number_at(bytes, i * width, width, swapped);
  return all;
}

[[noreturn]] void fail(const TokenFile& file, const std::string& what, const std::string& cure) {
  throw Error(ExitCode::kBadData, file.path.string(), what, cure);
}

// ------------------------------------------------------------------ tokens that are wider

constexpr uint64_t kMostHigh = 15;  // of a token's high half: a vocabulary of a million has no more

// Whether each number that stands at `at` of `of` is small, which no language makes its tokens be.
bool all_small(const std::vector<uint64_t>& all, size_t at, size_t of, uint64_t most) {
  for (size_t i = at; i < all.size(); i += of) {
    if (all[i] > most) return false;
  }
  return true;
}

bool any_above(const std::vector<uint64_t>& all, size_t at, size_t of, uint64_t bound) {
  return !all_small(all, at, of, bound);
}

void refuse_wider(const TokenFile& file) {
  const auto width = static_cast<size_t>(file.token_bytes);
  if (file.bytes.size() % (2 * width) != 0) return;
  const std::vector<uint64_t> all = numbers(file.bytes, width);
  if (all.size() < kFewest) return;
  const bool zeros = all_small(all, 1, 2, 0) && any_above(all, 0, 2, 0);
  const bool small = all_small(all, 1, 2, kMostHigh) && any_above(all, 0, 2, 256);
  const bool eight = width == 2 && all_small(all, 2, 4, 0) && zeros;
  if (zeros || small) {
    const size_t wide = width == 4 || eight ? 8 : 4;
    fail(file,
         cat("every second token of ", width, " bytes is ", zeros ? "0" : cat("at most ", kMostHigh),
             ": the file holds tokens of ", wide, " bytes"),
         wide == 4
             ? "set dtype: uint32"
             : "write it again: numpy.fromfile(path, 'int64').astype('uint32').tofile(path), with dtype: "
               "uint32");
  }
  if (!all_small(all, 0, 2, 0) || !any_above(all, 1, 2, 0)) return;
  fail(file, cat("every other token of ", width, " bytes is 0: the file holds wider tokens, big endian"),
       "write it again: numpy.fromfile(path, '>u4').astype('<u4').tofile(path), with dtype: uint32");
}

// ------------------------------------------------------------------ tokens beyond the vocabulary

bool all_below(const std::vector<uint64_t>& all, uint64_t bound) {
  return std::ranges::all_of(all, [&](uint64_t number) { return number < bound; });
}

// Where most are beyond the vocabulary, another width or order may explain them.
void refuse_other_types(const TokenFile& file) {
  const auto width = static_cast<size_t>(file.token_bytes);
  const auto vocabulary = static_cast<uint64_t>(file.vocabulary);
  const std::vector<uint64_t> all = numbers(file.bytes, width);
  const auto beyond = std::ranges::count_if(all, [&](uint64_t number) { return number >= vocabulary; });
  if (all.size() < kFewest || 2 * beyond < std::ssize(all)) return;
  const std::string most = cat(beyond, " of the first ", all.size(), " tokens of ", width,
                               " bytes are not below the vocabulary of ", vocabulary);
  if (all_below(numbers(file.bytes, width, /*swapped=*/true), vocabulary)) {
    fail(file, cat(most, ": the file is big endian"),
         cat("write it again: numpy.fromfile(path, '>u", width, "').astype('<u", width, "').tofile(path)"));
  }
  if (width == 4 && all_below(numbers(file.bytes, 2), vocabulary))
    fail(file, cat(most, ": the file holds tokens of 2 bytes, or none"),
         "set dtype: uint16 if it was written so; numbers of another type are to be written as uint32");
  if (vocabulary <= 256 && all_below(numbers(file.bytes, 1), vocabulary)) {
    fail(file, cat(most, ": the file holds tokens of 1 byte"),
         "write it again: numpy.fromfile(path, 'uint8').astype('uint16').tofile(path)");
  }
}

double bits_of(const std::array<int64_t, 256>& counts, int64_t all) {
  double bits = 0;
  for (const int64_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(all);
    if (count > 0) bits -= share * std::log2(share);
  }
  return bits;
}

}  // namespace

void check_token_file(const TokenFile& file) {
  if (const FileKind kind = kind_of_file(file.bytes); !kind.name.empty())
    fail(file, cat("is ", kind.name, ", not plain tokens"), kind.cure);
  if (const FileKind encoding = encoding_of_text(file.bytes); encoding.name.starts_with("UTF"))
    fail(file, cat("is text in ", encoding.name, ", not tokens"),
         encoding.cure + ", and set dataset: text; or write the tokenizer's numbers to a file");
  if (is_text(file.bytes.first(std::min(file.bytes.size(), kLookedAt))))
    fail(file, "is text, not tokens", "set dataset: text, or write the tokenizer's numbers to a file");
  refuse_wider(file);
  refuse_other_types(file);
}

bool looks_swapped(const TokenFile& file) {
  constexpr size_t kEnough = 4096;
  const auto width = static_cast<size_t>(file.token_bytes);
  const size_t count = std::min(file.bytes.size() / width, kLookedAt);
  if (width != 2 || count < kEnough) return false;
  std::array<int64_t, 256> low{}, high{};
  for (size_t i = 0; i < count; ++i) ++low[file.bytes[2 * i]], ++high[file.bytes[2 * i + 1]];
  const auto all = static_cast<int64_t>(count);
  return bits_of(high, all) > bits_of(low, all) + 1;
}

}  // namespace autotrain
