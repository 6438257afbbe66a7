#include "model/generation.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "autotrain/error.h"

namespace autotrain {
namespace {

// Tokens of a pass over beginnings: more at once gain nothing, and take memory.
constexpr int64_t kMostPrefillTokens = 8192;

}  // namespace

Generation::Generation(Decoder& decoder, KeyValueCache& cache, const SamplingRule& rule, Admission admission,
                       torch::Device device)
    : decoder_(decoder), cache_(cache), rule_(rule), admission_(admission), device_(device) {}

std::vector<std::vector<int64_t>> Generation::run(const std::vector<GenerationRequest>& requests,
                                                  const std::function<void(int64_t)>& on_pass) {
  const torch::NoGradGuard no_gradients;
  requests_ = &requests;
  made_.assign(requests.size(), {});
  waiting_.resize(requests.size());
  std::iota(waiting_.begin(), waiting_.end(), size_t{0});
  while (!waiting_.empty() || !slots_.empty()) {
    admit();
    retire();  // one token may be all that was asked for
    if (!slots_.empty()) step();
    retire();
    on_pass(count_.tokens);
  }
  return std::move(made_);
}

void Generation::admit() {
  if (admission_ == Admission::kStatic && !slots_.empty()) return;
  const auto room = static_cast<size_t>(cache_.shape().sequences);
  while (slots_.size() < room && !waiting_.empty()) {
    const size_t first = slots_.size();
    int64_t longest = 0;
    while (slots_.size() < room && !waiting_.empty()) {
      const int64_t length = std::ssize((*requests_)[waiting_.front()].prompt);
      longest = std::max(longest, length);
      const auto taken = static_cast<int64_t>(slots_.size() - first);
      if (taken > 0 && longest * (taken + 1) > kMostPrefillTokens) break;
      slots_.push_back({.request = waiting_.front(), .length = length});
      waiting_.pop_front();
    }
    prefill(first);
  }
}

// Shorter beginnings are filled up behind their end, where nothing sees them.
void Generation::prefill(size_t first_slot) {
  std::vector<int64_t> lengths;
  for (size_t i = first_slot; i < slots_.size(); ++i) lengths.push_back(slots_[i].length);
  const torch::Tensor tokens = at::zeros({std::ssize(lengths), std::ranges::max(lengths)}, torch::kInt64);
  for (int64_t i = 0; i < std::ssize(lengths); ++i) {
    const auto& prompt = (*requests_)[slots_[first_slot + static_cast<size_t>(i)].request].prompt;
    std::ranges::copy(prompt, tokens[i].data_ptr<int64_t>());
  }
  const auto first = static_cast<int64_t>(first_slot);
  take(decoder_.prefill(tokens.to(device_), lengths, cache_, first), first_slot);
  ++count_.prefills;
}

void Generation::step() {
  std::vector<int64_t> tokens, positions;
  for (Slot& slot : slots_) {
    tokens.push_back(made_[slot.request].back());
    // One that is done and goes along writes over its last place.
    positions.push_back(is_done(slot) ? slot.length - 1 : slot.length++);
  }
  take(decoder_.step(at::tensor(tokens, torch::kInt64).to(device_), positions, cache_), 0);
  ++count_.steps;
  count_.slot_steps += std::ssize(slots_);
}

void Generation::take(const torch::Tensor& logits, size_t first_slot) {
  const torch::Tensor rows = logits.to(torch::kCPU, torch::kFloat32).contiguous();
  if (rows.isnan().any().item<bool>() || rows.isposinf().any().item<bool>()) {
    throw Error(ExitCode::kBadData, "model",
                "gives logits that are not finite, of which no token can be drawn",
                "take an earlier checkpoint; or train in execution.precision: fp32");
  }
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const Slot& slot = slots_[first_slot + static_cast<size_t>(i)];
    if (is_done(slot)) continue;
    std::vector<int64_t>& made = made_[slot.request];
    Random random(derive_key((*requests_)[slot.request].key, made.size()));
    const std::span row(rows[i].const_data_ptr<float>(), static_cast<size_t>(rows.size(1)));
    made.push_back(draw_token(row, rule_, random));
    ++count_.tokens;
  }
}

// The last sequence takes the place of one that is done, so that those under way stay the first.
void Generation::retire() {
  if (admission_ == Admission::kStatic) {
    if (std::ranges::all_of(slots_, [this](const Slot& slot) { return is_done(slot); })) slots_.clear();
    return;
  }
  for (size_t i = slots_.size(); i-- > 0;) {
    if (!is_done(slots_[i])) continue;
    const size_t last = slots_.size() - 1;
    if (i != last) cache_.copy(static_cast<int64_t>(last), static_cast<int64_t>(i), slots_[last].length);
    slots_[i] = slots_[last];
    slots_.pop_back();
  }
}

bool Generation::is_done(const Slot& slot) const {
  const GenerationRequest& request = (*requests_)[slot.request];
  const std::vector<int64_t>& made = made_[slot.request];
  return std::ssize(made) >= request.tokens ||
         (request.stop && !made.empty() && made.back() == *request.stop);
}

}  // namespace autotrain
