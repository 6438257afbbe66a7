#!/usr/bin/env python3
"""One cell of the campaign's stage speed: the harness and a bare LibTorch loop in turns with PyTorch loops. Prints one
JSON line. A PyTorch side that does not work is left out, with what it said."""
import argparse
import json

import place
from measure import Worker, ratio, take_turns

IMAGES = ("cnn", "resnet", "resnet50")
COMPILED = ("compiled", "compiled_overhead")


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("workload", "batch", "precision", "device"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--compiled", action="store_true", help="also sides through torch.compile")
    return parser.parse_args()


class Cell:
    def __init__(self, args):
        self.args = args
        self.words = [word for name in ("workload", "batch", "precision", "device")
                      for word in (f"--{name}", getattr(args, name))]
        self.harness = Worker([*place.program("autotrain_bench"), "turns", *self.words])
        self.without = {}

    def start_python(self):
        return Worker([*place.peer("turns.py", "torch"), *self.words])

    def works(self, worker, side):
        try:
            worker.ask(side, 0.1)
            return True
        except RuntimeError as error:
            self.without[side] = str(error)
            return False

    def turns_of(self, ours, theirs):
        """Our sides in turns with those of one PyTorch process, which then ends: a GPU's memory is for all."""
        sides = {side: (self.harness, side) for side in ours}
        python = self.start_python()
        sides |= {side: (python, side) for side in theirs if self.works(python, side)}
        rates = take_turns(sides, self.args.rounds, self.args.seconds)
        python.close()
        return rates

    def flops_per_sample(self):
        python = self.start_python()
        try:
            return python.ask("flops", 0)["flops_per_sample"]
        except RuntimeError as error:
            self.without["flops"] = str(error)
            return None
        finally:
            python.close()

    def measure(self):
        self.harness.ask("harness", 0.1)
        eager = self.turns_of(["harness", "bare"], ["pre", "pre_last"] if self.args.workload in IMAGES else ["pre"])
        ratios = {"bare": ratio(eager["harness"], eager["bare"])}
        layouts = [rates for side, rates in eager.items() if side not in ("harness", "bare")]
        if layouts:
            ratios["eager"] = ratio(eager["harness"], [max(rates) for rates in zip(*layouts)])
        rates = eager
        for side in COMPILED if self.args.compiled else ():
            group = self.turns_of(["harness"], [side])
            if side in group:
                ratios[side] = ratio(group["harness"], group[side])
                rates[side] = group[side]
        flops = self.flops_per_sample()
        self.harness.close()
        return {"rates": rates, "ratios": ratios, "without": self.without, "flops_per_sample": flops}


if __name__ == "__main__":
    try:
        print(json.dumps(Cell(arguments()).measure()))
    except (RuntimeError, place.Failed) as error:
        print(json.dumps({"error": str(error)}))
