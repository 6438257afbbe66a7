"""The stages that measure speed: training beside PyTorch, inference over batch sizes, planted bottlenecks."""
import math
import re
import shutil
import statistics
import sys

import place
import words
from cells import DOES_NOT_FIT, Cell, Failed, Stage, json_of, read_json, why
from doctor import CASES, LARGE, RECIPE, write_large_samples
from machine_stages import peak_rate

WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
SWEEPS = {  # recipe → batches
    "sweep_resnet50": "1,2,3,4,8,16,32,64,128,256,512",
    "inference_cnn": "1,32,128,512",
    "roofline_mlp": "1..4096",
}
SECONDS_OF_POINT = 2.3  # each is measured in a process of its own, which starts the device

# Large enough that a GPU which has its data computes, small enough that one thread's delays are soon over.
ON_A_GPU = ["model.depth=8", "model.width=4096", "batch.effective=512", "execution.micro_batch=512",
            "execution.memory.budget=50%"]
WIDER = ["model.width=8192", "batch.effective=4096", "execution.micro_batch=4096"]
SMALL = ["model.depth=3", "model.width=512", "batch.effective=64"]
GPU_CASES = {  # case → planted, settings
    **CASES,
    "8 times as many compute threads as cores": None,  # on a GPU they compute nothing
    "micro-batches of 2": ("micro_batch", [*SMALL, "execution.micro_batch=2"]),
    "float32 where bfloat16 is native": ("compute", [*WIDER, "execution.precision=fp32"]),
    "nothing": ("compute", WIDER),
    "a hundred narrow layers": ("launch_overhead", ["model.depth=100", "model.width=64", "batch.effective=256",
                                                    "execution.micro_batch=256", "execution.cuda_graphs=off"]),
}
SECONDS_OF_DOCTOR = 14
QUICK_CASES = ("a slow disk, one loader thread",)
QUICK_SIZES = ["model.depth=1", "model.width=64"]


SPEED_ON_GPU = tuple((workload, batch, precision) for precision in ("bf16", "tf32", "fp32")
                     for workload, batch in (("mlp", 64), ("mlp", 256), ("gpt", 64), ("gpt", 256), ("resnet50", 256),
                                             ("mlp", 1024), ("gpt", 1024), ("resnet50", 64)))
SPEED_ON_CPU = tuple((workload, batch, precision) for batch in (64, 256) for workload in ("mlp", "gpt")
                     for precision in ("fp32", "bf16"))
OURS = ("harness", "graphs", "exported")
EXPORTED = (("resnet50", 256), ("vit", 256), ("gpt2", 32))
SECONDS_OF_EXPORT = 60  # guessed
QUICK_SPEED = (("mlp", 64, "fp32"),)
SECONDS_OF_SPEED, SECONDS_OF_COMPILED = 18, 60


def speed_row(setting, workload, batch, precision, more=()):
    rounds, seconds = (1, 0.2) if setting.quick else (5, 0.4) if setting.on_gpu else (5, 1.5)
    command = [sys.executable, place.ROOT / "scripts/gpu/speed_cell.py", "--workload", workload, "--batch", batch,
               "--precision", precision, "--device", setting.device, "--rounds", rounds, "--seconds", seconds]
    command += more
    found = json_of(setting.run([*command, *(["--compiled"] if setting.compiled else [])], 300), last_line=True)
    if "error" in found:
        raise Failed(found["error"])
    best = max(statistics.median(found["rates"][side]) for side in OURS if side in found["rates"])
    peak = peak_rate(setting, precision)
    share = best * found["flops_per_sample"] / peak if peak and found["flops_per_sample"] else None
    return {"workload": workload, "batch": batch, "precision": precision, "best_samples_per_second": best,
            "peak_flops_per_second": peak, "share_of_peak": share, **found}


def speed_cells(setting):
    asked = QUICK_SPEED if setting.quick else SPEED_ON_GPU if setting.on_gpu else SPEED_ON_CPU
    seconds = SECONDS_OF_SPEED + (SECONDS_OF_COMPILED if setting.compiled else 0)
    return [Cell(":".join(map(str, each)), lambda each=each: speed_row(setting, *each), seconds) for each in asked]


def speed_columns(row):
    ratios = row["ratios"]
    return {"samples/s": words.number(row["best_samples_per_second"]),
            "÷ bare loop": words.spread(ratios.get("harness/bare")), "÷ PyTorch": words.spread(ratios.get("harness/eager")),
            "graphs ÷ bare loop": words.spread(ratios.get("graphs/bare")),
            "graphs ÷ PyTorch": words.spread(ratios.get("graphs/eager")),
            "best ÷ compiled": words.spread(ratios.get("best/compiled")),
            "best ÷ compiled, fewer launches": words.spread(ratios.get("best/compiled_overhead")),
            "share of peak": words.percent(row["share_of_peak"]),
            "without": "; ".join(f"{side}: {said[:100]}" for side, said in row["without"].items())}


def exported_row(setting, workload, batch, precision):
    """A model from PyTorch beside its twin in C++ and eager PyTorch. Its file is made where it is used: it holds the operators of
    the device."""
    place.need("torch", "safetensors")
    folder, kind = setting.output / "models", setting.device.partition(":")[0]
    ended = setting.run([place.python(), place.ROOT / "scripts/gpu/make_models", "--device", setting.device, "--precision",
                         precision, "--output", folder, workload], 400)
    if ended.code != 0:
        raise Failed(f"the exporter {why(ended)}")
    file = folder / f"{workload}.{precision}.{kind}.autotrain"
    try:
        return {**speed_row(setting, workload, batch, precision, ["--exported", file]), "bytes_of_file": file.stat().st_size}
    finally:
        file.unlink()  # hundreds of MiB that are made again in a minute


def exported_cells(setting):
    asked = [("mlp", 64, "fp32")] if not setting.on_gpu or setting.quick else [(*each, "bf16") for each in EXPORTED]
    return [Cell(":".join(map(str, each)), lambda each=each: exported_row(setting, *each),
                 SECONDS_OF_EXPORT + SECONDS_OF_SPEED) for each in asked]


def exported_columns(row):
    ratios = row["ratios"]
    return {"samples/s": words.number(statistics.median(row["rates"]["exported"])),
            "÷ C++ twin": words.spread(ratios.get("exported/twin")),
            "÷ PyTorch": words.spread(ratios.get("exported/eager")),
            "without": "; ".join(f"{side}: {said[:100]}" for side, said in row["without"].items())}


def sweep_row(setting, recipe, batches, settings):
    folder, config = setting.folder(recipe), place.RECIPES / f"{recipe}.yaml"
    sets = [*place.data_settings(config), f"execution.device={setting.device}", "sweep.vary=null", *settings]
    command = [*place.program("autotrain"), "sweep", "--config", config, "--batches", batches, "--rounds", 1,
               "--seconds", 0.1 if setting.quick else 0.2 if setting.on_gpu else 0.5, "--output", folder / "sweep", "--json", "--quiet"]
    try:
        ended = setting.run([*command, *(word for each in sets for word in ("--set", each))], 300)
        if not (folder / "sweep/sweep.json").exists():
            raise Failed(why(ended))
        variant = read_json(folder / "sweep/sweep.json")["variants"][0]
    finally:
        shutil.rmtree(folder)
    if variant["failure"]:
        raise Failed(variant["failure"])
    return figures_of(variant)


OF_A_VARIANT = ("predicted_batch", "peak_flops_per_second", "weight_read_bytes_per_second", "sentences")
OF_A_KNEE = ("reached", "below_range", "best_batch", "best_samples_per_second")
OF_A_POINT = ("batch", "p50_seconds", "samples_per_second", "flops_per_second", "peak_bytes")


def figures_of(variant):
    """A row of what a variant of a sweep came to."""
    knee, points = variant["knee"] or {}, variant["points"]
    failures = {point["batch"]: point["failure"] for point in points if point["failure"]}
    return {**{key: variant[key] for key in OF_A_VARIANT}, **{key: knee.get(key) for key in OF_A_KNEE},
            "knee_batch": knee.get("batch"), "ratio": (variant["measured_to_predicted"] or {}).get("ratio"),
            "out_of_memory": [point["batch"] for point in points if point.get("code") == DOES_NOT_FIT],
            "failures": failures,
            "points": [{key: point[key] for key in OF_A_POINT} for point in points if not point["failure"]]}


def sweep_cells(setting):
    precisions = ("fp16", "bf16") if setting.on_gpu else ("fp32",)
    if setting.quick:
        return [sweep_cell(setting, "roofline_mlp", precisions[0], "1,16", "model.width=64")]
    cells = [sweep_cell(setting, recipe, precision, SWEEPS[recipe])
             for recipe in ("sweep_resnet50", "inference_cnn") for precision in precisions]
    cells.append(sweep_cell(setting, "sweep_resnet50", precisions[0], SWEEPS["sweep_resnet50"],
                            "execution.memory.budget=1GiB"))
    cells += [sweep_cell(setting, "roofline_mlp", precision, SWEEPS["roofline_mlp"], f"model.width={width}")
              for precision in precisions for width in WIDTHS]
    return cells + (graph_cells(setting) if setting.on_gpu else [])


def graph_cells(setting):
    """Small batches with and without graphs: what launches hide of the hardware."""
    switches = [f"execution.cuda_graphs={switch}" for switch in ("on", "off")]
    return [*(sweep_cell(setting, "roofline_mlp", "bf16", SWEEPS["roofline_mlp"], f"model.width={width}", switch)
              for width in (1024, 4096) for switch in switches),
            *(sweep_cell(setting, "sweep_resnet50", "bf16", "1,2,3,4,8", switch) for switch in switches)]


def sweep_cell(setting, recipe, precision, batches, *settings):
    largest = re.findall(r"\d+", batches)[-1]
    own = [] if recipe == "inference_cnn" else [f"data.train.samples={largest}"]
    name = ":".join([recipe, precision, *(each.rpartition(".")[2] for each in settings)])
    settings = [*own, *settings, f"execution.precision={precision}"]
    return Cell(name, lambda: sweep_row(setting, recipe, batches, settings),
                6 + (SECONDS_OF_POINT if setting.on_gpu else 0.35) * count_of(batches))


def count_of(batches):
    """How many sizes `1,2,3` or `1..4096` (powers of two) are."""
    first, _, last = batches.partition("..")
    return math.log2(int(last) / int(first)) + 1 if last else len(batches.split(","))


def sweep_columns(row):
    knee = words.number(row["knee_batch"])
    if row["knee_batch"] is not None and not row["reached"]:
        knee = "above " + knee
    if row["below_range"]:
        knee = "below " + knee
    refused = ", ".join(str(batch) for batch in row["out_of_memory"])
    return {"predicted": words.number(row["predicted_batch"]), "knee": knee,
            "knee ÷ predicted": words.number(row["ratio"]),
            "best": f"{words.scaled(row['best_samples_per_second'], 'samples/s')} at {row['best_batch']}",
            "out of memory at": refused or "no batch"}


def doctor_row(setting, planted, settings):
    folder = setting.folder("doctor")
    recipe = folder / "planted.yaml"
    recipe.write_text(LARGE if settings is None else RECIPE, encoding="utf-8")
    sets = list(settings or [])
    if settings is None:
        write_large_samples(folder)
        sets = [f"data.train.inputs={folder}/large.npy", f"data.train.targets={folder}/classes.npy"]
    elif setting.quick:
        sets = QUICK_SIZES + sets
    elif setting.on_gpu:
        sets = ON_A_GPU + sets
    sets.append(f"execution.device={setting.device}")
    seconds = 0.2 if setting.quick else 0.3 if setting.on_gpu else 2
    command = [*place.program("autotrain"), "doctor", "--config", recipe, "--json", "--seconds", seconds]
    try:
        found = json_of(setting.run([*command, *(word for each in sets for word in ("--set", each))], 240))["recipe"]
    finally:
        shutil.rmtree(folder)
    best = next((cure for cure in found["cures"] if cure["gain"] > 1), None)
    return {"planted": planted, "named": found["cause"], "right": found["cause"] in planted.split(),
            "verdict": found["verdict"], "before": found["before"]["samples_per_second"],
            "after": best and best["after"]["samples_per_second"],
            "gain": best and best["gain"], "cure": " ".join(best["set"]) if best else ""}


def doctor_cells(setting):
    cases = {name: case for name, case in (GPU_CASES if setting.on_gpu else CASES).items() if case}
    return [Cell(name, lambda p=planted, s=settings: doctor_row(setting, p, s), SECONDS_OF_DOCTOR)
            for name, (planted, settings) in cases.items() if not setting.quick or name in QUICK_CASES]


def doctor_columns(row):
    return {"planted": row["planted"], "named": row["named"], "right": words.yes(row["right"]),
            "samples/s": words.number(row["before"]), "cured": words.number(row["after"]),
            "gain": words.number(row["gain"]), "cure": row["cure"]}


STAGES = {
    "speed": Stage("the harness, with CUDA graphs too, in turns with a bare LibTorch loop and PyTorch",
                   speed_cells, speed_columns),
    "exported": Stage("models exported from PyTorch, beside their twins in C++ and eager PyTorch",
                      exported_cells, exported_columns),
    "sweep": Stage("inference over batch sizes: predicted and measured knee, where memory ends",
                   sweep_cells, sweep_columns),
    "doctor": Stage("planted bottlenecks, and what autotrain doctor named", doctor_cells, doctor_columns),
}
