#!/usr/bin/env python3
"""The micro-batch of an eager loop: autotrain.find beside Accelerate's finder, what of it survives, and what the allocator costs.

    find.py [--models mlp resnet18 gpt] [--budgets 256 512] [--updates 50] [--python PYTHON]

Every search and every training runs in a process of its own. What find returns is trained under autotrain.hold; what Accelerate's
finder returns under RLIMIT_DATA of what the process had before, and the budget, under which it was found. Accelerate is left out where
PYTHON does not have it. Writes results/find.KIND.json and prints the tables."""
import argparse
import json
import resource
import subprocess
import sys
import time

from measure import RESULTS, ROOT, kind, machine

sys.path.insert(0, str(ROOT / "scripts" / "python"))
MIB = 1 << 20
EFFECTIVE = 1 << 14
START = 8192  # where Accelerate's finder begins


class Work:
    """A model with its batches and one pass over them."""

    def __init__(self, name):
        import torch
        torch.manual_seed(0)
        self.torch, self.name = torch, name
        self.model = {"mlp": mlp, "resnet18": resnet18, "gpt": gpt}[name](torch)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def batch(self, samples):
        torch = self.torch
        if self.name == "gpt":
            tokens = torch.randint(0, 256, (samples, 129))
            return tokens[:, :-1], tokens[:, 1:].reshape(-1)
        shape = (784,) if self.name == "mlp" else (3, 32, 32)
        return torch.randn(samples, *shape), torch.randint(0, 10, (samples,))

    def loss(self, batch):
        return self.torch.nn.functional.cross_entropy(self.model(batch[0]).flatten(0, -2), batch[1])

    def step(self, batch, weight):
        (self.loss(batch) * weight).backward()

    def evaluate(self, batch):
        self.model.eval()
        with self.torch.no_grad():
            self.loss(batch)
        self.model.train()

    def update(self, samples, passes=2):
        self.optimizer.zero_grad()
        for _ in range(passes):
            self.step(self.batch(samples), 1 / passes)
        self.optimizer.step()


def mlp(torch):
    layers = [torch.nn.Linear(784, 1024), torch.nn.ReLU()]
    for _ in range(7):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10))


def resnet18(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            self.main = nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                      nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
            same = before == width and stride == 1
            self.short = nn.Identity() if same else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, inputs):
            return torch.relu(self.main(inputs) + self.short(inputs))
    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(before, width, stride), Block(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def gpt(torch):
    nn = torch.nn

    class Tokens(nn.Module):
        def __init__(self, words=256, width=256, context=128):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(context, width))
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            self.layers, self.head = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(width, words)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))

        def forward(self, tokens):
            return self.head(self.layers(self.words(tokens) + self.places, mask=self.mask, is_causal=True))
    return Tokens()


def limit_data(budget):
    """Accelerate's finder has no budget: the system refuses instead."""
    with open("/proc/self/status", encoding="utf-8") as status:
        data = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (data + budget * MIB, resource.RLIM_INFINITY))


def warm(work):
    """Code and threads that belong to no budget, as find has them before its baseline. The optimizer's state stays empty."""
    work.evaluate(work.batch(2))
    __import__("importlib").import_module("torch._dynamo")


def search_ours(work, budget):
    import autotrain
    start = time.perf_counter()
    plan = autotrain.find(work.step, work.batch, model=work.model, optimizer=work.optimizer, effective=EFFECTIVE, budget=f"{budget}MiB",
                          evaluate=work.evaluate)
    return {"size": plan.micro_batch, "seconds": time.perf_counter() - start, "trials": len(plan.trail), "fill": plan.fill}


def search_accelerate(work, budget):
    from accelerate.utils import find_executable_batch_size
    warm(work)
    limit_data(budget)
    tried = []

    def attempt(batch_size):
        tried.append(batch_size)
        for _ in range(3):
            work.update(batch_size)
        return batch_size
    start = time.perf_counter()
    size = find_executable_batch_size(attempt, starting_batch_size=START)()
    return {"size": size, "seconds": time.perf_counter() - start, "trials": len(tried)}


def survive(work, budget, how, size, updates):
    import autotrain
    if how == "find":
        held = autotrain.hold(f"{budget}MiB", model=work.model, optimizer=work.optimizer)
    else:
        warm(work)
        limit_data(budget)
    made = 0
    try:
        for made in range(updates):
            work.update(size)
        work.evaluate(work.batch(size))
        return {"survives": True, "fill": held.peak_bytes / held.budget_bytes if how == "find" else None}
    except (RuntimeError, MemoryError) as error:
        return {"survives": False, "update": made, "said": str(error).split("\n")[0][:160]}


def eager(work, allocator, samples, seconds=8):
    """Samples a CPU second of an ordinary loop."""
    if allocator:
        from autotrain import library
        library.install("auto")
    for _ in range(3):
        work.update(samples, passes=1)
    start, made = time.process_time(), 0
    while time.process_time() - start < seconds:
        work.update(samples, passes=1)
        made += samples
    return {"samples_per_cpu_second": made / (time.process_time() - start)}


def worker(request):
    work = Work(request["model"])
    what = request["what"]
    if what == "find":
        return search_ours(work, request["budget"])
    if what == "accelerate":
        return search_accelerate(work, request["budget"])
    if what == "survive":
        return survive(work, request["budget"], request["how"], request["size"], request["updates"])
    return eager(work, request["allocator"], request["samples"])


def ask(python, **request):
    child = subprocess.run([python, __file__, "--worker", json.dumps(request)], capture_output=True, text=True)
    lines = child.stdout.strip().splitlines()
    if child.returncode != 0 or not lines:
        said = child.stderr.strip().splitlines()
        return {"failed": said[-1][:160] if said else f"ended with {child.returncode}"}
    return json.loads(lines[-1])


def row_of(python, how, model, budget, updates):
    found = ask(python, what=how, model=model, budget=budget)
    if "size" in found:
        found["afterwards"] = ask(python, what="survive", model=model, budget=budget, how=how, size=found["size"], updates=updates)
    row = {"how": how, "model": model, "budget_mib": budget, **found}
    after = found.get("afterwards", {})
    outcome = found.get("failed") or ("survives" if after.get("survives") else f"dies: {after}")
    print(f"{model:9} {budget:5} MiB  {how:10} {found.get('size', '-'):>6}  {found.get('seconds', 0):6.1f} s  {outcome}", flush=True)
    return row


def overhead(python, model, samples):
    """The two take turns, in both orders."""
    rates = {False: [], True: []}
    for allocator in (False, True, True, False):
        rates[allocator].append(ask(python, what="eager", model=model, allocator=allocator, samples=samples)["samples_per_cpu_second"])
    ratio = sum(rates[True]) / sum(rates[False])
    print(f"{model:9} eager loop at {samples}: {ratio:.2f} times the samples a CPU second with the allocator", flush=True)
    return {"model": model, "samples": samples, "plain": rates[False], "allocator": rates[True], "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["mlp", "resnet18", "gpt"])
    parser.add_argument("--budgets", nargs="+", type=int, default=[256, 512])
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(worker(json.loads(options.worker))))
        return
    hows = ["find"]
    if subprocess.run([options.python, "-c", "import accelerate"], capture_output=True).returncode == 0:
        hows.append("accelerate")
    rows = [row_of(options.python, how, model, budget, options.updates)
            for model in options.models for budget in options.budgets for how in hows]
    costs = [overhead(options.python, model, {"mlp": 1024, "resnet18": 32, "gpt": 32}[model]) for model in options.models]
    result = {"machine": machine(), "updates": options.updates, "searches": rows, "allocator": costs}
    (RESULTS / f"find.{kind()}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
