"""The hand-written PyTorch loop in turns with another program: reads lines "pre SECONDS" from standard input, or
"pre_last SECONDS" for the same in channels last, and answers each with one JSON line. python turns.py --workload mlp --batch 64 --precision fp32"""
import argparse
import json
import sys

from workloads import Workload, torch
import handloop

parser = argparse.ArgumentParser()
parser.add_argument("--workload", required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--precision", default="fp32")
args = parser.parse_args()
torch.set_num_threads(2)
workload = Workload(args.workload)
for line in sys.stdin:
    data, seconds = line.split()
    segment = handloop.run_segment(workload, args.batch, data.removesuffix("_last"), args.precision, "fused",
                                   float(seconds), channels_last=data.endswith("_last"))
    print(json.dumps({"side": data, "updates": segment["steps"], "samples_per_second": segment["sps"]}), flush=True)
