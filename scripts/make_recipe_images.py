#!/usr/bin/env python3
"""Makes the small image sets of recipes/data, so that recipes run on a machine without any data.

    make_recipe_images.py [FOLDER]     default: recipes/data

shapes: four classes of one shape each, for classification. boxes: up to four coloured shapes on noise with their
boxes in YOLO's format, for detection. Needs Pillow and NumPy; the same versions write the same bytes.
"""
import math
import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SHAPES = ("circle", "cross", "square", "triangle")
KINDS = ("round", "square")
IMAGES_OF_A_SHAPE, SIDE = 40, 40
SCENES, SCENE = 96, (80, 96)  # height, width


def outline(shape, radius, angle):
    """Corners of a shape around (0, 0)."""
    if shape == "circle":
        corners = [(math.cos(t), math.sin(t)) for t in np.linspace(0, 2 * math.pi, 24, endpoint=False)]
    elif shape == "square":
        corners = [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)]
    elif shape == "triangle":
        corners = [(math.cos(t), math.sin(t)) for t in (-math.pi / 2, math.pi / 6, 5 * math.pi / 6)]
    else:
        thin = 0.3
        corners = [(-thin, -1), (thin, -1), (thin, -thin), (1, -thin), (1, thin), (thin, thin), (thin, 1), (-thin, 1),
                   (-thin, thin), (-1, thin), (-1, -thin), (-thin, -thin)]
    cos, sin = math.cos(angle), math.sin(angle)
    return [(radius * (x * cos - y * sin), radius * (x * sin + y * cos)) for x, y in corners]


def background(random, height, width):
    """Dim blurred noise."""
    coarse = random.integers(0, 110, (height // 8, width // 8, 3)).astype(np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.BILINEAR)


def bright_colour(random):
    colour = random.integers(60, 256, 3)
    colour[random.integers(3)] = 255
    return tuple(int(value) for value in colour)


def draw(image, corners, centre, colour):
    ImageDraw.Draw(image).polygon([(x + centre[0], y + centre[1]) for x, y in corners], fill=colour)


def make_shapes(folder, random):
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True)
        for i in range(IMAGES_OF_A_SHAPE):
            image = background(random, SIDE, SIDE)
            radius = random.uniform(9, 15)
            centre = random.uniform(radius, SIDE - radius, 2)
            draw(image, outline(shape, radius, random.uniform(-0.3, 0.3)), centre, bright_colour(random))
            image.save(folder / shape / f"{i:02}.jpg", quality=70, optimize=True)


def overlaps(box, others):
    return any(abs(box[0] - o[0]) < (box[2] + o[2]) / 2 and abs(box[1] - o[1]) < (box[3] + o[3]) / 2 for o in others)


def make_scene(random):
    """An image and its boxes: kind, centre and size in pixels."""
    height, width = SCENE
    image, boxes = background(random, height, width), []
    for _ in range(random.choice((0, 2, 3, 4, 5))):
        kind = int(random.integers(len(KINDS)))
        half = random.uniform(7, 15, 2) if kind else np.repeat(random.uniform(7, 15), 2)
        centre = random.uniform(half, (width, height) - half)
        box = (*centre, *(2 * half))
        if overlaps(box, [other[1] for other in boxes]):
            continue
        corners = outline("circle" if kind == 0 else "square", 1, 0)
        reach = 1 if kind == 0 else 0.8
        draw(image, [(x / reach * half[0], y / reach * half[1]) for x, y in corners], centre, bright_colour(random))
        boxes.append((kind, box))
    return image, boxes


def make_boxes(folder, random):
    height, width = SCENE
    folder.mkdir(parents=True)
    (folder / "names").write_text("\n".join(KINDS) + "\n")
    for part, count in (("train", SCENES * 3 // 4), ("validation", SCENES // 4)):
        for name in ("images", "labels"):
            (folder / part / name).mkdir(parents=True)
        for i in range(count):
            image, boxes = make_scene(random)
            image.save(folder / part / "images" / f"{i:03}.jpg", quality=70, optimize=True)
            lines = [f"{kind} {x / width:.5f} {y / height:.5f} {w / width:.5f} {h / height:.5f}\n"
                     for kind, (x, y, w, h) in boxes]
            if lines:  # an image without boxes needs no file
                (folder / part / "labels" / f"{i:03}.txt").write_text("".join(lines))


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "recipes" / "data")
    for name, make in (("shapes", make_shapes), ("boxes", make_boxes)):
        shutil.rmtree(folder / name, ignore_errors=True)
        make(folder / name, np.random.default_rng(1))


if __name__ == "__main__":
    main()
