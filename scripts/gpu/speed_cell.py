#!/usr/bin/env python3
"""One cell of the campaign's stage speed: the harness, on a GPU also with its updates as CUDA graphs, and a bare LibTorch
loop in turns with PyTorch loops. Prints one JSON line. A side that does not work is left out, with what it said."""
import argparse
import json

import place
from measure import Worker, ratio, take_turns

IMAGES = ("cnn", "resnet", "resnet50", "vit")
COMPILED = ("compiled", "compiled_overhead")


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("workload", "batch", "precision", "device"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--exported", metavar="FILE", help="the model as exported from PyTorch, a side more")
    parser.add_argument("--compiled", action="store_true", help="also sides through torch.compile")
    return parser.parse_args()


class Cell:
    def __init__(self, args):
        self.args = args
        self.words = [word for name in ("workload", "batch", "precision", "device")
                      for word in (f"--{name}", getattr(args, name))]
        self.on_gpu = args.device != "cpu"
        self.without = {}

    def start_harness(self, graphs, *more):
        return Worker([*place.program("autotrain_bench"), "turns", *self.words, "--cuda-graphs", graphs, *more])

    def start_python(self):
        return Worker([*place.peer("turns.py", "torch"), *self.words])

    def start_ours(self):
        """Our sides. All programs start at once, since a start takes seconds."""
        eager = self.start_harness("off")
        ours = {"harness": (eager, "harness"), "bare": (eager, "bare")}
        if self.on_gpu:
            ours["graphs"] = (self.start_harness("on"), "harness")
        if self.args.exported:
            ours["exported"] = (self.start_harness("off", "--from-pytorch", self.args.exported), "harness")
        return ours

    def works(self, worker, side, name=None):
        try:
            worker.ask(side, 0.1)
            return True
        except RuntimeError as error:
            self.without[name or side] = str(error)
            return False

    def working(self, sides):
        return {name: side for name, side in sides.items() if self.works(*side, name)}

    def flops_per_sample(self, python):
        try:
            return python.ask("flops", 0)["flops_per_sample"]
        except RuntimeError as error:
            self.without["flops"] = str(error)
            return None

    def eager(self):
        """Rates of our sides and of PyTorch's eager loop, and the operations of a sample, or None."""
        layouts = ["pre", "pre_last"] if self.args.workload in IMAGES else ["pre"]
        ours, python = self.start_ours(), self.start_python()
        sides = self.working({**ours, **{side: (python, side) for side in layouts}})
        for side in ("harness", "exported"):
            if side in ours and side not in sides and (side == "exported" or not self.args.exported):
                raise RuntimeError(self.without[side])
        rates = take_turns(sides, self.args.rounds, self.args.seconds)
        flops = self.flops_per_sample(python)
        for worker in {worker for worker, _ in [*ours.values(), (python, "")]}:
            worker.close()
        return rates, flops

    def compiled(self, side):
        """Rates of our best side in turns with PyTorch's loop through torch.compile, or None."""
        ours, python = self.start_harness("on" if self.on_gpu else "off"), self.start_python()
        sides = self.working({"harness": (ours, "harness"), side: (python, side)})
        rates = take_turns(sides, self.args.rounds, self.args.seconds) if len(sides) == 2 else None
        for worker in (ours, python):
            worker.close()
        return rates

    def measure(self):
        rates, flops = self.eager()
        ratios = {}
        layouts = [each for side, each in rates.items() if side in ("pre", "pre_last")]
        others = {"bare": rates.get("bare"), "eager": layouts and [max(each) for each in zip(*layouts)],
                  "twin": rates.get("harness") if self.args.exported else None}
        for side in ("harness", "graphs", "exported"):
            for other, theirs in others.items():
                if side in rates and theirs and (side, other) != ("harness", "twin"):
                    ratios[f"{side}/{other}"] = ratio(rates[side], theirs)
        for side in COMPILED if self.args.compiled else ():
            group = self.compiled(side)
            if group:
                ratios[f"best/{side}"] = ratio(group["harness"], group[side])
                rates[side] = group[side]
        return {"rates": rates, "ratios": ratios, "without": self.without, "flops_per_sample": flops}


if __name__ == "__main__":
    try:
        print(json.dumps(Cell(arguments()).measure()))
    except (RuntimeError, place.Failed) as error:
        print(json.dumps({"error": str(error)}))
