#!/usr/bin/env python3
"""Fine-tuning side by side: a ResNet-18 learns one half of Fashion-MNIST's classes, and then the other half from few
samples: from nothing, whole, with small steps before its last layer, with its first layers frozen, with its last layer
alone, and with adapters on that. Each way is trained with some seeds by `autotrain compare`, at two learning rates of
which the better counts; the micro-batch is what `autotrain plan` finds for it within one budget, for an update that it
would not fill.

    scripts/bench/fine_tuning.py [--samples 100] [--seeds 3]
"""
import argparse
import gzip
import json
import subprocess
import tempfile
from pathlib import Path

import numpy
import yaml
from measure import PROGRAM, save

SOURCE = Path("/usr/share/datasets/fashion-mnist")
HALF = 5  # classes
BUDGET = "512MiB"
EFFECTIVE, EPOCHS = 20, 20
RATES = [0.001, 0.01]
FIRST = ["conv1.*", "bn1.*", "layer1.*", "layer2.*", "layer3.*"]
BEFORE_THE_LAST = [*FIRST, "layer4.*"]
LOADED = {"weights": "base.safetensors"}
WAYS = {
    "from nothing": {},
    "everything": {"model": LOADED},
    "everything, small steps before the last layer": {
        "model": LOADED, "optimizer": {"groups": [{"match": BEFORE_THE_LAST, "lr_factor": 0.1}]}},
    "the last stage and layer": {"model": {**LOADED, "freeze": FIRST}},
    "the last layer": {"model": {**LOADED, "freeze": BEFORE_THE_LAST}},
    "adapters of rank 4 on the last layer": {"model": {**LOADED, "lora": {"match": ["fc"], "rank": 4}}},
}


def read(name):
    with gzip.open(SOURCE / name) as file:
        data = file.read()
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def write_halves(folder):
    for part in ("train", "t10k"):
        images, classes = read(f"{part}-images-idx3-ubyte.gz"), read(f"{part}-labels-idx1-ubyte.gz")
        for half, name in enumerate(("first", "second")):
            own = (classes // HALF) == half
            numpy.save(folder / f"{name}-{part}-images.npy", images[own][:, None])
            numpy.save(folder / f"{name}-{part}-classes.npy", classes[own].astype(numpy.int64) - HALF * half)


def data_of(half, samples=None):
    def part(name):
        return {"dataset": "npy", "inputs": f"{half}-{name}-images.npy", "targets": f"{half}-{name}-classes.npy"}
    return {"train": {**part("train"), **({"limit": samples} if samples else {})}, "validation": part("t10k")}


def recipe(folder, name, data, epochs, effective, rate, more):
    content = {"name": name, "data": data, "model": {"name": "resnet18", **more.get("model", {})},
               "optimizer": {"name": "adamw", "lr": rate, "reference_batch": effective, "weight_decay": 0.01,
                             **more.get("optimizer", {})},
               "schedule": {"name": "cosine"}, "batch": {"effective": effective}, "stop": {"epochs": epochs},
               "evaluation": {"every": f"{epochs} epochs"}, "checkpoint": {"every": f"{epochs} epochs"},
               "execution": {"precision": "fp32", "memory": {"budget": BUDGET}},
               "report": {"html": False, "csv": False, "tensorboard": False}}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def autotrain(folder, *words):
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def capacity(folder, file):
    """The largest micro-batch in the budget, for an update that it would not fill."""
    more = ("--set", "data.train.limit=20000", "--set", "batch.effective=20000")
    return json.loads(autotrain(folder, "plan", "--config", file, *more, "--json"))["search"]["micro_batch"]


def measure(folder, samples, seeds):
    write_halves(folder)
    base = recipe(folder, "base", data_of("first"), 2, 256, RATES[0], {})
    autotrain(folder, "--config", base, "--output", "base", "--quiet")
    autotrain(folder, "export", "--run", "base", "--output", "base.safetensors")
    files = {(way, rate): recipe(folder, f"{place}_{rate}", data_of("second", samples), EPOCHS, EFFECTIVE, rate, more)
             for place, (way, more) in enumerate(WAYS.items()) for rate in RATES}
    found = json.loads(autotrain(folder, "compare", *files.values(), "--seeds", seeds, "--figure", "accuracy",
                                 "--output", "compared", "--json"))
    accuracy = {key: each["final"] for key, each in zip(files, found["recipes"])}
    rows = []
    for way in WAYS:
        best = max(RATES, key=lambda rate: accuracy[way, rate]["mean"])
        rows.append({"way": way, "samples": samples, "lr": best, "accuracy": accuracy[way, best],
                     "at_rates": {str(rate): accuracy[way, rate]["mean"] for rate in RATES},
                     "capacity": capacity(folder, files[way, best])})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100, help="of the second half to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = measure(Path(name), options.samples, options.seeds)
    for row in rows:
        print(json.dumps(row))
    save("fine_tuning", rows, ("way", "samples"))


if __name__ == "__main__":
    main()
