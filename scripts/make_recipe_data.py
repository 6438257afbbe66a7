#!/usr/bin/env python3
"""Writes recipes/data: small made-up files that the recipes of npy, table, tokens and documents train on.

    scripts/make_recipe_data.py [FOLDER]

Needs NumPy. Equal versions of NumPy write equal bytes.
"""
import csv
import sys
from pathlib import Path

import numpy


def flats(folder, rng):
    """Rents that follow from the other columns, with noise and gaps."""
    def rows(count):
        for _ in range(count):
            area, floor = rng.gamma(9, 8), int(rng.integers(0, 8))
            district = str(rng.choice(["centre", "river", "hill", "port"]))
            built, lift = int(rng.integers(1900, 2024)), bool(rng.random() < 0.4)
            rate = {"centre": 19, "river": 16, "hill": 14, "port": 11}[district]
            rent = area * rate + (25 if lift else -20) * floor + 2 * abs(built - 1965) + 40 * rng.normal()
            yield [f"{area:.1f}" if rng.random() > 0.03 else "", floor, district, built,
                   "yes" if lift else "no", f"{rent:.0f}"]

    for name, count in [("flats_train.csv", 800), ("flats_validation.csv", 200)]:
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["area", "floor", "district", "built", "lift", "rent"])
            writer.writerows(rows(count))


def shapes(folder, rng):
    """Grey images of 8 × 8 pixels with a bar, a cross, a frame or a disc somewhere."""
    images, classes = numpy.zeros((600, 8, 8)), rng.integers(0, 4, 600, dtype="uint8")
    across, down = numpy.meshgrid(numpy.arange(8), numpy.arange(8))
    for image, kind in zip(images, classes):
        x, y = rng.integers(2, 6, 2)
        dx, dy = abs(across - x), abs(down - y)
        image[[dy == 0, (dx == 0) | (dy == 0), numpy.maximum(dx, dy) == 2, dx ** 2 + dy ** 2 <= 4][kind]] = 200
    images += rng.normal(scale=80, size=images.shape)
    numpy.save(folder / "shapes.npy", images.clip(0, 255).astype("uint8"))
    numpy.save(folder / "shapes_classes.npy", classes)


def tokens(folder, rng):
    """A walk over 64 tokens, each with three likely successors."""
    successors = rng.integers(0, 64, (64, 3))
    walk = [0]
    for _ in range(11_999):
        walk.append(int(rng.choice(successors[walk[-1]]) if rng.random() < 0.95 else rng.integers(0, 64)))
    numpy.array(walk, "<u2").tofile(folder / "walk.bin")


def words(folder, rng):
    """Lines of letters, most of them short and a few long; each letter has two likely successors."""
    letters = numpy.array(list("abcdefghijklmnopqrstuvwxyz"))
    successors = rng.integers(0, 26, (26, 2))

    def line():
        walk = [int(rng.integers(0, 26))]
        for _ in range(int(min(250, rng.lognormal(3, 0.8)))):
            walk.append(int(rng.choice(successors[walk[-1]]) if rng.random() < 0.95 else rng.integers(0, 26)))
        return "".join(letters[walk])

    (folder / "words.txt").write_text("\n".join(line() for _ in range(2000)) + "\n")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "recipes" / "data")
    folder.mkdir(parents=True, exist_ok=True)
    for number, make in enumerate([flats, shapes, tokens, words]):
        make(folder, numpy.random.default_rng(number))


if __name__ == "__main__":
    main()
