#!/usr/bin/env python3
"""Samples/s of whole runs in turns: two ranks with one thread each, one rank with two threads, and two ranks of PyTorch's
DistributedDataParallel over gloo, one thread each. Prints ratios, median [least, largest] over the rounds, and the share of
the time of our two ranks that went to communication, waiting for the slower rank included.

    scripts/bench/ranks.py [mlp:256 …]
"""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import HERE, PEERS_PYTHON, PROGRAM, measure_cells, middle, options_of, ratio, text

ROUNDS = 5
CELLS = ["mlp:256", "cnn:256", "resnet:64", "gpt:32"]
UPDATES = {"mlp": 60, "cnn": 60, "resnet": 12, "gpt": 24}
IMAGES = "data: {train: {dataset: fashion_mnist, normalize: false}}\n"
MODELS = {
    "mlp": IMAGES + "model: {name: mlp, depth: 8, width: 1024}\n",
    "cnn": IMAGES + "model: {name: cnn}\n",
    "resnet": IMAGES + "model: {name: resnet18, stem: small}\n",
    "gpt": "data: {train: {dataset: synthetic, kind: tokens, classes: 256, shape: [128], samples: 20000}}\n"
           "model: {name: transformer, layers: 4, width: 256, heads: 4}\n",
}
REST = """optimizer: {name: adamw, lr: 0.001, weight_decay: 0}
schedule: {name: constant}
execution: {precision: fp32, telemetry: 0, memory: {budget: 4GiB}, search: {plan_cache: false}}
report: {html: false, csv: false, tensorboard: false}
"""


def ours(workload, effective, ranks, threads):
    """Samples/s, and the share of communication, of a run of so many ranks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(MODELS[workload] + REST, encoding="utf-8")
        more = {"batch.effective": effective, "stop.updates": UPDATES[workload], "execution.threads": threads,
                "execution.micro_batch": effective // ranks}
        done = subprocess.run([PROGRAM, "--config", folder / "recipe.yaml", "--output", folder / "run", "--quiet",
                               "--ranks", str(ranks), *options_of(f"{key}={value}" for key, value in more.items())],
                              capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode != 0:
            sys.exit(done.stderr)
        rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if row["kind"] == "update"][UPDATES[workload] // 3:]
        whole = sum(sum(row["activity_seconds"].values()) for row in rows)
        return (statistics.median(row["samples_per_second"] for row in rows),
                sum(row["activity_seconds"]["communication"] for row in rows) / whole)


def theirs(workload, effective):
    done = subprocess.run([PEERS_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
                           HERE / "peers/ddp.py", workload, str(effective), str(UPDATES[workload])],
                          capture_output=True, text=True, check=False, cwd=HERE / "peers")
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["samples_per_second"]


def measure(cell):
    workload, effective = cell.split(":")
    rates, shares = {"two": [], "one": [], "ddp": []}, []
    sides = {"two": lambda: ours(workload, int(effective), 2, 1), "one": lambda: ours(workload, int(effective), 1, 2),
             "ddp": lambda: (theirs(workload, int(effective)), None)}
    for number in range(ROUNDS):
        for side in list(sides) if number % 2 == 0 else list(sides)[::-1]:
            rate, share = sides[side]()
            rates[side].append(rate)
            if side == "two":
                shares.append(share)
    return {"workload": workload, "batch": int(effective), "rounds": ROUNDS, "rates": rates,
            "communication": [round(share, 3) for share in shares],
            "two ranks/one": ratio(rates["two"], rates["one"]), "two ranks/ddp": ratio(rates["two"], rates["ddp"])}


def main():
    measure_cells("ranks", ("workload", "batch"), CELLS,
                  ("cell", "2 ranks × 1 thread, samples/s", "÷ 1 rank × 2 threads", "÷ PyTorch DDP", "communication"), measure,
                  lambda row: (middle(row["rates"]["two"]), text(row["two ranks/one"]), text(row["two ranks/ddp"]),
                               f"{100 * statistics.median(row['communication']):.1f} %"))


if __name__ == "__main__":
    main()
