#include "loop/out_of_memory.h"

#include <algorithm>

#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "device/failure.h"
#include "plan/memory_statement.h"
#include "plan/search.h"
#include "step/precision.h"

namespace autotrain {
namespace {

// The memory that stood beside the tensors in the trial of the executed size.
int64_t outside_in_trial(const BatchPlan& plan) {
  const ProbeRecord* const trial = find_size(plan.search.probes, plan.micro_batch);
  return trial ? trial->outside_bytes : 0;
}

// Whether libraries took what tensors lacked: a twentieth of the budget more than the plan saw them take.
bool outgrown_by_libraries(const MemoryStatement& memory, const BatchPlan& plan) {
  return memory.outside > outside_in_trial(plan) + memory.budget / 20;
}

// The trial of the largest size whose peak may grow as far beyond its trial as that of the size which failed,
// and stays where that one was planned; null where there is none. Of a size that was not tried half is safe.
const ProbeRecord* fit_clearly_below(const BatchPlan& plan, int64_t micro_batch,
                                     const std::optional<Refusal>& refusal) {
  const ProbeRecord* const trial = find_size(plan.search.probes, micro_batch);
  const int64_t planned = micro_batch == plan.micro_batch ? plan.peak_bytes : trial ? trial->peak_bytes : 0;
  if (planned == 0) return fit_below(plan.search.probes, micro_batch / 2 + 1);
  const auto peak = static_cast<double>(planned);
  const auto came_to = static_cast<double>(refusal ? refusal->total_bytes() : plan.budget_bytes);
  const double most = std::min(peak * peak / came_to, came_to);
  const ProbeRecord* fit = fit_below(plan.search.probes, micro_batch);
  while (fit != nullptr && static_cast<double>(fit->peak_bytes) > most)
    fit = fit_below(plan.search.probes, fit->micro_batch);
  return fit;
}

std::string what_would_help(const Workbench& bench, const BatchPlan& plan, const std::string& key,
                            int64_t micro_batch, bool libraries, const std::optional<Refusal>& refusal) {
  std::vector<std::string> ways;
  if (libraries) {
    ways.push_back(
        "have fewer shapes (a large execution.search.multiple_of, samples of fewer lengths), or let fewer "
        "kernels be kept: ONEDNN_PRIMITIVE_CACHE_CAPACITY=32 LRU_CACHE_CAPACITY=32 before the command");
  }
  if (const ProbeRecord* const smaller = fit_clearly_below(plan, micro_batch, refusal)) {
    ways.push_back(cat("set ", key, ": ", smaller->micro_batch, ", which took ",
                       format_percent(smaller->fill), " of the budget in the plan's trial"));
  } else if (micro_batch > 1) {
    ways.push_back(cat("set ", key, ": ", micro_batch / 2, " or less"));
  }
  ways.push_back("raise execution.memory.budget, or use less memory elsewhere on the device");
  if (const auto half = faster_precision(plan.precision, *bench.device)) {
    ways.push_back(
        cat("try execution.precision: ", to_string(*half), " (autotrain plan --alternatives measures it)"));
  }
  return join(ways, "; ");
}

}  // namespace

bool lacks_memory(const std::exception& error) {
  const Failure failure = classify_failure(error);
  return failure == Failure::kOutOfMemory || failure == Failure::kLibraryMemory;
}

int64_t Attempts::after_failure(int64_t size, const std::function<int64_t()>& smaller) {
  if (failed_++ == 0) return size;
  return smaller ? smaller() : size / 2;
}

void refuse_too_much_gathered(Workbench& bench, const Dataset& data, const std::string& split) {
  if (!bench.device->torch_device().is_cpu()) return;
  bench.device->memory().empty_cache();
  Gathering gathering;
  try {
    gathering = gathered_by_metrics(bench, data, split);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (lacks_memory(error)) return;  // for a single sample: whoever goes on says so
    throw;
  }
  const MemoryStatement memory = memory_statement(bench);
  if (gathering.at_once() < (memory.budget - memory.floor()) / 2) return;
  throw too_much_gathered(gathering, cat("beside the model's, of a budget of ", format_bytes(memory.budget)));
}

std::optional<Evaluation> evaluate_in_attempts(Workbench& bench, const BatchPlan& plan, const Dataset& data,
                                               int64_t micro_batch,
                                               const std::function<bool(int64_t samples)>& proceed) {
  for (Attempts attempts;;) {
    try {
      return evaluate(bench, data, micro_batch, proceed);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (!lacks_memory(error) || bench.ranks->several()) throw;
      const auto refusal = bench.device->memory().last_refusal();
      if (attempts.failed() > 0) refuse_too_much_gathered(bench, data, "evaluated");
      const int64_t next = attempts.after_failure(micro_batch);
      if (next == 0) throw out_of_memory(bench, plan, error, refusal, "evaluation", micro_batch, "");
      log::warn("evaluate", cat("memory ran out in micro-batches of ", micro_batch, " (", first_line(error),
                                "): it starts again in micro-batches of ", next));
      micro_batch = next;
    }
    bench.device->memory().empty_cache();
  }
}

std::optional<Refusal> free_memory(Session& session, Saver& saver) {
  MemoryMeter& memory = session.bench.device->memory();
  const std::optional<Refusal> refusal = memory.last_refusal();
  saver.wait();
  session.sample_memory();
  memory.empty_cache();
  memory.reset_peak();  // it is in the run's totals; what is refused next is told apart from this
  return refusal;
}

Error out_of_memory(Workbench& bench, const BatchPlan& plan, const std::exception& error,
                    const std::optional<Refusal>& refusal, const std::string& activity, int64_t micro_batch,
                    const std::string& layer) {
  const MemoryStatement statement = memory_statement(bench);
  const bool evaluating = activity == "evaluation";
  std::string where = activity;
  if (refusal && refusal->phase != activity) where += ", phase " + refusal->phase;
  if (!layer.empty()) where += ", layer " + layer;
  const std::string size = cat(micro_batch, micro_batch == 1 ? " sample" : " samples", " in a micro-batch");
  const bool libraries = outgrown_by_libraries(statement, plan);
  const std::string cause = libraries
                                ? cat("kernels and scratch memory of libraries grew beside the tensors to ",
                                      outside_in_words(statement), ", from ",
                                      format_bytes(outside_in_trial(plan)), " in the plan's trial. ")
                                : "";
  return Error(ExitCode::kDoesNotFit, where,
               cat(cause, cause.empty() ? "out" : "Out", " of memory with ", size, ": ", first_line(error),
                   describe(statement, refusal)),
               what_would_help(bench, plan, evaluating ? "evaluation.micro_batch" : "execution.micro_batch",
                               micro_batch, libraries, refusal));
}

}  // namespace autotrain
