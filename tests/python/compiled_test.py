#!/usr/bin/env python3
"""A search of a module that torch.compile has: every size is compiled, the size that is found is one that training with graphs of its own
survives, and no graph of a trial is left.

    compiled_test.py path/to/libautotrain_python.so path/to/project
"""
import subprocess
import sys
import unittest

from given import BUDGET, assert_same, everything, images_and_classes, mlp, searched, step_of, torch

import autotrain
import torch._dynamo
from torch._dynamo.utils import counters


def graphs():
    return counters["stats"]["unique_graphs"]


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def search(self, **compiling):
        plain = mlp()
        model = torch.compile(plain, **compiling)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        before = everything(plain, optimizer)
        plan = searched(model, optimizer, step=step_of(model))
        assert_same(self, before, everything(plain, optimizer))
        return model, optimizer, plan

    def test_the_size_is_one_that_training_survives(self):
        model, optimizer, plan = self.search()
        before = graphs()
        with autotrain.hold(BUDGET, model=model, optimizer=optimizer) as held:
            for _ in range(5):
                for piece, weight in plan.pieces(images_and_classes(plan.effective_batch)):
                    step_of(model)(piece, weight)
                optimizer.step()
                optimizer.zero_grad()
            self.assertLessEqual(held.peak_bytes, held.budget_bytes)
        self.assertGreater(graphs(), before)  # made anew

    def test_each_size_is_compiled_and_none_falls_back(self):
        """One graph for each size: more than there are places for."""
        limit = torch._dynamo.config.recompile_limit
        with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):
            _, _, plan = self.search(dynamic=False, backend="aot_eager")
            self.assertEqual(torch._dynamo.config.recompile_limit, 2)
        self.assertGreater(len({trial.micro_batch for trial in plan.trail}) + 1, 2)
        self.assertEqual(torch._dynamo.config.recompile_limit, limit)

    def test_a_function_that_is_compiled_within_the_step(self):
        model = mlp()
        loss_of = torch.compile(lambda inputs, targets: torch.nn.functional.cross_entropy(model(inputs), targets), backend="aot_eager")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        plan = searched(model, optimizer, step=lambda batch, weight: (loss_of(*batch) * weight).backward())
        self.assertGreater(plan.micro_batch, 1)


if __name__ == "__main__":
    if subprocess.run(["c++", "--version"], capture_output=True).returncode:
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
