#!/usr/bin/env python3
"""`autotrain compare`, over recipes and over a grid, from outside: killed −9 and started again they repeat nothing that was
finished, a stop is resumable, a changed recipe is refused, and what is said about the command line is right."""
import csv
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
name: small
data:
  train: {dataset: synthetic, kind: vectors, samples: 512}
  validation: {dataset: synthetic, kind: vectors, samples: 128, first: 512}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 64}
stop: {epochs: 2}
execution: {precision: fp32, memory: {budget: 64MiB}}
"""


def run(binary, *arguments, code=0):
    out = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=1200)
    assert out.returncode == code, f"{arguments}: ended with {out.returncode}:\n{out.stderr}"
    return out.stdout if code == 0 else out.stderr


def finished(study):
    return {path: path.stat().st_mtime_ns for path in (study / "results").glob("*.json")}


def start_and_signal(binary, arguments, study, number):
    """Starts a study and sends it the signal when it has finished some runs. Returns its exit code."""
    process = subprocess.Popen([binary, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len([path for path in finished(study) if "-seed" in path.name]) < 2 or not (study / "compare.json").exists():
        assert process.poll() is None, "it ended before it was stopped"
        time.sleep(0.002)
    process.send_signal(number)
    return process.wait()


def check_resumed(binary, folder, files):
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 75)):
        study = folder / f"stopped-{number.name}"
        arguments = ["compare", *files, "--seeds", 3, "--output", study]
        assert start_and_signal(binary, arguments, study, number) == code
        assert 1 <= len(json.loads((study / "compare.json").read_text())["runs"]) < 6, "what was known by then"
        assert "so far" in (study / "report.html").read_text()
        stopped = json.loads((study / "compare.json").read_text())
        assert stopped["so_far"] and all(each["p"] is None for each in stopped["differences"]), "no verdict is seen"
        before = finished(study)
        assert 4 <= len(before) < 8
        found = json.loads(run(binary, *arguments, "--figure", "accuracy", "--json"))
        after = finished(study)
        assert len(after) == 8 and all(after[path] == when for path, when in before.items())
        assert all(recipe["failed"] == 0 and recipe["final"]["count"] == 3 for recipe in found["recipes"])
        assert not found["so_far"] and not found["looks"] and any(each["p"] is not None for each in found["differences"])
    return study, arguments


def check_written(study, found_text):
    found, printed = json.loads((study / "compare.json").read_text()), json.loads(found_text)
    assert printed.pop("folder") == str(study)
    assert found == printed
    assert [key["path"] for key in found["differing_keys"]] == ["optimizer.lr"]
    rows = list(csv.DictReader((study / "compare.csv").open(newline="")))
    assert len(rows) == 6 and {row["recipe"] for row in rows} == {"small", "fast"}
    assert all(0 <= float(row["final_accuracy"]) <= 1 and int(row["samples"]) == 1024 for row in rows)
    for row in rows:
        summary = json.loads((study / "runs" / f"{row['recipe']}-seed{row['seed']}" / "summary.json").read_text())
        assert summary["final"]["accuracy"] == float(row["final_accuracy"])


def check_grid(binary, folder, recipe):
    """Every combination of two axes, or a sample of them; made equal in samples, time and training loss; sharpness."""
    study = folder / "grid"
    sweep = ["compare", recipe, "--seeds", 2, "--vary", "batch.effective=32,128",
             "--vary", "optimizer.name=sgd,lars,lamb"]
    found = json.loads(run(binary, *sweep, "--sample", 3, "--sharpness", "--output", study, "--json"))
    assert len(found["recipes"]) == 3, found["recipes"]
    assert [axis["path"] for axis in found["axes"]] == ["batch.effective", "optimizer.name"]
    assert {"samples", "seconds", "training_loss"} == {each["at_equal"] for each in found["differences"]}
    worst = max(each["losses"][-1][1] - each["losses"][-2][1] for each in found["runs"])
    assert found["equal_training_loss"] > 0 and worst > 0
    for each in found["recipes"]:
        assert each["at_equal_training_loss"]["count"] + each["at_equal_samples"]["count"] > 0
        assert each["sharpness"]["largest_eigenvalue"]["count"] == 2, each["sharpness"]
    rows = list(csv.DictReader((study / "compare.csv").open(newline="")))
    assert {(row["batch.effective"], row["optimizer.name"]) for row in rows} <= {
        (batch, name) for batch in ("32", "128") for name in ("sgd", "lars", "lamb")}
    assert all(float(row["sharpness_relative_eigenvalue"]) for row in rows)
    more = json.loads(run(binary, *sweep, "--sample", 4, "--sharpness", "--output", study, "--json"))
    labels = [[each["label"] for each in each_found["recipes"]] for each_found in (found, more)]
    assert set(labels[0]) < set(labels[1]), "a larger sample has the smaller one in it"
    assert "batch.effective" in (study / "report.html").read_text()
    said = run(binary, *sweep, "--vary", "batch.effective=1", code=64)
    assert "twice" in said, said
    said = run(binary, "sweep", "--config", recipe, "--vary", "model.width=4,8", "--vary", "model.depth=1,2", code=64)
    assert "autotrain compare" in said, said
    said = run(binary, "sweep", "--mode", "converge", "--config", recipe, "--vary", "model.width=4,8", code=64)
    assert "autotrain compare R.yaml --vary" in said, said
    said = run(binary, "compare", recipe, "--sample", 2, code=64)
    assert "--vary" in said, said
    said = run(binary, "compare", recipe, recipe, "--vary", "model.width=4,8", code=64)
    assert "grid of one recipe" in said, said


def check_twins(binary, folder, recipe):
    """Two rules give the same rate at the batch that it was written for: that is trained once, and stands in both places."""
    study = folder / "twins"
    arguments = ["compare", recipe, "--seeds", 2, "--vary", "batch.effective=32,256", "--output", study]
    found = json.loads(run(binary, *arguments, "--json"))
    assert [each["label"] for each in found["recipes"]] == ["E32-linear", "E32-none", "E256-linear", "E256-none"]
    assert found["recipes"][2]["final"] == found["recipes"][3]["final"] and found["recipes"][3]["final"]["count"] == 2
    assert found["recipes"][0]["final"] != found["recipes"][1]["final"]
    assert len(found["runs"]) == 8
    made = sorted(path.name for path in (study / "runs").iterdir())
    assert made == [f"{label}-seed{seed}" for label in ("E256-linear", "E32-linear", "E32-none") for seed in (1, 2)], made
    again = json.loads(run(binary, *arguments, "--json"))
    assert again["recipes"] == found["recipes"]


def check_halving(binary, folder, recipe):
    """Killed in the middle, a study by halving trains no update twice and decides as one that was not."""
    arguments = ["compare", recipe, "--halving", "--seeds", 2, "--figure", "loss",
                 "--set", "stop.epochs=3", "--vary", "optimizer.lr=0.00001,0.01,0.0001", "--output"]
    whole = json.loads(run(binary, *arguments, folder / "halved", "--json"))
    study = folder / "halved-and-killed"
    process = subprocess.Popen([binary, *map(str, arguments), study], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    while not list((study / "results").glob("*-rung1.json")):
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    process.kill()
    process.wait()
    found = json.loads(run(binary, *arguments, study, "--json"))
    assert found["halving"] == whole["halving"] and len(found["halving"]) == 2
    assert [each["unfinished"] for each in found["recipes"]] == [2, 0, 2]
    finals = [[each["final"] for each in each_found["recipes"]] for each_found in (found, whole)]
    assert finals[0] == finals[1]
    for metrics in study.glob("runs/*/metrics.jsonl"):
        updates = [row["update"] for row in map(json.loads, metrics.read_text().splitlines()) if row["kind"] == "update"]
        assert updates == list(range(1, len(updates) + 1)), metrics


def check_tuned(binary, folder, recipe):
    """Each recipe is compared at its own best rate, found on a seed of its own; a study that was killed meanwhile finds
    the same; the best is confirmed on fresh seeds."""
    arguments = ["compare", recipe, "--seeds", 2, "--vary", "batch.effective=32,128", "--rules", "none", "--figure", "loss",
                 "--tune", "optimizer.lr", "--tune-runs", 3, "--confirm", "--set", "optimizer.lr=0.00001", "--output"]
    whole = json.loads(run(binary, *arguments, folder / "tuned", "--json"))
    for index, tuned in enumerate(whole["tuned"]["recipes"]):
        figures = [each["figure"] for each in tuned["tried"]]
        assert figures[tuned["best"]] == min(figures) and len(figures) == 5 and tuned["at_edge"], figures
        assert whole["recipes"][index]["plan"]["lr"] == float(tuned["tried"][tuned["best"]]["value"]) > 0.00001
    assert {each["seed"] for each in whole["runs"]} == {1, 2} and whole["tuned"]["seed"] not in (1, 2)
    confirmed = whole["confirmed"]
    assert {each["seed"] for each in confirmed["runs"]} == {3, 4}
    assert whole["recipes"][0]["label"] in [each["label"] for each in confirmed["recipes"]] or \
        whole["recipes"][1]["label"] in [each["label"] for each in confirmed["recipes"]]
    study = folder / "tuned-and-killed"
    process = subprocess.Popen([binary, *map(str, arguments), study], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len([path for path in (study / "tuning" / "results").glob("*.json") if "-seed" in path.name]) < 2:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    process.kill()
    process.wait()
    before = finished(study / "tuning")
    found = json.loads(run(binary, *arguments, study, "--json"))
    assert found["tuned"] == whole["tuned"]
    assert all(finished(study / "tuning")[path] == when for path, when in before.items())
    text = run(binary, *arguments, study)
    assert "tuning of optimizer.lr" in text and "at the edge of what was tried" in text, text
    said = run(binary, "compare", recipe, "--tune-runs", 3, code=64)
    assert "--tune" in said, said
    said = run(binary, "compare", recipe, "--tune", "model.name", "--output", folder / "no", code=64)
    assert "no number" in said, said


def check_left_alone(binary, folder, recipe):
    """Where a recipe ends before another was evaluated, none is the best, and --confirm trains both."""
    found = json.loads(run(binary, "compare", recipe, "--seeds", 2, "--vary", "data.train.samples=512,128", "--figure", "loss",
                           "--set", "evaluation.every=1 epoch", "--confirm", "--output", folder / "alone", "--json"))
    labels = {each["label"] for each in found["recipes"]}
    assert found["best"]["recipe"] is None and "alone has a value of every run" in found["best"]["why_none"], found["best"]
    assert set(found["best"]["alike"]) == labels == {each["label"] for each in found["confirmed"]["recipes"]}, found["best"]
    assert {each["seed"] for each in found["confirmed"]["runs"]} == {3, 4}


def check_test_data(binary, folder, recipe):
    """Test data are read when all runs are there, by what was chosen and nothing else; with --confirm by the fresh seeds."""
    test = "{dataset: synthetic, kind: vectors, samples: 100, first: 9000}"
    study = folder / "tested"
    arguments = ["compare", recipe, "--seeds", 2, "--vary", "optimizer.lr=0.000001,0.01,0.02", "--figure", "loss",
                 "--set", f"data.test={test}", "--output", study]
    found = json.loads(run(binary, *arguments, "--json"))
    chosen = {found["best"]["recipe"], *found["best"]["alike"]}
    assert len(chosen) < 3 and "lr=0.000001" not in chosen, found["best"]
    assert {(each["recipe"], each["seed"]) for each in found["test"]} == {(label, seed) for label in chosen for seed in (1, 2)}
    for each in found["test"]:
        made = study / "runs" / f"{each['recipe'].replace('=', '-')}-seed{each['seed']}"
        assert not json.loads((made / "summary.json").read_text())["test"], "no run read them by itself"
        read = run(binary, "evaluate", "--run", made, "--set", f"data.validation={test}", "--json")
        assert json.loads(read)["figures"] == each["figures"]
    text = run(binary, *arguments)
    assert "test data, by the final weights of what was chosen" in text and "flattered" in text, text
    assert json.loads((study / "compare.json").read_text())["test"] == found["test"], "read once"
    confirmed = json.loads(run(binary, *arguments[:-1], folder / "test-confirmed", "--confirm", "--json"))
    assert not confirmed["test"] and {each["seed"] for each in confirmed["confirmed"]["test"]} == {3, 4}


def check_ranks(binary, folder):
    """Several ranks make each run together, and come to what one comes to; a study keeps to its number of ranks."""
    recipe = folder / "lanes.yaml"
    recipe.write_text("extends: small.yaml\nname: lanes\nexecution: {lanes: 2, threads: 1, micro_batch: 16}\n",
                      encoding="utf-8")
    curves = {}
    for ranks in (1, 2):
        study = folder / f"ranks-{ranks}"
        arguments = ["compare", recipe, "--seeds", 2, "--training-set", "--output", study, "--ranks", ranks]
        found = json.loads(run(binary, *arguments, "--json"))
        curves[ranks] = [(each["curve"][-1]["figures"], each["training_set"]) for each in found["runs"]]
        plan = json.loads((study / "runs" / "lanes-seed1" / "plan.json").read_text())
        assert plan["world_size"] == ranks
    assert curves[1] == curves[2]
    assert (study / "logs" / "lanes-seed1-rank-1.log").exists()
    said = run(binary, "compare", recipe, "--seeds", 2, "--training-set", "--output", study, code=64)
    assert "ranks is 2 there and absent now" in said, said
    said = run(binary, "sweep", "--config", recipe, "--ranks", 2, code=64)
    assert "an option of train" in said and "compare" in said, said


def check_resumed_with_automatic_batch(binary, folder):
    """Each recipe's search comes first and serves all its runs, one that was stopped past a checkpoint included."""
    recipe = folder / "auto.yaml"
    recipe.write_text("extends: small.yaml\nname: auto\nbatch: {effective: auto}\nstop: {epochs: 40}\n"
                      "checkpoint: {every: 1 updates}\n", encoding="utf-8")
    study = folder / "automatic"
    arguments = ["compare", recipe, "--seeds", 2, "--output", study]
    process = subprocess.Popen([binary, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = study / "runs" / "auto-seed1" / "checkpoints"
    while not list(checkpoints.glob("update-*")):
        assert process.poll() is None, "it ended before it was stopped"
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75
    assert [path.name for path in finished(study)] == ["auto-search.json"]
    found = json.loads(run(binary, *arguments, "--json"))
    assert [each["failure"] for each in found["runs"]] == [None, None], found["runs"]
    searched = json.loads((study / "results" / "auto-search.json").read_text())["value"]["plan"]
    for each in found["runs"]:
        assert each["plan"]["effective_batch"] == searched["effective_batch"]
        own = json.loads((study / "runs" / f"auto-seed{each['seed']}" / "plan.json").read_text())
        assert own["search"]["reason"] != searched["search"]["reason"], "it searched again"


def main():
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / "small.yaml", folder / "fast.yaml"]
        files[0].write_text(RECIPE, encoding="utf-8")
        files[1].write_text("extends: small.yaml\nname: fast\noptimizer: {lr: 0.01}\n", encoding="utf-8")
        study, arguments = check_resumed(binary, folder, files)
        check_written(study, run(binary, *arguments, "--figure", "accuracy", "--json"))
        check_resumed_with_automatic_batch(binary, folder)
        text = run(binary, *arguments, "--target", "accuracy=0.5")
        assert "accuracy ≥ 0.5" in text and "optimizer.lr" in text and "\x1b" not in text, text

        said = run(binary, *arguments, "--set", "optimizer.lr=0.5", code=64)
        assert "optimizer.lr" in said and "--output" in said, said
        run(binary, "compare", code=64)
        run(binary, "compare", files[0], "--target", "accuracy", code=64)
        assert "accuracy=0.8" in run(binary, "compare", files[0], "--target", "accuracy=80", code=64)
        quiet = run(binary, *arguments, "--quiet")
        assert quiet == f"6 runs compared · {study}/report.html\n", quiet
        run(binary, "compare", folder / "none.yaml", code=66)
        assert "accuracy" in run(binary, "compare", *files, "--figure", "acuracy", "--output", folder / "x", code=64)

        broken = ["--set", "model.weights=/nowhere.safetensors", "--seeds", 1, "--output", folder / "broken"]
        run(binary, "compare", *files, *broken, code=66)
        assert {each["code"] for each in json.loads((folder / "broken" / "compare.json").read_text())["runs"]} == {66}

        sweep = ["compare", files[0], "--seeds", 1, "--output", folder / "sweep"]
        found = json.loads(run(binary, *sweep, "--vary", "batch.effective=32,128", "--json"))
        assert [r["label"] for r in found["recipes"]] == ["E32-linear", "E32-none", "E128-linear", "E128-none"]
        assert all("loss" in recipe["generalisation_gap"] for recipe in found["recipes"])
        assert {d["b_is"] for d in found["differences"] if d["at_equal"] == "samples"} == {"not_tested"}
        check_twins(binary, folder, files[0])
        run(binary, *sweep, "--vary", "model.width", code=64)
        check_grid(binary, folder, files[0])
        check_halving(binary, folder, files[0])
        check_tuned(binary, folder, files[0])
        check_left_alone(binary, folder, files[0])
        check_test_data(binary, folder, files[0])
        check_ranks(binary, folder)
    print("compare: killed, stopped, gone on with; files; refusals; a sweep")


if __name__ == "__main__":
    main()
