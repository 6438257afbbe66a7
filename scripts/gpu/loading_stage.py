"""The stage that asks whether data keep up with a GPU: ResNet-50's search on all of its memory, and how long its updates wait
for made-up images and for JPEG files."""
import json
import shutil

import place
import words
from cells import Cell, Failed, Stage, json_of, read_json, why
from measure import options_of

RECIPE = place.RECIPES / "gpu/resnet50.yaml"
WHOLE_GPU = ("batch.effective=auto", "batch.limits.max_effective=60000", "batch.lr_rule=none", "execution.memory.budget=auto")
UPDATES, TUNED = 24, 10  # after so many updates the number of loader threads has been found
FILES, SIDE = 2000, 224
EVERY_RUN = ("evaluation.every=never", "checkpoint.every=never", "report.html=false", "report.csv=false",
             "report.tensorboard=false", "execution.search.plan_cache=false")
# On a processor, to rehearse with.
SMALL = ("model.name=resnet18", "batch.effective=16", "execution.memory.budget=2GiB", "execution.precision=fp32")
SMALL_FILES, SMALL_SIDE, SMALL_UPDATES = 64, 32, 12


def settings_of(setting):
    small = SMALL if setting.quick or not setting.on_gpu else ()
    return [*EVERY_RUN, *small, f"execution.device={setting.device}"]


def side_of(setting):
    return SIDE if setting.on_gpu and not setting.quick else SMALL_SIDE


def made_up(setting):
    """The recipe's own data, on a processor of fewer pixels."""
    side = side_of(setting)
    return () if side == SIDE else (f"data.train.shape=[3,{side},{side}]", f"data.validation.shape=[3,{side},{side}]",
                                    "data.train.samples=4096", "data.train.classes=10", "data.validation.classes=10")


def search(setting):
    """The search alone, with the start of the program and the making of its data."""
    small = setting.quick or not setting.on_gpu
    settings = [*settings_of(setting), *made_up(setting), *([] if small else WHOLE_GPU)]
    plan = json_of(setting.run([*place.program("autotrain"), "plan", "--config", RECIPE, "--fresh-plan", "--json", "--quiet",
                                *options_of(settings)], 240))
    found = plan["search"]
    return {"micro_batch": found["micro_batch"], "fill": found["fill"], "reason": found["reason"],
            "trials": len(found["probes"]), "search_seconds": found["seconds"], "samples": found["samples"],
            "budget_bytes": plan["budget_bytes"]}


def images_in(setting, folder):
    """A folder of JPEG files. @raises Failed"""
    count = FILES if side_of(setting) == SIDE else SMALL_FILES
    ended = setting.run([*place.script("make_images.py", "PIL"), folder, count, side_of(setting)], 120)
    if ended.code != 0:
        raise Failed(why(ended))
    return folder


def of_files(setting, folder):
    """The same training from files, which are decoded in every epoch."""
    root, side = images_in(setting, folder / "images"), side_of(setting)
    source = f"{{dataset: image_folder, root: {root}, size: [{side}, {side}]}}"
    text = (f"extends: {RECIPE}\nname: jpeg\ndata:\n  train: {source}\n  validation: {source}\n"
            "execution: {loader: {preload: off}}\n")
    (folder / "jpeg.yaml").write_text(text, encoding="utf-8")
    return folder / "jpeg.yaml"


def waiting(rows):
    """The share of some updates' time in which the device had no data; None: there were none."""
    spent = [row["activity_seconds"] for row in rows]
    whole = sum(sum(each.values()) for each in spent)
    return sum(each["data_wait"] for each in spent) / whole if whole else None


def train(setting, recipe, settings, folder):
    updates = UPDATES if side_of(setting) == SIDE else SMALL_UPDATES
    settings = [*settings_of(setting), *settings, f"stop.updates={updates}"]
    summary = json_of(setting.run([*place.program("autotrain"), "--config", recipe, "--output", folder / "run", "--json",
                                   "--quiet", "--fresh-plan", *options_of(settings)], 300))
    plan, rows = read_json(folder / "run/plan.json"), updates_of(folder / "run/metrics.jsonl")
    return {"micro_batch": plan["micro_batch"], "window": plan["window"], "fill": plan["fill"],
            "trials": len(plan["search"]["probes"]), "search_seconds": plan["search"]["seconds"],
            "run_seconds": summary["seconds"], "updates": summary["updates"],
            "samples_per_second": summary["samples_per_second"], "loader_workers": summary["loader_workers"],
            "waiting_at_first": waiting(rows[:TUNED]), "waiting": waiting(rows[TUNED:]),
            "last_samples_per_second": rows[-1]["samples_per_second"]}


def updates_of(path):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["kind"] == "update"]


def cell(setting, name, measure, seconds):
    def measured():
        folder = setting.folder("loading")
        try:
            return measure(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return Cell(name, measured, seconds)


def cells(setting):
    return [cell(setting, "resnet50: search", lambda folder: search(setting), 30),
            cell(setting, "resnet50: synthetic", lambda folder: train(setting, RECIPE, made_up(setting), folder), 35),
            cell(setting, "resnet50: JPEG files", lambda folder: train(setting, of_files(setting, folder), (), folder), 30)]


def columns(row):
    return {"micro": str(row["micro_batch"]), "fill": words.fraction(row["fill"]), "trials": str(row["trials"]),
            "search": f"{row['search_seconds']:.1f} s", "waiting": words.percent(row.get("waiting")),
            "in the first updates": words.percent(row.get("waiting_at_first")),
            "loader threads": str(row.get("loader_workers", words.MISSING)),
            "samples/s": words.number(row.get("samples_per_second"))}


STAGES = {"loading": Stage("ResNet-50's search on all of the memory, and how long its updates wait for data", cells, columns)}
