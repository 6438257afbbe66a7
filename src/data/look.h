#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace autotrain {

/// How much of a data set is read to look at it.
enum class LookDepth {
  kStart,  ///< what is known once it is open: at each start of a run, so it takes next to no time
  kWhole,  ///< every sample, and every file
};

/// Something in the data that may not be what was meant, with the places that have it.
struct Doubt {
  std::string kind;    ///< what its places have in common, as a sentence begins: "fields that are no numbers"
  std::string cure;    ///< the key that settles it, or what to do with the file
  bool stops = false;  ///< a run would end with an error there
  int64_t count = 0;   ///< of places
  std::vector<std::string> places = {};  ///< the first of them: "rents.csv:201:22: \"~1100\""
  static constexpr size_t kMostPlaces = 10;
};

/// "fields that are no numbers (12)".
std::string in_words(const Doubt& doubt);

/// A line for a log: the doubt, its first place and what helps.
std::string warning_of(const Doubt& doubt);

/// A table of facts. A cell that is a number is one in JSON too.
using LookCell = std::variant<std::string, int64_t, double>;
struct LookTable {
  std::string title;  ///< "columns", "classes"
  std::vector<std::string> header;
  std::vector<std::vector<LookCell>> rows = {};
};

/// How many there are of each, drawn as bars.
struct LookBars {
  std::string title;  ///< "samples by class", "rent (target)"
  std::vector<std::string> labels = {};
  std::vector<int64_t> counts = {};
};

/// What was understood of one data set.
/// What a set of samples is to a run.
enum class DataRole { kTraining, kValidation, kTest, kPredicted };

/// "training", "validation", "test" or "predicted".
const char* word_of(DataRole role);

/// The section of a recipe: "data.train".
const char* key_of(DataRole role);

struct DataLook {
  DataRole role = DataRole::kTraining;
  std::string what = {};  ///< in a line: "table rents.csv: 400 rows, 3 columns, target rent: regression"
  std::vector<std::pair<std::string, std::string>> facts = {};
  std::vector<LookTable> tables = {};
  std::vector<LookBars> bars = {};
  std::vector<Doubt> doubts = {};

  /// Adds a place to the doubt of that kind, which is made where there is none.
  Doubt& doubt(const std::string& kind, const std::string& cure, const std::string& place = "");
};

/// Doubts what stands there more than once, and, of other data than the training data, what these have, too.
/// @param name  what they are, in the plural: "documents".
/// @param own   a hash of each; `place` says where the i-th is.
/// @param known hashes of the training data's; null: there are none to be compared with.
void doubt_repeated(const std::string& name, const std::vector<uint64_t>& own,
                    const std::vector<uint64_t>* known, const std::function<std::string(size_t i)>& place,
                    DataLook& look);

/// How many samples were taken from each patient, recording or the like.
using SampleGroups = std::unordered_map<std::string, int64_t>;

int64_t samples_of(const SampleGroups& groups);

/// How many samples are of groups that the training data have samples of, too; 0 where these have fewer than
/// ten groups or one sample of each, or where most of `own` are of others.
int64_t samples_of_known_groups(const SampleGroups& own, const SampleGroups& training);

/// Doubts data of which a part is read, and which are not those that the training data are a part of, as
/// where
/// --set names them beside a split of the run's. @param path theirs. @param split their key.
void doubt_part_of_others(const std::string& path, const std::string& split, DataLook& look);

/// How a look goes about it.
struct LookOptions {
  LookDepth depth = LookDepth::kStart;
  int64_t threads = 1;                                               ///< that may read samples at once
  std::function<void(int64_t done, int64_t of)> progress = nullptr;  ///< called by one thread at a time
};

}  // namespace autotrain
