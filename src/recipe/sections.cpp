#include "recipe/sections.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "recipe/bind.h"
#include "recipe/words.h"

namespace autotrain {
namespace {

std::vector<std::string> names_of(const std::vector<ChoiceSpec>& rows) {
  std::vector<std::string> names;
  for (const ChoiceSpec& row : rows) names.push_back(row.name);
  return names;
}

// A section that chooses a row; `choice` gives null while an optional section is absent.
Section choosing(std::string path, std::string sentence, const char* choice_key, const char* choice_sentence,
                 const std::vector<ChoiceSpec>& rows, std::function<Choice*()> choice) {
  Section section;
  section.path = std::move(path);
  section.sentence = std::move(sentence);
  section.choice_key = choice_key;
  section.choice_sentence = choice_sentence;
  section.rows = &rows;
  section.choice = std::move(choice);
  return section;
}

bool is_run_name(const std::string& text) {
  const char* const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !text.empty() && text.size() <= 100 && text[0] != '.' && text[0] != '-' &&
         text.find_first_not_of(allowed) == std::string::npos;
}

bool is_not_empty(const std::string& text) {
  return !text.empty();
}

bool is_device_name(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  int64_t index = 0;
  return text.starts_with("cuda:") && parse_integer(text.substr(5), index) && index >= 0 && index < 1000;
}

Section root(Recipe& r) {
  const KeySpec name =
      text_key("name", "Names the run's folder.")
          .with_form("letters, digits, '_', '-' and '.'", "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$", is_run_name);
  return {"",
          "",
          {bind(name, r.name),
           bind(integer_key("seed", "Everything random in the run derives from it.").from(0), r.seed)}};
}

Field resized_crop_field(std::optional<AreaShare>& share) {
  return {list_key(KeyKind::kRealList, "random_resized_crop",
                   "Train on a random part of each image, resized: [least, most] of its area, at an aspect "
                   "ratio from 3/4 to 4/3; null: no crop.")
              .above(0, 1)
              .of_length(2),
          [&share] {
            return share ? Value(std::vector<double>{share->least, share->most}) : Value();
          },
          [&share](const Value& value) {
            const auto& bounds = std::get<std::vector<double>>(value);
            share = {bounds[0], bounds[1]};
          }};
}

// In the order in which they are applied.
std::vector<Field> colour_fields(AugmentRecipe& a) {
  return {
      bind(real_key("brightness", "Multiply pixels by a factor within 1 ± this.").from(0, 10), a.brightness),
      bind(
          real_key("contrast", "Then distances to the image's mean grey by one within 1 ± this.").from(0, 10),
          a.contrast),
      bind(real_key("saturation", "Then distances to each pixel's grey by one within 1 ± this.").from(0, 10),
           a.saturation),
      bind(real_key("hue", "Then turn hues by up to this part of a full turn, either way.").from(0, 0.5),
           a.hue)};
}

Section augment_section(AugmentRecipe& a) {
  Section augment{"data.augment", "Random changes of training images, keyed by sample and epoch."};
  augment.fields = {
      bind(bool_key("flip", "Mirror images left to right with probability 1/2."), a.flip),
      bind(integer_key("crop_padding", "Pad images by so much on every side and crop back at random.")
               .from(0, 4096)
               .in("pixels"),
           a.crop_padding),
      resized_crop_field(a.random_resized_crop)};
  for (Field& field : colour_fields(a)) augment.fields.push_back(std::move(field));
  augment.fields.push_back(
      bind(real_key("mosaic", "Put samples together from four images with this probability (detection).")
               .from(0, 1),
           a.mosaic));
  return augment;
}

std::vector<Section> data_sections(Recipe& r, const Catalog& catalog) {
  const char* const which = "The data set, with its own keys beside it.";
  Section data{"data", "What is learned from, and what is measured on."};
  data.fields = {
      bind(bool_key("shuffle",
                    "Visit the samples of each epoch in an order derived from the seed; false keeps "
                    "the data set's order."),
           r.data.shuffle),
      bind_enum(
          "bad_samples",
          "What follows when a sample cannot be read: fail ends the run; skip puts the next good sample "
          "in its place, with an event for each.",
          r.data.bad_samples)};
  Section train = choosing("data.train", "Training samples.", "dataset", which, catalog.datasets,
                           [&r] { return &r.data.train; });
  Section validation =
      choosing("data.validation", "Samples for evaluation; null: the run is not evaluated.", "dataset", which,
               catalog.datasets, [&r] { return r.data.validation ? &*r.data.validation : nullptr; });
  validation.set_present = [&r](bool present) {
    r.data.validation = present ? std::optional(Choice{"", {}}) : std::nullopt;
  };
  return {std::move(data), std::move(train), std::move(validation), augment_section(r.data.augment)};
}

Section model_section(Recipe& r, const Catalog& catalog) {
  Section section = choosing("model", "What is trained.", "name", "The model, with its own keys beside it.",
                             catalog.models, [&r] { return &r.model; });
  section.fields = {bind(text_key("weights",
                                  "Initial weights, a safetensors file that names tensors as the model does; "
                                  "null: drawn from the seed.")
                             .with_form("a path", "^.+$", is_not_empty),
                         r.weights)};
  return section;
}

Section optimizer_section(Recipe& r, const Catalog& catalog) {
  OptimizerRecipe& o = r.optimizer;
  Section section = choosing("optimizer", "How a gradient becomes a step.", "name",
                             "The algorithm, with its own keys beside it.", catalog.optimizers,
                             [&o] { return &o.algorithm; });
  section.fields = {
      bind(real_key("lr", "Learning rate at reference_batch samples per update.").above(0, 1e6), o.lr),
      bind(integer_key("reference_batch", "Samples per update that lr was tuned for.").from(1).in("samples"),
           o.reference_batch),
      bind(real_key("weight_decay", "L2 penalty (sgd, adam) or decoupled decay (adamw).").from(0, 1e6),
           o.weight_decay),
      bind(bool_key("decay_all", "Also decay biases and normalisation weights."), o.decay_all),
      bind(real_key("clip_norm", "Largest global L2 norm of an update's gradient; null: no clipping.")
               .above(0, 1e30),
           o.clip_norm)};
  return section;
}

Section schedule_section(Recipe& r, const Catalog& catalog) {
  ScheduleRecipe& s = r.schedule;
  Section section = choosing("schedule", "How the learning rate changes over applied updates.", "name",
                             "The shape after warm-up, with its own keys beside it.", catalog.schedules,
                             [&s] { return &s.shape; });
  section.fields = {
      bind_amount(text_key("warmup", "Linear rise from 0 at the start, as a part of the run or a length."),
                  s.warmup, "\"5%\", \"200 updates\", \"100000 samples\" or 0",
                  "^(0|[0-9]+([.][0-9]+)? ?%|[0-9]+ (updates?|samples?))$")};
  return section;
}

Section average_section(Recipe& r) {
  return {"average",
          "Averaging of weights over updates; evaluations and the best checkpoint are then of the averages.",
          {bind(integer_key("half_life",
                            "Samples after which a weight's share in the average has halved, whatever the "
                            "effective batch; null: no averaging.")
                    .from(1)
                    .in("samples"),
                r.average.half_life)}};
}

Section divergence_section(Recipe& r) {
  DivergenceRecipe& d = r.divergence;
  return {"divergence",
          "What follows when loss or gradients are not finite; such an update is never applied.",
          {bind_enum(
               "policy",
               "skip: go on until stop.max_skipped in a row; stop: at the first that the loss scaler did not "
               "cause; rollback: then back to the last checkpoint with a smaller learning rate.",
               d.policy),
           bind(real_key("lr_factor", "Multiplies the learning rate at every rollback.").above(0, 1),
                d.lr_factor),
           bind(integer_key("max_rollbacks", "Rollbacks of a run; one more ends it.").from(1, 1000),
                d.max_rollbacks)}};
}

Section batch_section(Recipe& r, const Catalog& catalog) {
  BatchRecipe& b = r.batch;
  return {
      "batch",
      "How many samples make an update.",
      {bind(integer_key("effective",
                        "Samples per update over all ranks, exactly; auto: one micro-batch on every rank.")
                .from(1)
                .in("samples")
                .or_word("auto"),
            b.effective),
       bind(integer_key("max_effective",
                        "Cap of effective: auto; auto: the smaller of 8 × reference_batch and N ÷ 20.")
                .from(1)
                .in("samples")
                .or_word("auto"),
            b.max_effective),
       bind(word_key("lr_rule", "How lr follows effective ÷ reference_batch.", names_of(catalog.lr_rules)),
            b.lr_rule),
       bind_enum("cut", "even: pieces of nearly equal size; full: pieces of the capacity and a remainder.",
                 r.execution.cut)}};
}

Section stop_section(Recipe& r) {
  StopRecipe& s = r.stop;
  Field last{word_key("last", "What becomes of the run's remainder that is smaller than the effective batch.",
                      {"drop", "keep"}),
             [&s] { return Value(std::string(s.keep_last ? "keep" : "drop")); },
             [&s](const Value& value) { s.keep_last = std::get<std::string>(value) == "keep"; }};
  return {
      "stop",
      "When the run ends; of several limits the first one reached.",
      {bind(real_key("epochs", "Passes over the training data; fixes the number of updates.").above(0, 1e9),
            s.epochs),
       bind(integer_key("updates", "Applied updates.").from(1), s.updates),
       bind(integer_key("samples", "Training samples.").from(1).in("samples"), s.samples),
       bind(real_key("minutes", "Wall-clock time of training, evaluation included.")
                .above(0, 1e7)
                .in("minutes"),
            s.minutes),
       std::move(last),
       bind(integer_key("patience", "Evaluations in a row without improvement; null: no early stopping.")
                .from(1),
            s.patience),
       bind(real_key("min_delta", "What counts as an improvement of the monitored figure.").from(0, 1e9),
            s.min_delta),
       bind(integer_key("max_skipped",
                        "Consecutive skipped (non-finite) updates after which the run has diverged.")
                .from(1),
            s.max_skipped)}};
}

Section evaluation_section(Recipe& r) {
  EvaluationRecipe& e = r.evaluation;
  return {
      "evaluation",
      "When the validation data are measured.",
      {bind_interval("Evaluate at the first update boundary after each.", e.every),
       bind(text_key("monitor",
                     "The figure that decides the best checkpoint and early stopping: loss, or a metric."),
            e.monitor),
       bind(integer_key("micro_batch", "Samples per forward pass; auto: as in training.")
                .from(1)
                .in("samples")
                .or_word("auto"),
            e.micro_batch)}};
}

Section execution_section(Recipe& r) {
  ExecutionRecipe& e = r.execution;
  const KeySpec device =
      text_key("device", "Where to compute; auto: the first GPU, else the CPU.")
          .with_form("auto, cpu, cuda or cuda:N", "^(auto|cpu|cuda(:[0-9]{1,3})?)$", is_device_name);
  return {
      "execution",
      "How the run fits its machine; changes no meaning above.",
      {bind(device, e.device),
       bind_enum(
           "precision",
           "Arithmetic of forward and backward; parameters stay fp32. auto: bf16 where native, else fp32 "
           "on a CPU and fp16 with the scaler on a GPU.",
           e.precision),
       bind(integer_key("micro_batch", "Samples per forward and backward pass on one rank; auto: searched.")
                .from(1)
                .in("samples")
                .or_word("auto"),
            e.micro_batch),
       bind(integer_key("threads", "Compute threads; auto: the physical cores this process may use.")
                .from(1, 4096)
                .or_word("auto"),
            e.threads),
       bind(bool_key("deterministic", "Ask for kernels that repeat bit for bit; auto: on a CPU.")
                .or_word("auto"),
            e.deterministic),
       bind_enum(
           "recovery",
           "When memory runs out in mid-run: shrink repeats the update's samples in smaller micro-batches, "
           "with the same effective batch; stop ends the run with a checkpoint.",
           e.recovery),
       bind(real_key(
                "telemetry",
                "Time between rows of telemetry.jsonl, which say how process, processors and GPU are doing; "
                "0: none.")
                .from(0, 3600)
                .in("seconds"),
            e.telemetry),
       {list_key(KeyKind::kIntegerList, "trace",
                 "[first, last] update that trace.json shows activity by activity, for Perfetto or "
                 "chrome://tracing; null: none.")
            .from(1)
            .of_length(2),
        [&e] { return e.trace ? Value(*e.trace) : Value(std::monostate{}); },
        [&e](const Value& value) { e.trace = std::get<std::vector<int64_t>>(value); }}}};
}

Section memory_section(Recipe& r) {
  MemoryRecipe& m = r.execution.memory;
  Field target{list_key(KeyKind::kRealList, "target",
                        "The band of the budget to fill at peak, as [low, high] fractions.")
                   .from(0.01, 1)
                   .of_length(2),
               [&m] {
                 return Value(std::vector<double>{m.target_low, m.target_high});
               },
               [&m](const Value& value) {
                 const auto& band = std::get<std::vector<double>>(value);
                 m.target_low = band[0];
                 m.target_high = band[1];
               }};
  return {"execution.memory",
          "The memory a run may use and how much of it to fill.",
          {bind_amount(text_key("budget", "Bytes above what the process used at its start."), m.budget,
                       "auto, bytes such as \"2GiB\", or a share of auto such as \"50%\"",
                       "^(auto|[0-9]+([.][0-9]+)? ?([kKmMgGtT]i?[bB]?|[bB])?|[0-9]+([.][0-9]+)? ?%)$"),
           std::move(target)}};
}

Section search_section(Recipe& r, const Catalog& catalog) {
  SearchRecipe& s = r.execution.search;
  return {
      "execution.search",
      "How the micro-batch is found.",
      {bind(word_key("strategy", "What to look for.", names_of(catalog.strategies)), s.strategy),
       bind_enum("pivot", "Where the search tries next: interpolated, or the textbook midpoint.", s.pivot),
       bind(integer_key("multiple_of", "Prefer multiples of it.").from(1).in("samples"), s.multiple_of),
       bind(integer_key("max_micro_batch", "Never try more; null: no cap of your own.").from(1).in("samples"),
            s.max_micro_batch),
       bind(integer_key("max_probes", "Most trials.").from(1), s.max_probes),
       bind(real_key("max_seconds", "No new trial after so long.").above(0, 1e6).in("seconds"),
            s.max_seconds),
       bind(bool_key("plan_cache",
                     "Keep plans in the user's cache folder; a kept one is confirmed by one trial."),
            s.plan_cache)}};
}

Section loader_section(Recipe& r) {
  LoaderRecipe& l = r.execution.loader;
  return {
      "execution.loader",
      "How samples reach the step.",
      {bind(integer_key("workers",
                        "Threads that load; 0: the thread that trains; auto: one, and more as long as the "
                        "step waits and one more makes training faster.")
                .from(0, 1024)
                .or_word("auto"),
            l.workers),
       bind(integer_key("prefetch",
                        "Micro-batches prepared ahead, those in the making included; 0: none; auto: one for "
                        "each worker there may be, at least 2.")
                .from(0, 1024)
                .or_word("auto"),
            l.prefetch),
       bind_amount(
           text_key("prefetch_memory",
                    "Most memory of prepared micro-batches, though always one; auto: no bound on a "
                    "CPU, where they count in the budget, and an eighth of free memory beside a GPU."),
           l.prefetch_memory, "auto, bytes such as \"1GiB\", or a share of the budget such as \"5%\"",
           "^(auto|[0-9]+([.][0-9]+)? ?([kKmMgGtT]i?[bB]?|[bB])?|[0-9]+([.][0-9]+)? ?%)$")}};
}

Section scaler_section(Recipe& r) {
  ScalerRecipe& s = r.execution.scaler;
  return {"execution.scaler",
          "The dynamic loss scale of fp16 (bf16 and fp32 need none).",
          {bind(real_key("initial_scale", "Scale of the first update; a power of two adds no rounding.")
                    .above(0, 1e30),
                s.initial_scale),
           bind(real_key("growth_factor", "Multiplies the scale after growth_interval applied updates.")
                    .from(1, 1e6),
                s.growth_factor),
           bind(real_key("backoff_factor", "Multiplies the scale after a skipped update.").above(0, 1),
                s.backoff_factor),
           bind(integer_key("growth_interval", "Applied updates in a row before the scale grows.").from(1),
                s.growth_interval),
           bind(real_key("min_scale", "The scale never falls below it.").above(0, 1e30), s.min_scale)}};
}

Section checkpoint_section(Recipe& r) {
  return {
      "checkpoint",
      "What is kept of a run on disk; one is always written at the end.",
      {bind_interval("Write at the first update boundary after each.", r.checkpoint.every),
       bind(integer_key("keep", "Newest checkpoints kept, besides the best.").from(1), r.checkpoint.keep),
       bind(bool_key("background",
                     "Write while training goes on, where a copy of the state fits beside it in memory."),
            r.checkpoint.background),
       bind(text_key("fallback",
                     "Folder in which the state is saved when the run folder cannot be written; null: none.")
                .with_form("a path", "^.+$", is_not_empty),
            r.checkpoint.fallback)}};
}

}  // namespace

std::vector<Section> sections_of(Recipe& r, const Catalog& catalog) {
  std::vector<Section> all;
  all.push_back(root(r));
  for (Section& section : data_sections(r, catalog)) all.push_back(std::move(section));
  all.push_back(model_section(r, catalog));
  all.push_back(choosing("loss", "What is minimised.", "name", "The loss, with its own keys beside it.",
                         catalog.losses, [&r] { return &r.loss; }));
  all.push_back(optimizer_section(r, catalog));
  all.push_back(schedule_section(r, catalog));
  all.push_back(average_section(r));
  all.push_back(batch_section(r, catalog));
  all.push_back(stop_section(r));
  all.push_back(divergence_section(r));
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
