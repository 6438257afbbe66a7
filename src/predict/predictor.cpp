#include "predict/predictor.h"

#include <algorithm>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "data/cost_order.h"
#include "data/detection_dataset.h"
#include "data/fingerprint.h"
#include "data/names.h"
#include "data/shape_text.h"
#include "device/failure.h"
#include "device/memory_phase.h"
#include "measure/timing.h"
#include "model/chosen_inputs.h"
#include "recipe/compare.h"
#include "setup/assembly.h"
#include "setup/data_places.h"
#include "step/autocast.h"
#include "step/precision.h"
#include "study/training_data.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kPassesForLatency = 5;  // of which the median counts

// Whether a model for samples of the one kind may take those of the other. That it does shows when it runs.
bool alike(const DatasetInfo& train, const DatasetInfo& other) {
  using Kind = DatasetInfo::Kind;
  if (train.input_shape.size() != other.input_shape.size() || !inputs_alike(train.inputs, other.inputs))
    return false;
  if (train.kind == Kind::kTokens) {
    return other.kind == Kind::kTokens && other.input_shape[0] <= train.input_shape[0] &&
           other.vocabulary <= train.vocabulary;
  }
  if (other.kind == Kind::kTokens) return false;
  if (train.kind == Kind::kImages) return other.input_shape[0] == train.input_shape[0];  // channels
  return train.kind != Kind::kVectors || other.input_shape == train.input_shape;
}

[[noreturn]] void fail_samples(const PredictionData& data, const std::string& why) {
  throw Error(ExitCode::kBadData, data.where,
              cat("holds samples of ", shape_text(data.data->info().input_shape),
                  "; the model was built for samples of ", shape_text(data.trained_on.input_shape), why),
              "predict on data like the run's; --set data.validation.… changes how they are made");
}

// The training data as evaluations see them.
DatasetPlace unaugmented_training_place(const Recipe& recipe) {
  DatasetPlace place = training_place(recipe);
  place.augment = {};
  return place;
}

// The data set that says how the files of a folder become samples.
DatasetPlace place_like(const Recipe& recipe) {
  return recipe.data.validation ? validation_place(recipe) : unaugmented_training_place(recipe);
}

// Says what may be named instead, by this run.
[[noreturn]] void fail_source(const Recipe& recipe, const std::string& source) {
  if (source == "validation" || source == "test") {
    throw Error(ExitCode::kUsage, "--data", cat("the run has no ", source, " data"),
                cat("give train, or the path of other samples",
                    fs::exists(source) ? cat(" (what lies here under that name is ./", source, ")") : "",
                    "; or name some: --set data.", source, ".dataset=…"));
  }
  const std::string near = nearest(source, {"validation", "test", "train"});
  const std::string files = unlabelled_files(place_like(recipe).choice);
  throw Error(
      ExitCode::kUsage, "--data", quote(source) + " is neither a word that it knows nor a path that is there",
      cat(near.empty() ? "" : cat("did you mean ", near, "? "), "a run over data set ",
          place_like(recipe).choice.name, " takes validation, test, train",
          files.empty() ? ", and no files; --set data.validation.… names other data" : ", or " + files));
}

// What `source` names, unless that is the training data.
// Of images with boxes: a run that goes on after faulty ones is no reason to leave an image out.
std::unique_ptr<Dataset> without_labels(const DatasetPlace& place) {
  std::unique_ptr<Dataset> data = make_dataset(place);
  if (auto* const images = dynamic_cast<DetectionDataset*>(data.get())) images->forget_boxes();
  return data;
}

std::unique_ptr<Dataset> load_source(const Recipe& recipe, const std::string& source, PredictionData& data) {
  if (source == "validation" && recipe.data.validation) {
    data.source = "validation: " + words_of(*recipe.data.validation);
    data.where = "data.validation";
    data.fingerprint = [choice = *recipe.data.validation] { return fingerprint_of_data(choice); };
    return without_labels(validation_place(recipe));
  }
  if (source == "test" && recipe.data.test) {
    data.source = "test: " + words_of(*recipe.data.test);
    data.where = "data.test";
    data.fingerprint = [choice = *recipe.data.test] { return fingerprint_of_data(choice); };
    return without_labels(test_place(recipe));
  }
  if (source != "validation" && source != "test" && fs::exists(source)) {
    const DatasetPlace like = place_like(recipe);
    data.source = cat(fs::canonical(source).string(), " as ", words_of(like.choice));
    data.where = source;
    data.fingerprint = [source] { return fingerprint_of(source); };
    const std::shared_ptr<const Dataset> known = make_dataset(like);
    auto files = make_unlabelled(source, like, *known);
    data.doubts = [=, samples = files.get()] { return doubts_of_unlabelled(source, like, *known, *samples); };
    if (const auto* const named = dynamic_cast<const Named*>(files.get()))
      data.note = named->changes_of_files();
    return files;
  }
  fail_source(recipe, source);
}

// What one forward pass of the run's evaluations computes, too: the same operators in the same precision.
class ForwardScope {
 public:
  ForwardScope(torch::DeviceType device, Precision precision) : autocast_(device, precision) {}

 private:
  const PhaseScope phase_{MemoryPhase::kEvaluation};
  const torch::NoGradGuard no_gradients_;
  const AutocastScope autocast_;
};

}  // namespace

std::function<std::string(int64_t)> PredictionData::sample_name() const {
  const auto* const named = dynamic_cast<const Named*>(data.get());
  if (named == nullptr || !named->names_samples()) return nullptr;
  return [named](int64_t sample) { return named->sample_name(sample); };
}

PredictionData load_prediction_data(const Recipe& recipe, const std::string& source) {
  const PhaseScope phase(MemoryPhase::kData);
  PredictionData data;
  auto train = make_dataset(unaugmented_training_place(recipe));
  data.trained_on = train->info();
  data.class_names = class_names_in(*train);
  if (source == "train") {
    data.source = "train: " + words_of(recipe.data.train);
    data.where = "data.train";
    data.fingerprint = [choice = recipe.data.train] { return fingerprint_of_data(choice); };
    data.data = std::move(train);
    return data;
  }
  train.reset();  // the two are never in memory together
  data.data = load_source(recipe, source, data);
  if (!alike(data.trained_on, data.data->info())) fail_samples(data, "");
  return data;
}

Predictor::Predictor(const TrainedRun& run, const std::string& source, std::optional<ResolvedBudget> settled)
    : run_(run),
      recipe_(run.as_planned()),
      device_(open_run_device(recipe_, std::move(settled))),
      recorded_(*device_, recipe_.execution.cuda_graphs,
                [this](const Batch& batch) { return forward(batch); }) {
  check_training_file(run_);
  data_ = within_budget(*device_, [&] { return load_prediction_data(run_.recipe, source); });
  check_classes(run_, data_.class_names);
  within_budget(*device_, [&] {
    const PhaseScope phase(MemoryPhase::kModel);
    task_ = build_task(recipe_, data_.trained_on);
    task_->module().to(device_->torch_device());
  });
  precision_ = resolve_precision(recipe_.execution.precision, *device_, task_->module());
  set_products(precision_, *device_);
  task_->module().eval();
  load_evaluated_weights(run_, task_->module());
  network_ = &dynamic_cast<Network&>(task_->module());
  loading_ = resolve_loader(recipe_.execution.loader, *device_, run_.plan.memory_format);
  first_output_ = check_first_sample();
}

torch::Tensor Predictor::forward(const Batch& batch) {
  const ForwardScope scope(batch.inputs.device().type(), precision_);
  return network_->predict(batch);
}

// The second batch of a size is recorded: its kernels are loaded then. It keeps the memory in which it lies.
torch::Tensor Predictor::forward_or_replay(const Batch& batch) {
  const bool again = std::exchange(last_samples_, batch.samples) == batch.samples;
  if (again && !tried_to_record_ && !has_costs(*data_.data)) {
    tried_to_record_ = true;
    if (recorded_.record(batch)) log::info("predict", "CUDA graphs: batches replay recorded kernels");
    if (!recorded_.why_not().empty()) log::info("predict", "CUDA graphs: no; " + recorded_.why_not());
  }
  return recorded_.holds_for(batch) ? recorded_.replay(batch) : forward(batch);
}

// The answer to whether the model takes these samples is its own.
torch::Tensor Predictor::check_first_sample() {
  first_ = within_budget(*device_, [&] { return device_->upload(*open_loader(0, 1)->next()); });
  try {
    return forward(first_).to(torch::kCPU);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (classify_failure(error) != Failure::kOther) fail_loading(error, *device_);
    fail_samples(data_, ", and says of them: " + first_line(error));
  }
}

torch::Tensor Predictor::told_of_first(const PredictionRule& rule) {
  return told_of(rule, first_output_.to(device_->torch_device()), first_);
}

void Predictor::set_rows(const PredictionRule& rule, const RowWriter& rows) {
  rule_ = rule;
  rows_ = &rows;
}

std::unique_ptr<Loader> Predictor::open_loader(int64_t first, int64_t batch) const {
  const int64_t size = data_.data->size();
  const auto pieces = [=, done = first]() mutable -> std::optional<Piece> {
    if (done >= size) return std::nullopt;
    const int64_t samples = std::min(batch, size - done);
    return consecutive(std::exchange(done, done + samples), samples);
  };
  return std::make_unique<Loader>(*data_.data, Stream(0, size, /*shuffle=*/false), pieces, loading_);
}

std::string Predictor::rows_of(int64_t first, const Batch& batch) {
  const Batch there = device_->upload(batch);
  const torch::Tensor output = forward_or_replay(there);
  const torch::NoGradGuard no_gradients;
  return rows_->rows(first, told_of(rule_, output, there));
}

SearchResult Predictor::find_batch(std::optional<int64_t> typed, std::optional<double> latency_seconds,
                                   const std::vector<ProbeRecord>& known, const TrialListener& listener) {
  const int64_t timed_passes = latency_seconds ? kPassesForLatency : 1;
  if (typed && *typed > data_.data->size()) {
    typed = data_.data->size();
    log::info("predict", cat("the data have ", *typed, " samples, and no batch is larger"));
  }
  const auto run_trial = [&](int64_t batch) { return trial(batch, timed_passes); };
  const auto& asked = recipe_.execution.search.multiple_of;
  return find_inference_batch(*device_,
                              {.execution = recipe_.execution,
                               .samples = data_.data->size(),
                               .most = recipe_.batch.limits.max_micro_batch,
                               .multiple_of = asked.value_or(preferred_multiple(precision_, *device_)),
                               .floor_bytes = device_->memory().allocated_bytes(),
                               .typed = typed,
                               .latency_seconds = latency_seconds,
                               .known = known},
                              run_trial, listener);
}

// The costliest samples at that size, over and over; then what is left over of the data, which is smaller.
double Predictor::trial(int64_t batch, int64_t timed_passes) {
  const Dataset& data = *data_.data;
  const int64_t samples = std::min(batch, data.size());
  const Piece worst = has_costs(data) ? costliest_window(data, samples) : consecutive(0, samples);
  const Stream stream(0, data.size(), /*shuffle=*/false);
  std::vector<double> seconds;
  {
    Loader loader(data, stream, repeated({worst}), loading_);
    pass(loader);  // compiles kernels
    for (int64_t i = 0; i < timed_passes; ++i) seconds.push_back(pass(loader));
  }
  if (const int64_t rest = data.size() % samples; rest > 0) pass(*open_loader(data.size() - rest, rest));
  return median_of(std::move(seconds));
}

// Seconds of a forward pass, beside as many batches prepared ahead as there ever are.
double Predictor::pass(Loader& loader) {
  stop_if_interrupted("predict", "a signal stopped the search; nothing was predicted yet");
  const Batch batch = *loader.next();
  device_->memory().sample_outside_bytes();  // while decoders have what they need
  if (device_->counts_main_memory()) loader.wait_until_full();
  const Batch there = device_->upload(batch);
  device_->synchronize();
  const Stopwatch watch;
  const torch::Tensor output = forward(there);
  device_->synchronize();
  const double seconds = watch.seconds();
  const std::string rows = rows_->rows(0, told_of(rule_, output, there));
  device_->memory().sample_outside_bytes();  // with the text of the rows
  return seconds;
}

}  // namespace autotrain
