#!/usr/bin/env python3
"""What the gradient noise scale costs: whole runs of a recipe with `execution.statistics` on and off, in turns, and whether both
end with the same bytes. Prints ratios, on ÷ off, as median [least, largest] over the rounds: of the training time, and of the CPU time
that all of the program took, which other work on the machine disturbs less.

    scripts/bench/noise_cost.py [fashion_mnist_cnn:512:2 …]

A cell names a recipe, the effective batch, and into how many micro-batches an update is cut; two are the dearest.
"""
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from measure import PROGRAM, ROOT, measure_cells, options_of, ratio, text

CELLS = ["fashion_mnist_mlp:512:2", "fashion_mnist_mlp:512:8", "fashion_mnist_cnn:512:2", "fashion_mnist_cnn:512:8",
         "text_transformer:32:2", "text_transformer:32:8"]
ROUNDS = 7
WARM_UP = 16
UPDATES = 64 + WARM_UP  # in every 16th the noise is also measured in the optimizer's metric


def train(recipe, effective, window, statistics, folder):
    """Training seconds of all updates but the first ones, CPU seconds of the whole program, and the digest of the weights."""
    settings = {"execution.statistics": statistics, "batch.effective": effective, "execution.micro_batch": effective // window,
                "stop.updates": UPDATES, "evaluation.every": "never", "execution.telemetry": 0, "execution.memory.budget": "4GiB",
                "report.html": "false", "report.csv": "false", "report.tensorboard": "false"}
    sets = options_of(f"{key}={value}" for key, value in settings.items())
    process = subprocess.Popen([PROGRAM, "--config", ROOT / f"recipes/{recipe}.yaml", "--output", folder, "-q", *sets], cwd=ROOT,
                               stdout=subprocess.DEVNULL)
    _, code, used = os.wait4(process.pid, 0)
    if code != 0:
        raise RuntimeError(f"a run of {recipe} ended with {code}")
    rows = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = [row["training_seconds"] for row in rows if row["kind"] == "update"]
    weights = next(Path(folder, "checkpoints").glob("update-*/model.safetensors")).read_bytes()
    return seconds[-1] - seconds[WARM_UP - 1], used.ru_utime + used.ru_stime, hashlib.sha256(weights).hexdigest()


def measure(cell):
    recipe, effective, window = cell.split(":")
    wall, cpu, digests = {"on": [], "off": []}, {"on": [], "off": []}, set()
    for number in range(ROUNDS):
        for side in ("on", "off") if number % 2 == 0 else ("off", "on"):
            with tempfile.TemporaryDirectory() as folder:
                seconds, used, digest = train(recipe, int(effective), int(window), side, folder)
            wall[side].append(seconds)
            cpu[side].append(used)
            digests.add(digest)
    return {"recipe": recipe, "effective": int(effective), "window": int(window), "training_seconds": wall, "cpu_seconds": cpu,
            "on/off": ratio(wall["on"], wall["off"]), "on/off, CPU": ratio(cpu["on"], cpu["off"]), "same_bytes": len(digests) == 1}


def main():
    measure_cells("noise_cost", ("recipe", "effective", "window"), CELLS, ("recipe, E, micro-batches", "time", "CPU time", "same bytes"),
                  measure, lambda row: (text(row["on/off"]), text(row["on/off, CPU"]), str(row["same_bytes"])))


if __name__ == "__main__":
    main()
