#!/usr/bin/env python3
"""What `execution.recompute: on` gains and costs on exported models and on the program's own: the largest micro-batch at three
budgets with and without, the time of an update of the same micro-batch, in turns, and whether three updates have the same bits.

    scripts/bench/recompute.py [--rounds 5] [resnet:512MiB gpt-cpp:512MiB …]
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import PEERS_PYTHON, PROGRAM, ROOT, options_of, ratio, save, text

IMAGES = "{dataset: synthetic, kind: images, shape: %s, samples: %d, classes: 10}"
SMALL, LARGE = IMAGES % ([1, 28, 28], 65536), IMAGES % ([3, 224, 224], 4096)
TOKENS = "{dataset: synthetic, kind: tokens, shape: [128], samples: 65536, classes: 256}"
# Data, budgets, and an exported model's example or the recipe's words for one of the program's own.
MODELS = {
    "mlp": (SMALL, ("256MiB", "512MiB", "1GiB"), "float32[2,1,28,28]"),
    "resnet": (SMALL, ("512MiB", "1GiB", "2GiB"), "float32[2,1,28,28]"),
    "resnet50": (LARGE, ("1GiB", "2GiB", "4GiB"), "float32[2,3,224,224]"),
    "gpt": (TOKENS, ("256MiB", "512MiB", "1GiB"), "int64[2,128]<256"),
    "vit": (LARGE, ("3GiB", "4GiB", "6GiB"), "float32[2,3,224,224]"),
    "mlp-cpp": (SMALL, ("256MiB", "512MiB", "1GiB"), "{name: mlp, hidden: [1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024]}"),
    "resnet-cpp": (SMALL, ("512MiB", "1GiB", "2GiB"), "{name: resnet18}"),
    "resnet50-cpp": (LARGE, ("1GiB", "2GiB", "4GiB"), "{name: resnet50}"),
    "gpt-cpp": (TOKENS, ("256MiB", "512MiB", "1GiB"), "{name: transformer, layers: 4, width: 256, heads: 4}"),
}
WRITE = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from workloads import Workload
from autotrain_export import export
export(Workload(sys.argv[3], "cpu").model(), sys.argv[4], sys.argv[5], precisions=["fp32"])
"""


class Model:
    def __init__(self, name, folder):
        self.name, self.folder = name, Path(folder)
        data, _, words = MODELS[name]
        if not words.startswith("{"):
            file = self.folder / f"{name}.autotrain"
            subprocess.run([PEERS_PYTHON, "-W", "ignore", "-c", WRITE, ROOT / "scripts/bench/peers", ROOT / "scripts/python", name,
                            words, file], check=True, stdout=sys.stderr)
            words = f"{{name: exported, file: {file}}}"
        self.recipe = self.folder / f"{name}.yaml"
        self.recipe.write_text(f"data:\n  train: {data}\nmodel: {words}\n"
                               "optimizer: {name: adamw, lr: 0.001}\nbatch: {lr_rule: none, limits: {max_effective: 65536}}\n"
                               "stop: {updates: 3}\nexecution: {precision: fp32, search: {plan_cache: false}}\n", encoding="utf-8")

    def run(self, *arguments):
        result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, "CI": "1"}, check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stderr[-2000:])
        return result.stdout

    def plan(self, *settings):
        return json.loads(self.run("plan", "--config", self.recipe, "--json", *options_of(settings)))

    def digest(self, micro_batch, budget, recompute):
        output = self.folder / f"{self.name}-{budget}-{recompute}"
        self.run("--config", self.recipe, "--output", output, "--quiet",
                 *options_of([f"execution.micro_batch={micro_batch}", f"execution.memory.budget={budget}",
                              f"execution.recompute={recompute}"]))
        return hashlib.sha256((output / "checkpoints/update-3/model.safetensors").read_bytes()).hexdigest()


def measure(model, budget, rounds):
    found = {way: model.plan(f"execution.memory.budget={budget}", f"execution.recompute={way}")["search"] for way in ("off", "on")}
    typed = found["off"]["micro_batch"]
    rates = {"off": [], "on": []}
    for _ in range(rounds):
        for way, of_way in rates.items():
            plan = model.plan(f"execution.micro_batch={typed}", f"execution.memory.budget={budget}", f"execution.recompute={way}")
            of_way.append(plan["samples_per_second"])
    return {"model": model.name, "budget": budget, "off": typed, "on": found["on"]["micro_batch"],
            "fills": [found[way]["fill"] for way in ("off", "on")], "larger": found["on"]["micro_batch"] / typed,
            "time": ratio(rates["off"], rates["on"]),
            "same_bits": model.digest(typed, budget, "off") == model.digest(typed, budget, "on")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=[f"{name}:{budget}" for name in ("mlp", "resnet", "gpt") for budget in MODELS[name][1]])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rows, models = [], {}
    print("| model | budget | micro-batch | with recompute | larger | time of an update | same bits |\n| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for cell in arguments.cells:
            name, budget = cell.split(":")
            if name not in models:
                models[name] = Model(name, folder)
            row = measure(models[name], budget, arguments.rounds)
            rows.append(row)
            print(f"| {name} | {budget} | {row['off']} | {row['on']} | {row['larger']:.2f} × | {text(row['time'])} | "
                  f"{'yes' if row['same_bits'] else 'NO'} |", flush=True)
            save("recompute", rows, ("model", "budget"))


if __name__ == "__main__":
    main()
