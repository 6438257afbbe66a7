#!/usr/bin/env python3
"""COCO's figures of 5,000 images with 100 found boxes each, and 80 classes: seconds here and of pycocotools, in turns.

    coco.py [--images 5000] [--rounds 3]

Needs pycocotools. Only the evaluation is timed, not the reading of boxes: there evaluate() and accumulate(), here
evaluate_coco(). Both must come to the same figures."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from measure import BENCH, ROOT, busy_seconds, save

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
from make_coco import coco_of, evaluated  # noqa: E402

CLASSES, FOUND = 80, 100


def boxes(random, count):
    sizes = np.exp(random.uniform(np.log(8), np.log(300), (count, 2)))
    places = random.uniform(0, 640 - sizes)
    return np.round(np.concatenate([places, sizes], 1), 1)


def case(images):
    """7 objects of an image on average, as in COCO; of the found boxes seven lie near one."""
    random = np.random.default_rng(5)
    truth, found = [], []
    for image in range(images):
        own = boxes(random, int(random.poisson(7)))
        classes = random.integers(0, CLASSES, len(own))
        truth += [{"image": image, "category": int(c), "box": [float(x) for x in box], "area": float(box[2] * box[3]), "crowd": False}
                  for c, box in zip(classes, own)]
        near = np.maximum(own + random.normal(0, 0.05, own.shape) * own[:, [2, 3, 2, 3]], 1)
        all_boxes = np.concatenate([near, boxes(random, FOUND - len(own))])
        all_classes = np.concatenate([classes, random.integers(0, CLASSES, FOUND - len(own))])
        scores = np.concatenate([random.uniform(0.2, 1, len(own)), random.uniform(0, 0.5, FOUND - len(own))])
        found += [{"image": image, "category": int(c), "box": [float(x) for x in box], "score": float(s)}
                  for c, box, s in zip(all_classes, all_boxes.round(1), scores)]
    return {"images": images, "classes": CLASSES, "truth": truth, "found": found}


def theirs(coco, results):
    start = time.perf_counter()
    evaluation = evaluated(coco, results)
    seconds = time.perf_counter() - start
    precision = evaluation.eval["precision"][:, :, :, 0, -1]
    return seconds, float(precision[precision > -1].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    made = case(options.images)
    coco, results = coco_of(made)
    ratios, ours_all, theirs_all, difference = [], [], [], 0.0
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "case.json")
        file.write_text(json.dumps(made))
        for _ in range(options.rounds):
            start, busy = time.perf_counter(), busy_seconds()
            ours = json.loads(subprocess.run([BENCH, "coco_evaluation", file], capture_output=True, text=True, check=True).stdout)
            seconds, mean = theirs(coco, results)
            load = (busy_seconds() - busy) / (time.perf_counter() - start)
            difference = max(difference, abs(ours["map"] - mean))
            ours_all.append(ours["seconds"]), theirs_all.append(seconds), ratios.append(seconds / ours["seconds"])
            print(f"ours {ours['seconds']:.2f} s, pycocotools {seconds:.2f} s: {ratios[-1]:.1f} ×; busy cores {load:.2f}", flush=True)
    print(f"{statistics.median(ratios):.1f} × [{min(ratios):.1f}, {max(ratios):.1f}]; mAP differs by {difference:.1e}")
    save("coco", [{"images": options.images, "found": FOUND, "classes": CLASSES, "seconds": ours_all, "pycocotools": theirs_all,
                   "difference": difference}], ("images",))


if __name__ == "__main__":
    main()
