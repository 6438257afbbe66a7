// How a gradient becomes a step, and how large the step is.
#include "base/text.h"
#include "recipe/bind.h"

namespace autotrain {
namespace {

Section optimizer_section(Recipe& r, const Catalog& catalog) {
  OptimizerRecipe& o = r.optimizer;
  Section section = choosing("optimizer", "How a gradient becomes a step.", "name",
                             "The algorithm, with its own keys beside it.", catalog.optimizers,
                             [&o] { return &o.algorithm; });
  section.fields = {
      bind(real_key("lr", "Learning rate at reference_batch samples per update.")
               .above(0, 1e6)
               .deciding(Decides::kLearning),
           o.lr),
      bind(integer_key("reference_batch", "Samples per update that lr was tuned for.").from(1).in("samples"),
           o.reference_batch),
      bind(real_key("weight_decay", "L2 penalty (sgd, adam, lars) or decoupled decay (the others).")
               .from(0, 1e6)
               .deciding(Decides::kLearning),
           o.weight_decay),
      bind(bool_key("decay_all", "Also decay biases and normalisation weights.").deciding(Decides::kLearning),
           o.decay_all),
      bind(real_key("clip_norm", "Largest global L2 norm of an update's gradient; null: no clipping.")
               .above(0, 1e30),
           o.clip_norm)};
  return section;
}

Section group_section(ParameterGroupRecipe& g, const std::string& path) {
  return {
      path,
      "Parameters that are updated otherwise than the others.",
      {bind(patterns_key("match", "Their names."), g.match),
       bind(real_key("lr_factor", "Multiplies the learning rate.").above(0, 1e6), g.lr_factor),
       bind(real_key("weight_decay", "In the place of the optimizer's; null: the optimizer's.").from(0, 1e6),
            g.weight_decay),
       bind(bool_key("decay_all", "In the place of the optimizer's; null: the optimizer's."), g.decay_all),
       bind(integer_key("every", "They learn in every so many updates, and have no gradient in the others.")
                .from(1, 1'000'000)
                .in("updates"),
            g.every)}};
}

Section groups_section(OptimizerRecipe& o) {
  Section list{"optimizer.groups",
               "Parameters that are updated otherwise than the others; one that several groups match belongs "
               "to the first of them."};
  list.set_items = [&o](size_t count) { o.groups.assign(count, {}); };
  list.items = [&o, path = list.path] {
    std::vector<Section> items;
    for (size_t i = 0; i < o.groups.size(); ++i) {
      items.push_back(deciding(Decides::kLearning, group_section(o.groups[i], cat(path, "[", i, "]"))));
      items.back().is_item = true;
    }
    return items;
  };
  return list;
}

Section schedule_section(Recipe& r, const Catalog& catalog) {
  ScheduleRecipe& s = r.schedule;
  Section section = choosing("schedule", "How the learning rate changes over applied updates.", "name",
                             "The shape after warm-up, with its own keys beside it.", catalog.schedules,
                             [&s] { return &s.shape; });
  const std::string pattern = cat("^(0|", kNumberPattern, " *%|", kCountPattern, " *(updates?|samples?))$");
  section.fields = {
      bind_amount(text_key("warmup", "Linear rise from 0 at the start, as a part of the run or a length."),
                  s.warmup, "\"5%\", \"200 updates\", \"100000 samples\" or 0", pattern.c_str())};
  return section;
}

}  // namespace

std::vector<Section> optimizer_sections(Recipe& r, const Catalog& catalog) {
  std::vector<Section> all = {deciding(Decides::kLearningAndMemory, optimizer_section(r, catalog)),
                              deciding(Decides::kLearning, groups_section(r.optimizer))};
  for (Section& item : all.back().items()) all.push_back(std::move(item));
  all.push_back(deciding(Decides::kLearning, schedule_section(r, catalog)));
  return all;
}

}  // namespace autotrain
