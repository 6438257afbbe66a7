#!/usr/bin/env python3
"""A recipe's model made smaller in every way that is for it, a ResNet-18 on Fashion-MNIST unless another is named: what it
finds on all validation data, bytes of the file, the predicted batch b* and the measured one, samples a second. The measured
one is the knee of docs/roofline.md, from the times of batches 1, 2, 4, … of the model with weights as the method keeps them,
where LibTorch computes with them. A short training comes first.

    scripts/bench/compress.py [--recipe recipes/fashion_mnist_resnet18.yaml] [--set KEY=VALUE …] [--updates 100] [--rounds 2]
        [--samples N] [--methods int8,…]

Only the times need a machine without other work: they are measured at the end, and it is judged by them."""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import PROGRAM, QUIET, ROOT, Others, save

METHODS = ["int8", "int8-weights", "int4-weights", "int4-weights:32", "2:4", "channels:0.25", "channels:0.5"]
BATCHES = [1, 2, 4, 8, 16, 32, 64]
SECONDS = 0.4  # of each measurement of a batch
FIGURES = ["accuracy", "perplexity", "loss"]  # the first that the model has is shown
HEADER = ("method", "{figure}", "file KiB", "smaller", "predicted b*", "measured b*", "measured ÷ predicted", "samples/s at 1",
          "samples/s at best", "at batch", "packed layers")


def autotrain(*words, written=None):
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and not (written and written.exists()):  # one method that is refused ends it so, after the table
        sys.exit(f"autotrain {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def train(options, folder):
    """A run of the recipe cut short, in which the schedule reaches its end; it is evaluated by what follows."""
    run = folder / "run"
    settings = ["stop.epochs=null", f"stop.updates={options.updates}", "evaluation.every=never", "data.test=null", *options.set]
    autotrain("--config", options.recipe, "--output", run, "--quiet", *(word for setting in settings for word in ("--set", setting)))
    return run


def knee(rates):
    """The batch at which the line of the best throughput meets the shortest latency, and whether that was reached."""
    shortest = min(rate["batch"] / rate["samples_per_second"] for rate in rates)
    best = max(rates, key=lambda rate: rate["samples_per_second"])
    return shortest * best["samples_per_second"], best["batch"] < max(rate["batch"] for rate in rates)


def row_of(model, samples, recipe):
    measured, reached = knee(model["rates"])
    best = max(model["rates"], key=lambda rate: rate["samples_per_second"])
    predicted = model["predicted_batch"]
    figure = next(name for name in FIGURES if name in model["figures"])
    return {"recipe": recipe, "method": model["method"], "figure": figure, figure: model["figures"][figure], "samples": samples, "bytes": model["bytes"],
            "ratio": model["ratio"], "predicted_batch": predicted, "measured_batch": measured, "reached": reached,
            "measured_to_predicted": measured / predicted if predicted else None, "packed_layers": model["packed_layers"],
            "best_batch": best["batch"], "rates": model["rates"]}


def text_of(row):
    rates = {rate["batch"]: rate["samples_per_second"] for rate in row["rates"]}
    ratio = row["measured_to_predicted"]
    return [row["method"], f"{row[row['figure']]:.4f}", f"{row['bytes'] / 1024:.0f}", f"{row['ratio']:.2f}", f"{row['predicted_batch']:.3g}",
            ("" if row["reached"] else "≥ ") + f"{row['measured_batch']:.3g}", f"{ratio:.2f}" if ratio else "-", f"{rates[BATCHES[0]]:.1f}",
            f"{rates[row['best_batch']]:.1f}", str(row["best_batch"]), str(row["packed_layers"])]


def compress(run, methods, folder, *options):
    """What it found, by method."""
    autotrain("compress", "--run", run, "--methods", methods, *options, "--output", folder, "--quiet",
              written=folder / "compress.json")
    found = json.loads((folder / "compress.json").read_text(encoding="utf-8"))
    for model in found["models"]:
        if "refused" in model:
            print(f"{model['method']}: {model['refused']}", file=sys.stderr)
    return {model["method"]: model for model in found["models"] if "refused" not in model}, found["samples"]


def measure_figures(run, methods, folder, samples=None):
    """By method, and of how many validation samples."""
    of = ["--samples", samples] if samples else []
    return compress(run, methods, folder / "figures", "--batches", 1, "--rounds", 1, "--seconds", 0.01, *of)


def measure_times(run, methods, rounds, folder):
    """By method, and which part of the cores others took meanwhile."""
    others = Others()
    models, _ = compress(run, methods, folder / "times", "--samples", 64, "--batches", ",".join(map(str, BATCHES)), "--rounds", rounds,
                         "--seconds", SECONDS)
    return models, others.share()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/fashion_mnist_resnet18.yaml"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the recipe")
    parser.add_argument("--updates", type=int, default=100, help="of the training")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--rounds", type=int, default=2, help="in which the methods take turns")
    parser.add_argument("--samples", type=int, help="of the validation data, the first; else all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = train(options, folder)
        figures, samples = measure_figures(run, options.methods, folder, options.samples)
        times, others = measure_times(run, options.methods, options.rounds, folder)
    recipe = " ".join([options.recipe.stem, *options.set])
    rows = [row_of({**model, "rates": times[method]["rates"]}, samples, recipe) for method, model in figures.items()]
    print(f"| {' | '.join(HEADER).format(figure=rows[0]['figure'])} |\n|{' --- |' * len(HEADER)}")
    for row in rows:
        print(f"| {' | '.join(text_of(row))} |")
    print(f"others took {others:.1%} of the cores" + ("" if others <= QUIET else ": too much, measure again"), file=sys.stderr)
    if others <= QUIET:
        save("compress", rows, ("recipe", "method"))


if __name__ == "__main__":
    main()
