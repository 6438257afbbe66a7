#!/usr/bin/env python3
"""samples/s of five loops in turns: the harness on a model that was exported from PyTorch, on the same model as TorchScript, and on its
twin written in C++; the hand-written PyTorch loop (eager; for images the better of both layouts in each round) and that loop through
torch.compile. Prints ratios: median [least, largest] over the rounds.

    scripts/bench/exported.py [--rounds 5] [--seconds 2] [mlp:64:fp32 gpt:64:bf16 …]
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import BENCH, HERE, PEERS_PYTHON, ROOT, Worker, measure_cells, middle, ratio, take_turns, text

CELLS = [f"{workload}:{batch}:{precision}" for workload in ("mlp", "resnet", "gpt") for batch in (64, 256)
         for precision in ("fp32", "bf16")]
OTHERS = {"torchscript": "÷ TorchScript", "twin": "÷ C++ twin", "eager": "÷ eager PyTorch", "compiled": "÷ torch.compile"}
WRITE = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from workloads import Workload, torch
from autotrain_export import export
model = Workload(sys.argv[3], "cpu").model()
torch.jit.script(model).save(sys.argv[5])
example = "int64[2,128]<256" if sys.argv[3] == "gpt" else "float32[2,1,28,28]"
export(model, example, sys.argv[4], precisions=[sys.argv[6]])
"""


def written(workload, precision, folder):
    """Files of the exported and of the scripted model."""
    files = [Path(folder, name) for name in ("m.autotrain", "m.pt")]
    subprocess.run([PEERS_PYTHON, "-W", "ignore", "-c", WRITE, HERE / "peers", ROOT / "scripts/python", workload, *files, precision],
                   check=True, stdout=sys.stderr)
    return files


def measure(cell, rounds, seconds):
    workload, batch, precision = cell.split(":")
    arguments = ["--workload", workload, "--batch", batch, "--precision", precision]
    with tempfile.TemporaryDirectory() as folder:
        exported, scripted = written(workload, precision, folder)
        python = Worker([PEERS_PYTHON, HERE / "peers/turns.py", *arguments])
        sides = {"exported": (Worker([BENCH, "turns", *arguments, "--from-pytorch", exported]), "harness"),
                 "torchscript": (Worker([BENCH, "turns", *arguments, "--from-pytorch", scripted]), "harness"),
                 "twin": (Worker([BENCH, "turns", *arguments]), "harness"),
                 "eager": (python, "pre"), "compiled": (python, "compiled")}
        if workload == "resnet":
            sides["eager channels last"] = (python, "pre_last")
        rates = take_turns(sides, rounds, seconds)
        for worker in {worker for worker, _ in sides.values()}:
            worker.close()
    under = {**rates, "eager": [max(pair) for pair in zip(rates["eager"], rates.get("eager channels last", rates["eager"]))]}
    return {"workload": workload, "batch": int(batch), "precision": precision, "rates": rates,
            **{f"exported/{other}": ratio(rates["exported"], under[other]) for other in OTHERS}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of a segment, beside an update that is not timed")
    options = parser.parse_args()
    measure_cells("exported", ("workload", "batch", "precision"), CELLS, ("cell", "exported samples/s", *OTHERS.values()),
                  lambda cell: measure(cell, options.rounds, options.seconds),
                  lambda row: (middle(row["rates"]["exported"]), *(text(row[f"exported/{other}"]) for other in OTHERS)),
                  options.cells)


if __name__ == "__main__":
    main()
