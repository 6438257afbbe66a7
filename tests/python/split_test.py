#!/usr/bin/env python3
"""autotrain.split_check names the part of a module that mixes samples, and leaves no trace.

    split_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest

from given import assert_same, everything, images_and_classes, mlp, torch

import autotrain
from autotrain.errors import StepError
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


class Complex(nn.Module):
    """Its imaginary part mixes samples, if it is to."""

    def __init__(self, mixes):
        super().__init__()
        self.weight, self.mixes = nn.Parameter(torch.randn(32, 4, dtype=torch.complex64)), mixes

    def forward(self, inputs):
        waves = inputs.to(torch.complex64) @ self.weight
        return waves.real, waves.imag - (waves.imag.mean(0) if self.mixes else 0)


class Configured(nn.Module):
    """Says what its dropout is, and cannot be told."""

    def __init__(self):
        super().__init__()
        self.linear, self.rate = nn.Linear(32, 10), 0.1

    dropout = property(lambda self: self.rate)

    def forward(self, images):
        return self.linear(images)


class Split(unittest.TestCase):
    def test_imaginary_parts_count(self):
        def checked(model):
            def step(batch, weight):
                real, imaginary = model(batch[0])
                ((real.square().mean() + imaginary.pow(4).mean()) * weight).backward()
            return autotrain.split_check(step, images_and_classes, model=model)
        self.assertTrue(checked(Complex(mixes=False)).exact)
        self.assertGreater(checked(Complex(mixes=True)).difference, 0.01)

    def test_what_cannot_be_changed_or_hooked_is_left(self):
        for model in (Configured(), torch.jit.script(mlp(width=32))):
            self.assertTrue(checked(model)[0].exact)

    def test_halves_that_batch_normalisation_cannot_take(self):
        step = lambda batch, weight: None
        with self.assertRaisesRegex(StepError, "has halves of one sample"):
            autotrain.split_check(step, images_and_classes, model=mlp(width=32, normal=True), samples=2)

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


def said_of(step, model, make_batch=images_and_classes, **options):
    """The verdict, of a check that leaves no trace."""
    before = everything(model)
    try:
        return autotrain.split_check(step, make_batch, model=model, **options)
    finally:
        assert_same(unittest.TestCase(), before, everything(model))


def cross_entropy(model, batch, weight, **options):
    (nn.functional.cross_entropy(model(batch[0]).float(), batch[1], **options) * weight).backward()


class Chosen(nn.Module):
    """Large batches go one way, small ones another, of another width."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Linear(32, 8), nn.Linear(32, 4)

    def forward(self, inputs):
        return self.wide(inputs)[:, :4] if len(inputs) > 4 else self.narrow(inputs)


class Verdicts(unittest.TestCase):
    def test_rounding_to_16_bits_is_no_mixing(self):
        for kind in (torch.bfloat16, torch.float16):
            model = mlp(width=32).to(kind)
            make = lambda n: (torch.randn(n, 32).to(kind), torch.randint(0, 4, (n,)))
            verdict = said_of(lambda batch, weight: cross_entropy(model, batch, weight), model, make)
            self.assertTrue(verdict.exact, verdict.text)
        for model, exact in ((mlp(width=32), True), (nn.Sequential(nn.Linear(32, 8), Centred(), nn.Linear(8, 4)), False)):
            def step(batch, weight):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    cross_entropy(model, batch, weight)
            self.assertEqual(said_of(step, model).exact, exact)

    def test_batches_that_a_step_changes(self):
        model = nn.Linear(32, 4)

        def step(batch, weight):
            batch[0].sub_(3).div_(2)
            cross_entropy(model, batch, weight)
        self.assertTrue(said_of(step, model).exact)

    def test_a_mean_over_targets_that_count(self):
        model = mlp(width=32)
        step = lambda batch, weight: cross_entropy(model, batch, weight, ignore_index=0)
        torch.manual_seed(1)
        self.assertTrue(said_of(step, model, count=lambda piece: (piece[1] != 0).sum()).exact)
        self.assertIn("say how many there are: count=", said_of(step, model).text)
        with self.assertRaisesRegex(StepError, "the step takes no weight"):
            said_of(lambda batch: cross_entropy(model, batch, 1), model, count=len)

    def test_parts_that_only_some_batches_use(self):
        model = Chosen()
        verdict = said_of(lambda batch, weight: cross_entropy(model, batch, weight), model)
        self.assertEqual((verdict.exact, verdict.module, verdict.kind), (False, "wide", "Linear"), verdict.text)

    def test_gradients_that_are_sparse(self):
        model = nn.Embedding(16, 4, sparse=True)
        step = lambda batch, weight: (model(batch).square().mean() * weight).backward()
        self.assertTrue(said_of(step, model, lambda n: torch.randint(0, 16, (n, 3))).exact)

    def test_steps_and_models_that_show_nothing_are_named(self):
        model, normal, broken, zero = mlp(width=32), mlp(width=32, normal=True).eval(), mlp(width=32), mlp(width=32)
        with torch.no_grad():
            broken[0].weight[0, 0] = float("nan")
            for parameter in zero.parameters():
                parameter.zero_()
        optimizer = torch.optim.AdamW(model.parameters())

        def clearing(batch, weight):
            model.zero_grad()
            cross_entropy(model, batch, weight)

        def updating(batch, weight):
            cross_entropy(model, batch, weight)
            optimizer.step()
        plain = lambda model: lambda batch, weight: cross_entropy(model, batch, weight)
        for said, checked, step in (
                ("drops the gradients", model, clearing), ("makes updates with a AdamW", model, updating),
                ("evaluation mode", normal, plain(normal)), ("not finite", broken, plain(broken)),
                ("zero everywhere", zero, lambda batch, weight: (zero(batch[0]).square().mean() * weight).backward())):
            with self.assertRaisesRegex(StepError, said):
                said_of(step, checked)
        self.assertEqual(len(optimizer.state), 0)
        for said, options in (("has no halves", {"samples": 7}), ("samples: is None", {"samples": None}), ("samples: is 8.0", {"samples": 8.0}),
                              ("gave nothing", {"make_batch": lambda n: None})):
            with self.assertRaisesRegex(StepError, said):
                said_of(plain(model), model, **options)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
