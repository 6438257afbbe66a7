#!/usr/bin/env python3
"""Whether large batches generalise worse, and whether LARS and LAMB help: a small perceptron on 10,000 images of Fashion-MNIST, long
enough to learn them by heart, with three optimizers at three effective batches. Each has the rate of a grid that ends with the
best accuracy with one seed (the grid grows where that is at its end); then `autotrain compare` trains all with three seeds, at equal
samples and at equal training loss, with the gap between training and test data and the sharpness of what was found.

    scripts/bench/generalisation.py [FOLDER]       goes on in a FOLDER that it was stopped in

Keeps `generalisation.csv`, a row for each run, among the results of the comparisons.
"""
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import PROGRAM, ROOT, final_figure

SIZES = [64, 512, 4096]
OPTIMIZERS = {  # with the rates to begin with
    "sgd": ({"name": "sgd", "momentum": 0.9, "weight_decay": 0.0005}, [0.01, 0.03, 0.1, 0.3]),
    "lars": ({"name": "lars", "momentum": 0.9, "weight_decay": 0.0005}, [1, 3, 10, 30]),
    "lamb": ({"name": "lamb", "weight_decay": 0.01}, [0.001, 0.003, 0.01, 0.03]),
}
STEP = math.sqrt(10)
SEEDS = 3
RESULTS = ROOT / "recipes/compare/results"


def recipe_of(optimizer, size, lr):
    return {
        "name": f"{optimizer}-{size}",
        "data": {"train": {"dataset": "fashion_mnist", "limit": 10000}, "validation": {"dataset": "fashion_mnist", "split": "test"}},
        "model": {"name": "mlp", "depth": 2, "width": 256},
        "optimizer": {**OPTIMIZERS[optimizer][0], "lr": lr},
        "schedule": {"name": "cosine", "warmup": "5%"},
        "batch": {"effective": size, "lr_rule": "none"},
        "stop": {"epochs": 60},
        "evaluation": {"every": "3 epochs", "monitor": "accuracy"},
        "checkpoint": {"keep": 1},
        "report": {"html": False, "csv": False, "tensorboard": False},
        "execution": {"precision": "fp32", "micro_batch": min(size, 512), "telemetry": 0, "memory": {"budget": "1GiB"}},
    }


def accuracy(folder, optimizer, size, lr):
    """At the end of a run with the first seed; kept in the folder. A run that diverges has none: 0."""
    kept = folder / f"rate-{optimizer}-{size}-{lr:.3g}.json"
    if not kept.exists():
        kept.write_text(json.dumps(final_figure(recipe_of(optimizer, size, lr), "accuracy") or 0), encoding="utf-8")
    return json.loads(kept.read_text(encoding="utf-8"))


def best_rate(folder, optimizer, size):
    found = {lr: accuracy(folder, optimizer, size, lr) for lr in OPTIMIZERS[optimizer][1]}
    while True:
        best = max(found, key=found.get)
        beyond = best / STEP if best == min(found) else best * STEP if best == max(found) else None
        if beyond is None:
            print(f"{optimizer} at {size}: " + ", ".join(f"{lr:.3g}: {found[lr]:.4f}" for lr in sorted(found)), flush=True)
            return float(f"{best:.3g}")
        found[beyond] = accuracy(folder, optimizer, size, beyond)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    recipes = []
    for size in SIZES:
        for optimizer in OPTIMIZERS:
            recipes.append(folder / f"{optimizer}-{size}.yaml")
            recipes[-1].write_text(json.dumps(recipe_of(optimizer, size, best_rate(folder, optimizer, size))), encoding="utf-8")
    subprocess.run([PROGRAM, "compare", *recipes, "--seeds", str(SEEDS), "--training-set", "--sharpness", "--output", folder / "compare"],
                   check=True)
    shutil.copy(folder / "compare/compare.csv", RESULTS / "generalisation.csv")


if __name__ == "__main__":
    main()
