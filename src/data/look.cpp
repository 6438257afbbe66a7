#include "data/look.h"

#include <unordered_set>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {

Doubt& DataLook::doubt(const std::string& kind, const std::string& cure, const std::string& place) {
  auto found = std::ranges::find(doubts, kind, &Doubt::kind);
  if (found == doubts.end()) found = doubts.insert(found, {.kind = kind, .cure = cure});
  ++found->count;
  if (!place.empty() && found->places.size() < Doubt::kMostPlaces) found->places.push_back(place);
  return *found;
}

const char* word_of(DataRole role) {
  switch (role) {
    case DataRole::kTraining: return "training";
    case DataRole::kValidation: return "validation";
    case DataRole::kTest: return "test";
    case DataRole::kPredicted: return "predicted";
  }
  return "";
}

const char* key_of(DataRole role) {
  return role == DataRole::kTraining ? "data.train"
         : role == DataRole::kTest   ? "data.test"
                                     : "data.validation";
}

void doubt_repeated(const std::string& name, const std::vector<uint64_t>& own,
                    const std::vector<uint64_t>* known, const std::function<std::string(size_t i)>& place,
                    DataLook& look) {
  std::unordered_set<uint64_t> seen;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!seen.insert(own[i]).second)
      look.doubt(name + " that stand there more than once", "leave them out if that is not meant", place(i));
  }
  if (known == nullptr) return;
  const std::unordered_set<uint64_t> trained_on(known->begin(), known->end());
  for (size_t i = 0; i < own.size(); ++i) {
    if (!trained_on.contains(own[i])) continue;
    look.doubt(cat(word_of(look.role), " ", name, " that the training data have, too"),
               "leave them out of one: they show what was learned by heart", place(i));
  }
}

int64_t samples_of(const SampleGroups& groups) {
  int64_t samples = 0;
  for (const auto& [name, count] : groups) samples += count;
  return samples;
}

int64_t samples_of_known_groups(const SampleGroups& own, const SampleGroups& training) {
  constexpr int64_t kFewGroups = 10;
  if (std::ssize(training) < kFewGroups || samples_of(training) <= std::ssize(training)) return 0;
  int64_t shared = 0;
  for (const auto& [name, count] : own) shared += training.contains(name) ? count : 0;
  return 2 * shared > samples_of(own) ? shared : 0;
}

void doubt_part_of_others(const std::string& path, const std::string& split, DataLook& look) {
  look.doubt(cat(word_of(look.role), " data that are a part of another file than the training data's"),
             "set split: all if all of it is meant", cat(path, ": split: ", split));
}

std::string in_words(const Doubt& doubt) {
  return doubt.count == 1 ? doubt.kind : cat(doubt.kind, " (", format_count(doubt.count), ")");
}

std::string warning_of(const Doubt& doubt) {
  std::string words = in_words(doubt);
  if (!doubt.places.empty()) words += cat(doubt.count > 1 ? ", the first " : ": ", doubt.places.front());
  return doubt.cure.empty() ? words : cat(words, " · try: ", doubt.cure);
}

}  // namespace autotrain
