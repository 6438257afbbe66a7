#!/usr/bin/env python3
"""Writes made-up JPEG files in two folders, as the data set image_folder reads them: smooth colours with some noise, so that
they have the size of photographs.

    make_images.py FOLDER COUNT SIDE          needs Python's Pillow
"""
import multiprocessing
import random
import sys
from pathlib import Path

from PIL import Image

CLASSES, COARSE = 2, 8  # a pixel of the noise is that many of the image


def write(task):
    path, side = task
    noise = random.Random(path.stem).randbytes(3 * (side // COARSE) ** 2)
    coarse = Image.frombytes("RGB", (side // COARSE, side // COARSE), noise)
    coarse.resize((side, side), Image.BILINEAR).save(path, quality=90)


def main():
    folder, count, side = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(CLASSES):
        (folder / f"class{number}").mkdir(parents=True, exist_ok=True)
    tasks = [(folder / f"class{number % CLASSES}" / f"{number:05}.jpg", side) for number in range(count)]
    with multiprocessing.Pool() as pool:
        pool.map(write, tasks, chunksize=32)


if __name__ == "__main__":
    main()
