#!/usr/bin/env python3
"""Our search, in C++ and by autotrain.find on the peers' loop, beside Lightning's BatchSizeFinder (both modes) and Accelerate's
find_executable_batch_size, each in a fresh process under RLIMIT_DATA = what it has when idle + the budget; then 50 updates and an
evaluation at the size found. In turns, so that a slow minute hits all. Needs .deps/peers (see README.md); without the benchmarks'
program the search in C++ is left out.

    scripts/bench/search.py [REPEATS [mlp:256 gpt:512 …]]
"""
import json
import statistics
import subprocess
import sys

from measure import BENCH, HERE, PEERS_PYTHON, save

CELLS = [("mlp", 256), ("mlp", 512), ("resnet", 512), ("resnet", 2048), ("gpt", 512), ("gpt", 2048)]
SIDES = {
    "autotrain": [str(BENCH), "search_step"],
    "autotrain.find": [PEERS_PYTHON, "search_find.py"],
    "lightning power": [PEERS_PYTHON, "search_lightning.py", "--mode", "power"],
    "lightning binsearch": [PEERS_PYTHON, "search_lightning.py", "--mode", "binsearch"],
    "accelerate": [PEERS_PYTHON, "search_accelerate.py", "--mode", "accelerate"],
}


def run(side, workload, budget):
    command = [*SIDES[side], "--workload", workload, "--budget-mib", str(budget)]
    try:
        out = subprocess.run(command, cwd=HERE / "peers", capture_output=True, text=True, timeout=420)
    except subprocess.TimeoutExpired:
        return {"error": "took more than 420 s"}
    try:
        return json.loads(out.stdout.strip().splitlines()[-1])
    except (json.JSONDecodeError, IndexError):
        return {"error": f"ended with {out.returncode}: {out.stderr.strip()[-160:]}"}


def left_a_trace(result):
    if "no_trace" in result:
        return not result["no_trace"]
    state = result.get("state")
    if not state:
        return None
    same = all(state[key] for key in ("model_same", "opt_same", "torch_rng_same"))
    return not same or bool(result.get("params_with_grad_after"))


def row_of(side, workload, budget, results):
    survived = [bool((r.get("survival") or {}).get("ok")) for r in results]
    found = [r for r in results if r.get("chosen") and not r.get("error")]
    # An error after the search still has a size and a time; one inside it has neither.
    searched = [r for r in results if r.get("chosen") and "wall_s" in r]
    traces = {left_a_trace(r) for r in searched} - {None}
    return {"side": side, "workload": workload, "budget_mib": budget, "runs": len(results), "found": len(searched),
            "survived": sum(survived), "sizes": [r.get("chosen") for r in results],
            "seconds": [round(r["wall_s"], 2) for r in searched], "trials": [r["trials"] for r in searched],
            "samples": [r["samples"] for r in searched], "trace": sorted(traces), "clean": len(found),
            "errors": sorted({str(r.get("error"))[:120] for r in results if r.get("error")})}


def show(row):
    seconds = f"{statistics.median(row['seconds']):.1f}" if row["seconds"] else "-"
    trials = f"{statistics.median(row['trials']):g}" if row["trials"] else "-"
    samples = f"{statistics.median(row['samples']):g}" if row["samples"] else "-"
    trace = {(): "-", (True,): "yes", (False,): "no"}.get(tuple(row["trace"]), "sometimes")
    print(f"| {row['workload']} {row['budget_mib']} MiB | {row['side']} | {row['sizes']} | {trials} | {samples} | "
          f"{seconds} | {row['survived']} of {row['runs']} | {trace} |", flush=True)


def main():
    if not BENCH.exists():
        del SIDES["autotrain"]
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    cells = [(cell.split(":")[0], int(cell.split(":")[1])) for cell in sys.argv[2:]] or CELLS
    rows = []
    print("| workload, budget | search | sizes | trials | samples | seconds | survived | trace |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")
    for workload, budget in cells:
        results = {side: [] for side in SIDES}
        for number in range(repeats):
            for side in list(SIDES) if number % 2 == 0 else list(SIDES)[::-1]:
                results[side].append(run(side, workload, budget))
        for side in SIDES:
            rows.append(row_of(side, workload, budget, results[side]))
            show(rows[-1])
            save("search", rows, ("side", "workload", "budget_mib"))


if __name__ == "__main__":
    main()
