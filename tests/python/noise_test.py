#!/usr/bin/env python3
"""autotrain.noise_scale finds the scale of gradients whose noise is known, and leaves no trace.

    noise_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest

from given import assert_same, everything, torch

import autotrain
from autotrain.errors import StepError

WIDTH, NOISE = 50, 2.0


def step_of(model):
    """Gradients of a sample are all ones, and noise: tr Σ is 50 × 4, |G|² is 50, so the scale is 4 samples."""
    def step(batch):
        (model.weight[0] * batch.mean(0)).sum().backward()
    return step


def make_batch(samples):
    return 1 + NOISE * torch.randn(samples, WIDTH)


class Noise(unittest.TestCase):
    def test_the_scale_of_noise_that_is_known(self):
        torch.manual_seed(0)
        model = torch.nn.Linear(WIDTH, 1)
        before = everything(model)
        scale = autotrain.noise_scale(step_of(model), make_batch, model=model, samples=3, updates=256)
        self.assertLess(scale.low, scale.samples)
        self.assertGreater(scale.high, scale.samples)
        self.assertLess(abs(scale.samples - NOISE ** 2), 0.8)
        assert_same(self, before, everything(model))

    def test_too_little_to_tell(self):
        model = torch.nn.Linear(WIDTH, 1)
        with self.assertRaisesRegex(StepError, "tell nothing"):
            autotrain.noise_scale(step_of(model), make_batch, model=model, samples=3, pieces=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
