// How a run is executed: the second half of a recipe.
#include "base/text.h"
#include "recipe/axes.h"
#include "recipe/bind.h"
#include "recipe/recipe_enums.h"
#include "recipe/sections.h"

namespace autotrain {
namespace {

bool is_device_name(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  int64_t index = 0;
  return text.starts_with("cuda:") && parse_integer(text.substr(5), index) && index >= 0 && index < 1000;
}

bool is_metric_name(const std::vector<ChoiceSpec>& metrics, const std::string& text) {
  return find_row(metrics, top_of(text) ? "topK" : text) != nullptr && text != "topK";
}

Field metrics_field(EvaluationRecipe& e, const std::vector<ChoiceSpec>& metrics) {
  const KeySpec key =
      list_key(
          KeyKind::kTextList, "metrics",
          "What is measured beside the loss, such as [accuracy, top5, macro_f1]; null: what goes with it.")
          .with_form(join_choices(names_of(metrics)), "^[a-z0-9_]+$",
                     [&metrics](const std::string& text) { return is_metric_name(metrics, text); });
  return {key, [&e] { return e.metrics ? Value(*e.metrics) : Value(std::monostate{}); },
          [&e](const Value& value) { e.metrics = std::get<std::vector<std::string>>(value); }};
}

Section evaluation_section(Recipe& r, const Catalog& catalog) {
  EvaluationRecipe& e = r.evaluation;
  const ChoiceSpec* const schedule = find_row(catalog.schedules, r.schedule.shape.name);
  const bool followed = (schedule != nullptr && schedule->follows_evaluations) || r.stop.patience;
  const auto learned_if = [](bool decides) { return decides ? Decides::kLearning : Decides::kRun; };
  return {"evaluation",
          "When the validation data are measured.",
          {bind_interval("Evaluate at the first update boundary after each.", e.every,
                         learned_if(followed || r.batch.adapts())),
           bind(text_key("monitor",
                         "The figure that decides the best checkpoint and early stopping: loss, or a metric.")
                    .deciding(learned_if(followed)),
                e.monitor),
           metrics_field(e, catalog.metrics),
           bind(integer_key("micro_batch", "Samples per forward pass; auto: as in training.")
                    .from(1)
                    .in("samples")
                    .or_word("auto"),
                e.micro_batch)}};
}

Field lanes_field(ExecutionRecipe& e) {
  return bind(
      integer_key("lanes",
                  "Parts of an update that are accumulated apart and added in a fixed order, so that any "
                  "number of ranks that shares them, 1 too, comes to the same bits. A power of two; "
                  "auto: one for each rank, which costs nothing.")
          .from(1, 1024)
          .or_word("auto"),
      e.lanes);
}

Field trace_field(ExecutionRecipe& e) {
  return {list_key(KeyKind::kIntegerList, "trace",
                   "[first, last] update that trace.json shows activity by activity, for Perfetto or "
                   "chrome://tracing; null: none.")
              .from(1)
              .of_length(2)
              .deciding(Decides::kRun),
          [&e] { return e.trace ? Value(*e.trace) : Value(std::monostate{}); },
          [&e](const Value& value) { e.trace = std::get<std::vector<int64_t>>(value); }};
}

Field statistics_field(ExecutionRecipe& e) {
  return bind_enum(
      "statistics",
      "The gradient noise scale, from the micro-batches of every update, and in every 16th also in the "
      "metric of Adam and its like; in a long run of fewer updates. Changes no bit of what is learned. "
      "auto: where an update has several, and samples do not differ in length; on: the same, and a run "
      "that cannot is refused.",
      e.statistics, Decides::kRun);
}

Field cuda_graphs_field(ExecutionRecipe& e) {
  return bind_enum(
      "cuda_graphs",
      "Whether a GPU's kernels are recorded once for each shape and launched together from then on, as "
      "CUDA graphs; the same bits either way. auto: where a trial shows that it is faster; on: "
      "wherever it is possible, and every size that the search confirms has their memory. What cannot be "
      "recorded is launched kernel by kernel, with the reason in the log.",
      e.cuda_graphs);
}

std::vector<Field> recompute_fields(ExecutionRecipe& e) {
  return {
      bind_enum(
          "recompute",
          "Whether the backward pass computes again, instead of the forward pass keeping it: of exported "
          "models what is cheap to have again, of models in C++ whole blocks (residual blocks, transformer "
          "layers; of one's own what it computes by autotrain::checkpoint). Larger micro-batches fit, an "
          "update takes longer, and no bit differs. auto: where trials of both show that the effective "
          "batch is faster so, or fits only so; and where memory runs out in training at the smallest "
          "micro-batch.",
          e.recompute),
      bind(
          integer_key("recompute_blocks",
                      "Of a model in C++ only its first so many blocks, which in convolutional networks keep "
                      "most; null: all.")
              .from(1)
              .idle_where("recompute", {std::string("off")}),
          e.recompute_blocks),
      bind(bool_key(
               "offload",
               "On a GPU: what the forward pass keeps for the backward pass, from 1 MiB on, lies in pinned "
               "main memory until it is needed, copied beside what is computed. Larger micro-batches fit, no "
               "bit differs. On a CPU it lies there anyway, and this is refused."),
           e.offload)};
}

Field requeue_signal_field(ExecutionRecipe& e) {
  return bind_enum(
      "requeue_signal",
      "The signal that a scheduler sends ahead of a time limit, upon which the run writes a checkpoint and "
      "ends with code 75, as upon SIGTERM, so that its job can be queued again. none: SIGUSR1 asks for a "
      "checkpoint, and the run goes on.",
      e.requeue_signal, Decides::kRun);
}

Field cut_field(ExecutionRecipe& e) {
  return bind_enum(
      "cut",
      "How an update is cut into micro-batches. even: pieces of nearly equal size; full: pieces of "
      "the capacity and a remainder.",
      e.cut);
}

Section execution_section(Recipe& r) {
  ExecutionRecipe& e = r.execution;
  const KeySpec device =
      text_key("device", "Where to compute; auto: the first GPU, else the CPU.")
          .with_form("auto, cpu, cuda or cuda:N", "^(auto|cpu|cuda(:[0-9]{1,3})?)$", is_device_name);
  Section section{
      "execution",
      "How the run fits its machine; changes no meaning above.",
      {bind(device, e.device),
       bind_enum(
           "precision",
           "Arithmetic of forward and backward; parameters stay fp32. auto: bf16 where native, else fp32 "
           "on a CPU and fp16 with the scaler on a GPU. tf32 rounds the operands of fp32 products on NVIDIA "
           "GPUs that can, and nothing does unless it is asked for. int8 is of linear layers and for "
           "inference in a sweep only.",
           e.precision),
       bind_enum(
           "memory_format",
           "How images lie in memory on their way through a model with convolutions; weights and files "
           "are the same either way. auto: channels last on a CPU, and on a GPU in half precision, unless "
           "the model does not take it or has group or instance normalisation.",
           e.memory_format),
       bind(integer_key("micro_batch", "Samples per forward and backward pass on one rank; auto: searched.")
                .from(1)
                .in("samples")
                .or_word("auto"),
            e.micro_batch),
       cut_field(e), lanes_field(e),
       bind_enum("shard",
                 "What ranks share out: none, or the optimizer, whose update and state each rank then has "
                 "one part of (ZeRO stage 1). The same bits either way.",
                 e.shard),
       bind(integer_key("threads",
                        "Compute threads of a rank; auto: the physical cores this process may use, shared "
                        "out among the ranks of this machine.")
                .from(1, 4096)
                .or_word("auto"),
            e.threads),
       bind(bool_key("deterministic",
                     "Kernels that repeat bit for bit; true ends a run at an operator that has "
                     "none, auto asks for them on a CPU and warns there.")
                .or_word("auto"),
            e.deterministic),
       bind_enum(
           "recovery",
           "When memory runs out in mid-run: shrink repeats the update's samples in smaller micro-batches, "
           "with the same effective batch; stop ends the run with a checkpoint.",
           e.recovery, Decides::kRun),
       bind(real_key(
                "telemetry",
                "Time between rows of telemetry.jsonl, which say how process, processors and GPU are doing; "
                "0: none.")
                .from(0, 3600)
                .in("seconds")
                .deciding(Decides::kRun),
            e.telemetry),
       trace_field(e), statistics_field(e), cuda_graphs_field(e), requeue_signal_field(e)}};
  for (Field& field : recompute_fields(e)) section.fields.push_back(std::move(field));
  return section;
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
          {bind_budgets(text_key("budget",
                                 "What the run may add on its device after a warm-up: tensors with their "
                                 "fragmentation, and what libraries take beyond it. A device that a group of "
                                 "budgets leaves out has auto."),
                        m.budget, "2GiB", "auto such as \"50%\""),
           std::move(target)}};
}

Section search_section(Recipe& r, const Catalog& catalog) {
  SearchRecipe& s = r.execution.search;
  return {
      "execution.search",
      "How the micro-batch is found.",
      {bind(word_key("strategy", "What to look for.", names_of(catalog.strategies)), s.strategy),
       bind_enum("pivot", "Where the search tries next: interpolated, or the textbook midpoint.", s.pivot),
       bind(integer_key(
                "multiple_of",
                "Prefer multiples of it; auto: 8 in half precision on a GPU, whose kernels want it, else 1.")
                .from(1)
                .in("samples")
                .or_word("auto"),
            s.multiple_of),
       bind(real_key("throughput_share",
                     "A size is fast when it loses no more than this share of the best measured samples per "
                     "second: strategy throughput takes the smallest fast one, any other names it.")
                .from(0, 0.9),
            s.throughput_share),
       bind(integer_key("max_probes", "Most trials.").from(1), s.max_probes),
       bind(real_key("max_seconds", "No new trial after so long.").above(0, 1e6).in("seconds"),
            s.max_seconds),
       bind(bool_key("plan_cache", "Keep plans in the user's cache folder; a kept one is tried once more.")
                .deciding(Decides::kRun),
            s.plan_cache)}};
}

Section loader_section(Recipe& r) {
  LoaderRecipe& l = r.execution.loader;
  return {
      "execution.loader",
      "How samples reach the step.",
      {bind(integer_key("workers",
                        "Threads that load; 0: the thread that trains; auto: as many as a trial's rates ask "
                        "for, and more as long as the step waits and they make training faster.")
                .from(0, 1024)
                .or_word("auto"),
            l.workers),
       bind(integer_key("prefetch",
                        "Micro-batches prepared ahead, those in the making included; 0: none; auto: one for "
                        "each worker there may be, at least 2.")
                .from(0, 1024)
                .or_word("auto"),
            l.prefetch),
       bind_budget(
           text_key("prefetch_memory",
                    "Most memory of prepared micro-batches, though always one; auto: no bound on a "
                    "CPU, where they count in the budget, and an eighth of free memory beside a GPU."),
           l.prefetch_memory, "1GiB", "the budget such as \"5%\""),
       bind_enum(
           "preload",
           "Hold all samples in memory before training: ram, in main memory; device, images as bytes in "
           "a GPU's, which then cuts and normalises them; auto: what spares work and takes no more than "
           "an eighth of the budget.",
           l.preload)}};
}

// Only fp16 has a scale.
KeySpec of_scaler(const KeySpec& key) {
  std::vector<Value> others;
  for (const std::string& word : choices_of<Precision>()) {
    if (word != to_string(Precision::kFp16) && word != to_string(Precision::kAuto)) others.emplace_back(word);
  }
  return key.idle_where("execution.precision", std::move(others));
}

Section scaler_section(Recipe& r) {
  ScalerRecipe& s = r.execution.scaler;
  Section section{
      "execution.scaler",
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
  for (Field& field : section.fields) field.spec = of_scaler(field.spec);
  return section;
}

Section checkpoint_section(Recipe& r) {
  return {
      "checkpoint",
      "What is kept of a run on disk; one is always written at the end.",
      {bind_interval("Write at the first update boundary after each.", r.checkpoint.every,
                     // What a rollback goes back to.
                     r.divergence.policy == DivergencePolicy::kRollback ? Decides::kLearning : Decides::kRun),
       bind(integer_key("keep", "Newest checkpoints kept, besides the best.").from(1), r.checkpoint.keep),
       bind(bool_key("background",
                     "Write while training goes on, where a copy of the state fits beside it in memory."),
            r.checkpoint.background),
       bind(text_key("fallback",
                     "Folder in which the state is saved when the run folder cannot be written; null: none.")
                .with_form("a path", "^.+$", [](const std::string& text) { return !text.empty(); }),
            r.checkpoint.fallback),
       bind(real_key("full_disk_wait",
                     "How long a run waits for room on a full disk before it ends; 0: not at all.")
                .from(0, 1e6)
                .in("seconds"),
            r.checkpoint.full_disk_wait)}};
}

Section sweep_section(Recipe& r) {
  SweepRecipe& s = r.sweep;
  return {
      "sweep",
      "What autotrain sweep measures; a run takes no notice of it.",
      {bind_enum("mode",
                 "inference: forward passes without gradients; training: forward, backward and the "
                 "optimizer's step.",
                 s.mode),
       bind(text_key("batches", "Samples in a batch; auto: doubled from 1 until nothing is gained.")
                .with_form("auto, a range such as 1..4096 (powers of two) or numbers such as 1,32,128",
                           "^(auto|[0-9]+\\.\\.[0-9]+|[0-9]+(,[0-9]+)*)$",
                           [](const std::string& text) { return parse_batches(text).has_value(); }),
            s.batches),
       bind(text_key("vary",
                     "One further axis: a key of the recipe and its values, such as model.width=64,256 or "
                     "data.train.shape=[3,32,32],[3,64,64]; of several keys, with commas between them, all "
                     "take each value; null: none.")
                .with_form("key=value,value; lists are values in brackets: key=[1,2],[3,4]",
                           "^[a-z_.]+(,[a-z_.]+)*=.+$",
                           [](const std::string& text) { return parse_axis(text).has_value(); }),
            s.vary),
       bind(real_key("latency_ms",
                     "Look for the largest throughput whose 99th percentile of latency is at most this; "
                     "null: no bound.")
                .above(0, 1e9)
                .in("milliseconds"),
            s.latency_ms),
       bind(text_key("device_figures",
                     "Predict for another device too, from its data sheet, such as 65TFLOP/s,300GB/s; null: "
                     "only for this one.")
                .with_form("operations and bytes a second, such as 65TFLOP/s,300GB/s",
                           "^ *[0-9]+(\\.[0-9]+)? *[kMGTP]?FLOP/s *, *[0-9]+(\\.[0-9]+)? *[kMGTP]?B/s *$",
                           [](const std::string& text) { return parse_device_figures(text).has_value(); }),
            s.device_figures),
       bind(integer_key("rounds", "Measurements of each point, each in a process of its own.").from(1, 1000),
            s.rounds),
       bind(real_key("max_seconds",
                     "Longest time of repeats in one measurement; they end before, when the median is "
                     "known to 2.5 %.")
                .above(0, 1e5)
                .in("seconds"),
            s.max_seconds)}};
}

Section report_section(Recipe& r) {
  return {
      "report",
      "What a run leaves for people beside its metrics.",
      {bind(bool_key("html", "At the end, report.html: one page with plots and tables, for a browser."),
            r.report.html),
       bind(bool_key("csv",
                     "At the end, metrics.csv, evaluations.csv, telemetry.csv, probes.csv and summary.csv."),
            r.report.csv),
       bind(bool_key("tensorboard", "All along, event files in tensorboard/, for TensorBoard."),
            r.report.tensorboard)}};
}

}  // namespace

std::vector<Section> execution_sections(Recipe& r, const Catalog& catalog) {
  using D = Decides;
  return {deciding(D::kMemory, evaluation_section(r, catalog)),
          deciding(D::kMemory, execution_section(r)),
          deciding(D::kMemory, memory_section(r)),
          deciding(D::kMemory, search_section(r, catalog)),
          deciding(D::kMemory, loader_section(r)),
          deciding(D::kMemory, scaler_section(r)),
          deciding(D::kRun, checkpoint_section(r)),
          deciding(D::kRun, report_section(r)),
          deciding(D::kRun, sweep_section(r))};
}

}  // namespace autotrain
