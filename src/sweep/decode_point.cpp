#include "sweep/decode_point.h"

#include <ATen/ops/randint.h>

#include <algorithm>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/random.h"
#include "measure/bandwidth.h"
#include "measure/decoding_subject.h"
#include "measure/machine.h"
#include "measure/timing.h"
#include "model/generation.h"
#include "recipe/recipe_enums.h"
#include "sweep/decode.h"
#include "sweep/decode_columns.h"
#include "sweep/sweep_point.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kPrefillTokens = 8192;  // of a pass, at most, or one sequence
constexpr double kPrefillShare = 0.5;     // of the time for repeats
constexpr int kLeastPrefills = 2, kWarmSteps = 3;
constexpr int kTurns = 3;          // of both ways of filling slots
constexpr int64_t kMostAlone = 8;  // requests that are generated alone, too

void stop_decoding_if_asked() {
  stop_if_interrupted("sweep", "a signal stopped it; finished points are kept");
}

// Sequences of a batch at one context, and what is done with them over and over.
class DecodeBatch {
 public:
  DecodeBatch(DecodingSubject& subject, int64_t batch, int64_t context)
      : subject_(subject),
        cache_(subject.make_cache(batch, context)),
        tokens_(at::randint(subject.decoder().facts().vocabulary, {batch, context}, torch::kInt64)
                    .to(subject.device().torch_device())) {}

  const KeyValueCache& cache() const { return cache_; }

  double prefill_seconds() {
    const int64_t batch = tokens_.size(0), context = tokens_.size(1);
    const int64_t group = std::max<int64_t>(1, kPrefillTokens / context);
    const Stopwatch watch;
    for (int64_t first = 0; first < batch; first += group) {
      stop_decoding_if_asked();
      const int64_t n = std::min(group, batch - first);
      const std::vector<int64_t> lengths(static_cast<size_t>(n), context);
      subject_.decoder().prefill(tokens_.narrow(0, first, n), lengths, cache_, first);
    }
    subject_.device().synchronize();
    return watch.seconds();
  }

  // The last place again and again: every step reads the same cache.
  double step_seconds() {
    stop_decoding_if_asked();
    const int64_t last = tokens_.size(1) - 1;
    const std::vector<int64_t> positions(static_cast<size_t>(tokens_.size(0)), last);
    const Stopwatch watch;
    subject_.decoder().step(tokens_.select(1, last), positions, cache_);
    subject_.device().synchronize();
    return watch.seconds();
  }

 private:
  DecodingSubject& subject_;
  KeyValueCache cache_;
  torch::Tensor tokens_;
};

// What the last step read of the experts.
struct ExpertsRead {
  Json read = nullptr, expected = nullptr, busiest = nullptr;
  int64_t bytes_not_read = 0;
};

ExpertsRead experts_read(const DecodingSubject& subject, int64_t batch) {
  ExpertsRead all;
  const std::vector<Experts> layers = subject.expert_layers();
  if (layers.empty()) return all;
  double read = 0, expected = 0, busiest = 0;
  for (const Experts& layer : layers) {
    const torch::Tensor tokens = layer->loads().tokens.to(torch::kCPU, torch::kFloat64);
    const auto of_layer = (tokens > 0).sum().item<int64_t>();
    read += static_cast<double>(of_layer);
    expected += distinct_experts(subject.expert_options(), static_cast<double>(batch));
    busiest += (tokens.max() / tokens.mean()).item<double>();
    all.bytes_not_read += (tokens.numel() - of_layer) * layer->bytes_of_one();
  }
  const auto count = static_cast<double>(layers.size());
  all.read = read / count;
  all.expected = expected / count;
  all.busiest = busiest / count;
  return all;
}

double best_prefill(DecodeBatch& batch, double seconds) {
  double best = batch.prefill_seconds();
  const Stopwatch watch;
  for (int passes = 1; best < seconds && (passes < kLeastPrefills || watch.seconds() < seconds); ++passes)
    best = std::min(best, batch.prefill_seconds());
  return best;
}

std::vector<double> step_latencies(DecodeBatch& batch, double seconds) {
  for (int i = 0; i < kWarmSteps; ++i) batch.step_seconds();
  std::vector<double> latencies;
  const Stopwatch watch;
  while (!repeat_end(latencies, watch.seconds(), {.seconds = seconds}))
    latencies.push_back(batch.step_seconds());
  return latencies;
}

// Prompts of up to a quarter of the context; most answers short, some as long as fits.
std::vector<GenerationRequest> unequal_requests(int64_t count, int64_t context, int64_t vocabulary,
                                                uint64_t seed) {
  std::vector<GenerationRequest> requests;
  Random random(derive_key(seed, fnv1a("requests")));
  for (int64_t i = 0; i < count; ++i) {
    GenerationRequest& request = requests.emplace_back();
    const int64_t prompt = 1 + random.below(std::max<int64_t>(1, context / 4));
    for (int64_t j = 0; j < prompt; ++j) request.prompt.push_back(random.below(vocabulary));
    const double share = random.uniform();
    request.tokens = 1 + static_cast<int64_t>(share * share * static_cast<double>(context - prompt - 1));
  }
  return requests;
}

struct Turn {
  std::vector<std::vector<int64_t>> made = {};
  GenerationCount count = {};
  double seconds = 0;

  double rate() const { return static_cast<double>(count.tokens) / seconds; }
  double use() const {
    if (count.slot_steps == 0) return 1;  // no request had a second token
    // The first token of a request is of its prefill.
    return static_cast<double>(count.tokens - std::ssize(made)) / static_cast<double>(count.slot_steps);
  }
};

Turn generate_all(DecodingSubject& subject, KeyValueCache& cache,
                  const std::vector<GenerationRequest>& requests, Admission admission) {
  Generation generation(subject.decoder(), cache, {}, admission, subject.device().torch_device());
  Turn turn;
  const Stopwatch watch;
  turn.made = generation.run(requests, [](int64_t) { stop_decoding_if_asked(); });
  turn.seconds = watch.seconds();
  turn.count = generation.count();
  return turn;
}

void compare_with_alone(DecodingSubject& subject, const std::vector<GenerationRequest>& requests,
                        const Turn& turn, BatchingComparison& b) {
  KeyValueCache cache = subject.make_cache(1, b.context);
  b.alone = std::min(kMostAlone, b.requests);
  for (size_t i = 0; i < static_cast<size_t>(b.alone); ++i) {
    const Turn alone = generate_all(subject, cache, {requests[i]}, Admission::kStatic);
    b.same_alone += alone.made.front() == turn.made[i];
  }
}

Json compare_batching(DecodingSubject& subject, const std::vector<GenerationRequest>& requests,
                      BatchingComparison b) {
  KeyValueCache cache = subject.make_cache(b.slots, b.context);
  std::vector<double> of_static, of_continuous;
  Turn static_turn, continuous;
  generate_all(subject, cache, requests, Admission::kContinuous);  // compiles kernels
  for (int i = 0; i < kTurns; ++i) {
    static_turn = generate_all(subject, cache, requests, Admission::kStatic);
    continuous = generate_all(subject, cache, requests, Admission::kContinuous);
    of_static.push_back(static_turn.rate());
    of_continuous.push_back(continuous.rate());
  }
  b.tokens = continuous.count.tokens;
  b.static_tokens_per_second = median_of(of_static);
  b.continuous_tokens_per_second = median_of(of_continuous);
  b.gain = b.continuous_tokens_per_second / b.static_tokens_per_second;
  b.static_steps = static_turn.count.steps;
  b.continuous_steps = continuous.count.steps;
  b.static_use = static_turn.use();
  b.continuous_use = continuous.use();
  compare_with_alone(subject, requests, continuous, b);
  return json_of(batching_columns(), b);
}

}  // namespace

Json measure_decoder(const Recipe& recipe) {
  DecodingSubject subject(recipe);
  const DecoderFacts facts = subject.decoder().facts();
  const auto number_bytes = static_cast<int64_t>(subject.make_cache(1, 1).keys(0).element_size());
  subject.device().memory().remove_limit();  // the machine is measured, not the part of it that may be used
  return {{"precision", to_string(subject.precision())},
          {"weight_bytes", facts.weight_bytes},
          {"token_bytes", facts.cache.bytes_per_token(number_bytes)},
          {"step_products", facts.step_products},
          {"attention_products", 2 * facts.cache.layers * facts.attention_heads * facts.cache.head_size},
          {"machine",
           to_json(measure_machine(subject.device(), std::min(kMachineSeconds, recipe.sweep.max_seconds)))}};
}

Json measure_decode_point(const Recipe& recipe, int64_t batch, int64_t context) {
  DecodingSubject subject(recipe);
  return of_batch(batch, [&]() -> Json {
    const c10::InferenceMode no_gradients;
    subject.device().memory().reset_peak();
    DecodeBatch sequences(subject, batch, context);
    const double seconds = recipe.sweep.max_seconds;
    const double prefill = best_prefill(sequences, kPrefillShare * seconds);
    const std::vector<double> latencies = step_latencies(sequences, seconds);
    subject.device().memory().sample_outside_bytes();
    const int64_t peak = subject.device().memory().peak().total_bytes();
    const ExpertsRead experts = experts_read(subject, batch);
    const int64_t weights = subject.decoder().facts().weight_bytes - experts.bytes_not_read,
                  cache = sequences.cache().bytes();
    subject.device().memory().remove_limit();
    return {{"latencies_seconds", latencies},
            {"prefill_seconds", prefill},
            {"experts_read", experts.read},
            {"experts_expected", experts.expected},
            {"busiest_expert", experts.busiest},
            {"weight_bytes", weights},
            {"cache_bytes", cache},
            {"bytes_per_second", read_bytes_per_second(subject.device(), weights + cache)},
            {"peak_bytes", peak}};
  });
}

Json measure_batching(const Recipe& recipe, int64_t slots, int64_t context, int64_t requests) {
  DecodingSubject subject(recipe);
  return of_batch(slots, [&] {
    const auto all = unequal_requests(requests, context, subject.decoder().facts().vocabulary,
                                      static_cast<uint64_t>(recipe.seed));
    return compare_batching(subject, all, {.slots = slots, .context = context, .requests = requests});
  });
}

}  // namespace autotrain
