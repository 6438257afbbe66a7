#include "compress/compress.h"

#include <algorithm>
#include <cmath>

#include "autotrain/error.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "compress/compressed_subject.h"
#include "compress/predicted_batch.h"
#include "compress/smaller_file.h"
#include "measure/timing.h"
#include "recipe/recipe_enums.h"
#include "study/needed_files.h"
#include "study/training_data.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr int kWarmUpCalls = 3;

void stop_compressing_if_asked() {
  stop_if_interrupted("compress", "a signal stopped it; files that are written stay");
}

double samples_per_second(Subject& subject, int64_t batch, double seconds) {
  subject.load(batch);
  for (int i = 0; i < kWarmUpCalls; ++i) subject.call();
  subject.device().synchronize();
  std::vector<double> calls;
  for (const Stopwatch all; calls.empty() || all.seconds() < seconds;) {
    stop_compressing_if_asked();
    const Stopwatch watch;
    subject.call();
    subject.device().synchronize();
    calls.push_back(watch.seconds());
  }
  subject.drop();
  return static_cast<double>(batch) / median_of(std::move(calls));
}

class Compressing {
 public:
  explicit Compressing(const CompressRequest& request)
      : request_(request), run_(open_trained_run(request.run, request.overrides)) {}

  CompressionResult result() {
    check_training_file(run_);
    check_targets();
    make_folders(request_.folder);
    result_.run = run_.folder;
    result_.update = run_.update;
    begin();
    evaluate_whole();
    for (const CompressionMethod& method : request_.methods) add(method);
    for (int64_t round = 0; round < request_.rounds; ++round) measure_speeds(round);
    summarise_speeds();
    return std::move(result_);
  }

 private:
  // All of them, before the first is written, or a refused one is removed.
  void check_targets() const {
    check_not_needed(run_, request_.folder / CompressionMethod().file_name());
    for (const CompressionMethod& method : request_.methods)
      check_not_needed(run_, request_.folder / method.file_name());
  }

  // The weights as they are: which of them are multiplied by, and what all others are compared with.
  void begin() {
    step("uncompressed: counting");
    const auto whole = open_uncompressed(run_);
    whole_ = count_weights_of(*whole);
    result_.precision = to_string(whole->precision());
    source_ = source_of(run_, whole->module(), whole_.uses);
    result_.inputs_first = {source_.inputs_first.begin(), source_.inputs_first.end()};
    whole_product_bytes_ = product_bytes(source_, model_tensors(whole->module()));
    if (request_.rounds > 0) {
      step("measuring the machine");
      roof_ = measure_roof(*whole, whole_.counts.weight_bytes());
      result_.processor = roof_.processor;
    }
    CompressedModel model = written({});
    model.flops_per_sample = whole_.counts.flops();
    model.weight_bytes = whole_.counts.weight_bytes();
    model.predicted_batch = predicted(model, whole_.counts);
    result_.models.push_back(std::move(model));
    methods_.push_back({});
  }

  // When the model of `begin` is gone: both together would need its memory twice.
  void evaluate_whole() {
    step("uncompressed: evaluating");
    result_.models.front().figures = figures_of([&](const auto& proceed, const EvaluationChange& change) {
      return evaluate_checkpoint(run_, proceed, change);
    });
  }

  template <class Evaluate>
  std::map<std::string, double> figures_of(const Evaluate& evaluate) {
    if (!run_.recipe.data.validation) return {};
    int64_t done = 0;
    Evaluation found = evaluate([&](int64_t samples) { done = samples; }, {.samples = request_.samples});
    result_.samples = done;
    return std::move(found.figures);
  }

  void add(const CompressionMethod& method) {
    step(method.name + ": writing and evaluating");
    try {
      result_.models.push_back(measured(method));
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadRecipe && error.code() != ExitCode::kBadData) throw;
      fs::remove(request_.folder / method.file_name());
      result_.models.push_back(
          {.method = method.name, .refused = cat(error.problem(), ". Try: ", error.hint())});
    }
    methods_.push_back(method);
  }

  CompressedModel measured(const CompressionMethod& method) {
    CompressedModel model = written(method);
    const fs::path file = request_.folder / method.file_name();
    const ForwardCount counts = count_weights_of(*open_compressed(run_, file, method)).counts;
    model.figures = figures_of([&](const auto& proceed, const EvaluationChange& change) {
      return evaluate_compressed(run_, file, method, proceed, change);
    });
    const bool same_products = method.kind != Compression::kChannels && method.kind != Compression::kHeads;
    model.flops_per_sample = same_products ? whole_.counts.flops() : counts.flops();
    const bool few_bits =
        method.kind == Compression::kInt8Weights || method.kind == Compression::kInt4Weights;
    model.weight_bytes = few_bits ? read_as_stored() : counts.weight_bytes();
    model.predicted_batch = predicted(model, counts);
    return model;
  }

  // What a pass would read if each weight were read in the form of the file written last, as often as it is.
  int64_t read_as_stored() const {
    auto bytes = static_cast<double>(whole_.counts.weight_bytes());
    for (const WeightUse& use : whole_.uses) {
      const auto whole = whole_product_bytes_.find(use.name), stored = stored_product_bytes_.find(use.name);
      if (whole == whole_product_bytes_.end() || stored == stored_product_bytes_.end()) continue;
      const double share = static_cast<double>(stored->second) / static_cast<double>(whole->second);
      bytes -= static_cast<double>(use.bytes) * (1 - share);
    }
    return std::llround(bytes);
  }

  CompressedModel written(const CompressionMethod& method) {
    const std::vector<NamedTensor> tensors = smaller_tensors(source_, method);
    const fs::path path = request_.folder / method.file_name();
    write_smaller(path, source_, method, tensors);
    stored_product_bytes_ = product_bytes(source_, tensors);
    CompressedModel model{.method = method.name,
                          .file = path.string(),
                          .left_whole = left_whole(source_, method),
                          .taken_out = taken_out(source_, method, tensors),
                          .changed = changed_weights(source_, method, tensors),
                          .bytes = static_cast<int64_t>(fs::file_size(path))};
    const double whole = result_.models.empty() ? static_cast<double>(model.bytes)
                                                : static_cast<double>(result_.models.front().bytes);
    model.ratio = whole / static_cast<double>(model.bytes);
    return model;
  }

  double predicted(const CompressedModel& model, const ForwardCount& counts) const {
    const double reachable = reachable_flops(roof_, result_.precision, counts);
    return predicted_batch(roof_, model.weight_bytes, model.flops_per_sample, reachable);
  }

  // Every other round backwards, so that a machine that slows down does so for all.
  void measure_speeds(int64_t round) {
    const auto count = static_cast<int64_t>(methods_.size());
    for (int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<size_t>(round % 2 == 0 ? i : count - 1 - i);
      CompressedModel& model = result_.models[place];
      if (!model.refused.empty()) continue;
      step(cat(model.method, ": speed, round ", round + 1, " of ", request_.rounds));
      const auto subject =
          place == 0 ? open_uncompressed(run_)
                     : open_compressed(run_, request_.folder / methods_[place].file_name(), methods_[place]);
      model.packed_layers = pack_linear_layers(subject->module(), methods_[place]);
      for (const int64_t batch : request_.batches)
        speeds_[{place, batch}].push_back(samples_per_second(*subject, batch, request_.seconds));
    }
  }

  void summarise_speeds() {
    for (auto& [key, rates] : speeds_) {
      const auto [least, most] = std::ranges::minmax(rates);
      const double median = median_of(rates);
      result_.models[key.first].rates.push_back({.batch = key.second,
                                                 .samples_per_second = median,
                                                 .spread = (most - least) / median,
                                                 .rounds = std::ssize(rates)});
    }
  }

  static WeightCount count_weights_of(InferenceSubject& subject) {
    subject.load(1);
    WeightCount counts = count_weights(
        subject.module(), [&] { subject.call(); }, [&] { subject.device().synchronize(); });
    subject.drop();
    return counts;
  }

  void step(const std::string& what) {
    stop_compressing_if_asked();
    request_.on_step(what);
  }

  const CompressRequest& request_;
  const TrainedRun run_;
  CompressionSource source_;
  WeightCount whole_;                                                          // of the model as it is
  std::map<std::string, int64_t> whole_product_bytes_, stored_product_bytes_;  // stored: written last
  CompressionRoof roof_;                                                       // empty: it is not measured
  std::vector<CompressionMethod> methods_;                                     // of the rows
  std::map<std::pair<size_t, int64_t>, std::vector<double>> speeds_;
  CompressionResult result_;
};

}  // namespace

CompressionResult compress(const CompressRequest& request) {
  return Compressing(request).result();
}

}  // namespace autotrain
