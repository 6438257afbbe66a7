#!/usr/bin/env python3
"""What execution.memory_format: auto rests on: samples/s of the shipped models with convolutions in both formats, in
turns. Prints channels last ÷ contiguous: median [least, largest] over the rounds.

    scripts/bench/memory_format.py [cnn:512:fp32 resnet:32:bf16 …]
"""
import sys

from measure import BENCH, Worker, need_programs, ratio, save, take_turns, text

CELLS = ["cnn:64:fp32", "cnn:512:fp32", "resnet:32:fp32", "resnet50:8:fp32", "detector:64:fp32", "cnn:512:bf16",
         "resnet:32:bf16"]
FORMATS = ("contiguous", "channels_last")


def measure(cell):
    workload, batch, precision = cell.split(":")
    workers = {each: Worker([BENCH, "turns", "--workload", workload, "--batch", batch, "--precision", precision,
                             "--memory-format", each, "--output", f"/tmp/autotrain-{each}"]) for each in FORMATS}
    rates = take_turns({each: (worker, "harness") for each, worker in workers.items()}, 5, 3)
    for worker in workers.values():
        worker.close()
    return {"cell": cell, "rates": rates, "gain": ratio(rates["channels_last"], rates["contiguous"])}


def main():
    need_programs()
    rows = []
    print("| model, batch, precision | contiguous samples/s | channels last ÷ contiguous |\n| --- | --- | --- |")
    for cell in sys.argv[1:] or CELLS:
        rows.append(measure(cell))
        rates = sorted(rows[-1]["rates"]["contiguous"])
        print(f"| {cell} | {rates[len(rates) // 2]:.0f} | {text(rows[-1]['gain'])} |", flush=True)
        save("memory_format", rows, ("cell",))


if __name__ == "__main__":
    main()
