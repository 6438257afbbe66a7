#include "data/look.h"

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

std::string in_words(const Doubt& doubt) {
  return doubt.count == 1 ? doubt.kind : cat(doubt.kind, " (", format_count(doubt.count), ")");
}

std::string warning_of(const Doubt& doubt) {
  std::string words = in_words(doubt);
  if (!doubt.places.empty()) words += cat(doubt.count > 1 ? ", the first " : ": ", doubt.places.front());
  return doubt.cure.empty() ? words : cat(words, " · try: ", doubt.cure);
}

}  // namespace autotrain
