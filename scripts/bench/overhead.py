#!/usr/bin/env python3
"""Which share of the CPU time of training is spent in the harness's own code, counted by samples of where the program
is (perf, by the CPU clock): what a comparison of wall times with a bare loop cannot show where they spread by more.
LibTorch, the kernels that it compiles, OpenMP, the C library and the operating system are the others. What the harness
asks of LibTorch beyond what a bare loop asks counts as LibTorch's here; `throughput.py` has both together.

    scripts/bench/overhead.py [mlp:64:fp32 gpt:16:fp32 …]
"""
import re
import shutil
import subprocess
import sys
import tempfile

from measure import BENCH, Worker, measure_cells

CELLS = ["mlp:64:fp32", "mlp:1:fp32", "cnn:64:fp32", "resnet:16:fp32", "gpt:16:fp32", "gpt:1:fp32", "lstm:64:fp32"]
SECONDS = 10


def shares(pid, worker):
    """Of the samples while the harness trains: by program or library."""
    with tempfile.NamedTemporaryFile() as data:
        perf = subprocess.Popen(["perf", "record", "-e", "cpu-clock", "-F", "1999", "-o", data.name, "-p", str(pid)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        worker.segment("harness", SECONDS)
        perf.terminate()
        perf.wait()
        report = subprocess.run(["perf", "report", "-i", data.name, "--sort", "dso", "-F", "overhead,sample,dso"],
                                capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\s*([\d.]+)%\s+(\d+)\s+(\S+)", report, re.MULTILINE)
    return {name: int(samples) for _, samples, name in rows}


def measure(cell):
    workload, batch, precision = cell.split(":")
    worker = Worker([BENCH, "turns", "--workload", workload, "--batch", batch, "--precision", precision])
    worker.segment("harness", 1)
    samples = shares(worker.process.pid, worker)
    worker.close()
    return {"workload": workload, "batch": int(batch), "precision": precision, "samples": sum(samples.values()),
            "ours": round(samples.get(BENCH.name, 0) / sum(samples.values()), 5)}


def main():
    if not shutil.which("perf"):
        sys.exit("install Debian's package linux-perf first")
    measure_cells("overhead", ("workload", "batch", "precision"), CELLS, ("cell", "samples", "in the harness"), measure,
                  lambda row: (str(row["samples"]), f"{row['ours']:.2%}"))


if __name__ == "__main__":
    main()
