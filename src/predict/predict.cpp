#include "predict/predict.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/random.h"
#include "base/text.h"
#include "data/fingerprint.h"
#include "device/failure.h"
#include "loop/out_of_memory.h"
#include "plan/memory_statement.h"
#include "predict/box_rows.h"
#include "predict/predictor.h"
#include "recipe/compare.h"
#include "setup/search_process.h"
#include "study/needed_files.h"

namespace autotrain {

namespace {

constexpr double kUsualScore = 0.25;        // of a box from which on it is written
constexpr double kSecondsBetweenMarks = 1;  // of work that a kill loses at most, and a batch

std::string hexadecimal(uint64_t digest) {
  WithoutLocale<std::ostringstream> out;
  out << std::hex << digest;
  return out.str();
}

std::string digest_of_names(const PredictionData& data) {
  const auto name = data.sample_name();
  if (!name) return "";
  uint64_t digest = fnv1a("");
  for (int64_t i = 0; i < data.data->size(); ++i) digest = fnv1a(name(i) + "\n", digest);
  return hexadecimal(digest);
}

// The manifest has the checksums of the checkpoint's files.
std::string digest_of_weights(const TrainedRun& run) {
  if (!run.weights.empty()) return fingerprint_of(run.weights);
  return hexadecimal(fnv1a(read_file(run.checkpoint / "manifest.json")));
}

// Rows of COCO's kind say the ids of their classes: each needs one.
void check_ids(const DetectionDataset& images, const PredictionData& data) {
  const std::vector<int64_t>& ids = images.images().category_ids;
  const auto none = std::ranges::find(ids, kNoCategoryId);
  if (none == ids.end()) return;
  throw Error(ExitCode::kBadData, data.source,
              cat("has no category ", quote(data.class_names.at(static_cast<size_t>(none - ids.begin()))),
                  ", and the id that the training data have for it is another one's there"),
              "add the category to the annotations; or write a .csv, which has names");
}

// Boxes are told of pixels of the files, where samples are images of files.
std::unique_ptr<const RowWriter> make_box_rows(const PredictOptions& options, const PredictionData& data) {
  if (options.top != 1 || options.probabilities)
    throw Error(ExitCode::kUsage, options.probabilities ? "--probabilities" : "--top",
                "is for rows of a run that tells classes apart, and this one finds boxes", "leave it out");
  const PredictionFormat format = format_of(options.output);
  const auto* const images = dynamic_cast<const DetectionDataset*>(data.data.get());
  if (images != nullptr && format == PredictionFormat::kJsonl) check_ids(*images, data);
  return std::make_unique<BoxRows>(BoxRowOptions{.format = format,
                                                 .least_score = options.least_score.value_or(kUsualScore),
                                                 .class_names = data.class_names,
                                                 .sample_name = data.sample_name(),
                                                 .images = images});
}

std::unique_ptr<const RowWriter> make_rows(const PredictOptions& options, Predictor& predictor,
                                           PredictionRule& rule, const TrainedRun& run) {
  const PredictionFormat format = format_of(options.output);
  const PredictionData& data = predictor.data();
  rule = prediction_rule(run.recipe.loss, predictor.first_output(), format == PredictionFormat::kNpy);
  if (rule.kind == PredictionKind::kBoxes) return make_box_rows(options, data);
  if (options.least_score)
    throw Error(ExitCode::kUsage, "--score",
                "is for rows of boxes: of a run with loss yolo, as .csv or .jsonl", "leave it out");
  if (format == PredictionFormat::kNpy && data.data->cost(0)) {
    throw Error(ExitCode::kUsage, "--output", "an array has no place for samples that differ in length",
                "end it in .csv or .jsonl");
  }
  return std::make_unique<PredictionRows>(rule.kind, predictor.told_of_first(rule),
                                          RowOptions{.format = format,
                                                     .samples = data.data->size(),
                                                     .top = options.top,
                                                     .probabilities = options.probabilities,
                                                     .class_names = data.class_names,
                                                     .sample_name = data.sample_name()});
}

// A model with samples to predict, and how rows are made of what it says.
struct Prepared {
  Prepared(const PredictOptions& options, const TrainedRun& run, std::optional<ResolvedBudget> settled = {})
      : predictor(run, options.data, std::move(settled)), rows(make_rows(options, predictor, rule, run)) {
    predictor.set_rows(rule, *rows);
  }

  Predictor predictor;
  PredictionRule rule;
  const std::unique_ptr<const RowWriter> rows;
};

class Prediction {
 public:
  Prediction(const PredictOptions& options, const PredictionListener& listener)
      : options_(options), listener_(listener) {}

  PredictionSummary run() {
    format_of(options_.output);
    lock_ = lock_prediction(options_.output);
    if (!check_start(options_.output, options_.start)) {
      summary_.already_whole = true;
      return summary_;
    }
    run_ = open_trained_run(options_.run, options_.overrides);
    check_not_needed(run_, options_.output);
    check_differs_from_data();
    summary_.update = run_.update;
    prepare();
    write_all();
    return summary_;
  }

 private:
  // A table that is predicted would be gone.
  void check_differs_from_data() const {
    std::error_code error;
    if (!std::filesystem::equivalent(options_.data, options_.output, error)) return;
    throw Error(ExitCode::kUsage, options_.output.string(), "is --data, too, which it would replace",
                "give another --output");
  }

  // Decides the batch, and makes what predicts with it.
  void prepare() {
    if (options_.start == PredictionStart::kResume) kept_ = stopped_prediction(options_.output);
    std::optional<ResolvedBudget> settled;
    if (kept_) {
      check_batch_of(*kept_);
    } else if (options_.search_apart) {
      settled = search_apart();
    }
    prepared_ = std::make_unique<Prepared>(options_, run_, std::move(settled));
    if (!kept_ && !options_.search_apart) summary_.search = search(*prepared_, {}, {});
    summary_.batch = kept_ ? kept_->batch : summary_.search->micro_batch;
    summary_.budget_bytes = predictor().device().budget_bytes();
    const PredictionData& data = predictor().data();
    if (!data.note.empty()) log::info("predict", data.note);
    const std::vector<Doubt> doubts = data.doubts ? data.doubts() : std::vector<Doubt>();
    for (const Doubt& doubt : doubts) log::warn("data", warning_of(doubt));
    begin_file();
  }

  void check_batch_of(const PredictionState& kept) const {
    if (!options_.batch) return;
    const int64_t samples = count_in(kept.identity, "samples");  // no batch is larger
    if (std::min(*options_.batch, samples) == kept.first_batch) return;
    throw Error(
        ExitCode::kUsage, "--batch",
        cat("the stopped prediction was begun in batches of ", kept.first_batch, ", not ", *options_.batch),
        "leave --batch out; or --overwrite begins anew");
  }

  SearchResult search(Prepared& prepared, const std::vector<ProbeRecord>& known,
                      const TrialListener& listener) const {
    TrialListener both = listener;
    both.on_start = [&](int64_t batch) {
      listener_.on_trial(batch);
      listener.on_start(batch);
    };
    return prepared.predictor.find_batch(options_.batch, options_.latency_seconds, known, both);
  }

  // Whatever the search leaves in memory ends with its process.
  ResolvedBudget search_apart() {
    const auto make = [&](const std::vector<ProbeRecord>& known, RunObserver& observer) {
      Prepared prepared(options_, run_);
      BatchPlan plan;
      plan.search = search(prepared, known,
                           {.on_start = [&](int64_t batch) { observer.on_trial(batch); },
                            .on_end = [&](const ProbeRecord& trial) { observer.on_probe(trial); }});
      plan.budget_bytes = prepared.predictor.device().budget_bytes();
      plan.budget_source = prepared.predictor.device().budget_source();
      return plan;
    };
    RunObserver nobody;
    const BatchPlan plan = plan_in_own_process(make, nobody);
    summary_.search = plan.search;
    return {plan.budget_bytes, plan.budget_source};
  }

  // Everything that a row, or how samples are put together, depends on.
  nlohmann::ordered_json identity() const {
    const LoraRecipe& lora = run_.recipe.lora;
    nlohmann::ordered_json all = {{"update", run_.update},
                                  {"weights", digest_of_weights(run_)},
                                  {"model", words_of(run_.recipe.model)},
                                  {"adapter_scale", lora.active() ? lora.scale() : 1.0},
                                  {"loss", words_of(run_.recipe.loss)},
                                  {"precision", to_string(run_.plan.precision)},
                                  {"memory_format", to_string(run_.plan.memory_format)},
                                  {"device", prepared_->predictor.device().name()},
                                  {"data", prepared_->predictor.data().source},
                                  {"samples", prepared_->predictor.data().data->size()},
                                  {"names", digest_of_names(prepared_->predictor.data())},
                                  {"columns", prepared_->rows->columns()}};
    // Images are known by their names, and one that could not be read may be mended before it goes on.
    const PredictionData& data = prepared_->predictor.data();
    if (!data.sample_name()) all["files"] = data.fingerprint();
    if (prepared_->rule.kind == PredictionKind::kBoxes)
      all["score"] = options_.least_score.value_or(kUsualScore);
    return all;
  }

  void begin_file() {
    if (kept_) check_same_prediction(options_.output, *kept_, identity());
    file_ = std::make_unique<PredictionFile>(
        options_.output,
        kept_ ? *kept_ : PredictionState{.identity = identity(), .first_batch = summary_.batch});
    done_ = summary_.resumed_from = file_->state().samples;
    if (done_ == 0) file_->write(prepared_->rows->header());
    file_->mark(done_, summary_.batch);
  }

  void write_all() {
    const Stopwatch watch;
    const int64_t total = predictor().data().data->size();
    while (done_ < total) {
      if (write_batch()) listener_.on_batch(done_, total, summary_.resumed_from);
      if (pending_interrupt() == Interrupt::kStop && done_ < total) stop(total);
    }
    file_->finish();
    summary_.samples = total;
    summary_.seconds = watch.seconds();
    summary_.samples_per_second = static_cast<double>(total - summary_.resumed_from) / summary_.seconds;
  }

  [[noreturn]] void stop(int64_t total) {
    file_->mark(done_, summary_.batch);
    throw Error(ExitCode::kInterrupted, options_.output.string(),
                cat("stopped by a signal after ", done_, " of ", total, " samples"),
                "the same command with --resume goes on");
  }

  // Writes the rows of the next batch. False: memory ran out, and it is to be tried again.
  bool write_batch() {
    try {
      if (!loader_) loader_ = predictor().open_loader(done_, summary_.batch);
      const Batch batch = *loader_->next();
      const std::string rows = predictor().rows_of(done_, batch);
      file_->write(rows);
      done_ += batch.samples;
    } catch (const std::exception& error) {
      if (!lacks_memory(error)) throw;
      prepare_another_attempt(error);
      return false;
    }
    attempts_.begin_anew();
    if (since_mark_.seconds() >= kSecondsBetweenMarks) {
      file_->mark(done_, summary_.batch);
      since_mark_.restart();
    }
    return true;
  }

  void prepare_another_attempt(const std::exception& error) {
    loader_.reset();
    MemoryMeter& memory = predictor().device().memory();
    const std::optional<Refusal> refusal = memory.last_refusal();
    memory.empty_cache();
    memory.reset_peak();
    const int64_t next = attempts_.after_failure(summary_.batch);
    if (next == 0) {
      throw Error(ExitCode::kDoesNotFit, "predict",
                  cat("out of memory with one sample in a batch: ", first_line(error),
                      refusal ? describe(*refusal) : ""),
                  "raise execution.memory.budget, or use less memory elsewhere; --resume goes on");
    }
    const int64_t before = std::exchange(summary_.batch, next);
    ++summary_.oom_recoveries;
    log::warn("predict", cat("out of memory with a batch of ", before, " from sample ", done_,
                             " on: the same samples again, in batches of ", summary_.batch));
    file_->mark(done_, summary_.batch);  // from where on they are smaller
  }

  Predictor& predictor() { return prepared_->predictor; }

  const PredictOptions& options_;
  const PredictionListener& listener_;
  std::unique_ptr<FileLock> lock_;  // outlives the file
  TrainedRun run_;
  std::optional<PredictionState> kept_;  // of a stopped prediction
  std::unique_ptr<Prepared> prepared_;
  std::unique_ptr<PredictionFile> file_;
  std::unique_ptr<Loader> loader_;
  Attempts attempts_;  // at the batch under way
  int64_t done_ = 0;   // samples whose rows are written
  Stopwatch since_mark_;
  PredictionSummary summary_;
};

}  // namespace

PredictionSummary predict(const PredictOptions& options, const PredictionListener& listener) {
  return Prediction(options, listener).run();
}

}  // namespace autotrain
