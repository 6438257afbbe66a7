#include "loop/recompute_instead.h"

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "device/failure.h"
#include "loop/out_of_memory.h"
#include "plan/plan_json.h"

namespace autotrain {
namespace {

// "" where this rank computes again from now on; else why it cannot.
std::string why_not_recomputed(Session& session) {
  try {
    set_recompute(session.recipe, session.bench, true);
    return session.bench.recomputes ? "" : "the samples to try it with could not be had";
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadRecipe) throw;
    return error.problem();
  } catch (const std::exception& error) {
    if (!lacks_memory(error)) throw;
    return cat("it ran out again: ", first_line(error));
  }
}

}  // namespace

bool recompute_instead(Session& session) {
  BatchPlan& plan = session.plan;
  if (session.recipe.execution.recompute != Recompute::kAuto || session.bench.recomputes) return false;
  std::string why_not = why_not_recomputed(session);
  for (const Ranks::Note& elsewhere : session.bench.ranks->meet(why_not)) {
    if (why_not.empty()) why_not = elsewhere.get<std::string>();
  }
  if (!why_not.empty()) {
    set_recompute(session.recipe, session.bench, false);
    log::info("trainer", "recompute: no, although memory ran out: " + why_not);
    return false;
  }
  plan.recompute = true;
  plan.recompute_why = "memory ran out at the smallest micro-batch without";
  plan.confirmed = false;  // it runs in this run, but did not in a trial
  session.note(EventKind::kPlan, "recompute: yes from now on: " + plan.recompute_why);
  if (session.folder) session.folder->write_json("plan.json", plan_to_json(plan));
  return true;
}

}  // namespace autotrain
