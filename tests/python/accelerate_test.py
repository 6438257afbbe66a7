#!/usr/bin/env python3
"""autotrain.accelerate.find_executable_batch_size in the place of Accelerate's.

    accelerate_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest
import weakref

import given  # noqa: F401
import torch

from autotrain.accelerate import find_executable_batch_size
from autotrain.errors import StepError


def refusing_above(most, error):
    sizes = []

    @find_executable_batch_size(starting_batch_size=100)
    def train(batch_size, word, more=0):
        sizes.append(batch_size)
        if batch_size > most:
            raise error
        return batch_size, word, more
    return train, sizes


class Executable(unittest.TestCase):
    def test_sizes_shrink_until_one_runs(self):
        train, sizes = refusing_above(70, torch.OutOfMemoryError("out of memory."))
        self.assertEqual(train("word", more=3), (64, "word", 3))
        self.assertEqual(sizes, [100, 90, 81, 72, 64])

    def test_failures_of_libraries_that_mean_no_memory(self):
        for error in (RuntimeError("could not create a primitive"), MemoryError(), RuntimeError("CUDNN_STATUS_NOT_INITIALIZED"),
                      RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")):
            train, sizes = refusing_above(50, error)
            self.assertLessEqual(train("word")[0], 50)
            self.assertGreater(len(sizes), 1)

    def test_other_errors_are_the_users(self):
        for error in (RuntimeError("shapes differ"), KeyError("x"), KeyboardInterrupt()):
            train, sizes = refusing_above(50, error)
            with self.assertRaises(type(error)):
                train("word")
            self.assertEqual(sizes, [100])

    def test_with_an_effective_batch_the_window_makes_it(self):
        calls = []

        @find_executable_batch_size(starting_batch_size=100, effective=96)
        def train(batch_size, window, word):
            calls.append((batch_size, window))
            if batch_size > 20:
                raise torch.OutOfMemoryError("out of memory.")
            return word
        self.assertEqual(train("done"), "done")
        self.assertEqual(calls, [(96, 1), (48, 2), (32, 3), (24, 4), (16, 6)])

    def test_a_rule_of_ones_own(self):
        sizes = iter([40, 20])

        @find_executable_batch_size(starting_batch_size=64, reduce_batch_size_fn=lambda: next(sizes))
        def train(batch_size):
            if batch_size > 30:
                raise torch.OutOfMemoryError("out of memory.")
            return batch_size
        self.assertEqual(train(), 20)

    def test_what_is_theirs_to_say(self):
        @find_executable_batch_size(starting_batch_size=2)
        def never(batch_size):
            raise torch.OutOfMemoryError("out of memory.")
        with self.assertRaisesRegex(RuntimeError, "No executable batch size found, reached zero."):
            never()
        with self.assertRaisesRegex(TypeError, "the batch size first"):
            find_executable_batch_size(lambda: 1)
        self.assertEqual(find_executable_batch_size(lambda size: size, starting_batch_size=3)(), 3)
        with self.assertRaisesRegex(TypeError, "called with the batch size"):
            refusing_above(1, KeyError())[0](8, "word", 1, 2)

    def test_numbers_that_are_none(self):
        for effective in ("64", 64.0, 0):
            with self.assertRaisesRegex(StepError, "effective: is"):
                find_executable_batch_size(lambda size, window: size, effective=effective)
        with self.assertRaisesRegex(StepError, "leave sizes to it"):
            find_executable_batch_size(lambda size, window: size, effective=64, reduce_batch_size_fn=lambda: 1)
        for size in (0, -4):
            with self.assertRaisesRegex(RuntimeError, "No executable batch size found"):
                find_executable_batch_size(lambda size, window: size, starting_batch_size=size, effective=64)()

    def test_what_a_failed_call_held_is_given_up(self):
        held, errors = [], []  # somebody keeps the error, and by way of its traceback what was there

        @find_executable_batch_size(starting_batch_size=8)
        def train(batch_size):
            large = torch.zeros(1000)
            if batch_size == 8:
                held.append(weakref.ref(large))
                errors.append(torch.OutOfMemoryError("out of memory."))
                raise errors[0]
            return held[0]() is None
        self.assertTrue(train())

    def test_under_a_budget(self):
        @find_executable_batch_size(starting_batch_size=64, effective=64, budget="64MiB")
        def train(batch_size, window):
            torch.ones(batch_size, 1 << 20)
            return batch_size, window
        size, window = train()
        self.assertEqual(size * window, 64)
        self.assertLess(size, 16)
        self.assertGreaterEqual(size, 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
