#!/usr/bin/env python3
"""How long an update of each optimizer takes beside one of AdamW, by LibTorch's fused kernel, on the parameters of a model with
random gradients, on all cores. In turns; prints ratios of time: median [least, largest] over the rounds.

    scripts/bench/optimizers.py [resnet gpt]
"""
from measure import BENCH, Worker, measure_cells, ratio, text

CELLS = ["resnet", "gpt"]
BASE, OTHERS = "adamw", ("sgd", "adam", "nadamw", "lion", "lars", "lamb")
ROUNDS, SECONDS = 7, 0.5


def measure(workload):
    worker = Worker([BENCH, "optimizer_turns", "--workload", workload])
    names, rates = (BASE, *OTHERS), {name: [] for name in (BASE, *OTHERS)}
    for name in names:
        weights = worker.ask(name, 0.05)["weights"]
    for number in range(ROUNDS):
        for name in names if number % 2 == 0 else names[::-1]:
            rates[name].append(worker.ask(name, SECONDS)["updates_per_second"])
    worker.close()
    return {"workload": workload, "weights": weights, "updates_per_second": rates,
            "time": {name: ratio(rates[BASE], rates[name]) for name in OTHERS}}


def main():
    measure_cells("optimizers", ("workload",), CELLS, ("model", "weights", "adamw ms", *(f"{name} ÷ adamw" for name in OTHERS)), measure,
                  lambda row: (f"{row['weights']:,}", f"{1e3 / sorted(row['updates_per_second'][BASE])[ROUNDS // 2]:.1f}",
                               *(text(row["time"][name]) for name in OTHERS)))


if __name__ == "__main__":
    main()
