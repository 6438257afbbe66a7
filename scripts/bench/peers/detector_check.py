"""The detector's twin beside what the harness computed: prints one JSON line.
python detector_check.py first --size n --seed 1 --weights FILE                the twin's first weights
python detector_check.py compare --size n --weights FILE --after FILE --rate 1024 --loss 2.9 --outputs FILE.npy --folder DIR --samples 8
python detector_check.py updates --size n --weights FILE --folder DIR --effective 16 --pieces 4 --rate 0.002 --updates 10 [--naive]"""
import argparse
import json
import os

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from yolo import Yolo
from yolo_boxes import BoxSet
from yolo_loss import yolo_terms


def apart(a, b):
    return float((a - b).double().norm() / b.double().norm().clamp_min(1e-300))


def first(options):
    torch.manual_seed(options.seed)
    save_file(Yolo(options.size).state_dict(), options.weights)
    return {}


def compare(options):
    """Outputs, loss and gradients relative to the twin's; gradients are what a step of plain SGD changed, ÷ its rate."""
    model = Yolo(options.size).load(options.weights)
    images, boxes = BoxSet(options.folder, "train", options.samples).batch(torch.arange(options.samples))
    prediction = model(images)
    total, weight = yolo_terms(prediction, boxes)
    (total / weight.float()).backward()
    theirs = torch.from_numpy(np.load(options.outputs))[:, :, :-5]  # behind the logits stand the points, which do not learn
    before, after = load_file(options.weights), load_file(options.after)
    own = {name: parameter.grad for name, parameter in model.named_parameters()}
    step = {name: (before[name].double() - after[name].double()) / options.rate for name in own}
    together = [torch.cat([part[name].flatten().double() for name in own]) for part in (step, own)]
    largest = max(float(gradient.double().norm()) for gradient in own.values())
    worst = max((apart(step[name], own[name]), name) for name in own if float(own[name].norm()) > 1e-3 * largest)
    loss = float(total.detach() / weight)
    return {"outputs": float((theirs - prediction[0].detach()).abs().max() / prediction[0].detach().abs().max()),
            "loss": abs(options.loss - loss) / abs(loss), "gradients": apart(*together), "worst_tensor": worst}


def updates(options):
    """The losses of SGD's first updates, each over so many samples in pieces that share one denominator; naive: the mean of the pieces'
    own quotients, as loops are that divide each micro-batch's loss by the number of micro-batches."""
    model = Yolo(options.size).load(options.weights)
    data, losses, size = BoxSet(options.folder, "train", options.effective * options.updates), [], options.effective // options.pieces
    for update in range(options.updates):
        sums, weights = 0.0, 0.0
        model.zero_grad()
        for piece in torch.arange(update * options.effective, (update + 1) * options.effective).split(size):
            images, boxes = data.batch(piece)
            total, weight = yolo_terms(model(images), boxes)
            (total / weight.float() / options.pieces if options.naive else total).backward()
            sums, weights = sums + float(total.detach()), weights + float(weight)
        losses.append(sums / weights)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= options.rate * (parameter.grad if options.naive else parameter.grad / weights)
    return {"losses": losses}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["first", "compare", "updates"])
    for name in ("--size", "--weights", "--after", "--outputs", "--folder"):
        parser.add_argument(name)
    for name in ("--samples", "--effective", "--pieces", "--updates", "--seed"):
        parser.add_argument(name, type=int)
    for name in ("--rate", "--loss"):
        parser.add_argument(name, type=float)
    parser.add_argument("--naive", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(json.dumps({"first": first, "compare": compare, "updates": updates}[options.what](options)))


if __name__ == "__main__":
    main()
