#!/usr/bin/env python3
"""What is asked of a micro-batch beside that it fits: multiples, divisors, no rest that is too small, and numbers of any size.

    cuts_test.py path/to/libautotrain_python.so path/to/project
"""
import math
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from given import mlp, numpy, searched, torch

import autotrain


def found(**options):
    plan = searched(model=options.pop("model", None) or mlp(width=32), **options)
    return plan.micro_batch, plan.window


class Multiples(unittest.TestCase):
    def test_whatever_the_cut_is(self):
        for cut in ("auto", "even", "full"):
            self.assertEqual(found(effective=100, multiple_of=8, most=40, cut=cut), (40, 3))
        self.assertEqual(found(effective=120, multiple_of=8, most=50, cut="divide"), (40, 3))
        self.assertEqual(found(effective=100, multiple_of=8, cut="full"), (96, 2))

    def test_where_memory_decides(self):
        for multiple in (7, 1000):
            plan = searched(multiple_of=multiple, budget="24MiB", effective=6000)
            self.assertEqual(plan.micro_batch % multiple, 0, str(plan))
            self.assertTrue(plan.confirmed and plan.fill <= 0.9, str(plan))

    def test_none_that_fits_is_no_plan(self):
        fits = searched(cut="full", budget="12MiB", max_trials=6).capacity
        with self.assertRaisesRegex(autotrain.DoesNotFit, f"not even {2 * fits} samples"):
            searched(effective=8 * fits, multiple_of=2 * fits, budget="12MiB")

    def test_more_than_there_may_be_is_named(self):
        for options in ({"effective": 10}, {"effective": 100, "most": 10}):
            with self.assertRaisesRegex(autotrain.StepError, "multiple_of: is 16.*no micro-batch is both"):
                found(multiple_of=16, **options)


class Rests(unittest.TestCase):
    def test_what_nothing_divides_is_named(self):
        with self.assertRaisesRegex(autotrain.StepError, "no micro-batch from 2 to 4.* divides 7"):
            found(effective=7, most=4, cut="divide", model=mlp(width=32, normal=True))
        with self.assertRaisesRegex(autotrain.StepError, "in steps of 8, divides 100"):
            found(effective=100, multiple_of=8, most=40, cut="divide")
        self.assertEqual(found(effective=7, most=4, cut="divide"), (1, 7))

    def test_a_single_sample_that_must_be_left_is_named(self):
        with self.assertRaisesRegex(autotrain.StepError, "5 samples cannot be cut into micro-batches of 2"):
            found(effective=5, most=2, model=mlp(width=32, normal=True))
        self.assertEqual(found(effective=5, most=3, model=mlp(width=32, normal=True)), (3, 2))
        self.assertEqual(found(effective=5, most=2), (2, 3))


HUGE = """
    import sys
    sys.argv, sys.path[0] = {arguments!r}, {folder!r}
    from given import mlp, searched
    import autotrain
    for name in ("effective", "most", "multiple_of", "max_trials"):
        for value in (2 ** 31, 10 ** 12, 2 ** 62, 2 ** 63, 10 ** 30):
            try:
                searched(model=mlp(width=32), **{{name: value}})
            except autotrain.StepError as error:
                assert name in str(error) and str(value) in str(error), error
            else:
                assert False, (name, value)
    plan = searched(model=mlp(width=32), effective=2 ** 31 - 1, max_trials=3)
    assert (2 ** 31 - 1) // plan.micro_batch <= plan.window, str(plan)
"""


class Numbers(unittest.TestCase):
    def test_of_any_size_end_no_process(self):
        child = subprocess.run([sys.executable, "-c", textwrap.dedent(HUGE).format(arguments=sys.argv,
                               folder=str(Path(__file__).resolve().parent))], capture_output=True, text=True)
        self.assertEqual((child.returncode, child.stderr), (0, ""))

    def test_seconds_and_bands_of_any_kind(self):
        for seconds in (math.inf, numpy.float32(20)):
            self.assertEqual(found(effective=8, max_seconds=seconds), (8, 1))
        for name, value in (("max_seconds", "60"), ("max_seconds", math.nan), ("target", 0.9), ("target", ("a", "b"))):
            with self.assertRaisesRegex(autotrain.StepError, name):
                found(effective=8, **{name: value})

    def test_truths_are_no_numbers(self):
        for name, value in (("effective", True), ("most", True), ("multiple_of", False), ("max_trials", True), ("max_seconds", True), ("target", (0.5, True))):
            with self.assertRaisesRegex(autotrain.StepError, f"{name}: is"):
                found(**{name: value})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
