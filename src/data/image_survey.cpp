#include "data/image_survey.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/file_sequence.h"
#include "data/low_values.h"
#include "data/preload.h"

namespace autotrain {
namespace {

constexpr int64_t kSeenAtStart = 16;
constexpr int64_t kDark = 64;        // pixels that are decoded small are means, and the largest is above them
constexpr ImageSize kAnySize{1, 1};  // JPEGs are decoded small: their bytes are read all the same

uint64_t hash_of(std::span<const uint8_t> bytes) {
  return fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Whether all pixels are the same.
bool has_one_colour(const DecodedImage& image) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t at = channels; at < image.pixels.size(); ++at) {
    if (image.pixels[at] != image.pixels[at - channels]) return false;
  }
  return true;
}

int64_t largest_value(const DecodedImage& image) {
  return image.pixels.empty() ? 0 : *std::ranges::max_element(image.pixels);
}

void see_pixels(std::span<const uint8_t> file, const std::string& where, const ImageReading& reading,
                SeenImage& seen) {
  const DecodedImage small = decode_image(file, where, kAnySize, reading);
  seen.one_colour = has_one_colour(small);
  seen.largest = largest_value(small);
  if (seen.facts.bits == 16) seen.widest = small.largest;
  if (seen.one_colour || seen.largest < kDark) {  // what is so when it is decoded small need not be
    const DecodedImage full = decode_image(file, where, kFullSize, reading);
    seen.one_colour = has_one_colour(full);
    seen.largest = largest_value(full);
  }
  if (!seen.facts.alpha) return;
  const auto flat = [&](AlphaUse use) {
    return has_one_colour(decode_image(file, where, kAnySize, {.alpha = use, .bits = reading.bits}));
  };
  seen.alpha_alone = flat(AlphaUse::kDrop) && !(flat(AlphaUse::kWhite) && flat(AlphaUse::kBlack));
}

SeenImage see_image(const ImageList& images, int64_t index) {
  SeenImage seen{.index = index};
  const std::string path = images.path(index);
  try {
    FileSequence sequence({{path}});
    const std::span<const uint8_t> file = sequence.next(path);
    seen.hash = hash_of(file);
    seen.facts = read_image_facts(file, path);
    see_pixels(file, path, images.reading, seen);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadData) throw;
    seen.fault = error.problem();
  }
  return seen;
}

// "PNG 30, JPEG 2", the commonest first.
std::string words_of_counts(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, int64_t>::second);
  std::vector<std::string> words;
  for (const auto& [word, count] : sorted) words.push_back(cat(word, " ", format_count(count)));
  return join(words, ", ");
}

template <class Word>
void tell_counts(const std::vector<SeenImage>& seen, const char* what, Word word, DataLook& look) {
  std::map<std::string, int64_t> counts;
  for (const SeenImage& image : seen) {
    if (image.fault.empty()) ++counts[word(image)];
  }
  if (!counts.empty()) look.facts.emplace_back(what, words_of_counts(counts));
}

std::string words_of(const ImageSize& size) {
  return cat(size.height, " × ", size.width);
}

void tell_sizes(const std::vector<SeenImage>& seen, bool upright, DataLook& look) {
  std::vector<ImageSize> sizes;
  for (const SeenImage& image : seen) {
    if (!image.fault.empty()) continue;
    const bool lies_down = upright && image.facts.orientation >= 5;
    const ImageSize& size = image.facts.size;
    sizes.push_back(lies_down ? ImageSize{size.width, size.height} : size);
  }
  if (sizes.empty()) return;
  std::ranges::sort(sizes, {}, [](const ImageSize& size) {
    return std::tuple{size.height * size.width, size.height, size.width};
  });
  const bool one = sizes.front() == sizes.back();
  look.facts.emplace_back("size (height × width)",
                          one ? cat("all ", words_of(sizes.front()))
                              : cat("least ", words_of(sizes.front()), ", median ",
                                    words_of(sizes[sizes.size() / 2]), ", largest ", words_of(sizes.back())));
}

const char* words_of_alpha(AlphaUse use) {
  switch (use) {
    case AlphaUse::kAuto: return "laid on white, or on black where all of it is white";
    case AlphaUse::kWhite: return "laid on white";
    case AlphaUse::kBlack: return "laid on black";
    case AlphaUse::kDrop: break;
  }
  return "dropped";
}

void tell_special(const std::vector<SeenImage>& seen, const ImageList& images, DataLook& look) {
  const auto count = [&](auto&& is) { return std::ranges::count_if(seen, is); };
  if (const auto n = count([](const SeenImage& s) { return s.facts.alpha; }); n > 0)
    look.facts.emplace_back("alpha", cat(n, " images: ", words_of_alpha(images.reading.alpha)));
  if (const auto n = count([](const SeenImage& s) { return s.facts.orientation != 1; }); n > 0) {
    look.facts.emplace_back(
        "orientation",
        cat(n, " images are stored turned: ", images.reading.upright ? "made upright" : "left so"));
  }
  if (const auto n = count([](const SeenImage& s) { return s.facts.bits == 16; }); n > 0) {
    look.facts.emplace_back("16 bits", cat(n, " images: ", images.reading.bits, " bits used, ",
                                           (int64_t{1} << images.reading.bits) - 1, " becomes 255"));
  }
}

void doubt_image(const SeenImage& image, const ImageList& images, DataLook& look) {
  const std::string path = images.path(image.index);
  if (!image.fault.empty()) {
    look.doubt("images that cannot be read", "mend or remove them, or set data.bad_samples: skip",
               cat(path, ": ", image.fault))
        .stops = true;
    return;
  }
  if (image.alpha_alone && images.reading.alpha == AlphaUse::kDrop) {
    look.doubt("images whose picture is in their alpha, which is dropped", "set alpha: auto", path);
  } else if (image.alpha_alone && image.one_colour) {
    look.doubt("images whose picture is in their alpha, which is lost", "set alpha: auto", path);
  } else if (image.one_colour) {
    look.doubt("images of a single colour", "look at them: they show nothing", path);
  }
  if (image.facts.unmarked_inks) {
    look.doubt("images in inks (CMYK) that are not marked as Adobe's",
               "look at them: they are read as inverted, as most are; convert them to RGB otherwise", path);
  }
}

// Masks that were saved as images of 0 and 1, and the like.
void doubt_values(const std::vector<SeenImage>& seen, const ImageList& images, DataLook& look) {
  const auto brightest = std::ranges::max_element(seen, {}, &SeenImage::largest);
  if (brightest == seen.end()) return;
  doubt_low_values(brightest->largest, images.path(brightest->index), "", look);
}

// Told of any that is seen: elsewhere in the program nothing says so.
void doubt_bands(const std::vector<SeenImage>& seen, const ImageList& images, DataLook& look) {
  for (const SeenImage& image : seen) {
    if (image.facts.unread_bands == 0) continue;
    look.doubt("images with more bands than grey or red, green and blue and alpha, which are left out",
               "choose the bands that the model is to see, and write them as grey or RGB",
               cat(images.path(image.index), ": ", image.facts.unread_bands, " left out"));
  }
}

// Of the images that are not seen at the start, what tells without reading them.
void doubt_empty_files(const std::vector<SeenImage>& seen, const ImageList& images, DataLook& look) {
  std::set<int64_t> known;
  for (const SeenImage& image : seen) known.insert(image.index);
  std::error_code none;
  for (int64_t i = 0; i < images.count; ++i) {
    if (known.contains(i) || std::filesystem::file_size(images.path(i), none) != 0 || none) continue;
    doubt_image({.index = i, .fault = "the file is empty"}, images, look);
  }
}

}  // namespace

std::vector<SeenImage> see_images(const ImageList& images, const LookOptions& options) {
  const bool whole = options.depth == LookDepth::kWhole;
  const int64_t count = whole ? images.count : std::min(images.count, kSeenAtStart);
  std::vector<SeenImage> seen(static_cast<size_t>(count));
  visit_for_look(count, options, [&](int64_t i) {
    seen[static_cast<size_t>(i)] = see_image(images, whole ? i : i * images.count / count);
  });
  return seen;
}

std::vector<uint64_t> hash_files(const ImageList& images, const LookOptions& options) {
  std::vector<uint64_t> hashes(static_cast<size_t>(images.count));
  visit_for_look(images.count, options, [&](int64_t i) {
    try {
      const std::string path = images.path(i);
      FileSequence sequence({{path}});
      hashes[static_cast<size_t>(i)] = hash_of(sequence.next(path));
    } catch (const Error&) {
      // Said where that data set is looked at.
    }
  });
  return hashes;
}

void tell_images(const std::vector<SeenImage>& seen, const ImageList& images, const LookOptions& options,
                 DataLook& look) {
  // Of the few that are seen at the start, a plain one may be any; when most are, all are.
  const bool whole = options.depth == LookDepth::kWhole;
  const auto plain =
      std::ranges::count_if(seen, [](const SeenImage& s) { return s.one_colour || s.alpha_alone; });
  const bool doubtful = whole || 2 * plain > std::ssize(seen);
  for (const SeenImage& image : seen) {
    if (doubtful || !image.fault.empty()) doubt_image(image, images, look);
  }
  doubt_values(seen, images, look);
  doubt_cut_values(seen, images, look);
  doubt_bands(seen, images, look);
  if (!whole) return doubt_empty_files(seen, images, look);
  tell_counts(
      seen, "formats", [](const SeenImage& s) { return s.facts.format; }, look);
  tell_sizes(seen, images.reading.upright, look);
  tell_counts(
      seen, "channels",
      [](const SeenImage& s) {
        return s.facts.channels == 1 ? "grey" : s.facts.channels == 4 ? "inks" : "colours";
      },
      look);
  tell_counts(
      seen, "bits of a channel", [](const SeenImage& s) { return cat(s.facts.bits); }, look);
  tell_special(seen, images, look);
}

void doubt_cut_values(const std::vector<SeenImage>& seen, const ImageList& images, DataLook& look) {
  const int64_t bits = images.reading.bits;
  for (const SeenImage& image : seen) {
    if (image.widest >> bits == 0) continue;
    look.doubt("images of 16 bits with values beyond the bits that are used, which are cut off at white",
               "train with data.train.bits: 16, or bring the images to one range",
               cat(images.path(image.index), ": values up to ", image.widest, ", and ", bits,
                   " bits are used, up to ", (int64_t{1} << bits) - 1));
  }
}

}  // namespace autotrain
