#!/usr/bin/env python3
"""autotrain.find on eager modules beside the program's own search on their export; and what the allocator costs an eager loop.

    find.py [--models mlp resnet gpt] [--budgets 256 512] [--rounds 3] [--python PYTHON]

Both searches have the same budget, which weights count in. The loops with the allocator and without take turns, each in a process of its
own. What peers find on the same modules is measured by search.py. Writes results/find.KIND.json."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import HERE, RESULTS, ROOT, kind, machine

sys.path[:0] = [str(HERE / "peers"), str(ROOT / "scripts" / "python")]
EFFECTIVE = 1 << 14
BUDGETS = {"mlp": (256, 512), "resnet": (512, 1024), "gpt": (512, 1024)}  # MiB, as search.py's
SAMPLES = {"mlp": 1024, "resnet": 32, "gpt": 32}  # of a batch of the eager loops
SETTINGS = {"loss": {"name": "cross_entropy"}, "optimizer": {"name": "adamw", "lr": 0.001}, "batch": {"effective": EFFECTIVE},
            "stop": {"updates": 1}}
NOTHING = {"size": 0, "seconds": 0.0, "trials": 0, "fill": 0.0}  # not even one sample fits


class Loop:
    def __init__(self, name):
        import torch
        from workloads import Workload
        self.torch, self.work = torch, Workload(name)
        self.model = self.work.model()
        self.optimizer = self.work.optimizer(self.model)

    def batch(self, samples):
        return next(iter(self.work.loader(samples)))

    def step(self, batch, weight):
        (self.work.loss(self.model(batch[0]), batch[1]) * weight).backward()

    def evaluate(self, batch):
        self.model.eval()
        with self.torch.no_grad():
            self.work.loss(self.model(batch[0]), batch[1])
        self.model.train()

    def update(self, samples):
        self.optimizer.zero_grad()
        self.step(self.batch(samples), 1)
        self.optimizer.step()


def find(loop, budget):
    import autotrain
    start = time.perf_counter()
    try:
        plan = autotrain.find(loop.step, loop.batch, model=loop.model, optimizer=loop.optimizer, effective=EFFECTIVE,
                              budget=f"{budget}MiB", evaluate=loop.evaluate)
    except autotrain.DoesNotFit:
        return NOTHING
    return {"size": plan.micro_batch, "seconds": time.perf_counter() - start, "trials": len(plan.trail), "fill": plan.fill}


def search_of_program(loop, budget):
    from autotrain import DoesNotFit, data, program
    from autotrain_export import export
    inputs, targets = loop.batch(EFFECTIVE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arrays = data.write("train", (inputs, targets), folder)
        written = data.section_of("train", arrays, folder)
        module = folder / "module.autotrain"
        export(loop.model, data.example_of(arrays), str(module), precisions=("fp32",))
        recipe = {**SETTINGS, "name": "twin", "data": {"train": written, "validation": written},
                  "model": {"name": "exported", "file": str(module)},
                  "execution": {"device": "cpu", "precision": "fp32", "memory": {"budget": f"{budget}MiB"}}}
        (folder / "recipe.json").write_text(json.dumps(recipe))
        try:
            plan = json.loads(program.call("plan", "--config", folder / "recipe.json", "--fresh-plan", "--json"))
        except DoesNotFit:
            return NOTHING
    return {"size": plan["micro_batch"], "seconds": plan["search"]["seconds"], "trials": len(plan["search"]["probes"]), "fill": plan["fill"]}


def rate(loop, allocator, samples, seconds=6):
    """Samples a CPU second of an ordinary loop."""
    if allocator:
        from autotrain import library
        library.install("auto")
    for _ in range(3):
        loop.update(samples)
    start, made = time.process_time(), 0
    while time.process_time() - start < seconds:
        loop.update(samples)
        made += samples
    return made / (time.process_time() - start)


def worker(request):
    loop = Loop(request["model"])
    if request["what"] == "find":
        return find(loop, request["budget"])
    if request["what"] == "program":
        return search_of_program(loop, request["budget"])
    return rate(loop, request["what"] == "allocator", SAMPLES[request["model"]])


def ask(python, **request):
    child = subprocess.run([python, __file__, "--worker", json.dumps(request)], capture_output=True, text=True)
    lines = child.stdout.strip().splitlines()
    if child.returncode != 0 or not lines:
        raise SystemExit(f"{request}: ended with {child.returncode}\n{child.stderr[-2000:]}")
    return json.loads(lines[-1])


def searches(python, model, budget, rounds):
    row = {"model": model, "budget_mib": budget, "find": [], "program": []}
    for number in range(rounds):
        for what in ("find", "program") if number % 2 == 0 else ("program", "find"):
            row[what].append(ask(python, what=what, model=model, budget=budget))
    words = [f"{what}: {[each['size'] for each in row[what]]} at {row[what][0]['fill']:.2f} in "
             f"{statistics.median(each['seconds'] for each in row[what]):.1f} s" for what in ("find", "program")]
    print(f"{model:7} {budget:5} MiB  " + "  ".join(words), flush=True)
    return row


def overhead(python, model, rounds):
    rates = {"plain": [], "allocator": []}
    for number in range(2 * rounds):
        for what in ("plain", "allocator") if number % 2 == 0 else ("allocator", "plain"):
            rates[what].append(ask(python, what=what, model=model))
    ratios = [with_it / without for with_it, without in zip(rates["allocator"], rates["plain"])]
    print(f"{model:7} samples a CPU second with the allocator, of those without: {statistics.median(ratios):.2f} "
          f"[{min(ratios):.2f}, {max(ratios):.2f}]", flush=True)
    return {"model": model, "samples": SAMPLES[model], **rates, "ratios": ratios}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(SAMPLES))
    parser.add_argument("--budgets", nargs="+", type=int, help="MiB, instead of each model's two")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(worker(json.loads(options.worker))))
        return
    rows = [searches(options.python, model, budget, options.rounds) for model in options.models
            for budget in options.budgets or BUDGETS[model]]
    costs = [overhead(options.python, model, options.rounds) for model in options.models]
    (RESULTS / f"find.{kind()}.json").write_text(json.dumps({"machine": machine(), "searches": rows, "allocator": costs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
