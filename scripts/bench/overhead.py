#!/usr/bin/env python3
"""Instructions that an update takes in the harness and in a bare LibTorch loop over the same kernels, on one thread,
counted by valgrind between two updates of a running program: a count that no other process disturbs, where clocks
spread by more than the harness takes. Telemetry is off: it has a row a second, and under valgrind an update takes
seconds.

    scripts/bench/overhead.py [mlp:64:fp32 gpt:16:fp32 …]
"""
import os
import re
import shutil
import subprocess
import sys

from measure import BENCH, need_programs, ratio, save, text

# Small batches, so that what the harness adds shows most.
CELLS = ["mlp:16:fp32", "cnn:8:fp32", "resnet:2:fp32", "gpt:1:fp32", "lstm:8:fp32"]
UPDATES, ROUNDS = 4, 3


class Counted:
    """The turns program under callgrind, which counts only while it is told to."""

    def __init__(self, workload, batch, precision):
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null", str(BENCH),
                   "turns", "--workload", workload, "--batch", batch, "--precision", precision, "--unit", "updates",
                   "--telemetry", "0", "--output", f"/tmp/autotrain-turns-{os.getpid()}"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def control(self, *options):
        return subprocess.run(["callgrind_control", *options, str(self.process.pid)], capture_output=True, text=True,
                              check=True).stdout

    def run(self, side):
        """Some updates of a side, after one that warms up."""
        self.process.stdin.write(f"{side} {UPDATES - 1}\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise RuntimeError(f"{side} ended with {self.process.wait()}")

    def instructions(self, side):
        """Of one update, in the mean, on all threads."""
        self.control("--instr=on")
        self.run(side)
        threads = re.findall(r"Th \d+\s+([\d,]+)", self.control("-e"))
        self.control("--instr=off")
        return sum(int(count.replace(",", "")) for count in threads) / UPDATES

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(cell):
    workload, batch, precision = cell.split(":")
    program = Counted(workload, batch, precision)
    program.run("harness")
    program.run("bare")
    counts = {"harness": [], "bare": []}
    for _ in range(ROUNDS):
        for side in counts:
            counts[side].append(program.instructions(side))
    program.close()
    return {"workload": workload, "batch": int(batch), "precision": precision, "instructions": counts,
            "harness/bare": ratio(counts["harness"], counts["bare"])}


def main():
    need_programs()
    if not shutil.which("valgrind"):
        sys.exit("install Debian's package valgrind first")
    rows = []
    print("| cell | instructions of an update, bare loop | harness ÷ bare loop |\n| --- | --- | --- |")
    for cell in sys.argv[1:] or CELLS:
        row = measure(cell)
        rows.append(row)
        bare = sorted(row["instructions"]["bare"])[ROUNDS // 2]
        print(f"| {cell} | {bare / 1e6:.0f} million | {text(row['harness/bare'])} |", flush=True)
        save("overhead", rows, ("workload", "batch", "precision"))


if __name__ == "__main__":
    main()
