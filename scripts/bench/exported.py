#!/usr/bin/env python3
"""samples/s of four loops in turns: the harness on a model that was exported from PyTorch, the harness on the same model
written in C++, the hand-written PyTorch loop (eager; for images the better of both layouts) and that loop through
torch.compile. Prints ratios: median [least, largest] over the rounds.

    scripts/bench/exported.py [mlp:64:fp32 gpt:64:bf16 …]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import BENCH, HERE, PEERS_PYTHON, ROOT, Worker, measure_cells, middle, ratio, take_turns, text

CELLS = [f"{workload}:{batch}:{precision}" for workload in ("mlp", "resnet", "gpt") for batch in (64, 256)
         for precision in ("fp32", "bf16")]
EXPORT = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from workloads import Workload
from autotrain_export import export
example = "int64[2,128]<256" if sys.argv[3] == "gpt" else "float32[2,1,28,28]"
export(Workload(sys.argv[3], "cpu").model(), example, sys.argv[4], precisions=[sys.argv[5]])
"""


def exported(workload, precision, folder):
    path = Path(folder, "m.autotrain")
    subprocess.run([PEERS_PYTHON, "-c", EXPORT, HERE / "peers", ROOT / "scripts/python", workload, path, precision],
                   check=True, stdout=sys.stderr)
    return path


def measure(cell):
    workload, batch, precision = cell.split(":")
    arguments = ["--workload", workload, "--batch", batch, "--precision", precision]
    with tempfile.TemporaryDirectory() as folder:
        ours = Worker([BENCH, "turns", *arguments, "--exported", exported(workload, precision, folder)])
        twin = Worker([BENCH, "turns", *arguments])
        python = Worker([PEERS_PYTHON, HERE / "peers/turns.py", *arguments])
        sides = {"exported": (ours, "harness"), "twin": (twin, "harness"), "eager": (python, "pre"), "compiled": (python, "compiled")}
        if workload == "resnet":
            sides["eager channels last"] = (python, "pre_last")
        rates = take_turns(sides, *((5, 2) if workload == "mlp" else (3, 4)))
        for worker in (ours, twin, python):
            worker.close()
    eager = [max(pair) for pair in zip(rates["eager"], rates.get("eager channels last", rates["eager"]))]
    return {"workload": workload, "batch": int(batch), "precision": precision, "rates": rates,
            "exported/twin": ratio(rates["exported"], rates["twin"]), "exported/eager": ratio(rates["exported"], eager),
            "exported/compiled": ratio(rates["exported"], rates["compiled"])}


def main():
    measure_cells("exported", ("workload", "batch", "precision"), CELLS,
                  ("cell", "exported samples/s", "÷ C++ twin", "÷ eager PyTorch", "÷ torch.compile"), measure,
                  lambda row: (middle(row["rates"]["exported"]), text(row["exported/twin"]), text(row["exported/eager"]),
                               text(row["exported/compiled"])))


if __name__ == "__main__":
    main()
