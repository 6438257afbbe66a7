#!/usr/bin/env python3
"""autotrain.split_check names the part of a module that mixes samples, and leaves no trace.

    split_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest

from given import assert_same, everything, images_and_classes, mlp, torch

import autotrain
from torch import nn


class Centred(nn.Module):
    def forward(self, inputs):
        return inputs - inputs.mean(0)


def checked(model, weighted=True):
    def weighted_step(batch, weight):
        (nn.functional.cross_entropy(model(batch[0]), batch[1]) * weight).backward()

    def plain_step(batch):
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    before = everything(model)
    verdict = autotrain.split_check(weighted_step if weighted else plain_step, images_and_classes, model=model)
    return verdict, before, everything(model)


class Split(unittest.TestCase):
    def test_a_module_whose_samples_are_by_themselves(self):
        for weighted in (True, False):
            verdict, before, after = checked(mlp(width=32), weighted)
            self.assertTrue(verdict.exact, verdict.text)
            assert_same(self, before, after)

    def test_batch_normalisation_is_named(self):
        verdict, before, after = checked(mlp(width=32, normal=True))
        self.assertFalse(verdict.exact)
        self.assertEqual(verdict.kind, "BatchNorm1d")
        self.assertIn("statistics are those of the micro-batch", verdict.text)
        assert_same(self, before, after)

    def test_what_takes_a_mean_over_the_batch_is_named(self):
        model = nn.Sequential(nn.Linear(32, 8), Centred(), nn.Linear(8, 4))
        verdict, _, _ = checked(model)
        self.assertEqual((verdict.module, verdict.kind), ("1", "Centred"))

    def test_dropout_is_no_mixing(self):
        verdict, before, after = checked(nn.Sequential(nn.Linear(32, 8), nn.Dropout(0.5), nn.Linear(8, 4)))
        self.assertTrue(verdict.exact, verdict.text)
        assert_same(self, before, after)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
