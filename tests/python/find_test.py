#!/usr/bin/env python3
"""autotrain.find finds what fits.

    find_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest

from given import EFFECTIVE, mlp, searched, torch


class Finds(unittest.TestCase):
    def test_the_band_is_filled_and_the_effective_batch_is_made(self):
        plan = searched()
        self.assertTrue(plan.confirmed)
        self.assertTrue(0.8 <= plan.peak_bytes / plan.budget_bytes <= 0.9, str(plan))
        self.assertEqual(plan.budget_bytes, 48 << 20)
        self.assertGreaterEqual(plan.micro_batch * plan.window, EFFECTIVE)
        self.assertLess(plan.micro_batch * (plan.window - 1), EFFECTIVE)
        self.assertIn(plan.micro_batch, [trial.micro_batch for trial in plan.trail if trial.fits and trial.confirmed])

    def test_a_larger_budget_gives_a_larger_micro_batch(self):
        self.assertGreater(searched(budget="96MiB").micro_batch, 1.5 * searched().micro_batch)

    def test_an_effective_batch_that_fits_is_one_micro_batch(self):
        plan = searched(effective=48)
        self.assertEqual((plan.micro_batch, plan.window), (48, 1))
        self.assertIn("whole effective batch fits", plan.reason)

    def test_without_an_effective_batch_an_update_is_a_micro_batch(self):
        plan = searched(effective=None, most=100)
        self.assertEqual((plan.micro_batch, plan.window, plan.effective_batch), (100, 1, 100))

    def test_a_cut_that_divides_leaves_no_rest(self):
        plan = searched(cut="divide")
        self.assertEqual(plan.micro_batch * plan.window, EFFECTIVE)
        self.assertIn(plan.micro_batch, [trial.micro_batch for trial in plan.trail if trial.fits and trial.confirmed])

    def test_a_plan_is_a_table(self):
        words = str(searched(effective=48))
        for name in ("micro-batch", "window", "effective", "peak", "of 48 MiB", "trial 1"):
            self.assertIn(name, words)

    def test_what_was_there_before_is_in_the_budget(self):
        small, large = searched(model=mlp(width=256)), searched(model=mlp(width=256, depth=20))
        self.assertGreater(large.carried_bytes, 3 * small.carried_bytes)
        tiny = searched(model=mlp(width=256, depth=20), effective=1)
        self.assertGreater(tiny.peak_bytes, tiny.carried_bytes)
        self.assertLess(tiny.peak_bytes, 2 * tiny.carried_bytes)

    def test_an_evaluation_that_takes_more_makes_the_size_smaller(self):
        hungry = torch.nn.Linear(32, 2048)

        def evaluate(batch):
            with torch.no_grad():
                hungry(batch[0]).exp()
        self.assertLess(searched(evaluate=evaluate).micro_batch, searched().micro_batch)

    def test_the_costliest_samples_decide(self):
        model = torch.nn.Sequential(torch.nn.Embedding(64, 64), torch.nn.Linear(64, 64))
        step = lambda batch: model(batch).square().mean().backward()
        plan = searched(model, step=step, make_batch=lambda n: torch.randint(0, 64, (n, 4)),
                        worst=lambda n: torch.randint(0, 64, (n, 64)), optimizer=torch.optim.SGD(model.parameters(), 0.1))
        typical = searched(model, step=step, make_batch=lambda n: torch.randint(0, 64, (n, 4)),
                           optimizer=torch.optim.SGD(model.parameters(), 0.1))
        self.assertGreater(typical.micro_batch, 4 * plan.micro_batch)

    def test_batch_normalisation_gets_two_samples_at_least(self):
        plan = searched(model=mlp(normal=True), effective=2)
        self.assertEqual(plan.micro_batch, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
