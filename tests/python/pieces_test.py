#!/usr/bin/env python3
"""Batches are cut so that accumulating the pieces is the whole batch.

    pieces_test.py path/to/libautotrain_python.so path/to/project
"""
import collections
import dataclasses
import random
import sys
import unittest

from given import mlp, numpy, step_of, torch

from autotrain.errors import StepError
from autotrain.pieces import pieces, samples_of, sizes


def gradients(model):
    found = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    return found


class Pieces(unittest.TestCase):
    def test_accumulation_is_the_whole_batch(self):
        model = mlp(width=32).double()
        step = step_of(model)
        for samples, micro in ((64, 16), (61, 16), (7, 16), (33, 1)):
            batch = torch.randn(samples, 32, dtype=torch.float64), torch.randint(0, 4, (samples,))
            step(batch)
            whole = gradients(model)
            for piece, weight in pieces(batch, micro):
                self.assertLessEqual(len(piece[0]), micro)
                step(piece, weight)
            torch.testing.assert_close(gradients(model), whole, rtol=1e-10, atol=1e-12)

    def test_weights_count_targets_where_samples_have_different_many(self):
        torch.manual_seed(1)
        model = torch.nn.Embedding(10, 10).double()
        tokens, targets = torch.randint(0, 10, (12, 6)), torch.randint(0, 10, (12, 6))
        for row in range(12):
            targets[row, row // 2:] = -100

        def step(batch, weight=1.0):
            logits = model(batch["tokens"]).flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(logits, batch["targets"].flatten(), ignore_index=-100)
            if torch.isfinite(loss):  # of a piece without a target it is the mean of nothing
                (loss * weight).backward()
        batch = {"tokens": tokens, "targets": targets}
        step(batch)
        whole = gradients(model)
        for piece, weight in pieces(batch, 5, count=lambda piece: (piece["targets"] != -100).sum()):
            step(piece, weight)
        torch.testing.assert_close(gradients(model), whole, rtol=1e-10, atol=1e-12)
        for piece, weight in pieces(batch, 5):
            step(piece, weight)
        self.assertGreater((gradients(model) - whole).abs().max(), 1e-4, "the count made no difference")

    def test_batches_of_any_shape(self):
        Pair = collections.namedtuple("Pair", "first second")

        @dataclasses.dataclass
        class Both:
            left: object
            right: object
        x = torch.arange(5)
        for batch, second in (
                (x, x[3:5]), ([x, numpy.arange(5)], [x[3:5], numpy.arange(3, 5)]), ({"a": x, "name": "n"}, {"a": x[3:5], "name": "n"}),
                (Pair(x, torch.tensor(2.0)), Pair(x[3:5], torch.tensor(2.0))), ((x, list("abcde")), (x[3:5], list("de"))),
                (Both(x, x + 1), Both(x[3:5], x[3:5] + 1)), ([{"size": n} for n in range(5)], [{"size": 3}, {"size": 4}]),
                (collections.UserDict(a=x), collections.UserDict(a=x[3:5]))):
            self.assertEqual(samples_of(batch), 5)
            cut = [piece for piece, _ in pieces(batch, 3)]
            self.assertEqual(len(cut), 2)
            self.assertIs(type(cut[1]), type(batch))
            self.assertEqual(repr(cut[1]), repr(second))

    def test_every_sample_is_in_one_piece_and_no_rest_is_too_small(self):
        draw = random.Random(0)
        for _ in range(300):
            samples, micro, minimum = draw.randrange(1, 200), draw.randrange(2, 60), draw.choice([1, 2])
            cut = sizes(samples, micro, minimum)
            self.assertEqual(sum(cut), samples)
            self.assertLessEqual(max(cut), micro)
            if samples >= minimum:
                self.assertGreaterEqual(min(cut), minimum if micro > 2 else 1)

    def test_what_has_no_samples(self):
        with self.assertRaisesRegex(StepError, "object has no tensor"):
            list(pieces(object(), 4))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
