#!/usr/bin/env python3
"""How many compiled kernels the libraries must be let keep: samples/s of the harness with several capacities of both
kernel caches in turns, as ratios to the 1,024 that the libraries keep by themselves, and how many kernels an update
compiles anew once the first ones have run. "ours" is what autotrain sets for the smallest budget that the model's
parameters, gradients and moments leave any choice of.

    scripts/bench/kernel_caches.py [mlp:64:fp32 lstm:64:fp32 …]
"""
import os
import subprocess

from measure import BENCH, Worker, measure_cells, ratio, take_turns, text

# Smallest budget in MiB: autotrain's capacity is one kernel for each, and never below 64 (device/kernel_caches.h).
CELLS = {"mlp:64:fp32": 134, "cnn:64:fp32": 64, "resnet:16:fp32": 178, "resnet50:4:fp32": 400, "gpt:16:fp32": 64,
         "lstm:64:fp32": 64}
ROUNDS, SECONDS = 3, 3


def capacities(cell):
    return {"8": 8, "ours": CELLS[cell], "1024": 1024}


def limited(capacity):
    return {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": str(capacity), "LRU_CACHE_CAPACITY": str(capacity)}


def turns_of(cell, *options):
    workload, batch, precision = cell.split(":")
    return [BENCH, "turns", "--workload", workload, "--batch", batch, "--precision", precision, *options]


def compiled_anew(cell, capacity):
    """Kernels that an update compiles, by the difference of two runs."""
    def misses(updates):
        out = subprocess.run([str(word) for word in turns_of(cell, "--unit", "updates")], input=f"harness {updates}\n", text=True,
                             env={**os.environ, **limited(capacity), "ONEDNN_VERBOSE": "profile_create"},
                             capture_output=True, check=True).stdout
        return sum("create:cache_miss" in line for line in out.splitlines())
    return (misses(6) - misses(2)) / 4


def measure(cell):
    workload, batch, precision = cell.split(":")
    workers = {name: Worker(["env", *(f"{k}={v}" for k, v in limited(n).items()), *turns_of(cell)])
               for name, n in capacities(cell).items()}
    rates = take_turns({name: (worker, "harness") for name, worker in workers.items()}, ROUNDS, SECONDS)
    for worker in workers.values():
        worker.close()
    return {"workload": workload, "batch": int(batch), "precision": precision, "rates": rates,
            "capacities": capacities(cell),
            "compiled anew": {name: compiled_anew(cell, n) for name, n in capacities(cell).items()},
            "ratio to 1024": {name: ratio(rates[name], rates["1024"]) for name in ("8", "ours")}}


def columns(row):
    anew = ", ".join(f"{count:g}" for count in row["compiled anew"].values())
    return str(row["capacities"]["ours"]), anew, text(row["ratio to 1024"]["8"]), text(row["ratio to 1024"]["ours"])


def main():
    measure_cells("kernel_caches", ("workload", "batch", "precision"), CELLS,
                  ("cell", "ours", "compiled anew in an update: 8, ours, 1024", "samples/s with 8 ÷ with 1024",
                   "ours ÷ with 1024"), measure, columns)


if __name__ == "__main__":
    main()
