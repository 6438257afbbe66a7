#!/usr/bin/env python3
"""Which modules that nobody here wrote the exporter takes, in what time and memory, and what it says of the others: the rows of the table in
docs/exported_models.md. Each is exported in a process of its own, in fp32 and bf16.

    scripts/bench/modules.py [--threads 1] [--seconds 600] [--precision fp32 bf16] [part of a name …]

The Python that runs it has torch, torchvision, timm and transformers. The table goes to stdout, progress to stderr."""
import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from module_zoo import ZOO

ROOT = Path(__file__).resolve().parents[2]


def export_one(name, precisions, threads):
    """In a process of its own: prints what came of it as JSON."""
    sys.path.insert(0, str(ROOT / "scripts/python"))
    import torch
    from autotrain_export import ExportError, export

    warnings.filterwarnings("ignore")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    case = ZOO[name]()
    weights = sum(parameter.nbytes for parameter in case.module.parameters())
    before, began, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        try:
            export(case.module, case.examples, Path(folder, "m.autotrain"), precisions=precisions, say=said.append, **case.options)
            result = {"accepted": True, "said": said}
        except ExportError as error:
            result = {"accepted": False, "said": str(error).splitlines()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**result, "seconds": time.monotonic() - began, "weights": weights, "more memory": peak - before}))


def row(name, options):
    command = [sys.executable, __file__, "--one", name, "--threads", str(options.threads), "--precision", *options.precision]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
    except subprocess.TimeoutExpired:
        return f"| {name} | not finished in {options.seconds} s | | | |"
    if out.returncode != 0:
        return f"| {name} | crashed: {(out.stderr.strip().splitlines() or ['exit ' + str(out.returncode)])[-1]} | | | |"
    made = json.loads(out.stdout.splitlines()[-1])
    what = "accepted" if made["accepted"] else "refused: " + " ".join(line.strip() for line in made["said"])
    return f"| {name} | {what} | {made['seconds']:.1f} | {made['weights'] / 2**20:.1f} | {made['more memory'] / 2**20:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=600, help="for one module")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return export_one(options.one, options.precision, options.threads)
    print("| module | | seconds | weights, MiB | memory beside it, MiB |\n| --- | --- | --- | --- | --- |", flush=True)
    for name in ZOO:
        if not options.names or any(part in name for part in options.names):
            print(row(name, options), flush=True)


if __name__ == "__main__":
    sys.exit(main())
