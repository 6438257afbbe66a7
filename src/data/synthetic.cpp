#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "data/datasets.h"
#include "data/prototypes.h"

namespace autotrain {
namespace {

// Samples made on demand from (seed, index): nothing is stored but the classes' prototypes.
struct Options {
  uint64_t seed = 0;
  int64_t samples = 0;
  int64_t first = 0;
  std::vector<int64_t> shape;
  int64_t classes = 0;
  double noise = 0;
};

uint64_t key_of(const Options& o, int64_t index) {
  return derive_key(o.seed, static_cast<uint64_t>(RandomUse::kSynthetic), 1, o.first + index);
}

int64_t volume(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Each class is a fixed random point; a sample is its class's point plus noise.
class Clusters final : public Dataset {
 public:
  Clusters(Options options, DatasetInfo::Kind kind) : options_(std::move(options)), kind_(kind) {
    size_ = volume(options_.shape);
    const uint64_t key = derive_key(options_.seed, static_cast<uint64_t>(RandomUse::kSynthetic), 0);
    prototypes_ = Prototypes::of_process(key, size_, options_.classes);
  }

  int64_t size() const override { return options_.samples; }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const auto n = static_cast<int64_t>(indices.size());
    std::vector<int64_t> shape = {n};
    shape.insert(shape.end(), options_.shape.begin(), options_.shape.end());
    Batch batch{torch::empty(shape, torch::kFloat32), torch::empty({n}, torch::kInt64), n};
    auto* out = batch.inputs.mutable_data_ptr<float>();
    auto* const labels = batch.targets.mutable_data_ptr<int64_t>();
    for (size_t i = 0; i < indices.size(); ++i, out += size_) {
      Random random(key_of(options_, indices[i]));
      labels[i] = random.below(options_.classes);
      fill(out, prototypes_->of(labels[i]), random);
    }
    return batch;
  }

  DatasetInfo info() const override {
    return {.kind = kind_, .input_shape = options_.shape, .classes = options_.classes};
  }

 private:
  void fill(float* out, const float* prototype, Random& random) const {
    // A sum of four uniform numbers is normal enough for noise, at a fraction of the cost.
    const double scale = options_.noise * std::sqrt(3.0);
    for (int64_t j = 0; j < size_; ++j) {
      const uint64_t bits = random.next();
      const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
      const double noise = (static_cast<double>(sum) / 65535.0 - 2) * scale;
      out[j] = prototype[j] + static_cast<float>(noise);
    }
  }

  Options options_;
  DatasetInfo::Kind kind_;
  int64_t size_ = 0;
  std::shared_ptr<const Prototypes> prototypes_;
};

// A random walk over tokens: each has four likely successors, `noise` is the share of jumps.
class TokenWalk final : public Dataset {
 public:
  explicit TokenWalk(Options options) : options_(std::move(options)) {}

  int64_t size() const override { return options_.samples; }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom&) const override {
    const auto n = static_cast<int64_t>(indices.size());
    const int64_t context = options_.shape[0];
    Batch batch{torch::empty({n, context}, torch::kInt64), torch::empty({n, context}, torch::kInt64), n};
    auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
    auto* targets = batch.targets.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      Random random(key_of(options_, index));
      int64_t token = random.below(options_.classes);
      for (int64_t t = 0; t < context; ++t) {
        *inputs++ = token;
        token = successor(token, random);
        *targets++ = token;
      }
    }
    return batch;
  }

  DatasetInfo info() const override {
    return {.kind = DatasetInfo::Kind::kTokens,
            .input_shape = options_.shape,
            .classes = options_.classes,
            .vocabulary = options_.classes};
  }

 private:
  int64_t successor(int64_t token, Random& random) const {
    if (random.uniform() < options_.noise) return random.below(options_.classes);
    const uint64_t branch = random.next() & 3;
    const uint64_t key =
        derive_key(options_.seed, static_cast<uint64_t>(RandomUse::kSynthetic), 2, token, branch);
    return Random(key).below(options_.classes);
  }

  Options options_;
};

// Samples that take longer than they need: what a slow disk or an expensive decoder does to a run.
class Delayed final : public Dataset {
 public:
  Delayed(std::unique_ptr<Dataset> dataset, double seconds, bool busy)
      : dataset_(std::move(dataset)), seconds_(seconds), busy_(busy) {}

  int64_t size() const override { return dataset_->size(); }
  DatasetInfo info() const override { return dataset_->info(); }
  bool on_device() const override { return dataset_->on_device(); }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    const double seconds = seconds_ * static_cast<double>(indices.size());
    if (busy_) {
      for (const double end = thread_cpu_seconds() + seconds; thread_cpu_seconds() < end;) continue;
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    return dataset_->get(indices, random);
  }

 private:
  std::unique_ptr<Dataset> dataset_;
  double seconds_;
  bool busy_;
};

std::vector<int64_t> default_shape(const std::string& kind) {
  if (kind == "images") return {1, 28, 28};
  return {kind == "tokens" ? 128 : 64};
}

std::unique_ptr<Dataset> make_samples(const Parameters& p) {
  const std::string kind = p.text("kind");
  Options options{.seed = static_cast<uint64_t>(p.integer("seed")),
                  .samples = p.integer("samples"),
                  .first = p.integer("first"),
                  .shape = p.integers("shape"),
                  .classes = p.integer("classes"),
                  .noise = p.real("noise")};
  if (options.shape.empty()) options.shape = default_shape(kind);
  const size_t dimensions = kind == "images" ? 3 : 1;
  if (options.shape.size() != dimensions || volume(options.shape) > (int64_t{1} << 32)) {
    throw Error(ExitCode::kBadRecipe, "data: synthetic shape",
                cat("has ", options.shape.size(), " dimensions; ", kind, " have ", dimensions),
                kind == "images" ? "write [channels, height, width]" : "write one number in brackets");
  }
  if (kind == "tokens") return std::make_unique<TokenWalk>(std::move(options));
  const auto info_kind = kind == "images" ? DatasetInfo::Kind::kImages : DatasetInfo::Kind::kVectors;
  return std::make_unique<Clusters>(std::move(options), info_kind);
}

std::unique_ptr<Dataset> make_synthetic(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  auto samples = make_samples(p);
  const double delay = p.real("delay");
  if (delay == 0) return samples;
  return std::make_unique<Delayed>(std::move(samples), delay, p.text("delay_on") == "cpu");
}

}  // namespace

DatasetRow synthetic_row() {
  return {
      {"synthetic",
       "Samples made on demand that a model can learn: classes are points with noise around them, tokens are "
       "a "
       "random walk.",
       {word_key("kind", "What a sample is.", {"images", "vectors", "tokens"}, "images"),
        list_key(KeyKind::kIntegerList, "shape",
                 "[channels, height, width], [features] or [context]; empty: [1, 28, 28], [64] or [128].",
                 std::vector<int64_t>{})
            .from(1, 1 << 20),
        integer_key("classes", "Classes, or distinct tokens.", 10).from(2, 1 << 24),
        integer_key("samples", "Samples in an epoch.", 4096).from(1).in("samples"),
        integer_key("first",
                    "Index of the first sample: another range holds other samples of the same classes.", 0)
            .from(0),
        real_key("noise", "Deviation of the noise, or the share of random tokens.", 0.5).from(0, 100),
        integer_key("seed", "Makes the samples; not the recipe's seed.", 0).from(0),
        real_key("delay",
                 "Time that each sample takes beyond what making it needs: a slow data set to try things on.",
                 0)
            .from(0, 3600)
            .in("seconds"),
        word_key("delay_on", "disk sleeps, as reading does; cpu computes, as decoding does.", {"disk", "cpu"},
                 "disk")}},
      make_synthetic};
}

}  // namespace autotrain
