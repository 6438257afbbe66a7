#!/usr/bin/env python3
"""samples/s of three loops in turns: the harness, a bare LibTorch loop over the same kernels in the same process
(the harness's overhead), and the hand-written PyTorch loop with preloaded data and the fused optimizer, its best
setting, for images in both layouts. Prints a table of ratios: median [least, largest] over the rounds.

    scripts/bench/throughput.py [mlp:64:fp32 gpt:256:bf16 …]
"""

from measure import BENCH, HERE, PEERS_PYTHON, Worker, measure_cells, middle, ratio, take_turns, text

CELLS = [f"{workload}:{batch}:{precision}" for workload in ("mlp", "cnn", "resnet", "gpt") for batch in (64, 256, 1024)
         for precision in ("fp32", "bf16")]
IMAGES = ("cnn", "resnet")


def best_of(rates):
    """Of each round the better of PyTorch's layouts."""
    return [max(pair) for pair in zip(rates["python"], rates.get("python channels last", rates["python"]))]


def plan_of(workload, batch):
    """Rounds, and seconds of a segment. An update of the large cells takes some twenty seconds."""
    if workload in ("mlp", "cnn"):
        return 9, 1.5
    return {64: (5, 3), 256: (3, 3), 1024: (2, 1)}[batch]


def measure(cell):
    workload, batch, precision = cell.split(":")
    arguments = ["--workload", workload, "--batch", batch, "--precision", precision]
    harness = Worker([BENCH, "turns", *arguments])
    python = Worker([PEERS_PYTHON, HERE / "peers/turns.py", *arguments])
    rounds, seconds = plan_of(workload, int(batch))
    sides = {"harness": (harness, "harness"), "bare": (harness, "bare"), "python": (python, "pre")}
    if workload in IMAGES:
        sides["python channels last"] = (python, "pre_last")
    rates = take_turns(sides, rounds, seconds)
    harness.close()
    python.close()
    return {"workload": workload, "batch": int(batch), "precision": precision, "rounds": rounds, "rates": rates,
            "harness/bare": ratio(rates["harness"], rates["bare"]),
            "harness/python": ratio(rates["harness"], best_of(rates))}


def main():
    measure_cells("throughput", ("workload", "batch", "precision"), CELLS,
                  ("cell", "harness samples/s", "÷ bare LibTorch loop", "÷ PyTorch loop"), measure,
                  lambda row: (middle(row["rates"]["harness"]), text(row["harness/bare"]), text(row["harness/python"])))


if __name__ == "__main__":
    main()
