#!/usr/bin/env python3
"""How many updates a training loss takes at each effective batch, beside what the gradient noise scale predicts, and the
critical batch that `autotrain advise --branches` measures.

    scripts/bench/critical_batch.py MODEL OPTIMIZER RESULTS.json [SIZES [SEEDS]]

MODEL is mlp or cnn, on Fashion-MNIST, or transformer, on the bytes of the licences that every Debian machine has; OPTIMIZER
sgd (momentum 0.9) or adamw; the learning rate is constant. At each batch the rate is searched by factors of 2, from the best
one of the batch before, by the median of the seeds' updates. A run ends where its training loss,
averaged with a half-life of so many samples as a batch of the middle has, reaches the target. The prediction is
S_min (1 + B ÷ E): S_min is the median at the largest batch, divided by that factor, and B the noise scale that one run of a
small batch has measured when it reaches the target, plain and in the optimizer's metric. Branches for `--branches` begin where
a run of a larger batch reaches it. Counts of updates do not depend on how busy the machine is."""
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import measure

MOST_UPDATES = 20_000
RATES = 9  # of the grid, by factors of 2


@dataclass
class Subject:
    """What is trained: its recipe's parts, the loss that ends a run, and where the noise scale is measured."""
    parts: dict
    target: float
    half_life: int  # of the smoothed loss, in samples
    sizes: list
    rates: dict  # by optimizer, the least
    most_samples: int
    observed: tuple  # effective batch and micro-batch of the run that measures the noise scale: enough updates for it
    branched: tuple  # likewise of the run that branches leave
    micro_batch: int  # of the others, at most


FASHION = {"data": {"train": {"dataset": "fashion_mnist"},
                    "validation": {"dataset": "fashion_mnist", "split": "test", "limit": 1000}}}
TEXT = {"data": {split: {"dataset": "text", "files": ["/usr/share/common-licenses/*"], "context": 64, "split": split, **stride}
                 for split, stride in (("train", {"stride": 32}), ("validation", {}))}}
SUBJECTS = {
    "mlp": Subject({**FASHION, "model": {"name": "mlp", "depth": 2, "width": 128}}, 0.45, 1024,
                   [16, 64, 256, 1024, 4096, 8192], {"sgd": 0.01, "adamw": 0.000125}, 4_000_000, (64, 16), (256, 64), 256),
    "cnn": Subject({**FASHION, "model": {"name": "cnn", "width": 8, "hidden": 64}}, 0.45, 1024,
                   [16, 64, 256, 1024, 4096, 8192], {"sgd": 0.01, "adamw": 0.000125}, 2_000_000, (64, 16), (256, 64), 256),
    "transformer": Subject({**TEXT, "model": {"name": "transformer", "layers": 2, "width": 64, "heads": 2}}, 2.4, 128,
                           [2, 8, 32, 128, 512, 2048], {"sgd": 0.02, "adamw": 0.0005}, 600_000, (32, 8), (64, 16), 64),
}
FACTORS = [0.25, 0.5, 1, 2, 4, 8]  # of the branched batch
BRANCH_UPDATES = 32  # of the largest


def rate(model, optimizer, place):
    return SUBJECTS[model].rates[optimizer] * 2 ** place


def recipe_of(model, optimizer, size, lr, seed, samples, micro_batch):
    algorithm = {"name": optimizer, "lr": lr, "weight_decay": 0}
    if optimizer == "sgd":
        algorithm["momentum"] = 0.9
    return {
        "name": "critical_batch",
        "seed": seed,
        **SUBJECTS[model].parts,
        "loss": {"name": "cross_entropy"},
        "optimizer": algorithm,
        "schedule": {"name": "constant"},
        "batch": {"effective": size, "lr_rule": "none"},
        "stop": {"samples": max(size, samples)},
        "evaluation": {"every": "never"},
        "execution": {"memory": {"budget": "2GiB"}, "micro_batch": micro_batch, "threads": 1, "telemetry": 0},
        "report": {"html": False, "csv": False, "tensorboard": False},
        "checkpoint": {"every": "1000 epochs"},
    }


class SmoothedLoss:
    def __init__(self, half_life):
        self.sum, self.weight, self.half_life = 0.0, 0.0, half_life

    def add(self, loss, samples):
        keep = 0.5 ** (samples / self.half_life)
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


def row_at_target(process, metrics, subject):
    """The row of the update that reaches the target, None where the run ends before or diverges."""
    loss, before = SmoothedLoss(subject.half_life), 0
    for row in rows_of(process, metrics):
        if row["loss"] is None or row["loss"] > 20 or row["update"] > MOST_UPDATES:
            return None
        value = loss.add(row["loss"], row["samples"] - before)
        before = row["samples"]
        if before >= subject.half_life / 2 and value <= subject.target:
            return row
    return None


@contextlib.contextmanager
def trained(model, *what):
    """The row of the update that reaches the target, and the folder of the run, which is stopped there."""
    with tempfile.TemporaryDirectory() as folder:
        recipe, run = Path(folder, "recipe.yaml"), Path(folder, "run")
        recipe.write_text(json.dumps(recipe_of(model, *what)))
        process = subprocess.Popen([measure.PROGRAM, "--config", recipe, "--output", run, "-q"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            row = row_at_target(process, run / "metrics.jsonl", SUBJECTS[model])
            if process.poll() is None:
                process.terminate()
            process.wait()
            yield row, run
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def updates_to_target(*what):
    with trained(*what) as (row, _):
        return row


def best_rate(model, optimizer, size, seeds, start):
    """The place of the rate whose median over the seeds is the fewest updates, and the updates of all seeds at each that was
    tried; of one that is far slower with the first seed, that seed alone."""
    subject = SUBJECTS[model]
    tried, most = {}, subject.most_samples

    def median(place):
        nonlocal most
        if not 0 <= place < RATES:
            return math.inf
        if place not in tried:
            fewest, lr = min(map(statistics.median, tried.values()), default=math.inf), rate(model, optimizer, place)
            runs = tried[place] = []
            for seed in range(1, seeds + 1):
                row = updates_to_target(model, optimizer, size, lr, seed, most, min(size, subject.micro_batch))
                runs.append(row["update"] if row else math.inf)
                if row:
                    most = min(most, int(2 * row["samples"]) + 2 * size)  # a slower rate need not be trained to its end
                if runs[0] > 1.5 * fewest or math.isinf(runs[0]):
                    break
            print(f"{model} {optimizer} E={size} lr={lr:g}: {runs} updates", flush=True)
        return statistics.median(tried[place])

    best = start
    for step in (1, -1):
        while median(best + step) < median(best):
            best += step
    return best, tried


def advise(model, optimizer, lr, batches, *options):
    """What `autotrain advise` says of a run that was stopped at its target."""
    with trained(model, optimizer, batches[0], lr, 1, SUBJECTS[model].most_samples, batches[1]) as (row, run):
        if row is None:
            return {}
        out = subprocess.run([measure.PROGRAM, "advise", "--run", run, "--seconds", "0", "--json", *options], capture_output=True,
                             text=True)
        return json.loads(out.stdout) if out.returncode == 0 else {"error": out.stderr.strip()}


def verify(model, optimizer, lr, seeds):
    batches = SUBJECTS[model].branched
    found = advise(model, optimizer, lr, batches, "--branches", "--checkpoint", "newest", "--factor", ",".join(map(str, FACTORS)),
                   "--seeds", str(seeds), "--samples", str(round(batches[0] * FACTORS[-1] * BRANCH_UPDATES)))
    verification = found.get("verification", found)
    verification.pop("folder", None)
    return verification


def counts(updates):
    """As JSON has them: None of a run that did not reach the target."""
    return [None if math.isinf(each) else each for each in updates]


def main():
    model, optimizer, results = sys.argv[1:4]
    subject = SUBJECTS[model]
    sizes = [int(size) for size in sys.argv[4].split(",")] if len(sys.argv) > 4 else subject.sizes
    seeds = int(sys.argv[5]) if len(sys.argv) > 5 else 3
    table, place = [], 1
    best = {}  # rate at each size
    for size in sizes:
        place, tried = best_rate(model, optimizer, size, seeds, place)
        best[size] = rate(model, optimizer, place)
        table.append({"size": size, "lr": best[size], "updates": counts(tried[place]), "median": statistics.median(tried[place]),
                      "rates": {f"{rate(model, optimizer, each):g}": counts(updates) for each, updates in sorted(tried.items())}})

    def rate_near(size):
        return best[min(best, key=lambda each: abs(math.log(each / size)))]

    advice = advise(model, optimizer, rate_near(subject.observed[0]), subject.observed)
    noise = {key: advice.get(f"{key}_noise_scale") for key in ("plain", "preconditioned")}
    for key, scale in noise.items():
        if not scale or scale["samples"] is None:
            continue
        last = table[-1]
        fewest = last["median"] / (1 + scale["samples"] / last["size"])
        for each in table:
            each[f"predicted_{key}"] = fewest * (1 + scale["samples"] / each["size"])
    verification = verify(model, optimizer, rate_near(subject.branched[0]), seeds)
    Path(results).write_text(json.dumps({"machine": measure.machine(), "model": model, "optimizer": optimizer,
                                         "target": subject.target, "noise_scales": noise, "verification": verification,
                                         "rows": table}, indent=1) + "\n")
    for each in table:
        print(each)
    print(noise, json.dumps(verification))


if __name__ == "__main__":
    main()
