#include <gtest/gtest.h>

#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/random.h"
#include "base/text.h"
#include "compare/comparison.h"

namespace autotrain {
namespace {

// Made-up studies of two recipes, by what decides a run's figure; `shift` is what the second is above the
// first.
struct Kind {
  const char* name;
  std::function<double(Random& random)> draw;
  double shift;        // of the studies whose intervals are counted
  bool drops = false;  // whether runs of one recipe above a bound end without a figure
};

const std::vector<Kind>& kinds() {
  const auto normal = [](Random& random) { return random.normal(); };
  static const std::vector<Kind> all = {
      {"normal", normal, 0.7},
      {"ties: 20 samples, 95 % right",
       [](Random& random) {
         int right = 0;
         for (int i = 0; i < 20; ++i) right += random.below(100) < 95 ? 1 : 0;
         return right / 20.0;
       },
       0},
      {"ties: 3 samples, 60 % right",
       [](Random& random) {
         int right = 0;
         for (int i = 0; i < 3; ++i) right += random.below(100) < 60 ? 1 : 0;
         return right / 3.0;
       },
       0},
      {"skewed: lognormal", [](Random& random) { return std::exp(random.normal()); }, 0.7},
      {"skewed: one in ten far away",
       [](Random& random) { return random.normal() + (random.below(10) == 0 ? 10 : 0); }, 0.7},
      {"dropped: above 0.5 in one recipe", normal, 0, true}};
  return all;
}

RunOutcome run_of(const char* recipe, int64_t seed, double figure) {
  return {.recipe = recipe, .seed = seed, .curve = {{10, 1000, 10, 1, {{"loss", figure}}}}};
}

struct Counts {
  int verdicts = 0, intervals = 0, covered = 0, chances = 0, chances_covered = 0;
};

Counts count(const Kind& kind, int64_t seeds, int studies, bool differ, Random& random) {
  Counts counts;
  const double shift = differ ? kind.shift : 0;
  for (int study = 0; study < studies; ++study) {
    std::vector<RunOutcome> runs;
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      runs.push_back(run_of("a", seed, kind.draw(random)));
      const double b = kind.draw(random) + shift;
      runs.push_back(run_of("b", seed, kind.drops && b > 0.5 ? NAN : b));
    }
    const ComparisonTerms terms{
        .recipes = {"a", "b"}, .figure = "loss", .lower_is_better = true, .pairs = {{0, 1}}};
    const Difference d = analyse(terms, std::move(runs)).differences.at(0);
    counts.verdicts +=
        d.verdict == Difference::Verdict::kBetter || d.verdict == Difference::Verdict::kWorse ? 1 : 0;
    if (std::isfinite(d.interval.low)) {
      ++counts.intervals;
      counts.covered += d.interval.low <= shift && shift <= d.interval.high ? 1 : 0;
    }
    if (!differ && std::isfinite(d.chance_better.value)) {
      ++counts.chances;
      counts.chances_covered +=
          d.chance_better.interval.low <= 0.5 && 0.5 <= d.chance_better.interval.high ? 1 : 0;
    }
  }
  return counts;
}

std::string share(int part, int all) {
  return all == 0 ? "-" : fixed(100.0 * part / all, 1) + " %";
}

// Few, unless the table of docs/compare.md is to be made anew.
int studies_each() {
  const char* const asked = std::getenv("AUTOTRAIN_STUDIES");
  return asked != nullptr ? std::atoi(asked) : 200;
}

// Prints the table of docs/compare.md.
TEST(Levels, FalseAlarmsAndCoverageOfMadeUpStudies) {
  const int studies = studies_each();
  const boost::math::binomial stated(studies, kFalseAlarms), covered(studies, 1 - kFalseAlarms);
  const double most = boost::math::quantile(boost::math::complement(stated, 0.001));
  std::printf(
      "| figures | seeds | said to differ, nothing does | interval covers | of studies | chance covers |\n");
  std::printf("| --- | --- | --- | --- | --- | --- |\n");
  Random random(12);
  for (const Kind& kind : kinds()) {
    for (const int64_t seeds : {2, 3, 5, 10}) {
      const Counts null = count(kind, seeds, studies, /*differ=*/false, random);
      const Counts other = kind.shift > 0 ? count(kind, seeds, studies, /*differ=*/true, random) : null;
      std::printf("| %s | %d | %s | %s | %d | %s |\n", kind.name, static_cast<int>(seeds),
                  share(null.verdicts, studies).c_str(), share(other.covered, other.intervals).c_str(),
                  other.intervals, share(null.chances_covered, null.chances).c_str());
      EXPECT_LE(null.verdicts, most) << kind.name << ", " << seeds << " seeds";
      if (std::string(kind.name) == "normal") {
        EXPECT_GE(other.covered, boost::math::quantile(covered, 0.001)) << seeds << " seeds";
      }
    }
  }
}

}  // namespace
}  // namespace autotrain
