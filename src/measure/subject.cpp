#include "measure/subject.h"

#include <algorithm>
#include <utility>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "data/channels_last.h"
#include "loop/evaluator.h"
#include "measure/recorded_forward.h"
#include "model/initial_weights.h"
#include "model/linear.h"
#include "model/models.h"
#include "setup/assembly.h"
#include "setup/memory_format.h"
#include "step/autocast.h"
#include "step/precision.h"

namespace autotrain {
namespace {

constexpr int64_t kEvaluationBatch = 256;
constexpr int kCopies = 10;

Batch samples_from(const Dataset& data, int64_t first, int64_t count) {
  std::vector<int64_t> indices, epochs(static_cast<size_t>(count), 0);
  for (int64_t i = first; i < first + count; ++i) indices.push_back(i % data.size());
  return data.get(indices, SampleRandom(0, indices, epochs));
}

Batch laid_out(const Batch& batch, MemoryFormat format) {
  if (format != MemoryFormat::kChannelsLast) return batch;
  Batch laid = batch;
  laid.inputs = channels_last(batch.inputs);
  return laid;
}

Materials materials_of(Recipe recipe, const FillWeights& fill = {}) {
  recipe.execution.loader.preload = Preload::kOff;  // the same few samples serve for all calls
  Materials m = load_materials(recipe);
  if (fill) {
    fill(m.task->module());
  } else if (recipe.weights.file) {
    take_weights(recipe.weights, m.task->module());
  }
  return m;
}

class Inference final : public InferenceSubject {
 public:
  Inference(const Recipe& recipe, Materials materials)
      : m_(std::move(materials)),
        precision_(resolve_precision(recipe.execution.precision, *m_.device, m_.task->module())),
        network_(dynamic_cast<Network&>(m_.task->module())),
        loading_(recipe.execution.loader),
        recorded_(*m_.device, recipe.execution.cuda_graphs,
                  [this](const Batch& batch) { return forward(batch); }) {
    set_products(precision_, *m_.device);
    within_budget(*m_.device, [&] { convert(recipe); });
  }

  torch::nn::Module& module() override { return network_; }
  Device& device() override { return *m_.device; }
  Precision precision() const override { return precision_; }
  void load(int64_t samples) override { batch_ = converted(samples_from(*m_.data.train, 0, samples)); }

  void drop() override {
    recorded_.forget();
    batch_ = {};
    output_ = torch::Tensor();
  }

  void call() override { output_ = recorded_.holds_for(batch_) ? recorded_.replay(batch_) : forward(batch_); }

  bool record_calls() override {
    output_ = torch::Tensor();
    const bool recorded = recorded_.record(batch_);
    call();
    return recorded;
  }

  Loader::Options loading() const override { return resolve_loader(loading_, *m_.device, format_); }

  std::unique_ptr<Loader> open_loader(int64_t samples) override {
    const Dataset& data = served_data();
    const auto pieces = [position = int64_t{0}, samples]() mutable -> std::optional<Piece> {
      return consecutive(std::exchange(position, position + samples), samples);
    };
    return std::make_unique<Loader>(data, Stream(0, data.size(), /*shuffle=*/false), pieces, loading());
  }

  void take(const Batch& batch) override { batch_ = in_precision(m_.device->upload(batch)); }

  torch::Tensor output() override { return output_.to(torch::kCPU, torch::kFloat32); }

  Batch read(int64_t first, int64_t samples) const override {
    return laid_out(samples_from(served_data(), first, samples), format_);
  }

  Batch moved(const Batch& batch) const override { return in_precision(batch.to(m_.device->torch_device())); }
  torch::Tensor answer(const Batch& batch) override { return forward(batch); }

  ForwardCount count() override {
    return count_forward(
        network_, [&] { output_ = forward(batch_); }, [&] { m_.device->synchronize(); });
  }

  std::optional<ForwardCount> observe() override { return count(); }

  std::optional<CopySeconds> copy_seconds() override {
    if (m_.device->torch_device().is_cpu()) return std::nullopt;
    const torch::Tensor inputs = batch_.inputs.cpu().pin_memory();
    const torch::Tensor output = torch::empty_like(output_, torch::kCPU).pin_memory();
    return CopySeconds{best_of([&] { batch_.inputs.copy_(inputs, /*non_blocking=*/true); }),
                       best_of([&] { output.copy_(output_, /*non_blocking=*/true); })};
  }

  std::map<std::string, double> evaluate() override {
    if (m_.data.validation == nullptr) return {};
    const c10::InferenceMode no_gradients;
    const AutocastScope autocast(m_.device->torch_device().type(), cast_to());
    const Dataset& data = *m_.data.validation;
    Loader loader(data, Stream(0, data.size(), false), one_pass(data, kEvaluationBatch), {.prefetch = 0});
    EvaluationSums sums;
    while (const auto batch = loader.next()) {
      stop_if_interrupted("sweep", "a signal stopped it");
      sums.add(m_.task->evaluate(converted(*batch)));
    }
    return sums.result().figures;
  }

 private:
  const Dataset& served_data() const {
    return m_.data.validation != nullptr ? *m_.data.validation : *m_.data.train;
  }

  torch::Tensor forward(const Batch& batch) {
    const c10::InferenceMode no_gradients;
    const AutocastScope autocast(m_.device->torch_device().type(), cast_to());
    return network_.predict(batch);
  }

  void convert(const Recipe& recipe) {
    network_.merge_adapters();  // as a model is deployed
    network_.to(m_.device->torch_device());
    format_ = resolve_memory_format(recipe, precision_, *m_.device, *m_.task, *m_.data.train);
    network_.eval();
    if (precision_ == Precision::kInt8) return quantize();
    if (is_half(precision_) && !network_.casts_itself()) network_.to(product_type(precision_));
  }

  // The precision that autocast brings about; weights that were converted need none.
  Precision cast_to() const { return network_.casts_itself() ? precision_ : Precision::kFp32; }

  void quantize() {
    const bool possible = m_.device->torch_device().is_cpu();
    if (possible && quantize_linear_layers(network_) > 0) return;
    throw Error(ExitCode::kBadRecipe, "execution.precision",
                possible
                    ? "int8 is of linear layers of the program's own models, and this one has none of those"
                    : "int8 runs on a CPU only",
                "use fp32 or bf16; autotrain compress --methods int8-weights rounds weights of every model");
  }

  Batch converted(const Batch& batch) const {
    return in_precision(laid_out(batch, format_).to(m_.device->torch_device()));
  }

  Batch in_precision(Batch here) const {
    if (here.inputs.is_floating_point() && !network_.casts_itself())
      here.inputs = here.inputs.to(product_type(precision_));
    return here;
  }

  template <class Copy>
  double best_of(Copy copy) {
    double best = 0;
    for (int i = 0; i < kCopies; ++i) {
      m_.device->synchronize();
      const Stopwatch watch;
      copy();
      m_.device->synchronize();
      best = i == 0 ? watch.seconds() : std::min(best, watch.seconds());
    }
    return best;
  }

  Materials m_;
  Precision precision_;
  Network& network_;
  const LoaderRecipe loading_;
  MemoryFormat format_ = MemoryFormat::kContiguous;
  Batch batch_;
  torch::Tensor output_;
  RecordedForward recorded_;
};

class Training final : public Subject {
 public:
  Training(const Recipe& recipe, Materials materials) : bench_(assemble(recipe, std::move(materials))) {
    bench_->task->module().train();
  }

  Device& device() override { return *bench_->device; }
  Precision precision() const override { return bench_->precision; }

  void load(int64_t samples) override {
    const Batch batch = laid_out(samples_from(*bench_->data.train, 0, samples), bench_->memory_format);
    batch_ = batch.to(bench_->device->torch_device());
    bench_->step.set_loss_factor(loss_factor_for(static_cast<double>(samples)));
  }

  void drop() override { batch_ = {}; }

  void call() override {
    bench_->step.accumulate(batch_, window_++, 0);
    bench_->step.finish(0).read();
  }

  ForwardCount count() override {
    const AutocastScope autocast(bench_->device->torch_device().type(), bench_->precision);
    return count_forward(bench_->task->module(), [&] { bench_->task->loss(batch_); });
  }

  std::optional<ForwardCount> observe() override {
    if (!bench_->device->torch_device().is_cpu()) return std::nullopt;
    return count_forward(bench_->task->module(), [&] { call(); });
  }

 private:
  std::unique_ptr<Workbench> bench_;
  Batch batch_;
  int64_t window_ = 0;
};

}  // namespace

std::unique_ptr<InferenceSubject> make_inference_subject(const Recipe& recipe, const FillWeights& fill) {
  return std::make_unique<Inference>(recipe, materials_of(recipe, fill));
}

std::unique_ptr<Subject> make_subject(const Recipe& recipe) {
  if (recipe.sweep.mode == SweepMode::kTraining)
    return std::make_unique<Training>(recipe, materials_of(recipe));
  return make_inference_subject(recipe);
}

}  // namespace autotrain
