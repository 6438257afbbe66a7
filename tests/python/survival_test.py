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

BUDGET, EFFECTIVE, UPDATES = "64MiB", 20_000, 50


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


def trained(kind, micro_batch, updates, told):
    """Updates as a user writes them, in a process of its own."""
    model, optimizer, make = made(kind)
    step, evaluate = step_of(model), evaluation_of(model)
    with autotrain.hold(BUDGET, model=model, optimizer=optimizer) as held:
        try:
            for update in range(updates):
                optimizer.zero_grad()
                for _ in range(2):
                    step(make(micro_batch), 0.5)
                optimizer.step()
                if update % 20 == 0:
                    model.eval()
                    evaluate(make(micro_batch))
                    model.train()
            told.put(("survived", held.peak_bytes / held.budget_bytes))
        except torch.OutOfMemoryError as error:
            told.put((str(error), None))


def outcome(kind, micro_batch, updates):
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    child = context.Process(target=trained, args=(kind, micro_batch, updates, told))
    child.start()
    found = told.get(timeout=300)
    child.join()
    return found


class Survives(unittest.TestCase):
    def check(self, kind, updates=UPDATES):
        model, optimizer, make = made(kind)
        plan = autotrain.find(step_of(model), make, model=model, optimizer=optimizer, effective=EFFECTIVE, budget=BUDGET,
                              evaluate=evaluation_of(model))
        said, fill = outcome(kind, plan.micro_batch, updates)
        self.assertEqual(said, "survived", str(plan))
        self.assertLess(abs(fill - plan.fill), 0.12, str(plan))
        said, _ = outcome(kind, 2 * plan.micro_batch, 2)
        self.assertIn("out of memory", said)

    def test_mlp(self):
        self.check("mlp")

    def test_convolutions_and_batch_normalisation(self):
        self.check("conv", updates=12)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
