#!/usr/bin/env python3
"""Plants one bottleneck after the other and asks `autotrain doctor` what is wrong: what it named, and the samples per
second before and after the cure that it found best. A row is right when the planted cause was named; the last case has
nothing planted.

    scripts/bench/doctor.py [SECONDS [CASE…]]        SECONDS: of each trial, default 3
"""
import array
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import PROGRAM, options_of, save

RECIPE = """
data: {train: {dataset: synthetic, kind: vectors, shape: [256], samples: 100000}}
model: {name: mlp, depth: 3, width: 512}
batch: {effective: 256}
stop: {epochs: 1}
execution: {device: cpu, precision: bf16, memory: {budget: 1GiB}}
"""
SLOW_DISK = ["data.train.delay=0.0002", "data.train.delay_on=disk"]
DECODER = ["data.train.delay=0.0001", "data.train.delay_on=cpu"]
ONE_THREAD = ["execution.loader.workers=1"]
LARGE = """
data: {train: {dataset: npy, inputs: large.npy, targets: classes.npy}}
model: {name: mlp, depth: 1, width: 1}
optimizer: {name: sgd}
batch: {effective: 128}
stop: {epochs: 1}
execution: {device: cpu, precision: fp32, memory: {budget: 2GiB}, loader: {workers: 1}}
"""
CASES = {
    "a slow disk, one loader thread": ("storage", SLOW_DISK + ONE_THREAD),
    "a slow disk, loading in the training thread": ("prefetch storage", SLOW_DISK + ["execution.loader.workers=0"]),
    "a slow disk, memory for one batch ahead":
        ("prefetch storage", SLOW_DISK + ["execution.loader.workers=16", "execution.loader.prefetch=16",
                                          "execution.loader.prefetch_memory=1KiB"]),
    "an expensive decoder, one loader thread": ("decode", DECODER + ONE_THREAD),
    "an expensive decoder, 32 loader threads":
        ("loader_threads decode", DECODER + ["execution.loader.workers=32", "execution.loader.prefetch=32"]),
    "samples of 2 MiB for a tiny model": ("copy", None),
    "8 times as many compute threads as cores": ("threads", ["execution.threads=16"]),
    "micro-batches of 2": ("micro_batch", ["execution.micro_batch=2"]),
    "float32 where bfloat16 is native": ("compute", ["execution.precision=fp32"]),
    "nothing": ("compute", []),
}


def npy_header(kind, *shape):
    """The beginning of a .npy file, for machines without NumPy."""
    text = str({"descr": kind, "fortran_order": False, "shape": shape})
    text = text.ljust((len(text) + 10 + 1 + 63) // 64 * 64 - 10 - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


def write_large_samples(folder):
    """Two files of NumPy's: 1024 samples of 2 MiB, all zeros, of which the disk keeps nothing, and their classes."""
    with open(folder / "large.npy", "wb") as file:
        file.write(npy_header("<f8", 1024, 1 << 18))
        file.truncate(file.tell() + 1024 * (1 << 18) * 8)
    classes = array.array("q", (number % 4 for number in range(1024)))
    (folder / "classes.npy").write_bytes(npy_header("<i8", 1024) + classes.tobytes())


def examine(folder, seconds, settings):
    if settings is None:
        write_large_samples(folder)
    recipe = folder / "planted.yaml"
    recipe.write_text(LARGE if settings is None else RECIPE, encoding="utf-8")
    sets = options_of(settings or [])
    out = subprocess.run([PROGRAM, "doctor", "--config", recipe, "--json", "--seconds", str(seconds), *sets],
                         capture_output=True, text=True, cwd=folder)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return json.loads(out.stdout)["recipe"]


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for case in sys.argv[2:] or CASES:
            planted, settings = CASES[case]
            found = examine(Path(name), seconds, settings)
            cures = [cure for cure in found["cures"] if cure["gain"] > 0]
            before = found["before"]["samples_per_second"]
            best = cures[0] if cures else None
            row = {"case": case, "seconds": seconds, "planted": planted, "named": found["cause"], "right": found["cause"] in planted.split(),
                   "before": round(before, 1), "after": round(best["after"]["samples_per_second"], 1) if best else None,
                   "gain": round(best["gain"], 2) if best else None, "cure": " ".join(best["set"]) if best else ""}
            rows.append(row)
            print(f"{case:45} {row['named']:15} {'right' if row['right'] else 'WRONG':6} {row['before']:>10} "
                  f"{row['after'] or '-':>10} {row['gain'] or '-':>6}  {row['cure']}", flush=True)
    save("doctor", rows, key=("case",))


if __name__ == "__main__":
    main()
