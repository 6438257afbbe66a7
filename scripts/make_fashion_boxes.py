#!/usr/bin/env python3
"""Makes a detection set of real pixels from Fashion-MNIST: items pasted on noise, with boxes in YOLO's format.

    make_fashion_boxes.py FOLDER [--train 8000] [--validation 400] [--root /usr/share/datasets/fashion-mnist]

Writes FOLDER/images/{train,val}, FOLDER/labels/{train,val} and FOLDER/data.yaml. A canvas of 160 × 160 pixels holds 1
to 8 items of ten classes, each 24 to 72 pixels high, in a colour of its own; an item may cover at most 45 % of the box
of one that lies below it. Boxes are around an item's own pixels. Training canvases take items of the training split,
validation ones of the test split. Needs Pillow and NumPy; the same versions write the same bytes.
"""
import argparse
import gzip
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
SIDE, MOST_ITEMS = 160, 8
LEAST_SIDE, MOST_SIDE = 24, 72  # pixels of the whole 28 × 28 picture of an item
MOST_COVERED = 0.45
PRESENT = 40  # grey from which on a pixel is the item's


def read_idx(path, header):
    opened = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def read_items(root, split):
    def found(name):
        return next(p for p in (root / name, root / f"{name}.gz") if p.exists())
    pictures = read_idx(found(f"{split}-images-idx3-ubyte"), 16).reshape(-1, 28, 28)
    return pictures, read_idx(found(f"{split}-labels-idx1-ubyte"), 8)


def background(random):
    coarse = random.uniform(0, 90, (6, 6, 3)).astype(np.uint8)
    wide = np.asarray(Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float64)
    return wide + random.normal(0, 6, (SIDE, SIDE, 3))


def covered(box, others):
    """The largest share of another box that this one covers."""
    left, top, right, bottom = box
    shares = [0.0]
    for l, t, r, b in others:
        both = max(0, min(right, r) - max(left, l)) * max(0, min(bottom, b) - max(top, t))
        shares.append(both / ((r - l) * (b - t)))
    return max(shares)


def paste(random, canvas, picture, others):
    """Draws an item where it covers little of the others; its box, or None where there is no room."""
    side = int(random.integers(LEAST_SIDE, MOST_SIDE + 1))
    item = np.asarray(Image.fromarray(picture).resize((side, side), Image.Resampling.BILINEAR), np.float64)
    rows, columns = np.nonzero(item >= PRESENT)
    if len(rows) == 0:
        return None
    item = item[rows.min():rows.max() + 1, columns.min():columns.max() + 1]
    height, width = item.shape
    for _ in range(20):
        left, top = int(random.integers(SIDE - width + 1)), int(random.integers(SIDE - height + 1))
        box = (left, top, left + width, top + height)
        if covered(box, others) <= MOST_COVERED:
            break
    else:
        return None
    tint = random.uniform(0.55, 1, 3)
    opaque = np.clip(item / PRESENT, 0, 1)[:, :, None]
    below = canvas[top:top + height, left:left + width]
    canvas[top:top + height, left:left + width] = below * (1 - opaque) + item[:, :, None] * tint * opaque
    return box


def make_canvas(random, pictures, labels):
    canvas, boxes, lines = background(random), [], []
    for _ in range(int(random.integers(1, MOST_ITEMS + 1))):
        item = int(random.integers(len(pictures)))
        box = paste(random, canvas, pictures[item], boxes)
        if box is None:
            continue
        boxes.append(box)
        left, top, right, bottom = (edge / SIDE for edge in box)
        lines.append(f"{labels[item]} {(left + right) / 2:.6f} {(top + bottom) / 2:.6f} {right - left:.6f} {bottom - top:.6f}")
    return np.clip(canvas, 0, 255).astype(np.uint8), lines


def make_part(folder, part, count, items, seed):
    images, labels = folder / "images" / part, folder / "labels" / part
    for path in (images, labels):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for i in range(count):
        canvas, lines = make_canvas(random, *items)
        Image.fromarray(canvas).save(images / f"{i:05d}.png", compress_level=1)
        (labels / f"{i:05d}.txt").write_text("".join(f"{line}\n" for line in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=8000)
    parser.add_argument("--validation", type=int, default=400)
    parser.add_argument("--root", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    o = parser.parse_args()
    make_part(o.folder, "train", o.train, read_items(o.root, "train"), seed=1)
    make_part(o.folder, "val", o.validation, read_items(o.root, "t10k"), seed=2)
    names = "".join(f"  {i}: {name}\n" for i, name in enumerate(NAMES))
    (o.folder / "data.yaml").write_text(f"path: .\ntrain: images/train\nval: images/val\nnames:\n{names}")


if __name__ == "__main__":
    main()
