#!/usr/bin/env python3
"""Seconds from starting the process to the first update of the 8 × 1024 MLP at micro-batch 64, in turns: autotrain
with the size typed (one confirming trial), autotrain searching it, the hand-written PyTorch loop, Lightning.

    scripts/bench/startup.py [ROUNDS]
"""
import statistics
import subprocess
import sys
import time

from measure import BENCH, HERE, PEERS_PYTHON, ROOT, need_programs, ratio, save, text

TORCH = ("from workloads import *; torch.set_num_threads(2); w=Workload('mlp'); m=w.model(); o=w.optimizer(m); "
         "x,y=next(iter(w.loader(64))); w.loss(m(x),y).backward(); o.step()")
LIGHTNING = ("import lightning.pytorch as pl; from workloads import *; torch.set_num_threads(2); w=Workload('mlp')\n"
             "class M(pl.LightningModule):\n"
             "    def __init__(s): super().__init__(); s.net = w.model()\n"
             "    def training_step(s, b, i): return w.loss(s.net(b[0]), b[1])\n"
             "    def configure_optimizers(s): return w.optimizer(s.net)\n"
             "pl.Trainer(accelerator='cpu', devices=1, max_steps=1, logger=False, enable_checkpointing=False,\n"
             "           enable_progress_bar=False, enable_model_summary=False).fit(M(), w.loader(64))")
SIDES = {
    "autotrain, size typed": ([str(BENCH), "first_update"], ROOT),
    "autotrain, size searched": ([str(BENCH), "first_update", "--micro-batch", "null"], ROOT),
    "PyTorch loop": ([PEERS_PYTHON, "-c", TORCH], HERE / "peers"),
    "Lightning": ([PEERS_PYTHON, "-c", LIGHTNING], HERE / "peers"),
}


def seconds_of(side):
    command, folder = SIDES[side]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main():
    need_programs()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    for side in SIDES:
        seconds_of(side)  # fills the page cache
    times = {side: [] for side in SIDES}
    for number in range(rounds):
        for side in list(SIDES) if number % 2 == 0 else list(SIDES)[::-1]:
            times[side].append(seconds_of(side))
    rows = []
    print("| to the first update | seconds | PyTorch loop ÷ it |\n| --- | --- | --- |")
    for side, seconds in times.items():
        gain = ratio(times["PyTorch loop"], seconds)
        rows.append({"side": side, "seconds": seconds, "python/it": gain})
        print(f"| {side} | {statistics.median(seconds):.2f} [{min(seconds):.2f}, {max(seconds):.2f}] | {text(gain)} |")
    save("startup", rows, ("side",))


if __name__ == "__main__":
    main()
