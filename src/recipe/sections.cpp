#include "recipe/sections.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "recipe/words.h"

namespace autotrain {
namespace {

bool allows_auto(const KeySpec& spec) {
  for (const std::string& word : spec.words) {
    if (word == "auto") return true;
  }
  return false;
}

// What an unset optional prints as: the word "auto" where the key knows it, else null.
Value unset_value(const KeySpec& spec) {
  return allows_auto(spec) ? Value(std::string("auto")) : Value(std::monostate{});
}

double as_real(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

bool is_number(const Value& value) {
  return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
}

Field bind(KeySpec spec, bool& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<bool>(value); }};
}

Field bind(KeySpec spec, int64_t& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<int64_t>(value); }};
}

Field bind(KeySpec spec, double& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = as_real(value); }};
}

Field bind(KeySpec spec, std::string& member) {
  return {std::move(spec), [&] { return Value(member); },
          [&](const Value& value) { member = std::get<std::string>(value); }};
}

Field bind(KeySpec spec, std::optional<int64_t>& member) {
  const Value unset = unset_value(spec);
  return {std::move(spec), [&member, unset] { return member ? Value(*member) : unset; },
          [&](const Value& value) {
            member = is_number(value) ? std::optional(std::get<int64_t>(value)) : std::nullopt;
          }};
}

Field bind(KeySpec spec, std::optional<double>& member) {
  const Value unset = unset_value(spec);
  return {std::move(spec), [&member, unset] { return member ? Value(*member) : unset; },
          [&](const Value& value) {
            member = is_number(value) ? std::optional(as_real(value)) : std::nullopt;
          }};
}

Field bind(KeySpec spec, std::optional<bool>& member) {
  const Value unset = unset_value(spec);
  return {std::move(spec), [&member, unset] { return member ? Value(*member) : unset; },
          [&](const Value& value) {
            const auto* const given = std::get_if<bool>(&value);
            member = given != nullptr ? std::optional(*given) : std::nullopt;
          }};
}

template <class E>
Field bind_enum(KeySpec spec, E& member) {
  spec.kind = KeyKind::kWord;
  spec.words = choices_of<E>();
  return {std::move(spec), [&] { return Value(std::string(name_of(member))); },
          [&](const Value& value) { member = *parse_enum<E>(std::get<std::string>(value)); }};
}

// Amounts are text with a form: "2GiB", "1 epoch", "5%".
template <class Amount>
Field bind_amount(KeySpec spec, Amount& member, std::string form, std::string pattern) {
  spec.kind = KeyKind::kText;
  spec.form = std::move(form);
  spec.pattern = std::move(pattern);
  spec.accepts = [](const std::string& text) { return Amount::parse(text).has_value(); };
  return {std::move(spec), [&] { return Value(member.text()); },
          [&](const Value& value) { member = *Amount::parse(std::get<std::string>(value)); }};
}

constexpr const char* kIntervalForm = "\"1 epoch\", \"500 updates\", \"10000 samples\", \"10 minutes\" or never";
constexpr const char* kIntervalPattern =
    "^(never|[0-9]+([.][0-9]+)? (epochs?|minutes?)|[0-9]+ (updates?|samples?))$";

KeySpec integer(std::string name, std::string sentence, double least = 1, std::string unit = "") {
  return {.name = std::move(name), .kind = KeyKind::kInteger, .sentence = std::move(sentence),
          .unit = std::move(unit), .least = least, .most = 0x1p53};
}

KeySpec auto_integer(std::string name, std::string sentence, std::string unit = "") {
  KeySpec spec = integer(std::move(name), std::move(sentence), 1, std::move(unit));
  spec.words = {"auto"};
  return spec;
}

KeySpec real(std::string name, std::string sentence, double least, double most, std::string unit = "") {
  return {.name = std::move(name), .kind = KeyKind::kReal, .sentence = std::move(sentence),
          .unit = std::move(unit), .least = least, .most = most};
}

KeySpec positive(KeySpec spec) {
  spec.above_least = true;
  return spec;
}

KeySpec flag(std::string name, std::string sentence) {
  return {.name = std::move(name), .kind = KeyKind::kBool, .sentence = std::move(sentence)};
}

KeySpec text(std::string name, std::string sentence) {
  return {.name = std::move(name), .kind = KeyKind::kText, .sentence = std::move(sentence)};
}

KeySpec word(std::string name, std::string sentence, std::vector<std::string> words) {
  return {.name = std::move(name), .kind = KeyKind::kWord, .sentence = std::move(sentence),
          .words = std::move(words)};
}

std::vector<std::string> names_of(const std::vector<ChoiceSpec>& rows) {
  std::vector<std::string> names;
  for (const ChoiceSpec& row : rows) names.push_back(row.name);
  return names;
}

Section root(Recipe& r) {
  KeySpec name = text("name", "Names the run's folder.");
  name.form = "letters, digits, '_', '-' and '.'";
  name.pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$";
  name.accepts = [](const std::string& value) {
    const char* const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    return !value.empty() && value.size() <= 100 && value[0] != '.' && value[0] != '-' &&
           value.find_first_not_of(allowed) == std::string::npos;
  };
  return {"", "",
          {bind(std::move(name), r.name),
           bind(integer("seed", "Everything random in the run derives from it.", 0), r.seed)}};
}

std::vector<Section> data_sections(Recipe& r, const Catalog& catalog) {
  const char* const which = "The data set, with its own keys beside it.";
  std::vector<Section> sections;
  sections.push_back({"data", "What is learned from, and what is measured on.",
                      {bind(flag("shuffle", "Visit the samples of each epoch in an order derived from "
                                            "the seed; false keeps the data set's order."),
                            r.data.shuffle)}});
  sections.push_back({.path = "data.train", .sentence = "Training samples.", .choice_key = "dataset",
                      .choice_sentence = which, .rows = &catalog.datasets,
                      .choice = [&r] { return &r.data.train; }});
  sections.push_back({.path = "data.validation",
                      .sentence = "Samples for evaluation; null: the run is not evaluated.",
                      .choice_key = "dataset", .choice_sentence = which, .rows = &catalog.datasets,
                      .choice = [&r] { return r.data.validation ? &*r.data.validation : nullptr; },
                      .set_present = [&r](bool present) {
                        r.data.validation = present ? std::optional(Choice{"", {}}) : std::nullopt;
                      }});
  sections.push_back({"data.augment", "Random changes of training images, keyed by sample and epoch.",
                      {bind(flag("flip", "Mirror images left to right with probability 1/2."),
                            r.data.augment.flip),
                       bind(integer("crop_padding", "Pad images by so much on every side and crop back at random.",
                                    0, "pixels"), r.data.augment.crop_padding)}});
  return sections;
}

Section optimizer_section(Recipe& r, const Catalog& catalog) {
  OptimizerRecipe& o = r.optimizer;
  KeySpec clip = positive(real("clip_norm", "Largest global L2 norm of an update's gradient; null: no clipping.", 0, 1e30));
  return {.path = "optimizer", .sentence = "How a gradient becomes a step.",
          .fields = {bind(positive(real("lr", "Learning rate at reference_batch samples per update.", 0, 1e6)), o.lr),
                     bind(integer("reference_batch", "Samples per update that lr was tuned for.", 1, "samples"),
                          o.reference_batch),
                     bind(real("weight_decay", "L2 penalty (sgd, adam) or decoupled decay (adamw).", 0, 1e6),
                          o.weight_decay),
                     bind(flag("decay_all", "Also decay biases and normalisation weights."), o.decay_all),
                     bind(std::move(clip), o.clip_norm)},
          .choice_key = "name", .choice_sentence = "The algorithm, with its own keys beside it.",
          .rows = &catalog.optimizers, .choice = [&r] { return &r.optimizer.algorithm; }};
}

Section schedule_section(Recipe& r, const Catalog& catalog) {
  return {.path = "schedule", .sentence = "How the learning rate changes over applied updates.",
          .fields = {bind_amount(text("warmup", "Linear rise from 0 at the start, as a part of the run or a length."),
                                 r.schedule.warmup, "\"5%\", \"200 updates\", \"100000 samples\" or 0",
                                 "^(0|[0-9]+([.][0-9]+)? ?%|[0-9]+ (updates?|samples?))$")},
          .choice_key = "name", .choice_sentence = "The shape after warm-up, with its own keys beside it.",
          .rows = &catalog.schedules, .choice = [&r] { return &r.schedule.shape; }};
}

Section batch_section(Recipe& r, const Catalog& catalog) {
  BatchRecipe& b = r.batch;
  return {"batch", "How many samples make an update.",
          {bind(auto_integer("effective", "Samples per update over all ranks, exactly; auto: one micro-batch on every rank.",
                             "samples"), b.effective),
           bind(auto_integer("max_effective", "Cap of effective: auto; auto: the smaller of 8 × reference_batch and N ÷ 20.",
                             "samples"), b.max_effective),
           bind(word("lr_rule", "How lr follows effective ÷ reference_batch.", names_of(catalog.lr_rules)), b.lr_rule),
           bind_enum(word("cut", "even: pieces of nearly equal size; full: pieces of the capacity and a remainder.", {}),
                     r.execution.cut)}};
}

Section stop_section(Recipe& r) {
  StopRecipe& s = r.stop;
  KeySpec last = word("last", "What becomes of the run's remainder that is smaller than the effective batch.",
                      {"drop", "keep"});
  Field last_field{std::move(last), [&s] { return Value(std::string(s.keep_last ? "keep" : "drop")); },
                   [&s](const Value& value) { s.keep_last = std::get<std::string>(value) == "keep"; }};
  return {"stop", "When the run ends; of several limits the first one reached.",
          {bind(positive(real("epochs", "Passes over the training data; fixes the number of updates.", 0, 1e9)), s.epochs),
           bind(integer("updates", "Applied updates."), s.updates),
           bind(integer("samples", "Training samples.", 1, "samples"), s.samples),
           bind(positive(real("minutes", "Wall-clock time of training, evaluation included.", 0, 1e7, "minutes")), s.minutes),
           std::move(last_field),
           bind(integer("patience", "Evaluations in a row without improvement; null: no early stopping."), s.patience),
           bind(real("min_delta", "What counts as an improvement of the monitored figure.", 0, 1e9), s.min_delta),
           bind(integer("max_skipped", "Consecutive skipped (non-finite) updates after which the run has diverged."),
                s.max_skipped)}};
}

Section evaluation_section(Recipe& r) {
  EvaluationRecipe& e = r.evaluation;
  return {"evaluation", "When the validation data are measured.",
          {bind_amount(text("every", "Evaluate at the first update boundary after each."), e.every, kIntervalForm,
                       kIntervalPattern),
           bind(text("monitor", "The figure that decides the best checkpoint and early stopping: loss, or a metric."),
                e.monitor),
           bind(auto_integer("micro_batch", "Samples per forward pass; auto: as in training.", "samples"), e.micro_batch)}};
}

Section execution_section(Recipe& r) {
  ExecutionRecipe& e = r.execution;
  KeySpec device = text("device", "Where to compute; auto: the first GPU, else the CPU.");
  device.form = "auto, cpu, cuda or cuda:N";
  device.pattern = "^(auto|cpu|cuda(:[0-9]+)?)$";
  device.accepts = [](const std::string& value) {
    const std::string digits = value.starts_with("cuda:") ? value.substr(5) : "0";
    return value == "auto" || value == "cpu" || value == "cuda" ||
           (value.starts_with("cuda:") && !digits.empty() && digits.size() < 4 &&
            digits.find_first_not_of("0123456789") == std::string::npos);
  };
  KeySpec deterministic = flag("deterministic", "Ask for kernels that repeat bit for bit; auto: on a CPU.");
  deterministic.words = {"auto"};
  return {"execution", "How the run fits its machine; changes no meaning above.",
          {bind(std::move(device), e.device),
           bind_enum(word("precision", "Arithmetic of forward and backward; parameters stay fp32. auto: bf16 where "
                                       "native, else fp32 on a CPU and fp16 with the scaler on a GPU.", {}), e.precision),
           bind(auto_integer("micro_batch", "Samples per forward and backward pass on one rank; auto: searched.", "samples"),
                e.micro_batch),
           bind(auto_integer("threads", "Compute threads; auto: the physical cores this process may use."), e.threads),
           bind(std::move(deterministic), e.deterministic)}};
}

Section memory_section(Recipe& r) {
  MemoryRecipe& m = r.execution.memory;
  KeySpec target{.name = "target", .kind = KeyKind::kRealList,
                 .sentence = "The band of the budget to fill at peak, as [low, high] fractions.",
                 .least = 0.01, .most = 1, .length = 2};
  Field target_field{std::move(target),
                     [&m] { return Value(std::vector<double>{m.target_low, m.target_high}); },
                     [&m](const Value& value) {
                       const auto& band = std::get<std::vector<double>>(value);
                       m.target_low = band[0], m.target_high = band[1];
                     }};
  return {"execution.memory", "The memory a run may use and how much of it to fill.",
          {bind_amount(text("budget", "Bytes above what the process used at its start."), m.budget,
                       "auto, bytes such as \"2GiB\", or a share of auto such as \"50%\"",
                       "^(auto|[0-9]+([.][0-9]+)? ?([kKmMgGtT]i?[bB]?|[bB])?|[0-9]+([.][0-9]+)? ?%)$"),
           std::move(target_field)}};
}

Section search_section(Recipe& r, const Catalog& catalog) {
  SearchRecipe& s = r.execution.search;
  return {"execution.search", "How the micro-batch is found.",
          {bind(word("strategy", "What to look for.", names_of(catalog.strategies)), s.strategy),
           bind_enum(word("pivot", "Where the search tries next: interpolated, or the textbook midpoint.", {}), s.pivot),
           bind(integer("multiple_of", "Prefer multiples of it.", 1, "samples"), s.multiple_of),
           bind(integer("max_micro_batch", "Never try more; null: no cap of your own.", 1, "samples"), s.max_micro_batch),
           bind(integer("max_probes", "Most trials."), s.max_probes),
           bind(positive(real("max_seconds", "No new trial after so long.", 0, 1e6, "seconds")), s.max_seconds),
           bind(flag("plan_cache", "Keep plans in the user's cache folder; a kept one is confirmed by one trial."),
                s.plan_cache)}};
}

Section loader_section(Recipe& r) {
  return {"execution.loader", "How samples reach the step.",
          {bind(integer("prefetch", "Micro-batches prepared ahead by a thread of its own; 0: none.", 0),
                r.execution.loader.prefetch)}};
}

Section scaler_section(Recipe& r) {
  ScalerRecipe& s = r.execution.scaler;
  return {"execution.scaler", "The dynamic loss scale of fp16 (bf16 and fp32 need none).",
          {bind(positive(real("initial_scale", "Scale of the first update; a power of two adds no rounding.", 0, 1e30)),
                s.initial_scale),
           bind(real("growth_factor", "Multiplies the scale after growth_interval applied updates.", 1, 1e6), s.growth_factor),
           bind(positive(real("backoff_factor", "Multiplies the scale after a skipped update.", 0, 1)), s.backoff_factor),
           bind(integer("growth_interval", "Applied updates in a row before the scale grows."), s.growth_interval),
           bind(positive(real("min_scale", "The scale never falls below it.", 0, 1e30)), s.min_scale)}};
}

Section checkpoint_section(Recipe& r) {
  return {"checkpoint", "What is kept of a run on disk; one is always written at the end.",
          {bind_amount(text("every", "Write at the first update boundary after each."), r.checkpoint.every,
                       kIntervalForm, kIntervalPattern),
           bind(integer("keep", "Newest checkpoints kept, besides the best."), r.checkpoint.keep)}};
}

}  // namespace

std::vector<Section> sections_of(Recipe& r, const Catalog& catalog) {
  std::vector<Section> all;
  all.push_back(root(r));
  for (Section& section : data_sections(r, catalog)) all.push_back(std::move(section));
  all.push_back({.path = "model", .sentence = "What is trained.", .choice_key = "name",
                 .choice_sentence = "The model, with its own keys beside it.", .rows = &catalog.models,
                 .choice = [&r] { return &r.model; }});
  all.push_back({.path = "loss", .sentence = "What is minimised.", .choice_key = "name",
                 .choice_sentence = "The loss, with its own keys beside it.", .rows = &catalog.losses,
                 .choice = [&r] { return &r.loss; }});
  all.push_back(optimizer_section(r, catalog));
  all.push_back(schedule_section(r, catalog));
  all.push_back(batch_section(r, catalog));
  all.push_back(stop_section(r));
  all.push_back(evaluation_section(r));
  all.push_back(execution_section(r));
  all.push_back(memory_section(r));
  all.push_back(search_section(r, catalog));
  all.push_back(loader_section(r));
  all.push_back(scaler_section(r));
  all.push_back(checkpoint_section(r));
  return all;
}

const ChoiceSpec* find_row(const std::vector<ChoiceSpec>& rows, const std::string& name) {
  for (const ChoiceSpec& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace autotrain
