// Losses over the whole batch: whole runs, each rank a process.
#include "autotrain/two_passes.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>

#include "base/child.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "comm/meeting_place.h"
#include "device/caching_allocator.h"
#include "support/small_run.h"

namespace autotrain {
namespace {

using test::model_digest;
using test::SmallNet;
using test::TemporaryFolder;
namespace fs = std::filesystem;

constexpr int64_t kSamples = 26;  // of an update
constexpr int64_t kUpdates = 6;

struct Behaviour {
  SmallNet::Middle middle = SmallNet::Middle::kDropout;
  bool splittable = false;
  bool learns_temperature = false;  // a parameter of the loss
  std::function<void(bool first_pass)> in_embed = {};
  std::function<void(int64_t samples)> in_loss = {};
  std::function<LossTerms(Passes& passes, Task& task)> passes = {};  // in the place of its own
};

// Neighbourhood components (Goldberger et al. 2004): of each sample, how seldom a neighbour that is drawn by
// its distance has another label. Labels go along with the embeddings.
class Neighbours final : public Task {
 public:
  explicit Neighbours(Behaviour behaviour) : behaviour_(std::move(behaviour)) {
    torch::manual_seed(1);
    net_ = std::make_shared<SmallNet>(behaviour_.middle);
    if (behaviour_.learns_temperature)
      learned_ = net_->register_parameter("temperature", torch::full({}, 0.3));
  }

  torch::nn::Module& module() override { return *net_; }
  bool splittable() const override { return behaviour_.splittable; }
  bool makes_passes() const override { return true; }

  torch::Tensor embed(const Batch& batch) {
    if (behaviour_.in_embed) behaviour_.in_embed(!at::GradMode::is_enabled());
    const torch::Tensor labels = batch.targets.unsqueeze(1).to(torch::kFloat32);
    return at::cat({net_->forward(batch.inputs).to(torch::kFloat32), labels}, 1);
  }

  // At a temperature that is drawn.
  LossTerms compare(const torch::Tensor& rows) {
    const int64_t samples = rows.size(0), last = rows.size(1) - 1;
    if (behaviour_.in_loss) behaviour_.in_loss(samples);
    const torch::Tensor points = rows.slice(1, 0, last).to(torch::kFloat32), labels = rows.select(1, last);
    const torch::Tensor near = points.matmul(points.t()).to(torch::kFloat32) * (1 + temperature());
    const torch::Tensor own = torch::eye(samples, torch::kBool);
    const torch::Tensor share = at::softmax(near.masked_fill(own, -INFINITY), 1);
    const torch::Tensor alike = labels.unsqueeze(0).eq(labels.unsqueeze(1));
    return {samples - (share * alike).sum(), torch::tensor(static_cast<double>(samples))};
  }

  LossTerms passes(Passes& passes) override {
    if (behaviour_.passes) return behaviour_.passes(passes, *this);
    return in_two_passes(
        passes, [&](const Batch& batch) { return embed(batch); },
        [&](const torch::Tensor& rows) { return compare(rows); });
  }

  LossTerms loss(const Batch& batch) override { return compare(embed(batch)); }

 private:
  torch::Tensor temperature() const {
    if (learned_.defined()) return learned_;
    return behaviour_.middle == SmallNet::Middle::kDropout ? 0.5 * torch::rand({}) : torch::zeros({});
  }

  Behaviour behaviour_;
  std::shared_ptr<SmallNet> net_;
  torch::Tensor learned_ = {};
};

// Lanes of 6 or 7 samples in pieces of 3.
Recipe lanes_of(std::optional<int64_t> lanes) {
  Recipe r = test::recipe();
  r.batch.effective = kSamples;
  r.optimizer.lr = 0.01;
  r.stop = {};
  r.stop.updates = kUpdates;
  r.execution.lanes = lanes;
  r.execution.micro_batch = 3;
  r.execution.threads = 1;
  r.execution.memory.budget = *Budget::parse(test::kSmallBudget);
  r.checkpoint.every = *Interval::parse("2 updates");
  return r;
}

using Prepare = std::function<Behaviour(int64_t rank)>;
using Follow = std::function<void(int64_t rank, Trainer& trainer)>;

struct Runs {
  const TemporaryFolder folder;

  std::string log(int64_t rank) const { return test::slurp(folder / cat("log-", rank)); }

  // What each of `world` ranks ended with.
  std::vector<int> start(
      int64_t world, const std::string& name, const Recipe& recipe,
      const Prepare& prepare = [](int64_t) { return Behaviour(); }, const Follow& follow = {}) const {
    MeetingPlace meeting;
    const auto work = [&](int64_t rank) {
      const TensorDataset data = test::small_data(400);
      Trainer trainer(recipe, std::make_unique<Neighbours>(prepare(rank)), data,
                      {.output = folder / name, .resume = true});
      if (follow) follow(rank, trainer);
      const int code = trainer.fit().exit_code;
      CachingAllocator::process_wide().set_fault({});
      return code;
    };
    const auto log_of = [&](int64_t rank) { return folder / cat("log-", rank); };
    std::vector<int> codes;
    for (const auto& process : meeting.start_ranks(world, work, log_of)) codes.push_back(process->wait());
    return codes;
  }

  fs::path whole(int64_t world, const std::string& name, const Recipe& recipe,
                 const Behaviour& behaviour = {}) const {
    const auto codes = start(world, name, recipe, [&](int64_t) { return behaviour; });
    for (size_t rank = 0; rank < codes.size(); ++rank)
      EXPECT_EQ(codes[rank], 0) << name << ": rank " << rank << ": " << log(static_cast<int64_t>(rank));
    return folder / name;
  }
};

TEST(TwoPasses, AnyNumberOfRanksThatSharesTheLanesComesToTheSameBits) {
  const Runs runs;
  const fs::path alone = runs.whole(1, "one", lanes_of(4));
  for (const int64_t world : {2, 4}) {
    const fs::path run = runs.whole(world, std::to_string(world), lanes_of(4));
    EXPECT_EQ(model_digest(run, kUpdates), model_digest(alone, kUpdates)) << world;
    for (const char* figure : {"loss", "grad_norm", "samples"})
      EXPECT_EQ(test::column(run, figure), test::column(alone, figure)) << world << ' ' << figure;
  }
}

TEST(TwoPasses, LanesAndRanksCompareAllSamplesAsOnePieceDoes) {
  const Runs runs;
  const Behaviour drawing_nothing{.middle = SmallNet::Middle::kNothing};
  Recipe one_piece = lanes_of(std::nullopt);
  one_piece.execution.micro_batch = kSamples;
  const fs::path whole = runs.whole(1, "one-piece", one_piece, drawing_nothing);
  const auto compare = [&](int64_t world, std::optional<int64_t> lanes) {
    const std::string name = cat(world, "-ranks-", lanes.value_or(0));
    const fs::path run = runs.whole(world, name, lanes_of(lanes), drawing_nothing);
    for (const char* figure : {"loss", "grad_norm"}) {
      const auto ours = test::column(run, figure), theirs = test::column(whole, figure);
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t i = 0; i < ours.size(); ++i)
        EXPECT_NEAR(ours[i], theirs[i], 1e-4 * theirs[i]) << name << ' ' << figure << ' ' << i;
    }
  };
  compare(1, std::nullopt);
  compare(1, 4);
  compare(2, std::nullopt);
  compare(3, std::nullopt);
}

// Whether its gradient is taken must not depend on the cut, nor be added by every rank.
TEST(TwoPasses, AParameterOfTheLossLearnsInAnyCut) {
  const Runs runs;
  const Behaviour learning{.middle = SmallNet::Middle::kNothing, .learns_temperature = true};
  Recipe one_piece = lanes_of(std::nullopt);
  one_piece.optimizer.algorithm = {"sgd", {}};
  one_piece.optimizer.lr = 0.5;
  Recipe cut = one_piece, lanes = one_piece;
  one_piece.execution.micro_batch = kSamples;
  lanes.execution.lanes = 2;
  const auto temperature = [](const fs::path& run) {
    const auto weights =
        read_safetensors(run / "checkpoints" / cat("update-", kUpdates) / "model.safetensors");
    return std::ranges::find(weights, "temperature", &NamedTensor::name)->tensor.item<double>();
  };
  const double whole = temperature(runs.whole(1, "one-piece", one_piece, learning));
  EXPECT_GT(std::abs(whole - 0.3), 1e-3) << "it moved";
  EXPECT_NEAR(temperature(runs.whole(1, "cut", cut, learning)), whole, 1e-5);
  EXPECT_NEAR(temperature(runs.whole(1, "lanes", lanes, learning)), whole, 1e-5);
  EXPECT_NEAR(temperature(runs.whole(2, "ranks", lanes, learning)), whole, 1e-5);
}

// A last update of two samples: two of four lanes have none.
TEST(TwoPasses, RanksWithoutSamplesTakePart) {
  const Runs runs;
  Recipe r = lanes_of(4);
  r.stop = {};
  r.stop.samples = 2 * kSamples + 2;
  r.stop.keep_last = true;
  const fs::path alone = runs.whole(1, "one", r), four = runs.whole(4, "four", r);
  EXPECT_EQ(test::column(alone, "samples").size(), 3u);
  EXPECT_EQ(test::column(four, "loss"), test::column(alone, "loss"));
  EXPECT_EQ(model_digest(four, 3), model_digest(alone, 3));
}

TEST(TwoPasses, WhereGradientsAreNotFiniteAllRanksSkip) {
  const Runs runs;
  Recipe r = lanes_of(2);
  r.execution.precision = Precision::kFp16;
  r.execution.scaler.initial_scale = 0x1p26;  // overflows until it has backed off
  r.stop.updates = 2;
  const fs::path alone = runs.whole(1, "one", r), two = runs.whole(2, "two", r);
  const auto skipped = [](const fs::path& run) {
    return test::read_json(run / "summary.json").at("skipped_updates").get<int64_t>();
  };
  EXPECT_GT(skipped(alone), 0) << "or this tests nothing";
  EXPECT_EQ(skipped(two), skipped(alone));
  EXPECT_EQ(model_digest(two, 2), model_digest(alone, 2));
  EXPECT_EQ(test::column(two, "scale"), test::column(alone, "scale"));
}

// Refuses one allocation of every other window, a later one each time, and says in which phases they were. A
// second one in a window would shrink the micro-batch, which is another cut.
void refuse_one_after_the_other(Trainer& trainer, int64_t updates, const TemporaryFolder& folder) {
  struct State {
    int64_t at = 0, seen = 0;
    std::string phases;
  };
  const auto state = std::make_shared<State>();
  trainer.on_update([=, &folder](const UpdateRecord& record) {
    if (record.update % 2 == 0) state->at = 5 * record.update, state->seen = 0;
    if (record.update == updates) folder.write("phases", state->phases);
    return Flow::kContinue;
  });
  CachingAllocator::process_wide().set_fault([=](int64_t, MemoryPhase phase) {
    const bool refuse = state->at > 0 && ++state->seen == state->at;
    if (refuse) state->phases += cat(to_string(phase), ' ');
    return refuse;
  });
}

TEST(TwoPasses, MemoryThatRunsOutOnOneRankChangesNoBit) {
  constexpr int64_t kMany = 60;
  const Runs runs;
  Recipe r = lanes_of(2);
  r.stop.updates = kMany;
  r.checkpoint.every = *Interval::parse("60 updates");
  const fs::path straight = runs.whole(2, "straight", r);
  const auto plain = [](int64_t) { return Behaviour(); };
  const auto refuse = [&](int64_t rank, Trainer& trainer) {
    if (rank == 1) refuse_one_after_the_other(trainer, kMany, runs.folder);
  };
  EXPECT_EQ(runs.start(2, "short", r, plain, refuse), (std::vector{0, 0})) << runs.log(0) << runs.log(1);
  EXPECT_EQ(model_digest(runs.folder / "short", kMany), model_digest(straight, kMany));
  EXPECT_EQ(test::column(runs.folder / "short", "loss"), test::column(straight, "loss"));
  const std::string phases = test::slurp(runs.folder / "phases");
  for (const char* phase : {"forward", "backward", "update"}) EXPECT_TRUE(test::holds(phases, phase));
  const auto refused = std::ranges::count(phases, ' ');
  EXPECT_EQ(test::read_json(runs.folder / "short" / "summary.json").at("oom_recoveries"), refused);
  EXPECT_GT(refused, 15) << phases;
}

TEST(TwoPasses, AnErrorOfOneRankInEitherPassIsEveryonesError) {
  for (const bool in_first : {true, false}) {
    const Runs runs;
    const auto prepare = [&](int64_t rank) {
      Behaviour behaviour;
      const auto calls = std::make_shared<int64_t>(0);
      behaviour.in_embed = [=](bool first_pass) {
        if (rank == 1 && first_pass == in_first && ++*calls == 16) throw std::runtime_error("a torn sample");
      };
      return behaviour;
    };
    const int broken = static_cast<int>(ExitCode::kBrokenContract);
    EXPECT_EQ(runs.start(3, "run", lanes_of(std::nullopt), prepare), (std::vector{broken, broken, broken}));
    for (const int64_t rank : {0, 2}) {
      EXPECT_TRUE(test::holds(runs.log(rank), "rank 1 on ")) << runs.log(rank);
      EXPECT_TRUE(test::holds(runs.log(rank), "a torn sample")) << runs.log(rank);
    }
  }
}

TEST(TwoPasses, WhenOneRankIsToldToStopAllDoAndOthersGoOn) {
  const Runs runs;
  const fs::path straight = runs.whole(1, "straight", lanes_of(4));
  const auto stop = [](int64_t rank, Trainer& trainer) {
    trainer.on_update([rank](const UpdateRecord& record) {
      if (rank == 1 && record.update == 3) request_interrupt(Interrupt::kStop);
      return Flow::kContinue;
    });
  };
  const int stopped = static_cast<int>(ExitCode::kInterrupted);
  // A task that catches everything changes nothing about it.
  const auto plain = [](int64_t) { return Behaviour(); };
  const auto swallowing = [](int64_t) {
    return Behaviour{.passes = [](Passes& passes, Task& task) {
      auto& own = dynamic_cast<Neighbours&>(task);
      try {
        return in_two_passes(
            passes, [&](const Batch& batch) { return own.embed(batch); },
            [&](const torch::Tensor& rows) { return own.compare(rows); });
      } catch (...) {
        return LossTerms{torch::zeros({}), torch::ones({})};
      }
    }};
  };
  for (const auto& [name, prepare] :
       {std::pair<std::string, Prepare>{"stopped", plain}, {"caught", swallowing}}) {
    EXPECT_EQ(runs.start(2, name, lanes_of(4), prepare, stop), (std::vector{stopped, stopped}))
        << runs.log(0) << runs.log(1);
    const fs::path resumed = runs.whole(4, name, lanes_of(4));
    EXPECT_EQ(model_digest(resumed, kUpdates), model_digest(straight, kUpdates));
  }
}

TEST(TwoPasses, ABatchThatIsThereWholeIsEmbeddedOnce) {
  const Runs runs;
  Recipe r = lanes_of(std::nullopt);
  r.execution.micro_batch = kSamples;
  runs.whole(1, "run", r, {.in_embed = [](bool first_pass) {
               if (first_pass) throw Error(ExitCode::kUsage, "embed", "is called twice", "");
             }});
}

// Its embeddings, and what is made of all of them, are in the memory that is measured.
TEST(TwoPasses, ATrialComparesAsManySamplesAsAnUpdate) {
  for (const int64_t world : {1, 2}) {
    const Runs runs;
    const auto prepare = [](int64_t) {
      Behaviour behaviour;
      behaviour.in_loss = [](int64_t samples) {
        if (samples < kSamples) throw Error(ExitCode::kUsage, "loss", cat("of ", samples, " samples"), "");
      };
      return behaviour;
    };
    const auto codes = runs.start(world, "run", lanes_of(4), prepare);
    EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(world))) << runs.log(0);
  }
}

// What of several lanes would be another loss than of one.
TEST(TwoPasses, APartOfAnUpdateIsNotTakenForTheWhole) {
  const auto words_of = [](const Behaviour& behaviour) {
    const Runs runs;
    const auto codes = runs.start(1, "run", lanes_of(2), [&](int64_t) { return behaviour; });
    EXPECT_NE(codes, std::vector{0});
    return runs.log(0);
  };
  const auto two_passes = [](Passes& passes, Task& task) {
    auto& neighbours = dynamic_cast<Neighbours&>(task);
    return in_two_passes(
        passes, [&](const Batch& batch) { return neighbours.embed(batch); },
        [&](const torch::Tensor& rows) { return neighbours.compare(rows); });
  };
  EXPECT_TRUE(test::holds(words_of({.splittable = true}), "return false from Task::splittable"));
  EXPECT_TRUE(test::holds(words_of({.passes =
                                        [](Passes& passes, Task& task) {
                                          LossTerms terms = task.loss(passes.batches()[0]);
                                          passes.backward(terms.sum);
                                          return terms;
                                        }}),
                          "goes backward by itself"));
  EXPECT_TRUE(test::holds(words_of({.passes =
                                        [=](Passes& passes, Task& task) {
                                          two_passes(passes, task);
                                          return two_passes(passes, task);
                                        }}),
                          "called a second time"));
  EXPECT_TRUE(test::holds(words_of({.passes =
                                        [](Passes&, Task&) {
                                          return LossTerms{torch::zeros({}), torch::ones({})};
                                        }}),
                          "did not call in_two_passes"));
}

TEST(TwoPasses, OfFloat64AreComputedInIt) {
  class One final : public Passes {
   public:
    explicit One(std::vector<Batch> batches) : batches_(std::move(batches)) {}
    const std::vector<Batch>& batches() const override { return batches_; }
    void seed(size_t) override {}
    void backward(const torch::Tensor& sum, bool keep_graph) override {
      torch::autograd::backward({sum}, {}, keep_graph);
    }
    void backward(const torch::Tensor& outputs, const torch::Tensor& gradient) override {
      torch::autograd::backward({outputs}, {gradient});
    }

   private:
    std::vector<Batch> batches_;
  };
  const torch::Tensor inputs = torch::rand({6, 3}, torch::kFloat64);
  const auto loss = [](const torch::Tensor& rows) {
    return LossTerms{rows.matmul(rows.t()).square().sum(), torch::full({}, 6.0)};
  };
  torch::Tensor weight = torch::rand({3, 2}, torch::kFloat64).requires_grad_();
  const torch::Tensor expected = torch::autograd::grad({loss(inputs.matmul(weight)).sum}, {weight}).front();
  for (const int64_t pieces : {1, 3}) {
    std::vector<Batch> batches;
    for (const torch::Tensor& part : inputs.chunk(pieces)) batches.push_back({part, {}, part.size(0)});
    One passes(std::move(batches));
    weight.mutable_grad().reset();
    in_two_passes(
        passes, [&](const Batch& batch) { return batch.inputs.matmul(weight); }, loss);
    EXPECT_TRUE(at::allclose(weight.grad(), expected, 1e-13, 1e-13)) << pieces;
  }
}

}  // namespace
}  // namespace autotrain
