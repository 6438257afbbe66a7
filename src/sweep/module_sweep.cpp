#include <algorithm>
#include <map>

#include "autotrain/error.h"
#include "autotrain/sweep.h"
#include "base/text.h"
#include "device/device.h"
#include "device/failure.h"
#include "measure/subject.h"
#include "plan/probe.h"
#include "plan/workbench.h"
#include "recipe/axes.h"
#include "sweep/sweep.h"
#include "sweep/sweep_analysis.h"
#include "sweep/sweep_point.h"
#include "trainer/call_scope.h"

namespace autotrain {
namespace {

// A module in evaluation mode; each of its parts is in its own mode again afterwards.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module* module) {
    if (module == nullptr) return;
    module->apply([this](torch::nn::Module& part) { parts_.emplace_back(&part, part.is_training()); });
    module->eval();
  }
  ~Evaluating() {
    for (const auto& [part, training] : parts_) part->train(training);  // parts of a part come after it
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> parts_;
};

// The caller's own code.
class CallersSubject final : public Subject {
 public:
  CallersSubject(const SweepSubject& code, const SweepOptions& options)
      : code_(code),
        device_(
            open_device({.device = options.device, .budget = options.budget, .threads = options.threads})),
        evaluating_(code.module) {
    device_->memory().set_limit(device_->budget_bytes());
    if (code_.module == nullptr) return;
    within_budget(*device_, [this] { code_.module->to(device_->torch_device()); });
  }

  Device& device() override { return *device_; }

  Precision precision() const override {
    const auto weights = code_.module == nullptr ? std::vector<torch::Tensor>{} : code_.module->parameters();
    if (weights.empty()) return Precision::kFp32;
    return weights.front().scalar_type() == torch::kBFloat16 ? Precision::kBf16
           : weights.front().scalar_type() == torch::kHalf   ? Precision::kFp16
                                                             : Precision::kFp32;
  }

  void load(int64_t samples) override {
    const Batch made = code_.make_batch(samples);
    if (made.samples != samples || !made.inputs.defined() || made.inputs.dim() == 0 ||
        made.inputs.size(0) != samples) {
      throw Error(ExitCode::kBadData, "make_batch",
                  cat("was asked for ", samples, " samples, and gave a batch of ", made.samples,
                      " with inputs ", made.inputs.defined() ? cat(made.inputs.sizes()) : "undefined"),
                  "the first dimension of the inputs counts the samples");
    }
    batch_ = made.to(device_->torch_device());
  }

  void drop() override {
    batch_ = {};
    output_ = torch::Tensor();
  }

  void call() override {
    const torch::NoGradGuard no_gradients;
    output_ = code_.forward(batch_);
  }

  ForwardCount count() override {
    const torch::nn::Module none;
    return count_forward(
        code_.module != nullptr ? *code_.module : none, [this] { call(); },
        [this] { device_->synchronize(); });
  }

  std::optional<ForwardCount> observe() override { return count(); }

 private:
  const SweepSubject& code_;
  const std::unique_ptr<Device> device_;
  const Evaluating evaluating_;
  Batch batch_;
  torch::Tensor output_;
};

class ModuleSweep {
 public:
  ModuleSweep(const SweepSubject& code, const SweepOptions& options)
      : options_(options),
        subject_(code, options),
        how_{.rounds = options.rounds, .max_seconds = options.max_seconds} {}

  SweepResult run() {
    measure_points();
    Sweep sweep{.name = "module", .latency_ms = options_.latency_ms, .variants = {SweepVariant{}}};
    SweepVariant& variant = sweep.variants.front();
    for (const auto& [batch, rounds] : rounds_) variant.points.push_back(summarise_point(batch, rounds));
    if (options_.roofline) take_model({}, {.value = measure_variant(subject_, how_, false)}, variant);
    analyse(sweep);
    SweepResult result{.points = variant.points,
                       .knee = variant.knee,
                       .flops_per_sample = variant.flops_per_sample,
                       .weight_bytes = variant.weight_bytes,
                       .predicted_batch = variant.predicted,
                       .sentences = sentences_of(sweep, variant)};
    result.sentences.insert(result.sentences.begin(), answer_of(sweep, variant));
    return result;
  }

 private:
  // Round after round, every other one from the largest batch down, as the command does.
  void measure_points() {
    Growth growth;
    const BatchAxis doubled = *parse_batches("auto");
    for (const int64_t batch : options_.batches.empty() ? doubled.sizes : options_.batches) {
      if (rounds_.contains(batch) || !growth.goes_on()) continue;
      measure(batch);
      if (options_.batches.empty()) growth.add(summarise_point(batch, rounds_[batch]));
    }
    std::vector<int64_t> batches;
    for (const auto& [batch, rounds] : rounds_) batches.push_back(batch);
    for (int64_t round = 1; round < options_.rounds; ++round) {
      std::ranges::reverse(batches);
      for (const int64_t batch : batches) {
        if (!rounds_[batch].back().failed()) measure(batch);
      }
    }
  }

  void measure(int64_t batch) {
    StudyResult result;
    begin_trial(subject_.device().memory());
    try {
      result.value = measure_point(subject_, how_, batch);
    } catch (const std::exception& error) {
      if (classify_failure(error) == Failure::kOther) throw;
      result.failure = cat("batch ", batch, ": ", first_line(error));
      result.code = static_cast<int>(ExitCode::kDoesNotFit);
    }
    subject_.drop();
    rounds_[batch].push_back(std::move(result));
  }

  const SweepOptions& options_;
  CallersSubject subject_;
  const SweepRecipe how_;
  std::map<int64_t, std::vector<StudyResult>> rounds_;  // by batch
};

void check(const SweepSubject& code, const SweepOptions& options) {
  if (!code.forward || !code.make_batch) {
    throw Error(ExitCode::kUsage, "sweep", "has no function to call",
                "set both forward and make_batch of the SweepSubject");
  }
  for (const int64_t batch : options.batches) {
    if (batch >= 1) continue;
    throw Error(ExitCode::kUsage, "sweep: batches", cat(batch, " is no batch"), "give sizes from 1 on");
  }
}

}  // namespace

SweepResult sweep(const SweepSubject& subject, const SweepOptions& options) {
  check(subject, options);
  const CallAlone alone("sweep");
  return ModuleSweep(subject, options).run();
}

}  // namespace autotrain
