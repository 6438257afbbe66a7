#include "recipe/sections.h"

#include "autotrain/error.h"
#include "base/text.h"
#include "recipe/bind.h"
#include "recipe/recipe_enums.h"

namespace autotrain {
namespace {

bool is_run_name(const std::string& text) {
  const char* const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !text.empty() && text.size() <= 100 && text[0] != '.' && text[0] != '-' &&
         text.find_first_not_of(allowed) == std::string::npos;
}

Section root(Recipe& r) {
  const KeySpec name =
      text_key("name", "Names the run's folder.")
          .with_form("letters, digits, '_', '-' and '.'", "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$", is_run_name)
          .deciding(Decides::kRun);
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

// Of detection, in the order in which they are applied.
std::vector<Field> detection_fields(AugmentRecipe& a) {
  return {
      bind(real_key("mosaic", "Put samples together from four images with this probability (detection).")
               .from(0, 1),
           a.mosaic),
      bind(real_key("scale", "Scale samples about their middle by a factor within 1 ± this (detection).")
               .from(0, 0.9)
               .deciding(Decides::kLearning),
           a.scale),
      bind(real_key("shear", "Shear samples by up to so much along each axis (detection).")
               .from(0, 40)
               .in("degrees")
               .deciding(Decides::kLearning),
           a.shear),
      bind(real_key("translate", "Shift samples by up to this part of their sides, either way (detection).")
               .from(0, 1)
               .deciding(Decides::kLearning),
           a.translate),
      bind(real_key("mix_up",
                    "Blend a second sample into one with this probability; the boxes of both count "
                    "(detection).")
               .from(0, 1),
           a.mix_up),
      bind(real_key("close_mosaic",
                    "Part of the run, its last, without mosaic and mix_up (detection); stop must tell how "
                    "many samples the run has.")
               .from(0, 1)
               .deciding(Decides::kLearning),
           a.close_mosaic),
      bind(
          real_key("multi_scale",
                   "Train each update on inputs that are smaller by a part drawn from 0 to this, in steps of "
                   "32 pixels of their shorter side; size is the largest (detection).")
              .from(0, 0.9),
          a.multi_scale)};
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
  for (Field& field : detection_fields(a)) augment.fields.push_back(std::move(field));
  return augment;
}

std::vector<Section> data_sections(Recipe& r, const Catalog& catalog) {
  const char* const which = "The data set, with its own keys beside it.";
  Section data{"data", "What is learned from, and what is measured on."};
  data.fields = {
      bind(bool_key("shuffle",
                    "Visit the samples of each epoch in an order derived from the seed; false keeps "
                    "the data set's order.")
               .deciding(Decides::kLearning),
           r.data.shuffle),
      bind_enum(
          "bad_samples",
          "What follows when a sample cannot be read: fail ends the run; skip puts the next good sample "
          "in its place, with an event for each.",
          r.data.bad_samples, Decides::kLearning)};
  Section train = choosing("data.train", "Training samples.", "dataset", which, catalog.datasets,
                           [&r] { return &r.data.train; });
  Section validation =
      choosing("data.validation", "Samples for evaluation; null: the run is not evaluated.", "dataset", which,
               catalog.datasets, [&r] { return r.data.validation ? &*r.data.validation : nullptr; });
  validation.set_present = [&r](bool present) {
    r.data.validation = present ? std::optional(Choice{"", {}}) : std::nullopt;
  };
  Section test = choosing(
      "data.test",
      "Samples that choose nothing: measured once, when the run has ended, by the weights that it ends with "
      "(with stop.patience, by the best); null: none.",
      "dataset", which, catalog.datasets, [&r] { return r.data.test ? &*r.data.test : nullptr; });
  test.set_present = [&r](bool present) {
    r.data.test = present ? std::optional(Choice{"", {}}) : std::nullopt;
  };
  return {deciding(Decides::kLearningAndMemory, std::move(data)),
          deciding(Decides::kLearningAndMemory, std::move(train)),
          deciding(Decides::kLearningAndMemory, std::move(validation)),
          deciding(Decides::kMemory, std::move(test)),
          deciding(Decides::kLearningAndMemory, augment_section(r.data.augment))};
}

Section lora_section(Recipe& r) {
  LoraRecipe& l = r.lora;
  return {
      "model.lora",
      "Low-rank adapters (LoRA): what is trained in the place of the weights that they change.",
      {bind(patterns_key("match",
                         "Linear layers, or modules that have some, whose weights W become "
                         "W + alpha ÷ rank × B A: block*. A and B learn, the model stays as it is."),
            l.match),
       bind(integer_key("rank", "Rows of A and columns of B; null: 8.").from(1, 1 << 16), l.rank),
       bind(real_key("alpha", "Weight of the change, times the rank; null: twice the rank.").above(0, 1e6),
            l.alpha),
       bind(patterns_key("train", "Parameters, or modules, that learn whole beside them: a new head."),
            l.train)}};
}

std::vector<Section> model_sections(Recipe& r, const Catalog& catalog) {
  Section model = choosing("model", "What is trained.", "name", "The model, with its own keys beside it.",
                           catalog.models, [&r] { return &r.model; });
  model.fields = {
      bind(patterns_key(
               "freeze",
               "Parameters that stay as they are: layer1.*. They have no gradient and no optimizer state; "
               "batch normalisation whose parameters are all frozen keeps its statistics."),
           r.freeze)};
  WeightsRecipe& w = r.weights;
  Section weights{
      "model.weights",
      "Where the first weights come from; a text is the file.",
      {bind(text_key(
                "file",
                "A safetensors file, the index.json of several, or a folder that holds either, in any float "
                "type, that names tensors as the model does; null: drawn from the seed.")
                .with_form("a path", "^.+$", [](const std::string& text) { return !text.empty(); }),
            w.file),
       bind(
           patterns_key("skip",
                        "Tensors that are not taken from the file, by the model's names, or the file's where "
                        "the model has none such: fc.*."),
           w.skip),
       bind(list_key(KeyKind::kTextList, "rename",
                     "What names of the file become before they are looked for: \"backbone\\.(.*) -> $1\", a "
                     "regular expression of the whole name. The first that matches counts.",
                     std::vector<std::string>())
                .with_form("\"expression -> name\"", "^.+ -> .*$",
                           [](const std::string& text) { return text.find(" -> ") != std::string::npos; }),
            w.rename),
       bind_enum("missing", "What follows when the file lacks a tensor of the model; keep: it is drawn.",
                 w.missing),
       bind_enum("shapes", "What follows when a tensor has another shape in the file; keep: it is drawn.",
                 w.shapes)}};
  weights.scalar_key = "file";
  return {std::move(model), std::move(weights), lora_section(r)};
}

Section loss_section(Recipe& r, const Catalog& catalog) {
  return choosing("loss", "What is minimised.", "name", "The loss, with its own keys beside it.",
                  catalog.losses, [&r] { return &r.loss; });
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
  const std::vector<Value> without_rollback = {std::string("skip"), std::string("stop")};
  return {"divergence",
          "What follows when loss or gradients are not finite; such an update is never applied.",
          {bind_enum(
               "policy",
               "skip: go on until stop.max_skipped in a row; stop: at the first that the loss scaler did not "
               "cause; rollback: then back to the last checkpoint with a smaller learning rate.",
               d.policy),
           bind(real_key("lr_factor", "Multiplies the learning rate at every rollback.")
                    .above(0, 1)
                    .idle_where("policy", without_rollback),
                d.lr_factor),
           bind(integer_key("max_rollbacks", "Rollbacks of a run; one more ends it.")
                    .from(1, 1000)
                    .idle_where("policy", without_rollback),
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
       bind(word_key("lr_rule", "How lr follows effective ÷ reference_batch.", names_of(catalog.lr_rules))
                .deciding(Decides::kLearning),
            b.lr_rule)}};
}

Section batch_limits_section(BatchLimitsRecipe& l) {
  return {"batch.limits",
          "The bounds of the batches that the program chooses by itself.",
          {bind(integer_key("min_effective",
                            "The smallest that batch.adapt comes to; auto: half of batch.effective.")
                    .from(1)
                    .in("samples")
                    .or_word("auto"),
                l.min_effective),
           bind(integer_key(
                    "max_effective",
                    "The largest that effective: auto, a rule of batch.schedule or batch.adapt comes to; "
                    "auto: the smaller of 8 × reference_batch, of a rule 8 × batch.effective, and N ÷ 20, "
                    "but of a rule no less than batch.effective.")
                    .from(1)
                    .in("samples")
                    .or_word("auto"),
                l.max_effective),
           bind(integer_key("max_micro_batch", "The largest micro-batch that the search tries; null: no cap.")
                    .from(1)
                    .in("samples")
                    .deciding(Decides::kMemory),
                l.max_micro_batch)}};
}

Section stage_section(BatchStageRecipe& stage, const std::string& path) {
  return {path,
          "A stretch of the run whose updates have equally many samples.",
          {bind(integer_key("samples", "Where it begins, in samples of applied updates; 0 for the first.")
                    .from(0)
                    .in("samples"),
                stage.samples),
           bind(integer_key("effective", "Samples per update from there on.").from(1).in("samples"),
                stage.effective)}};
}

Section batch_schedule_section(BatchScheduleRecipe& s) {
  Section list{
      "batch.schedule",
      "Updates of more or fewer samples as the run goes on: a list of stages, or a rule that derives "
      "them. All that a run counts in updates is then counted in samples.",
      {bind_enum("rule",
                 "seesaw: where the schedule halves the learning rate, the batch doubles and the rate "
                 "is divided by √2 instead.",
                 s.rule)}};
  list.set_items = [&s](size_t count) { s.stages.assign(count, {}); };
  list.items = [&s, path = list.path] {
    std::vector<Section> items;
    for (size_t i = 0; i < s.stages.size(); ++i) {
      items.push_back(
          deciding(Decides::kLearningAndMemory, stage_section(s.stages[i], cat(path, "[", i, "]"))));
      items.back().is_item = true;
    }
    return items;
  };
  return list;
}

Section batch_adapt_section(BatchAdaptRecipe& a) {
  Section section{
      "batch.adapt",
      "A batch that follows what the run measures, from batch.effective on; a text is the rule.",
      {bind_enum("rule",
                 "noise: at evaluations, towards the gradient noise scale, where that is known and differs "
                 "by a factor of at least 1.2; by at most a factor of 2 each time.",
                 a.rule)}};
  section.scalar_key = "rule";
  return section;
}

std::vector<Section> batch_sections(Recipe& r, const Catalog& catalog) {
  std::vector<Section> all = {batch_section(r, catalog), batch_limits_section(r.batch.limits),
                              batch_schedule_section(r.batch.schedule)};
  for (Section& item : all.back().items()) all.push_back(std::move(item));
  all.push_back(batch_adapt_section(r.batch.adapt));
  return all;
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
       bind(real_key("min_delta", "What counts as an improvement of the monitored figure.")
                .from(0, 1e9)
                .idle_where("patience", {Value()}),
            s.min_delta),
       bind(integer_key("max_skipped",
                        "Consecutive skipped (non-finite) updates after which the run has diverged.")
                .from(1),
            s.max_skipped)}};
}

}  // namespace

std::vector<Section> sections_of(Recipe& r, const Catalog& catalog) {
  using D = Decides;
  std::vector<Section> all;
  all.push_back(deciding(D::kLearning, root(r)));
  for (Section& section : data_sections(r, catalog)) all.push_back(std::move(section));
  std::vector<Section> model = model_sections(r, catalog);
  all.push_back(deciding(D::kLearningAndMemory, std::move(model[0])));
  all.push_back(deciding(D::kLearning, std::move(model[1])));
  all.push_back(deciding(D::kLearningAndMemory, std::move(model[2])));
  all.push_back(deciding(D::kLearningAndMemory, loss_section(r, catalog)));
  for (Section& section : optimizer_sections(r, catalog)) all.push_back(std::move(section));
  all.push_back(deciding(D::kLearningAndMemory, average_section(r)));
  for (Section& section : batch_sections(r, catalog)) {
    all.push_back(deciding(D::kLearningAndMemory, std::move(section)));
  }
  all.push_back(deciding(D::kLearning, stop_section(r)));
  all.push_back(deciding(D::kLearning, divergence_section(r)));
  for (Section& section : execution_sections(r, catalog)) all.push_back(std::move(section));
  return all;
}

Section deciding(Decides what, Section section) {
  section.decides = what;
  return section;
}

std::vector<std::string> names_of(const std::vector<ChoiceSpec>& rows) {
  std::vector<std::string> names;
  for (const ChoiceSpec& row : rows) names.push_back(row.name);
  return names;
}

const ChoiceSpec* find_row(const std::vector<ChoiceSpec>& rows, const std::string& name) {
  for (const ChoiceSpec& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace autotrain
