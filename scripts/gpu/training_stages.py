"""The stages that train: searched runs beside typed-in ones, and our search beside those of the peers."""
import hashlib
import shutil

import place
import words
from cells import Cell, Failed, Stage, json_of, read_json
from machine_stages import bench
from search import left_a_trace

UPDATES, QUICK_UPDATES = 200, 5
PLAIN = ("fashion_mnist_cnn", "text_transformer", "fashion_mnist_resnet18")
# These recipes were written for two cores: on a GPU their effective batch would end every search.
FILL = ("batch.effective=auto", "batch.limits.max_effective=60000", "batch.lr_rule=none")
# Enough to see that a plan holds, where 200 updates of a full GPU would take minutes.
MOST_SAMPLES = {"fashion_mnist_resnet18": 200_000, "resnet50": 10_240, "transformer": 2_048}
MOST_SAMPLES_ELSE, MOST_SAMPLES_ON_CPU = 2_000_000, 10_000
EVERY_RUN = ("stop.epochs=null", "evaluation.every=never", "checkpoint.every=never", "report.html=false",
             "report.csv=false", "report.tensorboard=false", "execution.deterministic=true",
             "execution.search.plan_cache=false")
SECONDS_OF_MAIN = {"fashion_mnist_cnn": 8, "text_transformer": 12, "fashion_mnist_resnet18": 20, "resnet50": 50,
                   "transformer": 35}
SECONDS_OF_SEARCH = {"autotrain": 10, "lightning power": 18, "lightning binsearch": 22, "accelerate": 16}
# Why a search may end outside of the band: it found a bound that is not memory.
EXPLAINED = ("effective_batch", "dataset", "cap", "index_limit", "granularity", "knee")
LOW, HIGH = 0.80, 0.90

SIDES = ("autotrain", "lightning power", "lightning binsearch", "accelerate")
SEARCHES = (("mlp", 512), ("gpt", 2048), ("resnet", 2048), ("mlp", 4096), ("gpt", 16384), ("resnet", 16384))
SEARCHES_ON_CPU = (("mlp", 256), ("resnet", 512), ("gpt", 512))
QUICK_SEARCHES = (("cnn", 128),)


def recipes(setting):
    """Of recipes/gpu those that there are, and the plain ones that have no namesake there."""
    if setting.quick:
        return [place.RECIPES / f"{PLAIN[0]}.yaml"]
    own = sorted((place.RECIPES / "gpu").glob("*.yaml")) if setting.on_gpu else []
    names = {recipe.stem for recipe in own}
    return [place.RECIPES / f"{name}.yaml" for name in PLAIN if name not in names] + own


def settings_of(setting, recipe, budget, precision):
    updates = QUICK_UPDATES if setting.quick else UPDATES
    samples = MOST_SAMPLES.get(recipe.stem, MOST_SAMPLES_ELSE) if setting.on_gpu else MOST_SAMPLES_ON_CPU
    fill = FILL if recipe.parent == place.RECIPES else ()
    return [*fill, *EVERY_RUN, *place.data_settings(recipe), f"stop.updates={updates}", f"stop.samples={samples}",
            f"execution.device={setting.device}", f"execution.memory.budget={budget}",
            f"execution.precision={precision}"]


def train(setting, recipe, settings, folder):
    sets = [word for each in settings for word in ("--set", each)]
    command = [*place.program("autotrain"), "--config", recipe, "--output", folder, "--json", "--quiet", "--fresh-plan"]
    summary = json_of(setting.run([*command, *sets], 300))
    return summary, read_json(folder / "plan.json"), model_hash(folder)


def model_hash(folder):
    models = list(folder.glob("checkpoints/update-*/model.safetensors"))
    if len(models) != 1:
        raise Failed(f"{len(models)} checkpoints instead of the last one")
    return hashlib.sha256(models[0].read_bytes()).hexdigest()


def peak_of_trial(plan):
    """What a trial of the size that is executed took at most; None: none was made of it."""
    peaks = [probe["peak_bytes"] for probe in plan["search"]["probes"]
             if probe["micro_batch"] == plan["micro_batch"] and probe["fits"]]
    return max(peaks, default=None)


def main_row(searched, typed):
    (summary, plan, found_hash), (typed_summary, _, typed_hash) = searched, typed
    search = plan["search"]
    in_band = LOW <= search["fill"] <= HIGH
    peak = max(summary["peak_bytes"], typed_summary["peak_bytes"])
    of_trial = peak_of_trial(plan)
    return {"micro_batch": plan["micro_batch"], "window": plan["window"], "effective_batch": plan["effective_batch"],
            "executed_fill": plan["fill"], "capacity": search["micro_batch"], "fill": search["fill"],
            "reason": search["reason"], "right": in_band or search["reason"] in EXPLAINED,
            "trials": len(search["probes"]), "search_seconds": search["seconds"],
            "both_confirmed": plan["confirmed"] and search["confirmed"],
            "recoveries": summary["oom_recoveries"] + typed_summary["oom_recoveries"],
            "budget_bytes": plan["budget_bytes"], "peak_bytes": peak, "within_budget": peak <= plan["budget_bytes"],
            "run_to_trial": of_trial and summary["peak_bytes"] / of_trial,
            "updates": summary["updates"], "skipped_updates": summary["skipped_updates"], "final": summary["final"],
            "samples_per_second": summary["samples_per_second"], "data_wait_fraction": summary["data_wait_fraction"],
            "typed_samples_per_second": typed_summary["samples_per_second"], "sha256": found_hash,
            "same_bits": found_hash == typed_hash, "telemetry": summary["telemetry"]}


def search_and_type(setting, recipe, budget, precision):
    """A searched run, and one with the found micro-batch typed in."""
    settings = settings_of(setting, recipe, budget, precision)
    folder = setting.folder(recipe.stem)
    try:
        searched = train(setting, recipe, settings, folder / "searched")
        found = searched[1]["micro_batch"]
        typed = train(setting, recipe, [*settings, f"execution.micro_batch={found}"], folder / "typed")
    finally:
        shutil.rmtree(folder)
    return main_row(searched, typed)


def main_cells(setting):
    if setting.on_gpu:
        budgets = ("1GiB",) if setting.quick else ("8GiB", "1GiB", "50%", "auto")
        precisions = ("fp32", "bf16") if setting.quick else ("fp32", "tf32", "bf16", "fp16")
    else:
        budgets, precisions = ("256MiB",) if setting.quick else ("256MiB", "512MiB"), ("fp32",)
    return [Cell(f"{recipe.stem}:{budget}:{precision}",
                 lambda r=recipe, b=budget, p=precision: search_and_type(setting, r, b, p),
                 SECONDS_OF_MAIN.get(recipe.stem, 20))
            for budget in budgets for recipe in recipes(setting) for precision in precisions]


def main_columns(row):
    return {"micro × window": f"{row['micro_batch']} × {row['window']}", "fill": words.fraction(row["fill"]),
            "reason": row["reason"], "right": words.yes(row["right"]), "trials": str(row["trials"]),
            "search": f"{row['search_seconds']:.1f} s", "confirmed": words.yes(row["both_confirmed"]),
            "recoveries": str(row["recoveries"]),
            "peak": f"{words.memory(row['peak_bytes'])} of {words.memory(row['budget_bytes'])}",
            "within": words.yes(row["within_budget"]), "run ÷ trial": words.number(row["run_to_trial"], 4),
            "updates": str(row["updates"]),
            "samples/s": words.number(row["samples_per_second"]), "same bits": words.yes(row["same_bits"])}


def side_command(setting, side, workload, budget):
    updates = 5 if setting.quick else 50
    most = 64 if setting.quick else 32768 if setting.on_gpu else 8192
    common = ["--workload", workload, "--budget-mib", budget, "--max-val", most]
    if side == "autotrain":
        return [*bench(setting, "search_step"), *common, "--limit", "typed", "--updates", updates]
    common += ["--device", setting.device, "--after-steps", updates, "--start", most]
    if side == "accelerate":
        return [*place.peer("search_accelerate.py", "torch", "accelerate"), *common, "--mode", "accelerate"]
    lightning = "pytorch_lightning" if place.lacks("lightning") else "lightning"
    return [*place.peer("search_lightning.py", "torch", lightning), *common, "--mode", side.split()[1]]


def search_row(setting, side, workload, budget):
    result = json_of(setting.run(side_command(setting, side, workload, budget), 240), last_line=True)
    survival = result.get("survival") or {}
    if result.get("error") and not result.get("chosen"):
        raise Failed(result["error"])
    fills = [survival.get(key) for key in ("fill", "peak_reserved_fraction", "peak_vmdata_fraction")]
    return {"side": side, "workload": workload, "budget_mib": budget, "chosen": result.get("chosen"),
            "reason": result.get("reason"), "trials": result.get("trials"), "samples": result.get("samples"),
            "search_seconds": result.get("wall_s"), "survived": bool(survival.get("ok")),
            "fill": next((fill for fill in fills if fill is not None), None), "trace": left_a_trace(result),
            "after": result.get("error") or survival.get("error")}


def search_cells(setting):
    searches = QUICK_SEARCHES if setting.quick else SEARCHES if setting.on_gpu else SEARCHES_ON_CPU
    return [Cell(f"{workload}:{budget}MiB:{side}", lambda s=side, w=workload, b=budget: search_row(setting, s, w, b),
                 SECONDS_OF_SEARCH[side])
            for workload, budget in searches for side in SIDES]


def search_columns(row):
    return {"size": words.number(row["chosen"], 9), "trials": words.number(row["trials"], 9),
            "samples": words.number(row["samples"], 9), "seconds": words.number(row["search_seconds"]),
            "survived": words.yes(row["survived"]), "peak ÷ budget": words.fraction(row["fill"]),
            "no trace": words.yes(None if row["trace"] is None else not row["trace"]),
            "afterwards": (row["after"] or "")[:120]}


STAGES = {
    "main": Stage("a search, 200 updates and an evaluation; the same with the size typed in: fill, peak, bits",
                  main_cells, main_columns),
    "search": Stage("our search beside Lightning's two and Accelerate's: trials, seconds, survival, trace",
                    search_cells, search_columns),
}
