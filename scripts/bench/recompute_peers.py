#!/usr/bin/env python3
"""What PyTorch's own ways to compute activations again gain and cost, on the modules of recompute.py, run eagerly: blocks in
torch.utils.checkpoint, and with --compiled the compiler's activation_memory_budget.

    scripts/bench/recompute_peers.py [--rounds 3] [--compiled] [resnet:512MiB gpt:256MiB …]

The largest micro-batch within each budget is found by autotrain.find, and updates of the plain module's size are timed in turns, each
in a process of its own. Writes results/recompute_peers.KIND.json."""
import argparse
import json
import statistics
import subprocess
import sys

from find import Loop, find, rate
from measure import PEERS_PYTHON, ratio, save, text

CELLS = ("resnet:512MiB", "resnet:1GiB", "gpt:256MiB", "gpt:512MiB")
MIB = {"MiB": 1, "GiB": 1024}


def change(loop, way):
    import torch
    from torch.utils.checkpoint import checkpoint
    if way == "checkpoint":
        class Checkpointed(torch.nn.Module):
            def __init__(self, block):
                super().__init__()
                self.block = block

            def forward(self, x):
                return checkpoint(self.block, x, use_reentrant=False)

        for number, block in enumerate(loop.model.blocks):
            loop.model.blocks[number] = Checkpointed(block)
    elif way.startswith("compiled"):
        torch._functorch.config.activation_memory_budget = float(way.split()[1])
        loop.model = torch.compile(loop.model, dynamic=True)


def worker(request):
    loop = Loop(request["model"])
    change(loop, request["way"])
    if request["what"] == "find":
        return find(loop, request["budget"])
    return rate(loop, True, request["samples"])


def ask(**request):
    child = subprocess.run([PEERS_PYTHON, "-W", "ignore", __file__, "--worker", json.dumps(request)], capture_output=True, text=True)
    lines = child.stdout.strip().splitlines()
    if child.returncode != 0 or not lines:
        raise SystemExit(f"{request}: ended with {child.returncode}\n{child.stderr[-2000:]}")
    return json.loads(lines[-1])


def measure(model, budget, ways, rounds):
    mebibytes = int(budget[:-3]) * MIB[budget[-3:]]
    found = {way: ask(what="find", model=model, way=way, budget=mebibytes) for way in ways}
    plain = found[ways[0]]["size"]
    rates = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            rates[way].append(ask(what="rate", model=model, way=way, samples=plain))
    return [{"model": model, "budget": budget, "way": way, "plain": plain, "size": found[way]["size"], "larger": found[way]["size"] / plain,
             "time": ratio(rates[ways[0]], rates[way]), "rate": statistics.median(rates[way])} for way in ways[1:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(worker(json.loads(arguments.worker))))
        return
    ways = ["eager", "checkpoint", *(("compiled 1", "compiled 0.5") if arguments.compiled else ())]
    rows = []
    print("| model | budget | way | micro-batch, eager | micro-batch | larger | time of an update |\n| --- | --- | --- | --- | --- | --- | --- |")
    for cell in arguments.cells:
        for row in measure(*cell.split(":"), ways, arguments.rounds):
            rows.append(row)
            print(f"| {row['model']} | {row['budget']} | {row['way']} | {row['plain']} | {row['size']} | {row['larger']:.2f} × | {text(row['time'])} |", flush=True)
            save("recompute_peers", rows, ("model", "budget", "way"))


if __name__ == "__main__":
    main()
