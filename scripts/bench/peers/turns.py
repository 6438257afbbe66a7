"""The hand-written PyTorch loop in turns with another program: reads lines "SIDE SECONDS" from standard input
and answers each with one JSON line. Sides: pre; pre_last, the same in channels last; compiled and compiled_overhead,
through torch.compile in its modes default and reduce-overhead; flops, which counts the operations of a sample instead.
python turns.py --workload mlp --batch 64 --precision fp32 --device cpu"""
import argparse
import gc
import json
import sys

from workloads import Workload, torch
import handloop

MODES = {"compiled": "default", "compiled_overhead": "reduce-overhead"}

parser = argparse.ArgumentParser()
parser.add_argument("--workload", required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--precision", default="fp32")
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
torch.set_num_threads(2)
workload = Workload(args.workload, args.device)


def answer(side, seconds):
    if side == "flops":
        return {"flops_per_sample": handloop.flops_per_sample(workload)}
    segment = handloop.run_segment(workload, args.batch, "pre", args.precision, "fused", seconds,
                                   channels_last=side == "pre_last" or (side in MODES and args.device != "cpu"),
                                   compiled=MODES.get(side))
    return {"updates": segment["steps"], "samples_per_second": segment["sps"]}


def leave_memory_to_others():
    """What PyTorch keeps of a GPU for later, the program beside this one needs now."""
    gc.collect()
    if workload.device.type == "cuda":
        torch.cuda.empty_cache()


for line in sys.stdin:
    side, seconds = line.split()
    try:
        said = answer(side, float(seconds))
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    leave_memory_to_others()
    print(json.dumps({"side": side, **said}), flush=True)
