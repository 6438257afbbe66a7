"""autotrain.find on the peers' eager loop, in their process and under their limit; then, in a process of its own under the same limit,
50 updates at the size found and one validation pass."""
import subprocess
import sys
from pathlib import Path

from search_common import *

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/python"))
import autotrain  # noqa: E402
from autotrain import library  # noqa: E402


class Loop:
    """The step and the batches that the peers' loops make."""

    def __init__(self, options):
        self.work = Workload(options.workload, options.device)
        self.model = self.work.model()
        self.optimizer = self.work.optimizer(self.model)
        self.counter = Counter()
        warm_pools()
        torch.manual_seed(7)
        __import__("torch._dynamo")  # code, which AdamW's first update loads

    def batch(self, samples):
        return next(iter(self.work.loader(samples, "dl0")))

    def step(self, batch, weight):
        inputs, targets = batch
        self.counter.start(len(inputs))
        (self.work.loss(self.model(inputs), targets) * weight).backward()

    def evaluate(self, batch):
        self.model.eval()
        with torch.no_grad():
            self.work.loss(self.model(batch[0]), batch[1])
        self.model.train()


def limited(options):
    """@return the loop, its state, and our budget: what the process has here is in the peers' budget not, and weights count in ours."""
    loop = Loop(options)
    library.load()
    before = snapshot(loop.model, loop.optimizer)
    gc.collect()
    set_limit(options.budget_mib << 20, options.limit, options.device)
    return loop, before, (options.budget_mib << 20) + sum(tensor.nbytes for tensor in before["model"].values())


def search(options):
    loop, before, budget = limited(options)
    meter, error, plan = Meter(), None, None
    try:
        plan = autotrain.find(loop.step, loop.batch, model=loop.model, optimizer=loop.optimizer, effective=1 << 14, budget=budget,
                              evaluate=loop.evaluate)
    except Exception as caught:
        error = f"{type(caught).__name__}: {str(caught)[:300]}"
    result = {"peer": "find", "workload": options.workload, "budget_mib": options.budget_mib, "error": error,
              **{key: round(value, 2) for key, value in meter.read().items()}, **loop.counter.out(), "load1": load1()}
    if plan is None:
        return result
    return result | {"chosen": plan.micro_batch, "fill": plan.fill, "trials": len(plan.trail), "state": same(before, snapshot(loop.model, loop.optimizer)),
                     "params_with_grad_after": sum(p.grad is not None for p in loop.model.parameters())}


def survival(options):
    loop, _, budget = limited(options)
    held = autotrain.hold(budget, model=loop.model, optimizer=loop.optimizer)
    return survive(loop.work, loop.model, loop.optimizer, options.start, options.after_steps) | {"fill": held.peak_bytes / held.budget_bytes}


def main():
    options = args()
    if options.mode == "survive":
        print(json.dumps(survival(options)))
        return
    result = search(options)
    if result.get("chosen"):
        child = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--mode", "survive", "--start", str(result["chosen"])],
                               capture_output=True, text=True)
        said = child.stdout.strip().splitlines()
        result["survival"] = json.loads(said[-1]) if said else {"ok": False, "error": child.stderr.strip()[-160:]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
