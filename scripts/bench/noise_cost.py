#!/usr/bin/env python3
"""What the gradient noise scale costs: runs of a recipe with `execution.statistics` on and off, in turns, and whether both
end with the same bytes. Prints ratios, on ÷ off, as median [least, largest] over the rounds: of the training time, and of the CPU time
that all of the program took, which other work on the machine disturbs less.

    scripts/bench/noise_cost.py [fashion_mnist_cnn:512:2 …]

A cell names a recipe, the effective batch, and into how many micro-batches an update is cut; two are the dearest. With a fourth number
the updates are not a run's first ones but come after so many: of a run that is trained once and resumed from there.
"""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from measure import PROGRAM, ROOT, measure_cells, options_of, ratio, text

CELLS = ["fashion_mnist_mlp:512:2", "fashion_mnist_mlp:512:8", "fashion_mnist_cnn:512:2", "fashion_mnist_cnn:512:8",
         "text_transformer:32:2", "text_transformer:32:8", "fashion_mnist_mlp:512:2:16384"]
ROUNDS = 7
WARM_UP = 16
EARLY, LATE = 64, 128  # updates that are timed: noise in both metrics is in every 16th of the first ones, in every 128th after 16,384


def settings_of(effective, window, before):
    return {"batch.effective": effective, "execution.micro_batch": effective // window, "stop.epochs": "null",
            "stop.updates": before + WARM_UP + (LATE if before else EARLY), "evaluation.every": "never", "execution.telemetry": 0,
            "checkpoint.every": f"{before or 1_000_000} updates", "execution.memory.budget": "4GiB", "report.html": "false",
            "report.csv": "false", "report.tensorboard": "false"}


def train(recipe, settings, folder):
    """CPU seconds of the whole program. A run that is in the folder goes on."""
    sets = options_of(f"{key}={value}" for key, value in settings.items())
    with tempfile.TemporaryFile() as errors:  # it warns of each new run that there is nothing to resume
        process = subprocess.Popen([PROGRAM, "--config", ROOT / f"recipes/{recipe}.yaml", "--output", folder, "--resume", "-q", *sets],
                                   cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)
        _, code, used = os.wait4(process.pid, 0)
        if code != 0:
            errors.seek(0)
            raise RuntimeError(f"a run of {recipe} ended with {code}: {errors.read().decode()}")
    return used.ru_utime + used.ru_stime


def last_updates(folder, before):
    """Training seconds of all updates after the first ones beyond `before`, and the digest of the weights."""
    rows = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = [row["training_seconds"] for row in rows if row["kind"] == "update"]
    weights = Path(folder, f"checkpoints/update-{len(seconds)}/model.safetensors").read_bytes()
    return seconds[-1] - seconds[before + WARM_UP - 1], hashlib.sha256(weights).hexdigest()


def prepare(recipe, settings, before, folder):
    """A run whose newest checkpoint is of the update `before`."""
    train(recipe, settings, folder)
    shutil.rmtree(folder / f"checkpoints/update-{settings['stop.updates']}")


def measure(cell):
    recipe, *numbers = cell.split(":")
    effective, window, before = map(int, numbers + ["0"] * (3 - len(numbers)))
    settings = settings_of(effective, window, before)
    wall, cpu, digests = {"on": [], "off": []}, {"on": [], "off": []}, set()
    with tempfile.TemporaryDirectory() as folder:
        begun, run = Path(folder, "begun"), Path(folder, "run")
        if before:
            prepare(recipe, settings, before, begun)
        for number in range(ROUNDS):
            for side in ("on", "off") if number % 2 == 0 else ("off", "on"):
                if before:
                    shutil.copytree(begun, run)
                cpu[side].append(train(recipe, settings | {"execution.statistics": side}, run))
                seconds, digest = last_updates(run, before)
                wall[side].append(seconds)
                digests.add(digest)
                shutil.rmtree(run)
    return {"recipe": recipe, "effective": effective, "window": window, "before": before, "training_seconds": wall, "cpu_seconds": cpu,
            "on/off": ratio(wall["on"], wall["off"]), "on/off, CPU": ratio(cpu["on"], cpu["off"]), "same_bytes": len(digests) == 1}


def main():
    measure_cells("noise_cost", ("recipe", "effective", "window", "before"), CELLS, ("recipe, E, micro-batches, updates before", "time", "CPU time", "same bytes"),
                  measure, lambda row: (text(row["on/off"]), text(row["on/off, CPU"]), str(row["same_bytes"])))


if __name__ == "__main__":
    main()
