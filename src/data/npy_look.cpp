#include "data/npy_look.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <string_view>

#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/file_names.h"
#include "data/low_values.h"
#include "data/npy_convert.h"
#include "data/npy_targets.h"
#include "data/number_ends.h"
#include "data/preload.h"

namespace autotrain {
namespace {

constexpr int64_t kMostBars = 100, kMostCounted = 1 << 20;  // classes
constexpr int64_t kReadAtStart = 16 << 20;                  // bytes of inputs

// The files of inputs that parameters name.
std::vector<NpyArray> input_arrays(const Parameters& p) {
  std::vector<NpyArray> arrays;
  for (const std::string& named : p.texts("arrays")) arrays.emplace_back(named.substr(named.find('=') + 1));
  if (arrays.empty()) arrays.emplace_back(p.text("inputs"));
  return arrays;
}

// ------------------------------------------------------------------ classes

struct Classes {
  std::vector<int64_t> counts;
  std::vector<int64_t> first;  // row of the file that has it first; −1: none
  int64_t ignored = 0;

  int64_t different() const {
    return std::ranges::count_if(counts, [](int64_t count) { return count > 0; });
  }
};

Classes count_classes_of(const NpyArray& file, NpyRange range, std::optional<int64_t> ignored,
                         int64_t classes) {
  Classes found{std::vector<int64_t>(static_cast<size_t>(classes)),
                std::vector<int64_t>(static_cast<size_t>(classes), -1)};
  for_each_element<int64_t>(file, range.first, range.count, [&](int64_t value, int64_t at) {
    if (value == ignored) {
      ++found.ignored;
    } else if (value >= 0 && value < classes) {
      int64_t& first = found.first[static_cast<size_t>(value)];
      if (found.counts[static_cast<size_t>(value)]++ == 0) first = range.first + at / file.row_size();
    }
    return true;
  });
  return found;
}

// "0 and 255", "0, 7, 9 and 12 more".
std::string some_of(const std::vector<int64_t>& numbers) {
  constexpr size_t kShown = 5;
  std::string words;
  for (size_t i = 0; i < numbers.size() && i < kShown; ++i) {
    const bool last = i + 1 == numbers.size();
    words += cat(i == 0 ? "" : last ? " and " : ", ", numbers[i]);
  }
  return numbers.size() > kShown ? cat(words, " and ", numbers.size() - kShown, " more") : words;
}

std::vector<int64_t> classes_where(const Classes& found, bool present) {
  std::vector<int64_t> classes;
  for (size_t c = 0; c < found.counts.size(); ++c) {
    if ((found.counts[c] > 0) == present) classes.push_back(static_cast<int64_t>(c));
  }
  return classes;
}

void doubt_classes(const NpyArray& file, const Classes& found, bool numbered_by_file, DataLook& look) {
  const std::string path = file.path().string();
  const int64_t classes = std::ssize(found.counts), different = found.different();
  if (different == 1 && classes <= 2) {
    look.doubt("targets that are all alike", "there is nothing to be learned; check the file",
               cat(path, ": every target is ", some_of(classes_where(found, true))));
  }
  // Numbers to be predicted, or the numbers of the samples.
  constexpr int64_t kEnough = 20;
  const int64_t samples = std::accumulate(found.counts.begin(), found.counts.end(), int64_t{0});
  if (samples >= kEnough && 2 * different > samples) {
    look.doubt("classes of which most have one sample each",
               "set loss.name: mean_squared_error if the targets are numbers to be predicted",
               cat(path, ": ", different, " different values among ", samples, " samples"));
  }
  if (!numbered_by_file || different == 0 || different == classes) return;
  if (2 * different < classes) {
    look.doubt("numbers of classes of which more than half are absent",
               "number them without gaps: numpy.unique(array, return_inverse=True)[1]",
               cat(path, ": ", different, different == 1 ? " value, " : " different values, ",
                   some_of(classes_where(found, true)), "; ", classes, " classes are made"));
  } else if (found.counts[0] == 0) {
    look.doubt("classes that are counted from 1", "save array - 1: class 0 is made and never learned",
               cat(path, ": the smallest target is ", classes_where(found, true).front(), "; ", classes,
                   " classes are made"));
  } else {
    look.doubt("classes without a sample", "check the file, or the range that is read of it",
               cat(path, ": ", some_of(classes_where(found, false))));
  }
}

// Classes of validation data that the training data never show.
void doubt_unknown_classes(const LookRequest& request, const NpyArray& file, const Classes& found,
                           DataLook& look) {
  const Parameters* const training = request.made_from.training;
  if (training == nullptr || training->text("targets").empty()) return;
  const NpyArray known_file(training->text("targets"));
  if (known_file.is_real()) return;
  const NpyRange range = npy_range(*training, known_file);
  const Classes known =
      count_classes_of(known_file, range, ignored_class(request.made_from.targets), std::ssize(found.counts));
  for (size_t c = 0; c < found.counts.size(); ++c) {
    if (found.counts[c] == 0 || known.counts[c] > 0) continue;
    look.doubt(cat("classes of the ", word_of(look.role), " data that the training data lack"),
               "let both have every class, or leave such samples out",
               cat(file.path().string(), ": class ", c, ", sample ", found.first[c]));
  }
}

void look_at_classes(const LookRequest& request, const NpyArray& file, NpyRange range, DataLook& look) {
  const int64_t classes = request.data.info().classes;
  const std::optional<int64_t> ignored = ignored_class(request.made_from.targets);
  if (classes > kMostCounted) {
    look.facts.emplace_back("classes", format_count(classes));
    return;
  }
  const Classes found = count_classes_of(file, range, ignored, classes);
  look.facts.emplace_back("classes", cat(classes, ", ", found.different(), " of them in the samples"));
  if (found.ignored > 0) look.facts.emplace_back("targets that do not count", format_count(found.ignored));
  if (classes <= kMostBars) {
    LookBars bars{.title = file.row_size() == 1 ? "samples by class" : "targets by class"};
    for (int64_t c = 0; c < classes; ++c) bars.labels.push_back(std::to_string(c));
    bars.counts = found.counts;
    look.bars.push_back(std::move(bars));
  }
  const bool gap_is_meant = ignored && *ignored >= 0 && *ignored < classes;
  const bool by_file = request.made_from.training == nullptr && !gap_is_meant &&
                       !request.made_from.parameters.optional_integer("classes");
  if (file.row_size() == 1) doubt_classes(file, found, by_file, look);
  doubt_unknown_classes(request, file, found, look);
}

// ------------------------------------------------------------------ numbers

struct Spread {
  double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0;
  int64_t count = 0;

  void add(double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value), most = std::max(most, value), sum += value, ++count;
  }
  void add(const Spread& other) {
    least = std::min(least, other.least), most = std::max(most, other.most);
    sum += other.sum, count += other.count;
  }
  std::string in_words() const {
    if (count == 0) return "none is finite";
    return cat(brief(least), " to ", brief(most), ", mean ", brief(sum / static_cast<double>(count)));
  }
};

double largest_of(const Spread& spread) {
  return std::max(std::abs(spread.least), std::abs(spread.most));
}

// Whether most numbers of an array are beyond one: a few of many may be by far the largest.
bool are_mostly_beyond(const NpyArray& array, NpyRange range, double limit) {
  int64_t beyond = 0, all = 0;
  for_each_element<double>(array, range.first, range.count, [&](double value, int64_t) {
    ++all, beyond += std::abs(value) > limit ? 1 : 0;
    return true;
  });
  return 2 * beyond > all;
}

// Numbers to be predicted that are of another size than the training data's.
void doubt_other_targets(const LookRequest& request, const NpyArray& file, NpyRange own, const Spread& spread,
                         DataLook& look) {
  constexpr double kTimes = 20;
  const Parameters* const training = request.training == nullptr ? nullptr : request.made_from.training;
  if (training == nullptr || training->text("targets").empty() || spread.count == 0) return;
  const NpyArray theirs(training->text("targets"));
  const NpyRange range = npy_range(*training, theirs);
  Spread known;
  for_each_element<double>(theirs, range.first, range.count, [&](double value, int64_t) {
    known.add(value);
    return true;
  });
  const double here = largest_of(spread), there = largest_of(known);
  if (known.count == 0 || !(here > 0 && there > 0) || (here < kTimes * there && there < kTimes * here))
    return;
  if (!(here < there ? are_mostly_beyond(theirs, range, here) : are_mostly_beyond(file, own, there))) return;
  look.doubt("targets of another size than the training data's", "write both in the same units",
             cat(file.path().string(), ": ", spread.in_words(), "; ", theirs.path().string(), ": ",
                 known.in_words()));
}

void look_at_numbers(const LookRequest& request, const NpyArray& file, NpyRange range, DataLook& look) {
  Spread spread;
  NumberEnds ends;
  for_each_element<double>(file, range.first, range.count, [&](double value, int64_t) {
    spread.add(value);
    if (std::isfinite(value)) ends.add(value);
    return true;
  });
  if (const auto stand_in = ends.stand_in()) {
    look.doubt("targets that may stand for what is missing", "leave the samples out if they do",
               cat(file.path().string(), ": ", shortest(*stand_in), ", far from all others"));
  }
  look.facts.emplace_back("numbers to predict",
                          cat(file.shape_in_words(), " ", name_of(file.type()), ", ", spread.in_words()));
  if (spread.count > 1 && spread.least == spread.most) {
    look.doubt("targets that are all alike", "there is nothing to be learned; check the file",
               cat(file.path().string(), ": every target is ", brief(spread.least)));
  }
  if (request.training == nullptr && spread.count > 0)
    doubt_large_targets(spread.least, spread.most, file.path().string(), look);
  doubt_other_targets(request, file, range, spread, look);
}

void look_at_targets(const LookRequest& request, NpyRange range, DataLook& look) {
  const std::string path = request.made_from.parameters.text("targets");
  if (path.empty()) return;
  const NpyArray file(path);
  const TargetUse::Kind kind = request.made_from.targets.kind;
  const bool classes =
      kind == TargetUse::Kind::kClasses || (kind == TargetUse::Kind::kUnknown && !file.is_real());
  if (classes && !file.is_real())
    look_at_classes(request, file, range, look);
  else
    look_at_numbers(request, file, range, look);
}

// ------------------------------------------------------------------ inputs

// What the rows of an array have in common, gathered from several threads.
class InputsLook {
 public:
  InputsLook(const NpyArray& array, bool may_be_infinite)
      : array_(array),
        may_be_infinite_(may_be_infinite),
        columns_(array.row_size() <= kMostColumns ? static_cast<size_t>(array.row_size()) : 0) {}

  void read(int64_t first, int64_t rows, DataLook& look) {
    Spread spread;
    std::vector<Spread> columns(columns_.size());
    std::vector<std::pair<int64_t, double>> bad;
    for_each_element<double>(array_, first, rows, [&](double value, int64_t at) {
      spread.add(value);
      if (!columns.empty()) columns[static_cast<size_t>(at % array_.row_size())].add(value);
      if (std::isnan(value) || (std::isinf(value) && !may_be_infinite_)) bad.emplace_back(at, value);
      return true;
    });
    const std::lock_guard lock(mutex_);
    spread_.add(spread);
    for (size_t i = 0; i < columns.size(); ++i) columns_[i].add(columns[i]);
    for (const auto& [at, value] : bad) {
      look.doubt("numbers that are not finite",
                 "leave the samples out (data.bad_samples: skip does), or write other numbers",
                 cat(array_.path().string(), ": sample ", first + at / array_.row_size(), ", number ",
                     at % array_.row_size(), ": ", value))
          .stops = true;
    }
  }

  const Spread& spread() const { return spread_; }

  void tell(DataLook& look) const {
    look.facts.emplace_back(cat("range of ", array_.path().filename().string()), spread_.in_words());
    if (spread_.count <= std::ssize(columns_)) return;  // one sample
    for (size_t i = 0; i < columns_.size() && array_.shape().size() == 2; ++i) {
      if (columns_[i].count == 0 || columns_[i].least < columns_[i].most) continue;
      look.doubt("features that are the same in every sample", "nothing is learned from them; leave them out",
                 cat(array_.path().string(), ": feature ", i, ": ", brief(columns_[i].least)));
    }
  }

 private:
  static constexpr int64_t kMostColumns = 1 << 14;

  const NpyArray& array_;
  bool may_be_infinite_;
  std::mutex mutex_;
  Spread spread_;
  std::vector<Spread> columns_;  // of each number of a sample
};

// Numbers that no one scales: images of uint8 are divided by 255, all others stay as they are.
// @param all how many numbers the samples have, of which a part was read.
void doubt_scale(const NpyArray& array, const Spread& spread, int64_t all, DataLook& look) {
  constexpr double kSmall = 0.01, kLarge = 50, kLargeInRows = 1000, kBeyondTokens = 1 << 24;
  const size_t dimensions = array.shape().size();
  const bool bytes = array.type() == NpyType::kUint8, rows = dimensions < 3;
  const bool divided = bytes && (dimensions == 3 || dimensions == 4);
  const bool same = spread.least == spread.most;  // as the empty margins that a file may begin with
  if (same && spread.count > 1 && spread.count == all) {
    look.doubt("inputs that are all the same number",
               "look how the file was written: nothing is learned from them",
               cat(array.path().string(), ": ", brief(spread.least)));
    return;
  }
  if (divided && spread.count > 0)
    doubt_low_values(static_cast<int64_t>(spread.most), array.path().string(),
                     ", or as bool or float32, which are not divided", look);
  if (divided || spread.count == 0) return;
  const double largest = std::max(std::abs(spread.least), std::abs(spread.most));
  const double large = !rows || bytes ? kLarge : array.is_real() ? kLargeInRows : kBeyondTokens;
  if (array.is_real() && !same && largest < kSmall) {
    look.doubt("inputs of small numbers, which are used as they are",
               "scale them before they are saved, to some -1 to 1; pixels may have been divided twice",
               cat(array.path().string(), ": ", name_of(array.type()), ", ", spread.in_words()));
  }
  if (largest < large) return;
  if (bytes) {
    look.doubt("uint8 numbers that are used as they are",
               "save images as [N, C, H, W], which are divided by 255, or array / 255",
               cat(array.path().string(), ": ", array.shape_in_words(), ", ", spread.in_words()));
    return;
  }
  const bool pixels = !rows && spread.least >= 0 && spread.most <= 255;
  look.doubt(pixels ? "images whose pixels reach up to 255 and are not divided by it"
                    : "inputs with large numbers, which are used as they are",
             pixels ? "save array.astype('uint8'), which is divided by 255, or array / 255"
                    : "scale them before they are saved, to some -1 to 1",
             cat(array.path().string(), ": ", name_of(array.type()), ", ", spread.in_words()));
}

// @return the range of what was read.
Spread look_at_inputs(const LookRequest& request, const NpyArray& array, NpyRange range, bool several,
                      DataLook& look) {
  const bool whole = request.options.depth == LookDepth::kWhole;
  const int64_t bytes = std::max<int64_t>(1, array.row_bytes());
  const int64_t at_start = array.is_real() ? kReadAtStart : kReadAtStart / 16;  // integers are finite
  const int64_t rows = whole ? range.count : std::min(range.count, at_start / bytes);
  const int64_t part = std::max<int64_t>(1, (int64_t{1} << 20) / bytes);
  InputsLook inputs(array, several);
  visit_for_look((rows + part - 1) / part, request.options, [&](int64_t i) {
    inputs.read(range.first + i * part, std::min(part, rows - i * part), look);
  });
  if (whole) inputs.tell(look);
  return inputs.spread();
}

// The largest number of so many of the first samples of an array.
double largest_of(const NpyArray& array, NpyRange range) {
  const int64_t rows = std::min(range.count, std::max<int64_t>(1, kReadAtStart / 16 / array.row_bytes()));
  double largest = 0;
  for_each_element<double>(array, range.first, rows, [&](double value, int64_t) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    return true;
  });
  return array.type() == NpyType::kUint8 && array.shape().size() > 2 ? largest / 255 : largest;
}

// Numbers of another size than the training data's: one of both was scaled.
void doubt_other_scale(const NpyArray& own, NpyRange range, const NpyArray& training, NpyRange of_training,
                       DataLook& look) {
  const auto may_be_tokens = [](const NpyArray& a) { return !a.is_real() && a.shape().size() < 3; };
  if (may_be_tokens(own) || may_be_tokens(training)) return;
  constexpr double kTimes = 20;
  const double here = largest_of(own, range), there = largest_of(training, of_training);
  if (!(here > 0 && there > 0) || (here < kTimes * there && there < kTimes * here)) return;
  look.doubt("inputs of another size than the training data's", "scale both alike",
             cat(own.path().string(), ": up to ", brief(here), "; ", training.path().string(), ": up to ",
                 brief(there)));
}

std::vector<uint64_t> hashes_of(const NpyArray& array, NpyRange range) {
  std::vector<uint64_t> hashes;
  for (int64_t row = range.first; row < range.first + range.count; ++row) {
    hashes.push_back(
        fnv1a({reinterpret_cast<const char*>(array.row(row)), static_cast<size_t>(array.row_bytes())}));
  }
  return hashes;
}

void doubt_repeated_samples(const NpyArray& own, NpyRange range, const NpyArray* training,
                            NpyRange of_training, DataLook& look) {
  constexpr int64_t kFewBytes = 16;  // of samples that may well be alike
  if (own.row_bytes() < kFewBytes) return;
  const bool comparable =
      training != nullptr && training->type() == own.type() && training->row_size() == own.row_size();
  const std::vector<uint64_t> known =
      comparable ? hashes_of(*training, of_training) : std::vector<uint64_t>();
  const auto place = [&](size_t i) {
    return cat(own.path().string(), ": sample ", range.first + static_cast<int64_t>(i));
  };
  doubt_repeated("samples", hashes_of(own, range), comparable ? &known : nullptr, place, look);
}

// Rows of one file that both data sets read, and pixels that become other numbers in the one than in the
// other.
void doubt_unlike_training(const NpyArray& own, NpyRange range, const NpyArray& training,
                           NpyRange of_training, DataLook& look) {
  const int64_t first = std::max(range.first, of_training.first);
  const int64_t end = std::min(range.first + range.count, of_training.first + of_training.count);
  if (look.role != DataRole::kPredicted && first < end && have_same_bytes(own.path(), training.path())) {
    look.doubt(cat("samples of the training data that the ", word_of(look.role), " data read, too"),
               "give first and limit, or other files",
               cat(own.path().string(), ": ", first, " to ", end - 1));
  }
  const bool pixels = own.type() == NpyType::kUint8, pixels_there = training.type() == NpyType::kUint8;
  const bool images = own.shape().size() > 2 && training.shape().size() > 2;
  if (images && pixels != pixels_there) {
    look.doubt("arrays of another type than the training data's",
               "uint8 becomes pixels ÷ 255, all else stays: save both alike",
               cat(own.path().string(), ": ", name_of(own.type()), "; ", training.path().string(), ": ",
                   name_of(training.type())));
  }
}

}  // namespace

void look_at_npy(const LookRequest& request, DataLook& look) {
  const Parameters& p = request.made_from.parameters;
  const std::vector<NpyArray> arrays = input_arrays(p);
  const NpyRange range = npy_range(p, arrays[0]);
  look.what = cat("npy ", arrays[0].path().string(), ": ", format_count(range.count), " of ",
                  format_count(arrays[0].rows()), " samples");
  for (const NpyArray& array : arrays) {
    look.facts.emplace_back(array.path().filename().string(),
                            cat(array.shape_in_words(), " ", name_of(array.type())));
  }
  look_at_targets(request, range, look);
  const bool several = arrays.size() > 1 || !p.texts("arrays").empty();
  for (const NpyArray& array : arrays) {
    const Spread spread = look_at_inputs(request, array, range, several, look);
    if (!several && request.training == nullptr)
      doubt_scale(array, spread, range.count * array.row_size(), look);
  }
  const Parameters* const training = request.training == nullptr ? nullptr : request.made_from.training;
  const std::vector<NpyArray> theirs =
      training == nullptr ? std::vector<NpyArray>() : input_arrays(*training);
  const NpyRange of_training = training == nullptr ? NpyRange() : npy_range(*training, theirs[0]);
  for (size_t i = 0; i < theirs.size() && i < arrays.size(); ++i)
    doubt_unlike_training(arrays[i], range, theirs[i], of_training, look);
  if (!theirs.empty() && !several) doubt_other_scale(arrays[0], range, theirs[0], of_training, look);
  if (request.options.depth == LookDepth::kWhole && arrays.size() == 1)
    doubt_repeated_samples(arrays[0], range, theirs.size() == 1 ? &theirs[0] : nullptr, of_training, look);
}

}  // namespace autotrain
