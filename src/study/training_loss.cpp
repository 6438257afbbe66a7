#include "study/training_loss.h"

#include <algorithm>

#include "report/metrics_file.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

// The first of each of `most` equal stretches of samples, and the last of all.
LossSums thinned(const LossSums& sums, size_t most) {
  if (sums.size() <= most) return sums;
  const double stretch = static_cast<double>(sums.back().samples) / static_cast<double>(most - 1);
  LossSums kept;
  for (const LossSum& each : sums) {
    const bool due = static_cast<double>(each.samples) >= stretch * static_cast<double>(kept.size());
    if (due || &each == &sums.back()) kept.push_back(each);
  }
  return kept;
}

// The sum up to any place, as if the samples between two sums had equal losses. Precondition: there are sums,
// and the place is not beyond the last.
double sum_at(const LossSums& sums, double place) {
  const auto after = std::ranges::lower_bound(
      sums, place, {}, [](const LossSum& each) { return static_cast<double>(each.samples); });
  const LossSum before = after == sums.begin() ? LossSum() : *(after - 1);
  const auto start = static_cast<double>(before.samples), end = static_cast<double>(after->samples);
  return before.sum + (after->sum - before.sum) * (place - start) / (end - start);
}

}  // namespace

LossSums read_loss_sums(const std::filesystem::path& metrics, size_t most) {
  struct Row {
    int64_t update = 0, samples = 0;
    double loss = 0;
  };
  std::vector<Row> rows;
  for_each_row(metrics, [&](const Json& row) {
    if (row.value("kind", "") != "update" || !row.at("loss").is_number()) return;
    const Row now{row.at("update"), row.at("samples"), row.at("loss")};
    while (!rows.empty() && (rows.back().update >= now.update || rows.back().samples >= now.samples))
      rows.pop_back();
    rows.push_back(now);
  });
  LossSums sums;
  LossSum so_far;
  for (const Row& row : rows) {
    so_far.sum += row.loss * static_cast<double>(row.samples - so_far.samples);
    so_far.samples = row.samples;
    sums.push_back(so_far);
  }
  return thinned(sums, most);
}

Json loss_sums_to_json(const LossSums& sums) {
  Json json = Json::array();
  for (const LossSum& each : sums) json.push_back({each.samples, each.sum});
  return json;
}

LossSums loss_sums_from_json(const Json& json) {
  LossSums sums;
  for (const Json& each : json) {
    sums.push_back({each.at(0), each.at(1)});
    const int64_t before = sums.size() > 1 ? sums[sums.size() - 2].samples : 0;
    if (sums.back().samples <= before)
      throw Json::other_error::create(502, "has sums of losses that do not ascend", &json);
  }
  return sums;
}

std::optional<double> smoothed_loss(const LossSums& sums, double place, double window) {
  if (sums.empty() || window <= 0 || place < window) return std::nullopt;
  if (place > static_cast<double>(sums.back().samples)) return std::nullopt;
  return (sum_at(sums, place) - sum_at(sums, place - window)) / window;
}

std::optional<double> first_loss(const LossSums& sums, double window) {
  for (const LossSum& each : sums) {
    if (const auto loss = smoothed_loss(sums, static_cast<double>(each.samples), window)) return loss;
  }
  return std::nullopt;
}

std::optional<double> end_loss(const LossSums& sums, double window) {
  return sums.empty() ? std::nullopt : smoothed_loss(sums, static_cast<double>(sums.back().samples), window);
}

std::optional<double> place_of_loss(const LossSums& sums, double loss, double window) {
  std::optional<double> before;
  double place_before = 0;
  for (const LossSum& each : sums) {
    const auto place = static_cast<double>(each.samples);
    const std::optional<double> now = smoothed_loss(sums, place, window);
    if (!now) continue;
    if (*now <= loss) {
      if (!before) return place;
      return std::min(place, place_before + (place - place_before) * (*before - loss) / (*before - *now));
    }
    before = now;
    place_before = place;
  }
  return std::nullopt;
}

}  // namespace autotrain
