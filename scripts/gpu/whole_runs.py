"""Cells of the stage tests that are what a user does first: the README's command, two runs on one GPU, verify."""
import contextlib
import json

import place
from cells import Failed, read_json, why
from disturbed_runs import RECIPE, TINY_TRANSFORMER, TRANSFORMER, cell, row_of, run_command, tail, within_budget
from measure import options_of

README_RECIPE = "fashion_mnist_cnn"
LEAST_ACCURACY = 0.85  # of that recipe, which comes to some 0.91
QUICK = ("stop.epochs=null", "stop.updates=3", "evaluation.every=never", "checkpoint.every=never")
WRONG = ("DIFFERENT", "FAILED")  # verdicts of verify
OF_VERIFY = ("data.train.delay=0", "execution.search.plan_cache=false")


def fault_of_first_command(ended, summary, least_accuracy=LEAST_ACCURACY):
    """Empty where the README's first command trained, and what it trained is as good as on a processor."""
    if ended.code != 0 or summary.get("status") != "completed":
        return f"ended with {ended.code}: {tail(ended)}"
    accuracy = summary["final"]["accuracy"]
    return "" if accuracy >= least_accuracy else f"its accuracy is {accuracy:.3f}"


def first_command(setting, folder):
    """The recipe without an edit, as the README has it; only a device other than the first GPU is named."""
    settings = [] if setting.device == "cuda" else [f"execution.device={setting.device}"]
    settings += QUICK if setting.quick else ()
    output = folder / "run"
    ended = setting.run([*place.program("autotrain"), "--config", place.RECIPES / f"{README_RECIPE}.yaml",
                         "--fresh-plan", "--output", output, *options_of(settings)], 240)
    summary = read_json(output / "summary.json") if (output / "summary.json").exists() else {}
    plan = read_json(output / "plan.json") if (output / "plan.json").exists() else {}
    figures = {"exit_code": ended.code, "micro_batch": plan.get("micro_batch"), "fill": plan.get("search", {}).get("fill"),
               "budget_bytes": plan.get("budget_bytes"), "peak_bytes": summary.get("peak_bytes"),
               "accuracy": summary.get("final", {}).get("accuracy"), "seconds": summary.get("seconds")}
    return row_of(figures, fault_of_first_command(ended, summary, 0 if setting.quick else LEAST_ACCURACY))


def fault_of_two(ended):
    """Empty where both runs came to their end. `ended`: pairs of how a run ended and its summary."""
    faults = [f"run {number} ended with {end.code}: {tail(end)}" for number, (end, summary) in enumerate(ended, 1)
              if end.code != 0 or summary.get("status") != "completed"]
    return "; ".join(faults)


def two_runs(setting, folder):
    """Two runs of one recipe that begin together on one device, each with its budget, each searching."""
    outputs = [folder / name / "run" for name in ("one", "two")]
    with contextlib.ExitStack() as stack:
        runs = []
        for output in outputs:
            output.parent.mkdir()
            runs.append(stack.enter_context(setting.started(run_command(setting, output, content=RECIPE))))
        setting.wait_until(lambda: all(run.has_ended() for run in runs), 240)
        ends = [run.so_far() for run in runs]
    summaries = [read_json(output / "summary.json") if (output / "summary.json").exists() else {} for output in outputs]
    plans = [read_json(output / "plan.json") if (output / "plan.json").exists() else {} for output in outputs]
    figures = {"exit_codes": [end.code for end in ends], "micro_batches": [plan.get("micro_batch") for plan in plans],
               "peaks": [summary.get("peak_bytes") for summary in summaries],
               "within_budget": [within_budget(*pair) for pair in zip(outputs, summaries)]}
    return row_of(figures, fault_of_two(list(zip(ends, summaries))))


def verdicts_of(ended):
    """What verify found, though it may have ended with a difference. @raises Failed: it found nothing."""
    try:
        return json.loads(ended.output)
    except ValueError:
        raise Failed(why(ended)) from None


def fault_of_verify(ended):
    """Empty where every disturbed run came to the undisturbed one's bits, or to rounding where it may."""
    wrong = [f"{each['disturbance']}: {each['result']} {each['detail']}" for each in verdicts_of(ended)
             if each["result"] in WRONG]
    return "; ".join(wrong) or ("" if ended.code == 0 else f"ended with {ended.code}: {tail(ended)}")


def verified(setting, folder):
    recipe = folder / "verified.yaml"
    recipe.write_text(TRANSFORMER, encoding="utf-8")
    settings = [f"execution.device={setting.device}", *OF_VERIFY, *(() if setting.on_gpu else TINY_TRANSFORMER)]
    ended = setting.run([*place.program("autotrain"), "verify", "--config", recipe, "--updates", 6, "--kills", 1,
                         "--ranks", 1, "--json", "--quiet", *options_of(settings)], 300)
    return row_of({each["disturbance"]: each["result"] for each in verdicts_of(ended)}, fault_of_verify(ended))


def cells(setting):
    return [cell(setting, "README's first command", first_command, 20),
            cell(setting, "two runs on one device", two_runs, 20),
            cell(setting, "transformer verified", verified, 45)]
