#!/usr/bin/env python3
"""How many updates a training loss takes at each effective batch, beside what the gradient noise scale predicts.

    scripts/bench/critical_batch.py MODEL OPTIMIZER RESULTS.json [SIZES [SEEDS]]

MODEL is mlp or cnn, OPTIMIZER sgd (momentum 0.9) or adamw, both on Fashion-MNIST at a constant learning rate. At each
batch the rate is searched by factors of 2 with the first seed, from the best one of the batch before; the other seeds
train with the best. A run ends where its training loss, averaged with a half-life of 1024 samples, reaches the target.
The prediction is S_min (1 + B ÷ E): S_min is the median at the largest batch, divided by that factor, and B the noise scale
that one run at E = 512 in micro-batches of 64 has measured when it reaches the target. Counts of updates do not depend
on how busy the machine is."""
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure

TARGET = 0.45
MOST_SAMPLES = 4_000_000
HALF_LIFE = 1024
SIZES = [16, 64, 256, 1024, 4096, 8192]
RATES = {"sgd": [0.01 * 2 ** k for k in range(8)], "adamw": [0.000125 * 2 ** k for k in range(8)]}
MODELS = {"mlp": {"name": "mlp", "depth": 2, "width": 128}, "cnn": {"name": "cnn"}}


def recipe_of(model, optimizer, size, rate, seed, samples, micro_batch):
    algorithm = {"name": optimizer, "lr": rate, "weight_decay": 0}
    if optimizer == "sgd":
        algorithm["momentum"] = 0.9
    return {
        "name": "critical_batch",
        "seed": seed,
        "data": {"train": {"dataset": "fashion_mnist"}},
        "model": MODELS[model],
        "loss": {"name": "cross_entropy"},
        "optimizer": algorithm,
        "schedule": {"name": "constant"},
        "batch": {"effective": size, "lr_rule": "none"},
        "stop": {"samples": max(size, samples)},
        "execution": {"memory": {"budget": "1GiB"}, "micro_batch": micro_batch, "threads": 1, "telemetry": 0},
        "report": {"html": False, "csv": False, "tensorboard": False},
        "checkpoint": {"every": "1000 epochs"},
    }


class SmoothedLoss:
    def __init__(self):
        self.sum = self.weight = 0.0

    def add(self, loss, samples):
        keep = 0.5 ** (samples / HALF_LIFE)
        self.sum = keep * self.sum + (1 - keep) * loss
        self.weight = keep * self.weight + 1 - keep
        return self.sum / self.weight


def rows_of(process, metrics):
    """The updates of a run, as it writes them."""
    place, running = 0, True
    while running:
        running = process.poll() is None
        text = metrics.read_text()[place:] if metrics.exists() else ""
        whole = text[:text.rfind("\n") + 1]
        place += len(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            if row["kind"] == "update":
                yield row
        time.sleep(0.2)


def train(*what):
    """The row of the update that reaches the target, None where the run ends before or diverges."""
    with tempfile.TemporaryDirectory() as folder:
        recipe, run = Path(folder, "recipe.yaml"), Path(folder, "run")
        recipe.write_text(json.dumps(recipe_of(*what)))
        process = subprocess.Popen([measure.PROGRAM, "--config", recipe, "--output", run, "-q"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            loss, before = SmoothedLoss(), 0
            for row in rows_of(process, run / "metrics.jsonl"):
                if row["loss"] is None or row["loss"] > 20:
                    return None
                value = loss.add(row["loss"], row["samples"] - before)
                before = row["samples"]
                if before >= HALF_LIFE / 2 and value <= TARGET:
                    return row
            return None
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()


def best_rate(model, optimizer, size, start):
    """The rate of the fewest updates with the first seed, as (its place in RATES, {place: updates})."""
    tried, most = {}, MOST_SAMPLES

    def updates(place):
        nonlocal most
        if not 0 <= place < len(RATES[optimizer]):
            return math.inf
        if place not in tried:
            row = train(model, optimizer, size, RATES[optimizer][place], 1, most, min(size, 256))
            tried[place] = row["update"] if row else math.inf
            if row:
                most = min(most, int(1.3 * row["samples"]) + 2 * size)  # a slower rate need not be trained to its end
            print(f"{model} {optimizer} E={size} lr={RATES[optimizer][place]:g}: {tried[place]} updates", flush=True)
        return tried[place]

    best = start
    for step in (1, -1):
        while updates(best + step) < updates(best):
            best += step
    return best, tried


def main():
    model, optimizer, results = sys.argv[1:4]
    sizes = [int(size) for size in sys.argv[4].split(",")] if len(sys.argv) > 4 else SIZES
    seeds = int(sys.argv[5]) if len(sys.argv) > 5 else 3
    table, place, rates = [], 1, RATES[optimizer]
    for size in sizes:
        place, tried = best_rate(model, optimizer, size, place)
        runs = [tried[place]]
        for seed in range(2, seeds + 1):
            row = train(model, optimizer, size, rates[place], seed, MOST_SAMPLES, min(size, 256))
            runs.append(row["update"] if row else math.inf)
        table.append({"size": size, "lr": rates[place], "updates": runs,
                      "rates": {f"{rates[each]:g}": updates for each, updates in sorted(tried.items())}})
    row = train(model, optimizer, 512, rates[min(place, 4)], 1, MOST_SAMPLES, 64)
    noise = (row or {}).get("gradient_noise", {})
    scale = noise.get("samples")
    if scale:
        last = table[-1]
        fewest = statistics.median(last["updates"]) / (1 + scale / last["size"])
        for each in table:
            each["predicted"] = fewest * (1 + scale / each["size"])
    Path(results).write_text(json.dumps({"machine": measure.machine(), "model": model, "optimizer": optimizer, "target": TARGET,
                                         "noise_scale": noise, "rows": table}, indent=1) + "\n")
    for each in table:
        print(each)


if __name__ == "__main__":
    main()
