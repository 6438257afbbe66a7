#include "step/gathered_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/text.h"

namespace autotrain {
namespace {

constexpr const char *kRows = "rows", *kSizes = "sizes", *kWide = "wide", *kStops = "stops";

thread_local GatheringScope* gathering = nullptr;

using Sizes = std::vector<int64_t>;

// How many rows each rank has, and the sizes of one.
struct RowsOfRanks {
  std::vector<int64_t> rows;
  Sizes sizes;
  bool wide = false;  // float64

  int64_t most() const { return *std::ranges::max_element(rows); }
  int64_t before(int64_t rank) const {
    return std::accumulate(rows.begin(), rows.begin() + rank, int64_t{0});
  }
};

Ranks::Note note_of(const torch::Tensor& own) {
  if (!own.defined()) return {{kRows, 0}, {kSizes, Sizes()}};
  return {{kRows, own.size(0)},
          {kSizes, own.sizes().slice(1).vec()},
          {kWide, own.scalar_type() == torch::kFloat64}};
}

// A rank that has no rows does not know what one looks like.
RowsOfRanks rows_in(const std::vector<Ranks::Note>& notes) {
  RowsOfRanks layout;
  std::optional<size_t> known;
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    layout.rows.push_back(notes[rank].at(kRows).get<int64_t>());
    if (layout.rows.back() == 0) continue;
    const auto sizes = notes[rank].at(kSizes).get<Sizes>();
    layout.wide |= notes[rank].value(kWide, false);
    if (!known) known = rank, layout.sizes = sizes;
    if (sizes == layout.sizes) continue;
    throw Error(ExitCode::kBrokenContract, "in_two_passes",
                cat("embed gives a sample sizes of ", c10::IntArrayRef(layout.sizes), " on rank ", *known,
                    " and of ", c10::IntArrayRef(sizes), " on rank ", rank),
                "give every sample an embedding of the same sizes, whichever batch it is in");
  }
  check_invariant(known.has_value(), "an update has samples on some rank");
  return layout;
}

std::vector<Ranks::Note> meet_to_gather(Ranks& ranks, const Ranks::Note& mine) {
  const Stopwatch watch;
  const std::vector<Ranks::Note> notes =
      ranks.meet(mine, gathering != nullptr ? gathering->patience() : Ranks::kLongest);
  if (gathering != nullptr) gathering->add_wait(watch.seconds());
  return notes;
}

std::vector<Ranks::Note> notes_of_rows(Ranks& ranks, const torch::Tensor& own) {
  std::vector<Ranks::Note> notes = meet_to_gather(ranks, note_of(own));
  for (const Ranks::Note& note : notes)
    if (note.contains(kStops)) throw StopElsewhere();
  return notes;
}

}  // namespace

GatheringScope::GatheringScope(double patience)
    : patience_(patience), before_(std::exchange(gathering, this)) {}

GatheringScope::~GatheringScope() {
  gathering = before_;
}

GatheredRows gather_rows(Ranks& ranks, const torch::Tensor& own, torch::Device device) {
  const torch::NoGradGuard no_gradients;
  const Place& place = ranks.place();
  const RowsOfRanks layout = rows_in(notes_of_rows(ranks, own));
  Sizes padded = layout.sizes;
  padded.insert(padded.begin(), {place.world, layout.most()});
  // Equal parts, as an exchange wants them.
  const auto type = layout.wide ? torch::kFloat64 : torch::kFloat32;
  const torch::Tensor parts = torch::zeros(padded, torch::TensorOptions(type).device(device));
  if (own.defined()) parts[place.rank].narrow(0, 0, own.size(0)).copy_(own);
  meet_to_gather(ranks, Ranks::Note::object());
  ranks.exchange().spread(parts.view({-1}).view(torch::kFloat32));  // which numbers they are, none asks
  std::vector<torch::Tensor> rows;
  for (int64_t rank = 0; rank < place.world; ++rank)
    rows.push_back(parts[rank].narrow(0, 0, layout.rows[static_cast<size_t>(rank)]));
  return {torch::cat(rows), layout.before(place.rank)};
}

void stop_in_place_of_rows(Ranks& ranks, double patience) {
  ranks.meet({{kStops, true}}, patience);
}

}  // namespace autotrain
