#!/usr/bin/env python3
"""The caching allocator against glibc's: samples/s of training steps in fresh processes in turns, what it reserves
for what it holds, and the largest micro-batch under RLIMIT_DATA.

    scripts/bench/allocator.py [speed [mlp:64:fp32 …] | largest [gpt:512 …]]
"""
import json
import subprocess
import sys

from measure import BENCH, need_programs, ratio, save, text

CELLS = [f"{workload}:{batch}:{precision}" for workload in ("mlp", "resnet", "gpt") for batch in (64, 256, 1024)
         for precision in ("fp32", "bf16")]
LIMITS = ["mlp:256", "resnet:512", "gpt:512"]  # MiB


def step(*options):
    out = subprocess.run([str(BENCH), "allocator_step", *map(str, options)], capture_output=True, text=True)
    try:
        return json.loads(out.stdout)
    except json.JSONDecodeError:  # killed by a signal inside a library: it did not fit
        return {"fits": False, "died": out.returncode}


def speed(cells):
    rows = []
    print("| cell | ours samples/s | ÷ glibc | reserved ÷ allocated | CPU time in the kernel: ours, glibc |\n"
          "| --- | --- | --- | --- | --- |")
    for cell in cells:
        workload, batch, precision = cell.split(":")
        rows.append(speed_of(workload, int(batch), precision))
        save("allocator_speed", rows, ("workload", "batch", "precision"))


def speed_of(workload, batch, precision):
    rounds = 1 if workload != "mlp" and batch == 1024 else 3  # those take a minute a segment
    rates, kernel, held = {"ours": [], "glibc": []}, {"ours": [], "glibc": []}, 0
    for number in range(rounds):
        for side in ("ours", "glibc") if number % 2 == 0 else ("glibc", "ours"):
            result = step("--allocator", side, "--workload", workload, "--batch", batch, "--precision", precision,
                          "--seconds", 2)
            rates[side].append(result["samples_per_second"])
            kernel[side].append(result["kernel_share"])
            if side == "ours":
                held = result["peak_reserved_mib"] / result["peak_allocated_mib"]
    row = {"workload": workload, "batch": batch, "precision": precision, "rates": rates,
           "ours/glibc": ratio(rates["ours"], rates["glibc"]), "reserved/allocated": round(held, 3),
           "kernel_share": {side: round(sorted(shares)[rounds // 2], 4) for side, shares in kernel.items()}}
    print(f"| {workload} {batch} {precision} | {sorted(rates['ours'])[rounds // 2]:.0f} | {text(row['ours/glibc'])} "
          f"| {held:.3f} | {row['kernel_share']['ours']:.1%}, {row['kernel_share']['glibc']:.1%} |", flush=True)
    return row


def largest(allocator, workload, budget):
    """By bisection to 2 %, a fresh process a size, three steps each. Also the MiB that tensors took there."""
    low, high, size, died, held = 0, None, 16, 0, 0
    while high is None or high - low > max(1, low // 50):
        result = step("--allocator", allocator, "--workload", workload, "--batch", size, "--steps", 4,
                      "--seconds", 1000, "--data-budget", budget)
        died += "died" in result
        if result["fits"]:
            low, held = size, result["peak_above_idle_mib"]
        else:
            high = size
        size = size * 2 if high is None else (low + high) // 2
    return low, died, held


def limits(cells):
    rows = []
    print("| workload, budget | ours | glibc | ratio | tensors of ours ÷ budget |\n| --- | --- | --- | --- | --- |")
    for cell in cells:
        workload, budget = cell.split(":")[0], int(cell.split(":")[1])
        ours, ours_died, held = largest("ours", workload, budget)
        glibc, glibc_died, _ = largest("glibc", workload, budget)
        rows.append({"workload": workload, "budget_mib": budget, "ours": ours, "glibc": glibc,
                     "ours_killed": ours_died, "glibc_killed": glibc_died, "tensors/budget": round(held / budget, 3)})
        print(f"| {workload} {budget} MiB | {ours} | {glibc} | {ours / glibc:.2f} | {held / budget:.3f} |", flush=True)
        save("allocator_largest", rows, ("workload", "budget_mib"))


def main():
    need_programs()
    what = sys.argv[1] if len(sys.argv) > 1 else "both"
    if what in ("both", "largest"):
        limits(sys.argv[2:] or LIMITS)
    if what in ("both", "speed"):
        speed(sys.argv[2:] or CELLS)


if __name__ == "__main__":
    main()
