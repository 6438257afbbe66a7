#include "setup/start_table.h"

#include <ATen/Parallel.h>

#include <map>
#include <numeric>

#include "base/text.h"
#include "base/units.h"
#include "device/cores.h"
#include "model/models.h"
#include "optim/lr_rules.h"
#include "optim/schedule.h"
#include "plan/plan_enums.h"
#include "plan/plan_words.h"
#include "setup/batch_stages.h"
#include "setup/horizon.h"

namespace autotrain {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string origin_of(const Recipe& recipe, const std::string& key) {
  const auto origin = recipe.origins.find(key);
  return origin == recipe.origins.end() ? "default" : "asked: " + origin->second;
}

std::string found_or_asked(const Recipe& recipe, const std::string& key, bool set) {
  return set ? origin_of(recipe, key) : "found";
}

int64_t count_elements(const Workbench& bench) {
  int64_t count = 0;
  for (const NamedTensor& parameter : bench.optimizer->parameters()) count += parameter.tensor.numel();
  return count;
}

std::string batch_key(const BatchRecipe& batch) {
  if (batch.adapts()) return "batch.adapt.rule";
  return batch.schedule.stages.empty() ? "batch.schedule.rule" : "batch.schedule";
}

void add_batch(Rows& rows, const Recipe& r, const BatchPlan& plan) {
  for (const std::string& stage : stages_in_words(plan)) {
    rows.push_back({"updates", stage, origin_of(r, batch_key(r.batch))});
  }
  if (!plan.stages.empty()) return;
  rows.push_back({"effective batch", cat(plan.effective_batch, " samples per update"),
                  found_or_asked(r, "batch.effective", r.batch.effective.has_value())});
  rows.push_back({"learning rate", cat(brief(plan.lr.base), " → ", brief(plan.lr.scaled)),
                  cat(plan.lr.rule, " rule at ", plan.effective_batch, " ÷ ", plan.lr.reference_batch)});
}

void add_learning(Rows& rows, const Recipe& r, const BatchPlan& plan, const Workbench& bench,
                  const Horizon& horizon, const BatchStages& stages) {
  rows.push_back({"seed", std::to_string(r.seed), origin_of(r, "seed")});
  rows.push_back({"training data", format_count(bench.data.train->size()) + " samples", ""});
  if (bench.data.validation) {
    rows.push_back({"validation data", format_count(bench.data.validation->size()) + " samples", ""});
  }
  if (bench.data.test)
    rows.push_back({"test data", format_count(bench.data.test->size()) + " samples, at the end", ""});
  rows.push_back({"parameters", format_count(count_elements(bench)), ""});
  if (!r.optimizer.groups.empty()) {
    rows.push_back({"parameter groups", describe(bench.optimizer->groups(), bench.optimizer->parameters()),
                    origin_of(r, "optimizer.groups")});
  }
  if (const Network* const network = as_network(bench.task->module()); network && r.lora.active()) {
    rows.push_back({"adapters",
                    cat("of rank ", r.lora.rank_used(), " and alpha ", brief(r.lora.alpha_used()), " on ",
                        network->adapters().size(), " weights"),
                    origin_of(r, "model.lora.match")});
  }
  add_batch(rows, r, plan);
  std::string length = "until the time is up";
  if (horizon.samples) {
    length =
        cat(r.batch.adapts() ? "at the first batch " : "", format_count(horizon.total_updates(0, 0, stages)),
            " updates", stages.change() ? cat(" over ", format_count(*horizon.samples), " samples") : "");
  }
  const Schedule schedule(r.schedule, horizon.updates, stages.first());
  const int64_t warmup = schedule.warmup_updates();
  rows.push_back({"schedule",
                  cat(r.schedule.shape.name, ", warm-up ",
                      stages.change() ? cat(format_count(counted_product(warmup, stages.first())), " samples")
                                      : cat(warmup, " updates")),
                  origin_of(r, "schedule.name")});
  rows.push_back({"length", length, "stop." + to_string(horizon.stopped_by)});
}

std::string origin_of_threads(const Recipe& r, int64_t ranks_here) {
  if (r.execution.threads) return origin_of(r, "execution.threads");
  const UsableCores cores = usable_cores();
  return cat(cores.bound, ranks_here > 1 ? cat(", shared by ", ranks_here, " ranks") : "");
}

void add_execution(Rows& rows, const Recipe& r, const BatchPlan& plan, int64_t ranks_here) {
  rows.push_back({"device", cat(plan.device, " (", plan.device_name, ")"), origin_of(r, "execution.device")});
  rows.push_back({"threads", cat(at::get_num_threads()), origin_of_threads(r, ranks_here)});
  rows.push_back({"precision", to_string(plan.precision),
                  found_or_asked(r, "execution.precision", r.execution.precision != Precision::kAuto)});
  const bool format_asked = r.execution.memory_format != MemoryFormat::kAuto;
  const bool channels_last = plan.memory_format == MemoryFormat::kChannelsLast;
  if (format_asked || channels_last) {
    rows.push_back({"memory format", channels_last ? "channels last, convolutions over images" : "contiguous",
                    found_or_asked(r, "execution.memory_format", format_asked)});
  }
  if (!plan.recompute_why.empty())
    rows.push_back({"recompute", plan.recompute ? "yes" : "no", plan.recompute_why});
  if (!plan.cuda_graphs_why.empty())
    rows.push_back({"CUDA graphs", plan.cuda_graphs ? "yes" : "no", plan.cuda_graphs_why});
  rows.push_back({"memory budget", format_bytes(plan.budget_bytes), plan.budget_source});
  if (const std::string others = others_in_words(plan); !others.empty())
    rows.push_back({"held by others", others, "when the plan was made"});
  rows.push_back(
      {"capacity",
       cat(plan.search.micro_batch, " samples, ", format_percent(plan.search.fill), " of the budget"),
       reason_in_words(plan)});
  rows.push_back({"micro-batch", cat(plan.micro_batch, " samples, ", fill_in_words(plan)),
                  r.execution.micro_batch ? origin_of(r, "execution.micro_batch")
                                          : "found, cut " + to_string(plan.cut)});
  const int64_t each = plan.lanes / plan.world_size;
  rows.push_back({"window",
                  cat(plan.window, plan.window == 1 ? " micro-batch" : " micro-batches", " per update",
                      plan.world_size > 1 ? cat(" on each of ", plan.world_size, " ranks") : "",
                      each > 1 ? cat(", in ", each, " lanes") : ""),
                  each > 1 ? origin_of(r, "execution.lanes") : ""});
}

// "a (2), b (1)"
std::string counted(const std::vector<std::string>& hosts) {
  std::map<std::string, int64_t> ranks_on;
  for (const std::string& host : hosts) ++ranks_on[host];
  std::vector<std::string> words;
  for (const auto& [host, ranks] : ranks_on) words.push_back(cat(host, " (", ranks, ")"));
  return join(words, ", ");
}

void add_ranks(Rows& rows, const Workbench& bench, const std::vector<std::string>& hosts) {
  if (!bench.ranks->several()) return;
  const int64_t threads = at::get_num_threads();
  rows.push_back(
      {"ranks",
       cat(bench.ranks->place().world, " with ", threads, threads == 1 ? " thread" : " threads", " each"),
       "on " + counted(hosts)});
}

}  // namespace

std::string others_in_words(const BatchPlan& plan) {
  constexpr int64_t kMentionedBytes = 64 * kMiB;
  if (plan.others_bytes <= kMentionedBytes) return "";
  return format_bytes(plan.others_bytes) + " of the device, outside the budget";
}

std::map<std::string, Origin> plan_origins(const Recipe& recipe, const std::string& device) {
  const auto origin = [&](const char* key, Origin otherwise) {
    return recipe.asked(key) ? Origin::kAsked : otherwise;
  };
  const auto found_unless = [](bool typed) { return typed ? Origin::kAsked : Origin::kFound; };
  return {
      {"device", origin("execution.device", Origin::kFound)},
      {"precision", found_unless(recipe.execution.precision != Precision::kAuto)},
      {"budget_bytes", found_unless(recipe.execution.memory.budget.on(device).kind == Budget::Kind::kBytes)},
      {"target", origin("execution.memory.target", Origin::kDefault)},
      {"effective_batch", found_unless(recipe.batch.effective.has_value())},
      {"micro_batch", found_unless(recipe.execution.micro_batch.has_value())},
      {"lr", origin("optimizer.lr", Origin::kDefault)}};
}

Rows start_table(const Recipe& recipe, const BatchPlan& plan, const Workbench& bench,
                 const std::vector<std::string>& hosts) {
  const int64_t size = bench.data.train->size();
  const BatchStages stages = stages_of(recipe, size, plan.effective_batch);
  Rows rows;
  add_learning(rows, recipe, plan, bench, horizon_of(recipe, size, stages), stages);
  add_execution(rows, recipe, plan, bench.ranks->place().local_world);
  add_ranks(rows, bench, hosts);
  return rows;
}

}  // namespace autotrain
