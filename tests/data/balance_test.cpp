#include "data/balance.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"
#include "data/balancing.h"
#include "data/datasets.h"
#include "data/stream.h"
#include "support/npy.h"
#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

// 90, 9 and 1 samples of three classes, which lie between each other.
std::vector<int64_t> rare_classes() {
  std::vector<int64_t> classes(100, 0);
  for (size_t i = 5; i < 100; i += 11) classes[i] = 1;
  classes[50] = 2;
  return classes;
}

std::vector<int64_t> times_seen(const Stream& stream, int64_t first_epoch, int64_t epochs) {
  std::vector<int64_t> times(static_cast<size_t>(stream.size()));
  const Piece all = consecutive(first_epoch * stream.size(), epochs * stream.size());
  for (const int64_t index : stream.draw(all).indices) ++times[static_cast<size_t>(index)];
  return times;
}

Stream balanced(const std::vector<double>& weights, const std::vector<int64_t>& groups, uint64_t seed = 3) {
  return {seed, std::ssize(weights), true, std::make_shared<Balance>(weights, groups, seed)};
}

Stream by_class(const std::vector<int64_t>& classes, uint64_t seed = 3) {
  return balanced(weights_by_class(classes), classes, seed);
}

TEST(Balance, EveryEpochSeesTheClassesAlikeAndNoRareSampleIsMissed) {
  const std::vector<int64_t> classes = rare_classes();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Stream stream = by_class(classes, seed);
    for (int64_t epoch = 0; epoch < 20; ++epoch) {
      const std::vector<int64_t> times = times_seen(stream, epoch, 1);
      std::vector<int64_t> of_class(3);
      for (size_t i = 0; i < times.size(); ++i) {
        of_class[static_cast<size_t>(classes[i])] += times[i];
        const int64_t least = classes[i] == 0 ? 0 : classes[i] == 1 ? 3 : 33;  // 100/270, 100/27, 100/3
        EXPECT_GE(times[i], least);
        EXPECT_LE(times[i], least + 1);
      }
      for (const int64_t count : of_class) {
        EXPECT_GE(count, 33);
        EXPECT_LE(count, 34);
      }
    }
  }
}

// Those of a common class, of which an epoch sees a third, have each had their turn before long.
TEST(Balance, OverTheEpochsEachSampleIsSeenAsItsWeightSays) {
  const std::vector<double> weights = {1, 0, 2, 0.5, 7, 1e-3, 1, 1, 3, 0.25};
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const Stream stream = balanced(weights, std::vector<int64_t>(weights.size()));
  const int64_t epochs = 400;
  const std::vector<int64_t> times = times_seen(stream, 0, epochs);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double due = weights[i] / sum * static_cast<double>(epochs * std::ssize(weights));
    EXPECT_NEAR(static_cast<double>(times[i]), due, 6) << i;  // by chance alone they would be off by dozens
  }
  EXPECT_EQ(times[1], 0);
  const std::vector<int64_t> ten = times_seen(by_class(rare_classes()), 0, 10);
  EXPECT_EQ(std::ranges::count(ten, 0), 0);
}

TEST(Balance, AnyPieceIsAPartOfTheWholeHoweverItIsCut) {
  const Stream stream = by_class(rare_classes());
  const Stream::Draw whole = stream.draw(consecutive(0, 1000));
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const int64_t position = random.below(900), samples = 1 + random.below(1000 - position);
    const Stream::Draw part =
        by_class(rare_classes()).draw(consecutive(position, samples));  // as after a resume
    EXPECT_TRUE(std::equal(part.indices.begin(), part.indices.end(), whole.indices.begin() + position));
    EXPECT_TRUE(std::equal(part.epochs.begin(), part.epochs.end(), whole.epochs.begin() + position));
  }
  // Two ranks draw together what one draws.
  std::multiset<int64_t> alone, together;
  for (const int64_t ranks : {1, 2}) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const WindowCut cut{100, 7, {4, rank * (4 / ranks), 4 / ranks}};
      for (const Piece& piece : cut.cut(consecutive(300, 100))) {
        for (const int64_t index : stream.draw(piece).indices) (ranks == 1 ? alone : together).insert(index);
      }
    }
  }
  EXPECT_EQ(alone, together);
}

// Each further time a sample is seen it is augmented anew.
TEST(Balance, TimesOfASampleInAnEpochHaveNumbersOfTheirOwn) {
  const Stream stream = by_class(rare_classes());
  const Stream::Draw drawn = stream.draw(consecutive(0, 300));
  std::set<std::pair<int64_t, int64_t>> seen;
  for (size_t i = 0; i < drawn.indices.size(); ++i)
    EXPECT_TRUE(seen.insert({drawn.indices[i], drawn.epochs[i]}).second) << drawn.indices[i];
  EXPECT_NE(std::vector(drawn.indices.begin(), drawn.indices.begin() + 100),
            std::vector(drawn.indices.begin() + 100, drawn.indices.begin() + 200));
}

TEST(Balance, EqualWeightsSeeEachSampleOnce) {
  const Stream stream = balanced(std::vector<double>(37, 0.1), std::vector<int64_t>(37));
  for (int64_t epoch = 0; epoch < 50; ++epoch)
    EXPECT_EQ(times_seen(stream, epoch, 1), std::vector<int64_t>(37, 1));
}

// ------------------------------------------------------------------ as recipes ask for it

class Balancing : public testing::Test {
 protected:
  Choice choice(std::map<std::string, Value> more) {
    more["inputs"] = inputs_.string();
    return {"npy", std::move(more)};
  }

  static std::shared_ptr<const Balance> made(const Choice& of,
                                             TargetUse use = {TargetUse::Kind::kClasses, 255}) {
    const DatasetPlace place{.choice = of, .targets = use};
    return make_balance(place, *make_dataset(place), 1);
  }

  static std::map<int64_t, int64_t> drawn(const Balance& balance) {
    std::map<int64_t, int64_t> times;
    for (int64_t slot = 0; slot < balance.size(); ++slot) ++times[balance.draw(0, slot).sample];
    return times;
  }

  std::string write(const std::string& name, const std::string& content) {
    return folder_.write(name, content).string();
  }

  TemporaryFolder folder_;
  std::filesystem::path inputs_ =
      folder_.write("x.npy", test::npy_file(test::npy_dictionary("<f4", "(6, 1)"), std::string(24, '\0')));
  std::string targets_ =
      write("y.npy", test::npy_file(test::npy_dictionary("|u1", "(6,)"), std::string("\0\0\0\1\xff\0", 6)));
};

TEST_F(Balancing, ByClassesLeavesOutWhatHasNone) {
  const auto balance = made(choice({{"targets", targets_}, {"balance", std::string("classes")}}));
  ASSERT_NE(balance, nullptr);
  const auto times = drawn(*balance);
  EXPECT_EQ(times.at(3), 3);
  EXPECT_FALSE(times.contains(4));
  EXPECT_EQ(made(choice({{"targets", targets_}})), nullptr);
}

TEST_F(Balancing, OneLabelOfEachSampleIsItsClass) {
  const TargetUse labels{TargetUse::Kind::kLabels};
  const std::string classes = "classes";
  const std::string array =
      write("l.npy", test::npy_file(test::npy_dictionary("|u1", "(6,)"), std::string("\0\0\0\1\0\0", 6)));
  EXPECT_EQ(drawn(*made(choice({{"targets", array}, {"balance", classes}}), labels)).at(3), 3);
  const std::string file = write("t.csv", "x,y\n1,no\n2,no\n3,no\n4,yes\n5,no\n6,no\n");
  const Choice table{"table", {{"file", file}, {"target", std::string("y")}, {"balance", classes}}};
  EXPECT_EQ(drawn(*made(table, labels)).at(3), 3);
  // Numbers that are predicted, and several labels of each, are no classes.
  write("t.csv", "x,y\n1,0\n2,0.5\n3,1\n");
  test::expect_error(ExitCode::kBadRecipe, [&] { made(table, labels); });
}

TEST_F(Balancing, WeightsAreANumberForEachSample) {
  const std::vector<std::string> files = {
      write("w.txt", "1\n2\r\n0\n3\n0\n0\n"),
      write("mark.txt",
            "\xef\xbb\xbf"
            "1\r\n2\r\n0\r\n3\r\n0\r\n0\r\n"),
      write("w.npy", test::npy_file(test::npy_dictionary("<f8", "(6,)"),
                                    test::bytes_of_numbers<double>({1, 2, 0, 3, 0, 0})))};
  for (const std::string& file : files) {
    const auto times = drawn(*made(choice({{"balance", std::string("weights")}, {"weights", file}})));
    EXPECT_EQ(times, (std::map<int64_t, int64_t>{{0, 1}, {1, 2}, {3, 3}}));
  }
}

// The column is no feature; rows of another split have no say.
TEST_F(Balancing, AColumnOfATableSaysHowOftenItsRowsAreSeen) {
  const std::string file = write("t.csv", "x,w,y\n1,1,0\n2,2,1\n3,0,0\n4,3,1\n5,0,0\n6,0,1\n");
  const auto table = [&](std::map<std::string, Value> more) {
    more.insert({{"file", file}, {"target", std::string("y")}, {"balance", std::string("weights")}});
    return Choice{"table", std::move(more)};
  };
  const Choice weighted = table({{"weight_column", std::string("w")}});
  EXPECT_EQ(drawn(*made(weighted)), (std::map<int64_t, int64_t>{{0, 1}, {1, 2}, {3, 3}}));
  EXPECT_EQ(make_dataset({.choice = weighted})->info().input_shape, std::vector<int64_t>{1});
  // Validation data are read alike, whether they have the column or not.
  const Choice validation{"table", {{"file", write("v.csv", "y,x\n0,1\n1,2\n")}}};
  EXPECT_EQ(make_dataset({.choice = validation, .training = &weighted})->info().input_shape,
            std::vector<int64_t>{1});

  const auto refused = [&](ExitCode code, const Choice& choice, const std::string& words) {
    const Error error = test::expect_error(code, [&] { made(choice); });
    EXPECT_TRUE(test::holds(error.what(), words)) << error.what();
  };
  for (const char* const bad : {"-1", "many", "", "nan", "inf"}) {
    write("t.csv", "x,w,y\n1,1,0\n2," + std::string(bad) + ",1\n");
    refused(ExitCode::kBadData, weighted, "t.csv:3:3: w: ");
  }
  write("t.csv", "x,w,y\n1,0,0\n2,0,1\n");
  refused(ExitCode::kBadData, weighted, "every weight is 0");
  refused(ExitCode::kBadRecipe, table({{"weight_column", std::string("y")}}), "names the target");
  refused(ExitCode::kBadRecipe, table({}), "weight_column: COLUMN");
  Choice twice = weighted;
  twice.parameters["weights"] = write("w", "1\n1\n");
  refused(ExitCode::kBadRecipe, twice, "two sources");
  Choice unasked = weighted;
  unasked.parameters.erase("balance");
  refused(ExitCode::kBadRecipe, unasked, "set balance: weights");
}

TEST_F(Balancing, WhatCannotBeBalancedIsRefusedWithItsReason) {
  const auto refused = [&](ExitCode code, std::map<std::string, Value> keys, const std::string& words) {
    const Choice of = choice(std::move(keys));
    const Error error = test::expect_error(code, [&] { made(of); });
    EXPECT_TRUE(test::holds(error.what(), words)) << error.what();
  };
  const std::string classes = "classes", weights = "weights";
  refused(ExitCode::kBadRecipe, {{"balance", classes}}, "no single class");
  refused(ExitCode::kBadRecipe, {{"balance", weights}}, "names no file");
  refused(ExitCode::kBadRecipe, {{"weights", write("w", "1\n")}}, "balance: weights");
  refused(ExitCode::kBadData, {{"balance", weights}, {"weights", write("w", "1\n2\n")}},
          "has 2 weights; the training data have 6 samples");
  refused(ExitCode::kBadData, {{"balance", weights}, {"weights", write("w", "1\nmany\n")}},
          "w:2: \"many\" is not a number");
  refused(ExitCode::kBadData, {{"balance", weights}, {"weights", write("w", "1\n-1\n")}},
          "w:2: the weight -1");
  refused(ExitCode::kBadData, {{"balance", weights}, {"weights", write("w", "0\n0\n0\n0\n0\n0\n")}},
          "every weight is 0");
  const Choice training = choice({}), validation = choice({{"balance", classes}, {"targets", targets_}});
  const Error error = test::expect_error(
      ExitCode::kBadRecipe, [&] { make_dataset({.choice = validation, .training = &training}); });
  EXPECT_TRUE(test::holds(error.what(), "data.validation.balance")) << error.what();
}

}  // namespace
}  // namespace autotrain
