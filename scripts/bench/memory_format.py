#!/usr/bin/env python3
"""What execution.memory_format: auto rests on: samples/s of the shipped models with convolutions in both formats, in
turns. Prints channels last ÷ contiguous: median [least, largest] over the rounds.

    scripts/bench/memory_format.py [cnn:512:fp32 resnet:32:bf16 …]
"""

from measure import BENCH, Worker, measure_cells, middle, ratio, take_turns, text

CELLS = ["cnn:64:fp32", "cnn:512:fp32", "resnet:32:fp32", "resnet50:8:fp32", "detector:64:fp32", "cnn:512:bf16",
         "resnet:32:bf16"]
FORMATS = ("contiguous", "channels_last")


def measure(cell):
    workload, batch, precision = cell.split(":")
    workers = {each: Worker([BENCH, "turns", "--workload", workload, "--batch", batch, "--precision", precision,
                             "--memory-format", each]) for each in FORMATS}
    rates = take_turns({each: (worker, "harness") for each, worker in workers.items()}, 5, 3)
    for worker in workers.values():
        worker.close()
    return {"cell": cell, "rates": rates, "gain": ratio(rates["channels_last"], rates["contiguous"])}


def main():
    measure_cells("memory_format", ("cell",), CELLS,
                  ("model, batch, precision", "contiguous samples/s", "channels last ÷ contiguous"), measure,
                  lambda row: (middle(row["rates"]["contiguous"]), text(row["gain"])))


if __name__ == "__main__":
    main()
