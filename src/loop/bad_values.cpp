#include "loop/bad_values.h"

#include "autotrain/log.h"
#include "base/text.h"
#include "data/finite.h"
#include "data/names.h"
#include "device/failure.h"

namespace autotrain {
namespace {

std::string in_words(const Dataset& data, int64_t index, const NotFinite& found) {
  const std::string name = sample_name_in(data, index);
  return cat("the ", found.of, " of sample ", index, name.empty() ? "" : cat(" (", name, ")"), " hold ",
             found.value, ": the data are at fault");
}

std::string look(const Dataset& data, const Stream& stream, const Piece& piece) {
  const Stream::Draw draw = stream.draw(piece);
  const Batch batch =
      data.get(draw.indices, SampleRandom(stream.seed(), draw.indices, draw.epochs, piece.positions));
  const auto found = first_value_that_is_not_finite(batch, data.info());
  return found ? in_words(data, draw.indices[static_cast<size_t>(found->sample)], *found) : "";
}

}  // namespace

std::string first_bad_value(Workbench& bench, const QueuedUpdate& window) {
  const Dataset& data = *bench.data.train;
  try {
    constexpr int64_t kPiece = 64;
    const int64_t end = window.first + window.samples;
    for (int64_t at = window.first; at < end; at += kPiece) {
      const std::string found = look(data, bench.stream, consecutive(at, std::min(kPiece, end - at)));
      if (!found.empty()) return found;
    }
  } catch (const std::exception& error) {
    log::debug("trainer", cat("looking for values that are not finite failed: ", first_line(error)));
  }
  return "";
}

std::string BadValues::find(Workbench& bench, const QueuedUpdate& window) {
  if (looks_++ >= kMostLooks) return "";
  std::string found = first_bad_value(bench, window);
  return told_.insert(found).second ? found : "";
}

}  // namespace autotrain
