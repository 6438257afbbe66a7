#!/usr/bin/env python3
"""A size that was found survives fifty updates and evaluations in a fresh process under the same budget; one that is twice
as large does not.

    survival_test.py path/to/libautotrain_python.so path/to/project
"""
import multiprocessing
import sys
import unittest

from given import images_and_classes, mlp, step_of, torch

import autotrain

BUDGET, EFFECTIVE, UPDATES = "32MiB", 20_000, {"mlp": 50, "conv": 12}


def conv():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                               torch.nn.Conv2d(16, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(4))


def pixels(samples):
    return torch.randn(samples, 3, 16, 16), torch.randint(0, 4, (samples,))


def made(kind):
    model = mlp() if kind == "mlp" else conv()
    make = images_and_classes if kind == "mlp" else pixels
    model(make(2)[0])
    return model, torch.optim.AdamW(model.parameters(), 1e-3), make


def evaluation_of(model):
    def evaluate(batch):
        with torch.no_grad():
            model(batch[0]).argmax(1)
    return evaluate


def trained(sizes, told):
    """In one process of its own, since each has to load PyTorch first."""
    for kind, (micro_batch, updates) in sizes.items():
        for factor, count in ((1, updates), (2, 1)):
            try:
                told.put((kind, factor, survived(kind, factor * micro_batch, count)))
            except Exception as error:
                told.put((kind, factor, f"{type(error).__name__}: {error}"))


def survived(kind, micro_batch, updates):
    """Updates as a user writes them, in a process of its own."""
    model, optimizer, make = made(kind)
    step, evaluate = step_of(model), evaluation_of(model)
    with autotrain.hold(BUDGET, model=model, optimizer=optimizer) as held:
        for update in range(updates):
            optimizer.zero_grad()
            for _ in range(2):
                step(make(micro_batch), 0.5)
            optimizer.step()
            if update % 20 == 0:
                model.eval()
                evaluate(make(micro_batch))
                model.train()
        return held.peak_bytes / held.budget_bytes


def outcomes(sizes):
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    child = context.Process(target=trained, args=(sizes, told))
    child.start()
    found = [told.get(timeout=300) for _ in range(2 * len(sizes))]
    child.join()
    return {(kind, factor): outcome for kind, factor, outcome in found}


class Survives(unittest.TestCase):
    def test_multilayer_perceptron_and_convolutions_with_batch_normalisation(self):
        plans = {}
        for kind in UPDATES:
            model, optimizer, make = made(kind)
            plans[kind] = autotrain.find(step_of(model), make, model=model, optimizer=optimizer, effective=EFFECTIVE,
                                         budget=BUDGET, evaluate=evaluation_of(model))
        outcome = outcomes({kind: (plan.micro_batch, UPDATES[kind]) for kind, plan in plans.items()})
        for kind, plan in plans.items():
            fill = outcome[kind, 1]
            self.assertIsInstance(fill, float, f"{fill}\n{plan}")
            self.assertLess(abs(fill - plan.fill), 0.12, str(plan))
            self.assertIn("out of memory", str(outcome[kind, 2]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
