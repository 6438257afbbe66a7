"""A point of the MLP sweep in PyTorch, in turns with another program: reads lines "python SECONDS" from standard input
and answers each with one JSON line, the batch ÷ the median latency of a call.
python sweep_turns.py --width 64 --batch 32 --precision fp32"""
import argparse
import json
import os
import statistics
import sys
import time

import torch

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


@torch.inference_mode()
def median_latency(seconds):
    model(batch)
    latencies, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(latencies) < 3:
        start = time.perf_counter()
        model(batch)
        latencies.append(time.perf_counter() - start)
    return statistics.median(latencies)


for line in sys.stdin:
    side, seconds = line.split()
    rate = args.batch / median_latency(float(seconds))
    print(json.dumps({"side": side, "samples_per_second": rate}), flush=True)
