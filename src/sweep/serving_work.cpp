#include "sweep/serving_work.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/trainer.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe/axes.h"
#include "study/recipe_files.h"
#include "sweep/arrivals.h"
#include "sweep/rate_search.h"
#include "sweep/serving_point.h"

namespace autotrain {
namespace {

const std::vector<int64_t> kUsualLimits = {1, 4, 16};  // of batches
constexpr int64_t kFewestAsked = 10;                   // requests
constexpr int64_t kMostAsked = 1'000'000;

// Other batches, bounds and rates may be asked for later.
Recipe what_serving_depends_on(Recipe recipe) {
  recipe.sweep = SweepRecipe{.max_seconds = recipe.sweep.max_seconds};
  return recipe;
}

std::vector<int64_t> counts_in(const std::string& text) {
  std::vector<int64_t> counts;
  for (const double number : numbers_in(text, "--servers", 1)) {
    counts.push_back(static_cast<int64_t>(number));
    if (static_cast<double>(counts.back()) == number && number <= 1024) continue;
    throw Error(ExitCode::kUsage, "--servers", shortest(number) + " is no count of servers",
                "give whole numbers up to 1024, such as 1,2");
  }
  return counts;
}

void check_asked(const ServingRequest& request, const Recipe& recipe) {
  if (recipe.sweep.mode != SweepMode::kInference) {
    throw Error(ExitCode::kUsage, "--rate", "asks for inference, and sweep.mode is training",
                "leave --mode training out, or add --set sweep.mode=inference");
  }
  if (request.requests && (*request.requests < kFewestAsked || *request.requests > kMostAsked)) {
    throw Error(ExitCode::kUsage, "--requests",
                cat(*request.requests, *request.requests < kFewestAsked
                                           ? " requests tell nothing"
                                           : " requests are more than memory holds well"),
                cat("give ", kFewestAsked, " to ", format_count(kMostAsked)));
  }
  if (request.bound_options && !recipe.sweep.latency_ms) {
    throw Error(ExitCode::kUsage, "--percentile or --tries", "means something with a bound only",
                "add --latency-ms, or leave it out");
  }
}

}  // namespace

std::string ServingMeasurement::point() const {
  if (is_times()) return cat("v", variant, "-times-servers-", serving.servers, "-batch-", serving.most);
  return cat("v", variant, "-", file_word(serving), "-rate-", shortest(rate));
}

std::string ServingMeasurement::name() const {
  return is_times() ? point() : cat(point(), "-round-", round);
}

std::string ServingMeasurement::words() const {
  if (!is_times()) return cat(", ", words_of(serving), ", at ", format_rate(rate), "/s");
  if (serving.servers == 1) return ", the times of batches";
  return cat(", the times of batches with a share of 1 in ", serving.servers);
}

ServingWork::ServingWork(const ServingRequest& request) : request_(request) {
  const Recipe recipe = load_recipe(request.config, request.overrides);
  check_asked(request, recipe);
  rounds_ = recipe.sweep.rounds;
  read_lines(recipe);
  read_rates();
  make_variants(recipe);
}

void ServingWork::read_lines(const Recipe& recipe) {
  const BatchAxis batches = *parse_batches(recipe.sweep.batches);
  server_counts_ = counts_in(request_.servers);
  lines_ = combinations_of({.batches = batches.until_no_gain ? kUsualLimits : batches.sizes,
                            .windows_ms = numbers_in(request_.windows_ms, "--window-ms", 0),
                            .servers = server_counts_,
                            .processes = request_.processes,
                            .load_ahead = request_.load_ahead});
  const bool several = std::ranges::any_of(server_counts_, [](int64_t count) { return count > 1; });
  if (request_.processes && !several) {
    throw Error(ExitCode::kUsage, "--processes", "means something with several servers only",
                "add --servers 2, or leave it out");
  }
  const auto waits = [](const Serving& line) { return line.most > 1; };
  if (request_.windows_ms != "0" && std::ranges::none_of(lines_, waits)) {
    throw Error(ExitCode::kUsage, "--window-ms", "is for batches of more than one sample",
                "add --batches 1,4,16, or leave it out");
  }
}

void ServingWork::read_rates() {
  if (!request_.trace.empty()) {
    trace_ = read_arrivals(request_.trace);
    rates_ = {three_digits(rate_of(trace_))};
  } else if (request_.rates != "auto") {
    rates_ = numbers_in(request_.rates, "--rate", 0.001);
  }
}

void ServingWork::make_variants(const Recipe& recipe) {
  VariedRecipes variants = varied_recipes(recipe, request_.config, request_.overrides);
  sweep_ = {.name = recipe.name,
            .key = variants.key,
            .latency_ms = recipe.sweep.latency_ms,
            .percentile = request_.percentile,
            .trace = request_.trace.string()};
  variants_ = std::move(variants.all);
  for (const VariedRecipe& variant : variants_) sweep_.variants.push_back({.value = variant.value});
}

ServingMeasurement ServingWork::times_of(size_t variant, int64_t servers) const {
  const auto largest = std::ranges::max_element(lines_, {}, &Serving::most);
  return {.variant = variant, .serving = {.most = largest->most, .servers = servers}};
}

RequestCount ServingWork::requests_of(size_t variant, double rate) const {
  if (is_trace()) return requests_of_trace(trace_.size());
  return requests_at(rate, variants_[variant].recipe.sweep.max_seconds, request_.requests);
}

std::vector<double> ServingWork::arrivals_of(size_t variant, double rate, int64_t round) const {
  if (is_trace()) return trace_;
  const uint64_t seed = derive_key(static_cast<uint64_t>(variants_[variant].recipe.seed), round);
  return poisson_arrivals(rate, static_cast<int64_t>(requests_of(variant, rate).all()), seed);
}

StudyRun ServingWork::run_of(const ServingMeasurement& m) const {
  return {.name = m.name(),
          .variant = m.point(),
          .definition = definition_of(m),
          .work = [this, m] { return measure(m); },
          .label = label_of(sweep_, sweep_.variants[m.variant]) + m.words()};
}

nlohmann::ordered_json ServingWork::definition_of(const ServingMeasurement& m) const {
  const VariedRecipe& variant = variants_[m.variant];
  nlohmann::ordered_json definition =
      recipe_definition(what_serving_depends_on(variant.recipe), variant.files);
  if (m.is_times()) return definition;
  const RequestCount requests = requests_of(m.variant, m.rate);
  definition.update({{"rate", m.rate},
                     {"requests", requests.counted},
                     {"warm_up", requests.warm_up},
                     {"most", m.serving.most},
                     {"window_ms", m.serving.window_ms},
                     {"servers", m.serving.servers},
                     {"processes", m.serving.processes},
                     {"load_ahead", m.serving.load_ahead}});
  if (is_trace()) {
    definition["trace"] =
        fnv1a({reinterpret_cast<const char*>(trace_.data()), trace_.size() * sizeof(double)});
  }
  return definition;
}

nlohmann::ordered_json ServingWork::measure(const ServingMeasurement& m) const {
  const Recipe& recipe = variants_[m.variant].recipe;
  if (m.is_times()) return measure_service_times(recipe, m.serving.most, m.serving.servers);
  return measure_serving(recipe, m.serving, arrivals_of(m.variant, m.rate, m.round),
                         requests_of(m.variant, m.rate).warm_up);
}

}  // namespace autotrain
