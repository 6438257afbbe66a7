#include "predict/generate.h"

#include <algorithm>
#include <utility>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/token_text.h"
#include "device/memory_phase.h"
#include "model/generation.h"
#include "model/models.h"
#include "plan/memory_statement.h"
#include "setup/assembly.h"
#include "setup/data_places.h"
#include "step/autocast.h"
#include "step/precision.h"
#include "study/needed_files.h"

namespace autotrain {
namespace {

constexpr int64_t kMostAtOnce = 32;

// A trained model that decodes, on its device.
class GeneratingModel {
 public:
  explicit GeneratingModel(const TrainedRun& run)
      : recipe_(run.as_planned()), device_(open_run_device(recipe_)) {
    within_budget(*device_, [&] {
      const PhaseScope phase(MemoryPhase::kModel);
      task_ = build_task(recipe_, make_dataset(training_place(recipe_))->info());
      task_->module().to(device_->torch_device());
    });
    precision_ = resolve_precision(recipe_.execution.precision, *device_, task_->module());
    set_products(precision_, *device_);
    task_->module().eval();
    load_evaluated_weights(run, task_->module());
    dynamic_cast<Network&>(task_->module()).merge_adapters();  // once, and not for each token
  }

  Device& device() { return *device_; }
  Precision precision() const { return precision_; }
  TokenText token_text() const { return token_text_of(recipe_.data.train); }

  Decoder& decoder() {
    auto* const decoder = dynamic_cast<Decoder*>(&task_->module());
    if (decoder != nullptr) return *decoder;
    throw Error(
        ExitCode::kBadRecipe, "model.name",
        recipe_.model.name + " reads no tokens one after the other, and so generates none",
        "--prompt is for runs of model transformer; without it, predict says what a run makes of samples");
  }

 private:
  const Recipe recipe_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Task> task_;
  Precision precision_ = Precision::kFp32;
};

// Where the model has a vector for each position there is no further one.
void check_length(const DecoderFacts& facts, const std::string& where, int64_t prompt, int64_t asked) {
  constexpr int64_t kMostTokens = 1 << 30;  // more than any memory holds
  if (asked > kMostTokens)
    throw Error(ExitCode::kUsage, "--generate", cat(asked, " tokens cannot be generated"),
                cat("give ", kMostTokens, " or less"));
  const int64_t context = facts.cache.context;
  if (asked <= context - prompt) return;
  if (facts.any_length) {
    log::warn("predict", cat(where, ": ", prompt, " tokens and ", asked, " more are longer than the ",
                             context, " that the run was trained with: what lies beyond was never learned"));
    return;
  }
  throw Error(ExitCode::kUsage, where,
              cat("has ", prompt, " tokens, and with ", asked, " more they are longer than the ", context,
                  " positions that the model has"),
              prompt < context ? cat("give --generate ", context - prompt, " or less, or a shorter prompt")
                               : "give a shorter prompt");
}

std::vector<GenerationRequest> requests_of(const GenerateOptions& options, const DecoderFacts& facts,
                                           const TokenText& how) {
  std::vector<GenerationRequest> requests;
  const auto seed = static_cast<uint64_t>(options.seed);
  for (size_t i = 0; i < options.prompts.size(); ++i) {
    const std::string where = options.prompts.size() == 1 ? "--prompt" : cat("--prompt number ", i + 1);
    std::vector<int64_t> prompt = tokens_of(how, options.prompts[i], facts.vocabulary, where);
    check_length(facts, where, std::ssize(prompt), options.tokens);
    requests.push_back({.prompt = std::move(prompt),
                        .tokens = options.tokens,
                        .key = derive_key(seed, fnv1a("generation"), i),
                        .stop = how.boundary});
  }
  return requests;
}

// The cache of all sequences at once, in a budget that holds the weights as well.
void check_cache(const CacheShape& shape, int64_t tokens, int64_t budget_bytes, int64_t element_bytes) {
  const double bytes = static_cast<double>(shape.sequences) * static_cast<double>(tokens) *
                       static_cast<double>(shape.bytes_per_token(element_bytes));
  if (bytes < static_cast<double>(budget_bytes)) return;
  throw Error(ExitCode::kDoesNotFit, "predict",
              cat("the keys and values of ", shape.sequences, " sequences of up to ", tokens, " tokens take ",
                  bytes < 9e18 ? format_bytes(static_cast<int64_t>(bytes)) : "more bytes than can be counted",
                  ", and the budget is ", format_bytes(budget_bytes)),
              "give a smaller --batch or --generate, or raise execution.memory.budget");
}

CacheShape cache_for(CacheShape shape, const std::vector<GenerationRequest>& requests, int64_t batch) {
  shape.sequences = batch;
  shape.context = 0;
  for (const GenerationRequest& request : requests)
    shape.context = std::max(shape.context, std::ssize(request.prompt) + request.tokens);
  return shape;
}

GeneratedText text_of(const TokenText& how, const std::string& prompt, const GenerationRequest& request,
                      std::vector<int64_t> tokens) {
  GeneratedText text{.prompt = prompt};
  text.ended = how.boundary && !tokens.empty() && tokens.back() == *how.boundary;
  if (text.ended) tokens.pop_back();
  std::vector<int64_t> whole = request.prompt;
  whole.insert(whole.end(), tokens.begin(), tokens.end());
  text.text = text_of_tokens(how, tokens);
  text.whole = text_of_tokens(how, whole);
  text.tokens = std::move(tokens);
  return text;
}

}  // namespace

GenerateSummary generate(const GenerateOptions& options, const std::function<void(int64_t)>& on_pass) {
  const TrainedRun run = open_trained_run(options.run, options.overrides);
  if (!options.output.empty()) check_not_needed(run, options.output);
  GeneratingModel model(run);
  Decoder& decoder = model.decoder();
  const TokenText how = model.token_text();
  const std::vector<GenerationRequest> requests = requests_of(options, decoder.facts(), how);
  GenerateSummary summary{.update = run.update};
  summary.batch = std::min(options.batch.value_or(kMostAtOnce), std::ssize(requests));
  const auto device = model.device().torch_device();
  within_budget(model.device(), [&] {
    const AutocastScope autocast(device.type(), model.precision());
    const CacheShape shape = cache_for(decoder.facts().cache, requests, summary.batch);
    const auto type = product_type(model.precision());
    check_cache(shape, shape.context, model.device().budget_bytes(),
                static_cast<int64_t>(c10::elementSize(type)));
    KeyValueCache cache(shape, torch::TensorOptions(device).dtype(type));
    summary.cache_bytes = cache.bytes();
    Generation generation(decoder, cache, options.sampling, Admission::kContinuous, device);
    const Stopwatch watch;
    auto made = generation.run(requests, [&](int64_t done) {
      stop_if_interrupted("predict", "a signal stopped it; nothing was written");
      if (on_pass) on_pass(done);
    });
    summary.seconds = watch.seconds();
    summary.tokens = generation.count().tokens;
    for (size_t i = 0; i < made.size(); ++i)
      summary.texts.push_back(text_of(how, options.prompts[i], requests[i], std::move(made[i])));
  });
  return summary;
}

}  // namespace autotrain
