#!/usr/bin/env python3
"""A process that is held to a budget stays within it, whatever is held or searched within it.

    hold_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest

from given import autotrain, images_and_classes, mlp, step_of, torch

from autotrain.accelerate import find_executable_batch_size

MIB = 1 << 20


def take(mebibytes):
    return torch.empty(mebibytes << 18).nbytes


class Holds(unittest.TestCase):
    def assert_held_to(self, mebibytes):
        self.assertGreater(take(mebibytes // 2), 0)
        with self.assertRaises(torch.OutOfMemoryError):
            take(2 * mebibytes)

    def test_devices_are_named_as_tensors_name_them(self):
        with autotrain.hold("64MiB", device="cpu:0"):
            self.assert_held_to(64)
        if not torch.cuda.is_available():
            with self.assertRaisesRegex(autotrain.Error, "finds no GPU"):
                autotrain.hold("64MiB", device="cuda")

    def test_a_search_has_what_the_hold_leaves(self):
        model = mlp()
        step = step_of(model)
        with autotrain.hold("40MiB", model=model):
            kept = torch.empty(12 << 18)
            plan = autotrain.find(step, images_and_classes, model=model, budget="80%", effective=20_000)
            self.assertLess(plan.budget_bytes, 23 * MIB, str(plan))
            self.assertGreater(plan.budget_bytes, 16 * MIB, str(plan))
            for piece, weight in plan.pieces(images_and_classes(2 * plan.micro_batch)):
                step(piece, weight)
            self.assert_held_to(28)
        del kept
        self.assertEqual(take(200), 200 * MIB)

    def test_more_than_the_hold_leaves_is_refused(self):
        model = mlp()
        with autotrain.hold("40MiB"):
            with self.assertRaisesRegex(autotrain.StepError, "budget: is 64MiB, and a hold of 40 MiB around it leaves"):
                autotrain.find(step_of(model), images_and_classes, model=model, budget="64MiB")
            self.assert_held_to(40)
            with autotrain.hold("16MiB"):
                self.assert_held_to(16)
                with self.assertRaisesRegex(autotrain.StepError, "a hold of 16 MiB"):
                    autotrain.hold(24 * MIB)
                self.assert_held_to(16)
            self.assert_held_to(40)
        self.assertEqual(take(200), 200 * MIB)

    def test_all_of_it_is_what_is_left(self):
        with autotrain.hold("40MiB"), autotrain.hold("auto") as inner, autotrain.hold("50%") as innermost:
            self.assertLessEqual(inner.budget_bytes, 40 * MIB)
            self.assertGreater(inner.budget_bytes, 36 * MIB)
            self.assertLessEqual(innermost.budget_bytes, inner.budget_bytes // 2)

    def test_holds_that_end_in_another_order(self):
        outer, inner = autotrain.hold("40MiB"), autotrain.hold("16MiB")
        outer.release()
        self.assert_held_to(16)
        inner.release()
        self.assertEqual(take(200), 200 * MIB)

    def test_sizes_that_are_tried_under_a_budget(self):
        model = mlp()

        @find_executable_batch_size(starting_batch_size=64, budget="40MiB")
        def found(batch_size):
            return autotrain.find(step_of(model), images_and_classes, model=model, budget="auto", effective=20_000, max_trials=3)
        self.assertLessEqual(found().budget_bytes, 41 * MIB)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
