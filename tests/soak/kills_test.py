#!/usr/bin/env python3
"""Kills runs with SIGKILL at random moments and resumes them: the final tensors must equal those of the undisturbed run
byte for byte, and metrics.jsonl row for row but for times. Half of the runs search their micro-batch, half have it
typed; a checkpoint is written at every update, so kills also meet checkpoints under way and their rotation.

    kills_test.py path/to/autotrain [KILLS [SEED [NAME…]]]        200 kills are the long form
"""
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

AUGMENTED = """data:
  train: {dataset: npy, inputs: images.npy, targets: classes.npy, limit: 2000}
  validation: {dataset: npy, inputs: images.npy, targets: classes.npy, first: 2000}
  augment: {flip: true, crop_padding: 2}
"""
SYNTHETIC = """data:
  train: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 2000}
  validation: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 100, first: 100000}
"""
REST = """batch: {effective: %d}
stop: {updates: 14}
evaluation: {every: 4 updates}
checkpoint: {every: 1 updates, keep: 2}
execution: {precision: fp32, memory: {budget: %s, target: [0.3, 0.9]}, search: {plan_cache: false}}
"""
RECIPES = {
    "cnn": AUGMENTED + "model: {name: cnn, width: 8, hidden: 32, dropout: 0.3}\n" + REST % (256, "8MiB"),
    "resnet18": SYNTHETIC + "model: {name: resnet18, stem: small}\n" + REST % (40, "384MiB"),
}
TIMES = ("samples_per_second", "data_wait_fraction", "seconds", "training_seconds", "activity_seconds", "rank_seconds",
         "peak_bytes")


class Runs:
    def __init__(self, binary, folder, name):
        self.binary, self.folder, self.name = Path(binary).resolve(), Path(folder), name
        self.recipe = self.folder / f"{name}.yaml"
        self.recipe.write_text(RECIPES[name], encoding="utf-8")
        self.straight = {}
        self.seconds = 2.0

    def command(self, output, micro_batch):
        typed = ["--set", f"execution.micro_batch={micro_batch}"] if micro_batch else []
        return [self.binary, "--config", self.recipe, "--output", output, "--resume", "--quiet", *typed]

    def finish(self, output, micro_batch=None):
        start = time.monotonic()
        out = subprocess.run(self.command(output, micro_batch), capture_output=True, text=True, timeout=1200,
                             cwd=self.folder)
        if out.returncode != 0:
            sys.exit(f"{self.name}: ended with {out.returncode}:\n{out.stderr}")
        self.seconds = 0.7 * self.seconds + 0.3 * (time.monotonic() - start)

    def kill(self, output, micro_batch, moment):
        """True when it was killed, and not done before."""
        process = subprocess.Popen(self.command(output, micro_batch), cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=moment)
            return False
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True

    def undisturbed(self, micro_batch):
        """The straight run of a plan: what every run with that plan must equal."""
        if micro_batch not in self.straight:
            output = self.folder / f"{self.name}-straight-{micro_batch}"
            self.finish(output, micro_batch)
            self.straight[micro_batch] = output
        return self.straight[micro_batch]


def write_images(folder):
    """2100 images of 12 × 12 bytes, brighter from class to class."""
    chance = numpy.random.default_rng(0)
    classes = numpy.arange(2100) % 10
    images = chance.integers(0, 100, (2100, 12, 12)) + 15 * classes[:, None, None]
    numpy.save(folder / "images.npy", images.astype(numpy.uint8))
    numpy.save(folder / "classes.npy", classes)


def rows_of(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def check_equal(run, straight):
    checkpoints = sorted((run / "checkpoints").glob("update-*"), key=lambda path: int(path.name.split("-")[1]))
    assert checkpoints[-1].name == "update-14", checkpoints
    assert not list((run / "checkpoints").glob(".*")), "left-overs of an interrupted write"
    for name in ("model.safetensors", "optimizer.safetensors"):
        mine, theirs = checkpoints[-1] / name, straight / "checkpoints/update-14" / name
        assert mine.read_bytes() == theirs.read_bytes(), f"{mine} differs from {theirs}"
    mine, theirs = rows_of(run), rows_of(straight)
    for number, (a, b) in enumerate(zip(mine, theirs), 1):
        assert a == b, f"{run}: row {number}: {a} and {b}"
    assert len(mine) == len(theirs), f"{run}: {len(mine)} rows and {len(theirs)}"


def soak(runs, kills, chance):
    """Chains of kills and resumes until so many kills were made; how many chains."""
    done = chains = 0
    while done < kills:
        chains += 1
        output = runs.folder / f"{runs.name}-{chains}"
        micro_batch = None if chains % 2 else 16
        for _ in range(chance.randint(1, 5)):
            done += runs.kill(output, micro_batch, chance.uniform(0.05, 1.0) * runs.seconds)
        runs.finish(output, micro_batch)
        plan = json.loads((output / "plan.json").read_text(encoding="utf-8"))
        check_equal(output, runs.undisturbed(plan["micro_batch"]))
    return done, chains


def main():
    binary = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    names = sys.argv[4:] or list(RECIPES)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder))
        for name in names:
            runs = Runs(binary, folder, name)
            runs.undisturbed(16)
            done, chains = soak(runs, kills // len(names), chance)
            print(f"{name}: {done} kills in {chains} runs, every one equal to the undisturbed run", flush=True)


if __name__ == "__main__":
    main()
