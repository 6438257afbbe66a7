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


    def test_batches_and_steps_that_would_tell_something_else_are_named(self):
        model, kept = torch.nn.Linear(WIDTH, 1), make_batch(64)
        optimizer = torch.optim.AdamW(model.parameters())

        def updating(batch):
            step_of(model)(batch)
            optimizer.step()

        def clearing(batch):
            model.zero_grad()
            step_of(model)(batch)
        for said, step, make in (("gave 8 samples", step_of(model), lambda n: make_batch(8)),
                                 ("have the same gradient", step_of(model), lambda n: kept[:n]),
                                 ("makes updates with a AdamW", updating, make_batch), ("drops the gradients", clearing, make_batch)):
            before = everything(model)
            with self.assertRaisesRegex(StepError, said):
                autotrain.noise_scale(step, make, model=model, samples=4, updates=32)
            assert_same(self, before, everything(model))
        self.assertEqual(len(optimizer.state), 0)
        with self.assertRaisesRegex(StepError, "samples: is 8.5"):
            autotrain.noise_scale(step_of(model), make_batch, model=model, samples=8.5)
        with torch.no_grad(), self.assertRaisesRegex(StepError, "noise_scale: was called where gradients are switched off"):
            autotrain.noise_scale(step_of(model), make_batch, model=model, samples=4)
        model.eval()
        with self.assertRaisesRegex(StepError, "evaluation mode"):
            autotrain.noise_scale(step_of(model), make_batch, model=model, samples=4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
