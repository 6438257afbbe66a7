"""A point of the MLP sweep in PyTorch, in turns with another program: reads lines "python SECONDS" from standard input
and answers each with one JSON line, the batch ÷ the median latency of a call.
python sweep_turns.py --width 64 --batch 32 --precision fp32"""
import argparse
import json
import os
import sys

import torch
from latency import median_latency

FEATURES, DEPTH, CLASSES = 64, 8, 10

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--precision", default="fp32")
args = parser.parse_args()
torch.set_num_threads(len(os.sched_getaffinity(0)))  # as the sweep has by default

layers, inputs = [], FEATURES
for _ in range(DEPTH):
    layers += [torch.nn.Linear(inputs, args.width), torch.nn.ReLU(inplace=True)]
    inputs = args.width
model = torch.nn.Sequential(*layers, torch.nn.Linear(inputs, CLASSES)).eval()
batch = torch.randn(args.batch, FEATURES)
if args.precision == "bf16":
    model, batch = model.bfloat16(), batch.bfloat16()


for line in sys.stdin:
    side, seconds = line.split()
    with torch.inference_mode():
        rate = args.batch / median_latency(lambda: model(batch), float(seconds))
    print(json.dumps({"side": side, "samples_per_second": rate}), flush=True)
