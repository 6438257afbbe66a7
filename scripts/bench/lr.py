#!/usr/bin/env python3
"""How far to trust `autotrain lr`, on recipes in short forms: what it suggests with several seeds, how often it says
"undetermined", and the regret of its suggestion: the validation loss after a short run at the suggested rate, less that at
the best of a grid of twelve rates around the recipe's own, at equal samples and over the same seeds.

    scripts/bench/lr.py [--tests N] [--seeds N] [CASE…]      N: seeds of the range test (5), of each short run (2)
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import PROGRAM, ROOT, final_figure, options_of, save

IMAGES = ["data.train.limit=20000", "data.validation.limit=5000"]
SMALL_MLP = ["model.depth=4", "model.width=256", "batch.effective=250", "stop.epochs=2"]
SGD = ["optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.lr=0.05"]
# A recipe and its short form.
CASES = {
    "fashion_mnist_mlp": ("fashion_mnist_mlp", IMAGES + SMALL_MLP),
    "fashion_mnist_cnn": ("fashion_mnist_cnn", IMAGES + ["batch.effective=128", "stop.epochs=1"]),
    "table_mlp": ("table_mlp", ["stop.epochs=10"]),
    "documents_transformer": ("documents_transformer", ["stop.epochs=1", "batch.effective=32"]),
    "fashion_mnist_mlp, sgd": ("fashion_mnist_mlp", IMAGES + SMALL_MLP + SGD),
    "fashion_mnist_cnn, sgd": ("fashion_mnist_cnn", IMAGES + SGD + ["batch.effective=128", "stop.epochs=1"]),
    "npy_mlp": ("npy_mlp", ["stop.epochs=3"]),
    "tokens_transformer": ("tokens_transformer", ["stop.epochs=3"]),
    "npy_mlp, sgd": ("npy_mlp", SGD + ["stop.epochs=3"]),
    "tokens_transformer, sgd": ("tokens_transformer", SGD + ["stop.epochs=3"]),
}
COMMON = ["evaluation.every=1000 epochs", "evaluation.monitor=loss", "checkpoint.every=1000 epochs",
          "execution.memory.budget=1GiB", "execution.precision=fp32", "report.html=false", "report.csv=false",
          "report.tensorboard=false", "execution.telemetry=0"]
GRID = [10 ** (step / 3) for step in range(-6, 6)]  # times the recipe's own rate: from 1/100 to 46


def range_test(recipe, settings, seed):
    """What `lr.json` says, with the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        start, results = time.perf_counter(), Path(folder, "lr")
        out = subprocess.run([PROGRAM, "lr", "--config", recipe, *options_of(settings + [f"seed={seed}"]), "--output", results,
                              "--quiet"], capture_output=True, text=True, cwd=ROOT)
        if out.returncode != 0:
            sys.exit(out.stderr)
        return json.loads((results / "lr.json").read_text(encoding="utf-8")) | {"seconds": time.perf_counter() - start}


def final_loss(recipe, settings, lr, seeds):
    """The mean validation loss at the end; infinite when a run diverged."""
    losses = []
    for seed in range(1, seeds + 1):
        loss = final_figure(recipe, "loss", settings + [f"seed={seed}", f"optimizer.lr={lr:.6g}"])
        if loss is None:
            return math.inf
        losses.append(loss)
    return statistics.mean(losses)


def finite(value):
    return round(value, 5) if math.isfinite(value) else None


def measure(case, tests, seeds):
    name, short = CASES[case]
    settings, recipe = COMMON + short, ROOT / f"recipes/{name}.yaml"
    found = [range_test(recipe, settings, seed) for seed in range(1, tests + 1)]
    suggested = [one["recipe_lr"] for one in found if one["recipe_lr"] is not None]
    own = found[0]["own_lr"]
    grid = {own * factor: final_loss(recipe, settings, own * factor, seeds) for factor in GRID}
    best = min(grid, key=grid.get)
    losses = [final_loss(recipe, settings, lr, seeds) for lr in suggested]
    return {"case": case, "tests": tests, "seeds": seeds, "effective_batch": found[0]["effective_batch"],
            "undetermined": tests - len(suggested), "why": [one["undetermined"] for one in found if one["undetermined"]],
            "suggested": [float(f"{lr:.3g}") for lr in suggested], "losses": [finite(loss) for loss in losses],
            "regrets": [finite(loss - grid[best]) for loss in losses],
            "grid": {f"{lr:.3g}": finite(loss) for lr, loss in grid.items()}, "best": f"{best:.3g}",
            "own": f"{own:.3g}", "own_regret": finite(grid[own] - grid[best]),
            "edges": [one["edge"] for one in found], "steepest": [one["steepest"] for one in found],
            "valley_ends": [one["valley_end"] for one in found],
            "seconds": round(statistics.mean(one["seconds"] for one in found), 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(CASES))
    options = parser.parse_args()
    for case in options.cases:
        row = measure(case, options.tests, options.seeds)
        print(f"{case:22} undetermined {row['undetermined']} of {row['tests']}, suggested {row['suggested']}, best "
              f"{row['best']}, own {row['own']}, regrets {row['regrets']}, own {row['own_regret']}, {row['seconds']} s",
              flush=True)
        save("lr", [row], key=("case",))


if __name__ == "__main__":
    main()
