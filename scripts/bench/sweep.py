#!/usr/bin/env python3
"""What a sweep measures beside an independent PyTorch script: the points of recipes/roofline_mlp.yaml, both sides in
turns. Prints a table of ratios of throughput: median [least, largest] over the rounds.

    scripts/bench/sweep.py [64:1:fp32 4096:512:bf16 …]      width:batch:precision
"""

from measure import BENCH, HERE, PEERS_PYTHON, Worker, measure_cells, middle, ratio, take_turns, text

CELLS = [f"{width}:{batch}:fp32" for width in (64, 256, 1024, 4096) for batch in (1, 32, 512)]
CELLS += ["1024:1:bf16", "1024:512:bf16"]
ROUNDS, SECONDS = 7, 1.0


def measure(cell):
    width, batch, precision = cell.split(":")
    arguments = ["--width", width, "--batch", batch, "--precision", precision]
    ours = Worker([BENCH, "sweep_turns", *arguments])
    python = Worker([PEERS_PYTHON, HERE / "peers/sweep_turns.py", *arguments])
    rates = take_turns({"sweep": (ours, "sweep"), "python": (python, "python")}, ROUNDS, SECONDS)
    ours.close()
    python.close()
    return {"width": int(width), "batch": int(batch), "precision": precision, "rounds": ROUNDS, "rates": rates,
            "sweep/python": ratio(rates["sweep"], rates["python"])}


def main():
    measure_cells("sweep", ("width", "batch", "precision"), CELLS,
                  ("width:batch:precision", "sweep samples/s", "÷ PyTorch script"), measure,
                  lambda row: (middle(row["rates"]["sweep"]), text(row["sweep/python"])))


if __name__ == "__main__":
    main()
