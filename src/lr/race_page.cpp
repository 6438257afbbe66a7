#include "lr/race_page.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

std::string rate_text(const RateRace& race, size_t racer) {
  return shortest(race.racers[racer].lr);
}

std::string share_text(double share) {
  return share < 1 ? cat("after ", format_percent(share, 0), " of its run") : "at its end";
}

// "diverged in 1 of 3 runs"; "" where all went well.
std::string losses_text(const RateRace& race, const Racer& racer) {
  std::vector<std::string> parts;
  if (racer.diverged > 0) parts.push_back(cat("diverged in ", racer.diverged, " of ", race.seeds, " runs"));
  if (racer.failed > 0) parts.push_back(cat("failed in ", racer.failed, " of ", race.seeds, " runs"));
  return join(parts, ", ");
}

std::string fate_text(const RateRace& race, size_t number) {
  const Racer& racer = race.racers[number];
  const std::string losses = losses_text(race, racer);
  const std::string also = losses.empty() ? "" : ", " + losses;
  switch (fate_of(race, number)) {
    case RacerFate::kWon: return "won" + also;
    case RacerFate::kFinished: return "came to the end" + also;
    case RacerFate::kLeftOut:
      return cat("left out after ", format_percent(race.shares[rung_of(racer)], 0), " of its run", also);
    case RacerFate::kDiverged:
    case RacerFate::kFailed: return losses;
  }
  return "";
}

// Rates beyond an end of those that were raced, as --rates takes them.
std::string rates_beyond(const RateRace& race, GridEnd end) {
  constexpr int kDigits = 2;
  const bool larger = end == GridEnd::kLargest;
  const double last = larger ? race.racers.back().lr : race.racers.front().lr;
  std::vector<std::string> rates;
  for (const double decades : {0.5, 1.0})
    rates.push_back(shortest(rounded_rate(last * std::pow(10, larger ? decades : -decades), kDigits)));
  return join(rates, ",");
}

std::string sentence_without_winner(const RateRace& race) {
  const bool all_lost = std::ranges::all_of(
      race.racers, [](const Racer& racer) { return !std::isfinite(racer.medians.front()); });
  return cat(all_lost ? "Every rate was lost: its runs diverged or failed."
                      : "The rates that were left diverged or failed before the end of their runs.",
             " Race smaller ones, for instance --rates ", rates_beyond(race, GridEnd::kSmallest),
             ", unless the table and the logs show another cause.");
}

// How surely the winner is better than another that came to the end.
std::string sentence_beside(const RateRace& race, size_t winner, size_t other) {
  const Racer& racer = race.racers[other];
  const std::string names = cat(rate_text(race, winner), " and ", rate_text(race, other));
  if (!racer.told_apart && !racer.not_tested_because.empty())
    return cat(names, " were not tested against each other: ", racer.not_tested_because, ".");
  if (!racer.told_apart)
    return cat("One seed tells nothing of chance: give --seeds 3 to test ", names, " against each other.");
  if (racer.contradicted)
    return cat("After as many samples as the shortest of their runs had, ", rate_text(race, other),
               " was better than ", rate_text(race, winner),
               " beyond what seeds explain: what it gained, it gained by training longer.");
  if (*racer.told_apart)
    return cat(rate_text(race, winner), " is better than ", rate_text(race, other),
               " beyond what seeds explain (Welch's test, at 5 %).");
  return cat(names, " are not distinguishable with these seeds",
             racer.seeds_needed ? cat("; about ", *racer.seeds_needed, " of each would be needed (--seeds ",
                                      *racer.seeds_needed, ")")
                                : "",
             ".");
}

// What became of the recipe's own rate, where it did not win.
std::string sentence_on_own(const RateRace& race, size_t winner) {
  const auto own =
      static_cast<size_t>(std::ranges::find(race.racers, race.own_lr, &Racer::lr) - race.racers.begin());
  if (own == winner) return "The winner is the recipe's own rate: nothing is to be changed.";
  if (race.racers[own].told_apart == false)
    return "So nothing here speaks for changing the recipe's own rate.";
  if (fate_of(race, own) == RacerFate::kFinished) return "";
  return cat("The recipe's own rate, ", shortest(race.own_lr), ": ", fate_text(race, own), ".");
}

std::string sentence_on_end(const RateRace& race) {
  const GridEnd end = grid_end_of(race);
  if (end == GridEnd::kNone) return "";
  return cat("The winner is the ", to_string(end), " rate that raced, so a better one may lie beyond: give ",
             end == GridEnd::kLargest ? "larger" : "smaller", " --rates, for instance ",
             rate_text(race, finishing_order(race).front()), ",", rates_beyond(race, end), ".");
}

std::string sentence_on_halving(const RateRace& race) {
  for (size_t i = 0; i < race.racers.size(); ++i) {
    if (fate_of(race, i) == RacerFate::kLeftOut)
      return "Rates were left out by the start of their runs: one that learns slowly and ends well, as small "
             "rates do, may be among them.";
  }
  return "";
}

std::vector<std::string> sentences_on_winner(const RateRace& race, const std::vector<size_t>& order) {
  const size_t winner = order.front();
  const Racer& first = race.racers[winner];
  std::vector<std::string> sentences = {cat(rate_text(race, winner), " won: median ", race.figure, " ",
                                            brief(first.medians.back()), " at the end of its runs.")};
  if (const std::string losses = losses_text(race, first); !losses.empty())
    sentences.push_back(cat("But it ", losses, ": the median hides that, and a smaller rate is safer."));
  if (order.size() == 1)
    sentences.push_back("No other rate came to the end of its runs, so there is nothing to test it against.");
  for (size_t i = 1; i < order.size(); ++i) sentences.push_back(sentence_beside(race, winner, order[i]));
  sentences.push_back(sentence_on_own(race, winner));
  sentences.push_back(sentence_on_end(race));
  return sentences;
}

// Rates worth telling from the others: the recipe's own, the winner, those that were lost.
std::vector<page::Mark> marks_of(const RateRace& race) {
  std::vector<page::Mark> marks;
  for (size_t i = 0; i < race.racers.size(); ++i) {
    const RacerFate fate = fate_of(race, i);
    std::vector<std::string> words;
    if (fate != RacerFate::kLeftOut && fate != RacerFate::kFinished) words.push_back(to_string(fate));
    if (race.racers[i].lr == race.own_lr) words.emplace_back("the recipe's own");
    if (!words.empty()) marks.push_back({{race.racers[i].lr}, join(words, ", ")});
  }
  return marks;
}

page::Chart chart_of(const RateRace& race) {
  page::Chart chart{
      .title = cat("median ", race.figure, " of ", race.seeds, race.seeds == 1 ? " seed" : " seeds"),
      .x = {{.label = cat("optimizer.lr at reference_batch ", race.reference_batch), .log = true}},
      .y = {.label = race.figure},
      .marks = marks_of(race)};
  for (size_t rung = 0; rung < race.shares.size(); ++rung) {
    page::Series series{
        .name = share_text(race.shares[rung]), .x = {{}}, .draw = page::Draw::kLineAndPoints, .colour = rung};
    for (const Racer& racer : race.racers) {
      if (!std::isfinite(racer.medians[rung])) continue;
      series.x[0].push_back(racer.lr);
      series.y.push_back(racer.medians[rung]);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

page::Table table_of(const RateRace& race) {
  page::Table table{.title = cat("race of ", race.racers.size(), " learning rates, at reference_batch ",
                                 race.reference_batch, ", by the median ", race.figure, " of ", race.seeds,
                                 race.seeds == 1 ? " seed" : " seeds"),
                    .header = {"optimizer.lr"}};
  for (const double share : race.shares) table.header.push_back(share_text(share));
  table.header.emplace_back("");
  for (size_t i = 0; i < race.racers.size(); ++i) {
    const Racer& racer = race.racers[i];
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(rate_text(race, i));
    for (const double median : racer.medians) row.push_back(std::isfinite(median) ? brief(median) : "-");
    row.push_back(cat(fate_text(race, i), racer.lr == race.own_lr ? " (the recipe's own)" : ""));
  }
  return table;
}

std::vector<std::string> sentences_of(const RateRace& race) {
  const std::vector<size_t> order = finishing_order(race);
  std::vector<std::string> sentences =
      order.empty() ? std::vector{sentence_without_winner(race)} : sentences_on_winner(race, order);
  sentences.push_back(sentence_on_halving(race));
  std::erase(sentences, "");
  return sentences;
}

std::string answer_of(const RateRace& race) {
  const std::vector<size_t> order = finishing_order(race);
  if (order.empty()) return "no winner: every rate that was not left out diverged or failed";
  const Racer& winner = race.racers[order.front()];
  std::vector<std::string> remarks = {winner.lr == race.own_lr
                                          ? "as the recipe has it"
                                          : cat(shortest(race.own_lr), " → ", shortest(winner.lr))};
  if (race.seeds == 1) remarks.push_back("one seed, so not tested");
  std::vector<std::string> alike;
  for (const size_t other : order) {
    if (race.racers[other].told_apart == false) alike.push_back(rate_text(race, other));
  }
  if (!alike.empty())
    remarks.push_back(cat("not distinguishable from ", join(alike, ", "), " with these seeds"));
  if (const GridEnd end = grid_end_of(race); end != GridEnd::kNone)
    remarks.push_back(cat("the ", to_string(end), " rate that raced"));
  return cat("optimizer: {lr: ", shortest(winner.lr), ", reference_batch: ", race.reference_batch, "}  # ",
             join(remarks, "; "));
}

page::Section section_of(const RateRace& race) {
  page::Section section{.title = "Race",
                        .paragraphs = {answer_of(race)},
                        .charts = {chart_of(race)},
                        .tables = {table_of(race)}};
  for (std::string& sentence : sentences_of(race)) section.paragraphs.push_back(std::move(sentence));
  section.paragraphs.push_back(
      cat("Rates: ", race.grid, ". The runs are in the folder race, with a report.html of their own."));
  return section;
}

}  // namespace autotrain
