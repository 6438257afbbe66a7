#!/usr/bin/env python3
"""samples/s of three loops in turns: the harness, a bare LibTorch loop over the same kernels in the same process
(the harness's overhead), and the hand-written PyTorch loop with preloaded data and the fused optimizer, its best
setting. Prints a table of ratios: median [least, largest] over the rounds.

    scripts/bench/throughput.py [mlp:64:fp32 gpt:256:bf16 …]
"""
import sys

from measure import BENCH, HERE, PEERS_PYTHON, Worker, need_programs, ratio, save, take_turns, text

CELLS = [f"{workload}:{batch}:{precision}" for workload in ("mlp", "resnet", "gpt") for batch in (64, 256, 1024)
         for precision in ("fp32", "bf16")]


def plan_of(workload, batch):
    """Rounds, and seconds of a segment. An update of the large cells takes some twenty seconds."""
    if workload == "mlp":
        return 9, 1.5
    return {64: (5, 3), 256: (3, 3), 1024: (2, 1)}[batch]


def measure(cell):
    workload, batch, precision = cell.split(":")
    arguments = ["--workload", workload, "--batch", batch, "--precision", precision]
    harness = Worker([BENCH, "turns", *arguments])
    python = Worker([PEERS_PYTHON, HERE / "peers/turns.py", *arguments])
    rounds, seconds = plan_of(workload, int(batch))
    rates = take_turns({"harness": (harness, "harness"), "bare": (harness, "bare"), "python": (python, "pre")},
                       rounds, seconds)
    harness.close()
    python.close()
    return {"workload": workload, "batch": int(batch), "precision": precision, "rounds": rounds, "rates": rates,
            "harness/bare": ratio(rates["harness"], rates["bare"]),
            "harness/python": ratio(rates["harness"], rates["python"])}


def main():
    need_programs()
    rows = []
    print("| cell | harness samples/s | ÷ bare LibTorch loop | ÷ PyTorch loop |\n| --- | --- | --- | --- |")
    for cell in sys.argv[1:] or CELLS:
        row = measure(cell)
        rows.append(row)
        rates = sorted(row["rates"]["harness"])
        print(f"| {cell} | {rates[len(rates) // 2]:.0f} | {text(row['harness/bare'])} | {text(row['harness/python'])} |",
              flush=True)
        save("throughput", rows, ("workload", "batch", "precision"))


if __name__ == "__main__":
    main()
