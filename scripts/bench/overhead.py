#!/usr/bin/env python3
"""Instructions that an update takes in the harness and in a bare LibTorch loop over the same kernels, on one thread,
counted by valgrind: a count that no other process disturbs, where clocks spread by more than the harness takes. Of
each side two runs of different lengths are counted, and their difference divided by the updates between them. What
runs by the second (telemetry) counts many times over here, since valgrind makes a second hold few instructions.

    scripts/bench/overhead.py [mlp:64:fp32 gpt:16:fp32 …]
"""
import os
import re
import shutil
import subprocess
import sys

from measure import BENCH, need_programs, save

CELLS = ["mlp:64:fp32", "mlp:256:fp32", "cnn:64:fp32", "resnet:8:fp32", "gpt:16:fp32", "lstm:64:fp32"]
SHORT, LONG = 2, 8  # updates


def instructions(workload, batch, precision, side, updates):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(BENCH), "turns", "--workload", workload,
               "--batch", batch, "--precision", precision, "--unit", "updates"]
    out = subprocess.run(command, input=f"{side} {updates}\n", capture_output=True, text=True, check=True,
                         env={**os.environ, "OMP_NUM_THREADS": "1"})
    return int(re.search(r"Collected : (\d+)", out.stderr).group(1))


def measure(cell):
    workload, batch, precision = cell.split(":")
    each = {}
    for side in ("harness", "bare"):
        short, long = (instructions(workload, batch, precision, side, updates) for updates in (SHORT, LONG))
        each[side] = (long - short) / (LONG - SHORT)
    return {"workload": workload, "batch": int(batch), "precision": precision, "instructions": each,
            "harness/bare": round(each["harness"] / each["bare"], 4)}


def main():
    need_programs()
    if not shutil.which("valgrind"):
        sys.exit("install Debian's package valgrind first")
    rows = []
    print("| cell | instructions of an update, bare loop | harness | harness ÷ bare loop |\n| --- | --- | --- | --- |")
    for cell in sys.argv[1:] or CELLS:
        row = measure(cell)
        rows.append(row)
        millions = {side: f"{count / 1e6:.1f} million" for side, count in row["instructions"].items()}
        print(f"| {cell} | {millions['bare']} | {millions['harness']} | {row['harness/bare']:.4f} |", flush=True)
        save("overhead", rows, ("workload", "batch", "precision"))


if __name__ == "__main__":
    main()
