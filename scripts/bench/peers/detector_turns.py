"""The detector's twin in turns with the harness: reads lines "WHAT:BATCH:PRECISION SECONDS" from standard input and answers each with one
JSON line. WHAT is train (AdamW, images in memory), forward (images in memory, weights in the precision), or found, which reads FILES,
computes, decodes, suppresses and writes rows once over all of them, whatever the seconds. With _last behind it images have their
channels last; compiled is train through torch.compile.
python detector_turns.py --folder FOLDER --size n --weights FILE --files DIR"""
import argparse
import contextlib
import copy
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import handloop
from latency import median_latency
from workloads import Workload, torch
from yolo import Yolo
from yolo_boxes import found_boxes

LEAST_SCORE = 0.001


def settled(model, last):
    return model.to(memory_format=torch.channels_last) if last else model


def train(work, batch, precision, seconds, last, compiled):
    segment = handloop.run_segment(work, batch, "pre", precision, "fused", seconds, min_steps=2, channels_last=last,
                                   compiled="default" if compiled else None)
    return segment["sps"]


@torch.inference_mode()
def forward(model, work, batch, precision, seconds, last):
    images, _ = work.train.batch(torch.arange(batch))
    model = settled(copy.deepcopy(model), last)
    images = handloop.channels_last_images(images) if last else images
    if precision == "bf16":
        model, images = model.bfloat16(), images.bfloat16()
    return batch / median_latency(lambda: model(images), seconds)


def read_images(files):
    from torchvision.io import ImageReadMode, decode_image
    return torch.stack([decode_image(str(file), ImageReadMode.RGB) for file in files]).float().div_(255)


def rows_of(file, boxes, scores, classes):
    for (left, top, right, bottom), score, category in zip(boxes.tolist(), scores.tolist(), classes.tolist()):
        yield f"{file.name},{category},{score:.6g},{left:.6g},{top:.6g},{right - left:.6g},{bottom - top:.6g}\n"


@torch.inference_mode()
def found(model, files, batch, precision, last):
    """The next batch is read while one is computed."""
    model = settled(copy.deepcopy(model), last)
    cast = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    pieces = [files[first:first + batch] for first in range(0, len(files), batch)]
    with cast:
        model(read_images(pieces[0]))
    start = time.perf_counter()
    with ThreadPoolExecutor(1) as reader, tempfile.TemporaryFile("w") as output, cast:
        coming = reader.submit(read_images, pieces[0])
        for number, piece in enumerate(pieces):
            images = coming.result()
            if number + 1 < len(pieces):
                coming = reader.submit(read_images, pieces[number + 1])
            said = model(handloop.channels_last_images(images) if last else images)
            for file, boxes in zip(piece, found_boxes(said, LEAST_SCORE)):
                output.writelines(rows_of(file, *boxes))
    return len(files) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--size", default="n")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--files", required=True)
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    work = Workload(f"yolo:{options.size}:{options.folder}")
    model = Yolo(options.size).load(options.weights).eval()
    files = sorted(Path(options.files).glob("*.png"))

    def answer(side, seconds):
        what, batch, precision = side.split(":")
        batch, last = int(batch), what.endswith("_last")
        if what.startswith("found"):
            return found(model, files, batch, precision, last)
        if what.startswith("forward"):
            return forward(model, work, batch, precision, seconds, last)
        return train(work, batch, precision, seconds, last, what == "compiled")

    for line in sys.stdin:
        side, seconds = line.split()
        try:
            said = {"samples_per_second": answer(side, float(seconds))}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print(json.dumps({"side": side, **said}), flush=True)


if __name__ == "__main__":
    main()
