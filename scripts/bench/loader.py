#!/usr/bin/env python3
"""Samples per second of our loader (0, 1, 2 threads) and of torch.utils.data.DataLoader (0, 1, 2 worker processes) on
the same data, in turns; beside them what bounds them: a memory copy of the finished batches and, for JPEG files,
libjpeg-turbo alone. Needs .deps/peers (see README.md). images_cold are the images while their files are put out of the
page cache again and again, so that most are read from the disk.

    scripts/bench/loader.py [ROUNDS [fashion images images_cold tokens table]]
"""
import contextlib
import os
import random
import statistics
import sys
import tempfile
import threading
from pathlib import Path

from measure import BENCH, HERE, PEERS_PYTHON, Worker, need_programs, ratio, save, take_turns, text

REST = "\nmodel: {name: mlp}\nstop: {updates: 1}\nexecution: {device: cpu, memory: {budget: 8GiB}}\n"
FASHION = "/usr/share/datasets/fashion-mnist"
WRITE_IMAGES = """
import sys, numpy
from pathlib import Path
from PIL import Image
chance = numpy.random.default_rng(0)
for i in range(400):
    folder = Path(sys.argv[1], "class%d" % (i % 4))
    folder.mkdir(parents=True, exist_ok=True)
    small = Image.fromarray(chance.integers(0, 255, (24, 32, 3), numpy.uint8))
    noise = chance.normal(0, 6, (375, 500, 3))
    pixels = numpy.clip(numpy.asarray(small.resize((500, 375), Image.BICUBIC)) + noise, 0, 255).astype(numpy.uint8)
    Image.fromarray(pixels).save(folder / ("%d.jpg" % i), quality=90)
"""


def fashion(folder):
    return FASHION, 256, "data: {train: {dataset: fashion_mnist}, augment: {flip: true, crop_padding: 2}}"


def images(folder):
    import subprocess
    subprocess.run([PEERS_PYTHON, "-c", WRITE_IMAGES, folder / "images"], check=True)
    return (folder / "images", 32, f"data: {{train: {{dataset: image_folder, root: {folder}/images}}, augment: "
            "{flip: true, random_resized_crop: [0.08, 1]}}")


def tokens(folder):
    (folder / "tokens.bin").write_bytes(random.Random(0).randbytes(64 << 20))
    return (folder / "tokens.bin", 64, f"data: {{train: {{dataset: tokens, files: [{folder}/tokens.bin], dtype: uint16, "
            "vocabulary: 65536, context: 256}}")


def table(folder):
    chance = random.Random(0)
    with open(folder / "table.csv", "w", encoding="utf-8") as file:
        file.write(",".join(f"x{i}" for i in range(20)) + ",y\n")
        for row in range(50000):
            file.write(",".join(f"{chance.gauss(0, 1):.5f}" for _ in range(20)) + f",{row % 5}\n")
    return folder / "table.csv", 256, f"data: {{train: {{dataset: table, file: {folder}/table.csv, target: y}}}}"


KINDS = {"fashion": fashion, "images": images, "images_cold": images, "tokens": tokens, "table": table}


@contextlib.contextmanager
def evicted(files):
    """Keeps files out of the page cache: each is put out some ten times a second."""
    opened = [os.open(path, os.O_RDONLY) for path in files]
    done = threading.Event()

    def evict():
        while not done.wait(0.1):
            for file in opened:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    os.sync()  # what was not written yet would stay
    thread = threading.Thread(target=evict)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for file in opened:
            os.close(file)


def measure(kind, folder, rounds):
    folder = folder / kind
    folder.mkdir()
    root, batch, data = KINDS[kind](folder)
    files = list(Path(root).rglob("*.jpg")) if kind == "images_cold" else []
    recipe = folder / f"{kind}.yaml"
    recipe.write_text(data + REST, encoding="utf-8")
    ours = Worker([BENCH, "loader_turns", "--recipe", recipe, "--batch", str(batch)])
    theirs = Worker([PEERS_PYTHON, HERE / "peers/loader_turns.py", "--kind", kind.removesuffix("_cold"), "--root", root, "--batch", str(batch)])
    sides = {f"ours {n}": (ours, str(n)) for n in (0, 1, 2)} | {f"DataLoader {n}": (theirs, str(n)) for n in (0, 1, 2)}
    sides["copy"] = (ours, "copy")
    if kind.startswith("images"):
        sides["jpeg"] = (ours, "jpeg")
    with evicted(files):
        rates = take_turns(sides, rounds, 2)
    ours.close()
    theirs.close()
    best = {side: max((f"{side} {n}" for n in (0, 1, 2)), key=lambda name: statistics.median(rates[name]))
            for side in ("ours", "DataLoader")}
    bound = "jpeg" if kind.startswith("images") else "copy"
    return {"kind": kind, "batch": batch, "rates": rates, "best": best,
            "best/best": ratio(rates[best["ours"]], rates[best["DataLoader"]]),
            "one core": ratio(rates["ours 0"], rates["DataLoader 0"]),
            "of the bound": ratio(rates["ours 0"], rates[bound]), "bound": bound}


def main():
    need_programs()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rows = []
    print("| data | ours samples/s | ÷ DataLoader, best of each | in one thread | share of the bound |\n"
          "| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for kind in sys.argv[2:] or KINDS:
            row = measure(kind, Path(name), rounds)
            rows.append(row)
            median = statistics.median(row["rates"][row["best"]["ours"]])
            print(f"| {kind} | {median:.0f} ({row['best']['ours']}) | {text(row['best/best'])} ({row['best']['DataLoader']}) | "
                  f"{text(row['one core'])} | {text(row['of the bound'])} ({row['bound']}) |", flush=True)
            save("loader", rows, ("kind",))


if __name__ == "__main__":
    main()
