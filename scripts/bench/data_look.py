#!/usr/bin/env python3
"""Seconds and peak memory of `autotrain data` on a folder of small PNG images and on a table, both made here, and how
busy the machine was meanwhile.

    scripts/bench/data_look.py [IMAGES] [ROWS]
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from measure import PROGRAM

SIDE, CLASSES, COLUMNS = 32, 10, 8


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_images(folder, count):
    """PNG files of 32 × 32 pixels of noise, which no two share."""
    rng = random.Random(1)
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0))
    for name in range(CLASSES):
        (folder / f"class{name}").mkdir()
    for i in range(count):
        rows = b"".join(b"\0" + rng.randbytes(3 * SIDE) for _ in range(SIDE))
        (folder / f"class{i % CLASSES}" / f"{i:06}.png").write_bytes(
            head + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def write_table(path, rows):
    rng = random.Random(2)
    with path.open("w", encoding="utf-8") as out:
        out.write(",".join(f"x{i}" for i in range(COLUMNS)) + ",kind,y\n")
        for _ in range(rows):
            numbers = [rng.gauss(0, 1) for _ in range(COLUMNS)]
            out.write(",".join(f"{x:.4f}" for x in numbers) + f",{rng.choice('abcd')},{sum(numbers):.4f}\n")


def recipe(folder, dataset, loss, model):
    path = folder / f"{dataset.split(',')[0]}.yaml"
    path.write_text(f"data:\n  train: {{dataset: {dataset}}}\nmodel: {{{model}}}\nloss: {{name: {loss}}}\n"
                    "stop: {epochs: 1}\nexecution: {device: cpu}\n", encoding="utf-8")
    return path


def measure(what, path):
    """A row for the look at a recipe's data. Peak memory is that of the process's pages, VmHWM of its end."""
    load = os.getloadavg()[0]
    start = time.perf_counter()
    child = subprocess.Popen([PROGRAM, "data", "--config", path, "--json"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{what}: exit code {os.waitstatus_to_exitcode(status)}")
    print(f"| {what} | {seconds:.1f} | {usage.ru_utime + usage.ru_stime:.1f} | {usage.ru_maxrss / 1024:.0f} MiB | {load:.1f} |",
          flush=True)


def main():
    images, rows = (int(arg) for arg in [*sys.argv[1:], 100_000, 1_000_000][:2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        write_images(folder / "images", images)
        write_table(folder / "table.csv", rows)
        print("| data | seconds | processor seconds | peak memory | load before |\n| --- | --- | --- | --- | --- |")
        size = f"image_folder, root: {folder}/images, size: [{SIDE}, {SIDE}]"
        measure(f"{images:,} images of {SIDE} × {SIDE}", recipe(folder, size, "cross_entropy", "name: cnn"))
        table = f"table, file: {folder}/table.csv, target: y"
        measure(f"a table of {rows:,} rows, {COLUMNS + 2} columns", recipe(folder, table, "mean_squared_error", "name: mlp"))


if __name__ == "__main__":
    main()
