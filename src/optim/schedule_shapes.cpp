// The shapes of the learning rate after warm-up.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/units.h"
#include "optim/schedule.h"

namespace autotrain {
namespace {

double progress(double update, double length) {
  return length > 0 ? std::clamp(update / length, 0.0, 1.0) : 1;
}

// From `begin` to `end` along half a cosine, as `x` goes from 0 to 1.
double half_cosine(double begin, double end, double x) {
  return end + (begin - end) * (1 + std::cos(std::numbers::pi * x)) / 2;
}

// The row of a schedule that never rises after warm-up, and falls at some time.
ChoiceSpec only_falls(ChoiceSpec spec) {
  spec.only_falls = true;
  return spec;
}

KeySpec final_factor_key(double fallback = 0) {
  return real_key("final_factor", "What is left of the learning rate at the end.", fallback).from(0, 1);
}

ScheduleRow constant_row() {
  return {{"constant", "The learning rate stays."}, false, [](const Parameters&) -> ShapeFunction {
            return [](double, double) { return 1.0; };
          }};
}

ScheduleRow linear_row() {
  return {only_falls({"linear", "Falls in a straight line to the end of the run.", {final_factor_key()}}),
          true, [](const Parameters& p) -> ShapeFunction {
            return [end = p.real("final_factor")](double update, double length) {
              return 1 + (end - 1) * progress(update, length);
            };
          }};
}

ScheduleRow cosine_row() {
  return {only_falls({"cosine",
                      "Falls along half a cosine to the end of the run (Loshchilov and Hutter 2017).",
                      {final_factor_key()}}),
          true, [](const Parameters& p) -> ShapeFunction {
            return [end = p.real("final_factor")](double update, double length) {
              return half_cosine(1, end, progress(update, length));
            };
          }};
}

ScheduleRow step_row() {
  return {only_falls({"step",
                      "Multiplied by a factor at fixed intervals.",
                      {integer_key("every", "Interval.", 1000).from(1).in("updates"),
                       real_key("factor", "Multiplies the rate each time.", 0.1).from(0, 1)}}),
          false, [](const Parameters& p) -> ShapeFunction {
            return [every = p.real("every"), factor = p.real("factor")](double update, double) {
              return std::pow(factor, std::floor(update / every));
            };
          }};
}

ScheduleRow polynomial_row() {
  return {
      only_falls({"polynomial",
                  "Falls as a power of the part of the run that is left.",
                  {real_key("power", "1 is a straight line; more falls faster at first.", 0.9).above(0, 100),
                   final_factor_key()}}),
      true, [](const Parameters& p) -> ShapeFunction {
        return [power = p.real("power"), end = p.real("final_factor")](double update, double length) {
          return end + (1 - end) * std::pow(1 - progress(update, length), power);
        };
      }};
}

// As torch.optim.lr_scheduler.OneCycleLR: the peak is at update rise × length − 1, counted from 0, and the
// last update has the final factor.
double one_cycle(double update, double length, double rise, double first, double last) {
  const double end = length - 1;
  const double peak = std::clamp(rise * length - 1, 0.0, std::max(0.0, end));
  if (update < peak) return half_cosine(first, 1, update / peak);
  return end > peak ? half_cosine(1, last, progress(update - peak, end - peak)) : 1;
}

ScheduleRow one_cycle_row() {
  return {
      {"one_cycle",
       "Rises and falls once, each along half a cosine (Smith and Topin 2018); the rise is the warm-up, so "
       "there is no other. Momentum stays as it is.",
       {real_key("rise", "Part of the run in which the rate rises to lr.", 0.3).from(0, 1),
        real_key("first_factor", "What the rate begins at, as a part of lr.", 0.04).from(0, 1),
        final_factor_key(4e-6)},
       /*follows_evaluations=*/false,
       /*rises=*/true},
      true,
      [](const Parameters& p) -> ShapeFunction {
        return [rise = p.real("rise"), first = p.real("first_factor"), last = p.real("final_factor")](
                   double update, double length) { return one_cycle(update, length, rise, first, last); };
      }};
}

// Of period i, which has every × growth^i updates, `update` is number .first of .second.
std::pair<double, double> place_in_period(double update, double every, double growth) {
  if (growth == 1) return {std::fmod(update, every), every};
  double period = every;
  while (update >= period) {
    update -= period;
    period *= growth;
  }
  return {update, period};
}

ScheduleRow restarts_row() {
  return {
      {"restarts",
       "Falls along half a cosine and starts again, in periods that grow (SGDR: Loshchilov and Hutter 2017).",
       {integer_key("every", "The first period.", 1000).from(1).in("updates"),
        integer_key("growth", "Multiplies the length of a period each time.", 1).from(1, 100),
        real_key("final_factor", "What is left of the learning rate at the end of a period.", 0.0)
            .from(0, 1)}},
      false,
      [](const Parameters& p) -> ShapeFunction {
        return [every = p.real("every"), growth = p.real("growth"), end = p.real("final_factor")](
                   double update, double) {
          const auto [place, period] = place_in_period(update, every, growth);
          return half_cosine(1, end, progress(place, period));
        };
      }};
}

ScheduleRow stable_row() {
  return {only_falls(
              {"warmup_stable_decay",
               "Stays, and falls in the last part of the run (Hu et al. 2024).",
               {real_key("decay", "The part of the updates after warm-up in which the rate falls.", 0.1)
                    .from(0, 1),
                word_key("decay_shape", "linear: a straight line; sqrt: 1 − √x, which falls faster at first.",
                         {"linear", "sqrt"}, std::string("linear")),
                final_factor_key()}}),
          true, [](const Parameters& p) -> ShapeFunction {
            return [part = p.real("decay"), root = p.text("decay_shape") == "sqrt",
                    end = p.real("final_factor")](double update, double length) {
              const auto falling = static_cast<double>(nearest_whole(part * length));
              const double since = update - (length - falling);
              if (since <= 0) return 1.0;
              const double x = progress(since, falling);
              return 1 + (end - 1) * (root ? std::sqrt(x) : x);
            };
          }};
}

// Its factor is not a function of updates: see Plateau.
ScheduleRow plateau_row() {
  return {{"plateau",
           "Multiplied by a factor when a figure of the evaluations no longer improves.",
           {text_key("figure", "The figure: loss, or a metric; null: evaluation.monitor."),
            real_key("factor", "Multiplies the rate each time.", 0.1).above(0, 1),
            integer_key("patience", "Evaluations in a row without improvement before it does.", 10).from(1),
            real_key("threshold",
                     "By more than this a figure must be better than the best to be an improvement.", 1e-4)
                .from(0, 1e9),
            integer_key("cooldown", "Evaluations after a fall that are not counted.", 0).from(0),
            real_key("least", "The part of the rate below which it does not fall.", 0.0).from(0, 1)},
           /*follows_evaluations=*/true},
          false,
          [](const Parameters&) -> ShapeFunction { return [](double, double) { return 1.0; }; }};
}

}  // namespace

namespace {

std::vector<ScheduleRow>& all_schedule_table() {
  static std::vector<ScheduleRow> table = {constant_row(), linear_row(),     cosine_row(),
                                           step_row(),     polynomial_row(), one_cycle_row(),
                                           restarts_row(), stable_row(),     plateau_row()};
  return table;
}

}  // namespace

const std::vector<ScheduleRow>& schedule_table() {
  return all_schedule_table();
}

void add_row(ScheduleRow row) {
  all_schedule_table().push_back(std::move(row));
}

}  // namespace autotrain
