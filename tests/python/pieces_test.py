#!/usr/bin/env python3
"""Batches are cut so that accumulating the pieces is the whole batch.

    pieces_test.py path/to/libautotrain_python.so path/to/project
"""
import collections
import dataclasses
import pickle
import random
import sys
import types
import unittest

from given import autotrain, mlp, numpy, step_of, torch

from autotrain.errors import StepError
from autotrain.lengths import Lengths
from autotrain.pieces import pieces, samples_of, sizes


class Bag(collections.abc.MutableMapping):
    """Copies of it share where it keeps its entries."""

    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __setitem__(self, key, value):
        self.entries[key] = value

    def __delitem__(self, key):
        del self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class Mirrored(dict):
    def __init__(self, *entries):
        super().__init__(*entries)
        self.__dict__ = self


class Updated(dict):
    def __init__(self, *entries):
        super().__init__(*entries)
        self.__dict__.update(*entries)


class Asked(dict):
    __getattr__ = dict.get


class Strict(dict):
    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


class Slotted(dict):
    __slots__ = ("more",)


class Shared(Bag):
    """Its copies are it itself."""

    def __copy__(self):
        return self


class Fixed(dict):
    def __init__(self, entries=(), **more):
        if not isinstance(entries, dict) or more or type(entries) is dict and any(len(part) < 6 for part in entries.values()):
            raise TypeError("fixed")
        super().__init__(entries)

    def __setitem__(self, *_):
        raise TypeError("fixed")


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

    def test_mappings_of_any_kind_keep_what_they_have(self):
        for kind in (Bag, Mirrored, Updated, Asked, Strict, Slotted, types.MappingProxyType):
            batch = kind({"x": torch.arange(6), "n": 3, "more": {"y": torch.arange(6)}})
            cut = [piece for piece, _ in pieces(batch, 2)]
            self.assertEqual([piece["x"].tolist() for piece in cut], [[0, 1], [2, 3], [4, 5]], kind)
            self.assertEqual([piece["more"]["y"].tolist() for piece in cut], [[0, 1], [2, 3], [4, 5]], kind)
            self.assertEqual((batch["x"].tolist(), len(batch["more"]["y"])), (list(range(6)), 6), kind)
            self.assertIs(type(cut[0]), type(batch))
            if hasattr(batch, "x"):
                self.assertEqual([piece.x.tolist() for piece in cut], [[0, 1], [2, 3], [4, 5]], kind)
                self.assertEqual(batch.x.tolist(), list(range(6)))

    def test_mappings_that_cannot_be_made_of_other_parts_are_named(self):
        for kind in (Shared, Fixed):
            batch = kind({"x": torch.arange(6)})
            with self.assertRaisesRegex(StepError, f"a {kind.__name__} cannot be made of other parts"):
                list(pieces(batch, 2))
            self.assertEqual(batch["x"].tolist(), list(range(6)))

    def test_sequences_and_dataclasses_that_are_made_otherwise(self):
        class Two(list):
            def __init__(self, one, other):
                super().__init__([one, other])

        @dataclasses.dataclass
        class Counted:
            x: object
            n: int = dataclasses.field(init=False, default=0)

            def __post_init__(self):
                self.n = len(self.x)

        @dataclasses.dataclass
        class Late:
            x: object
            y: object = dataclasses.field(init=False, default=None)
        late = Late(torch.zeros(5))
        late.y = torch.arange(5)
        two, counted, later = (list(pieces(batch, 3))[1][0] for batch in (Two(torch.arange(5), torch.zeros(5)), Counted(torch.zeros(5)), late))
        self.assertEqual((type(two), two[0].tolist()), (Two, [3, 4]))
        self.assertEqual((counted.n, later.y.tolist()), (2, [3, 4]))

    def test_lists_with_an_entry_a_sample(self):
        def seen(batch, look):
            self.assertEqual(samples_of(batch), 3)
            return [look(piece) for piece, _ in pieces(batch, 1)]
        rows = [torch.zeros(length, 2) for length in (5, 3, 4)]
        self.assertEqual(seen((rows, torch.arange(3)), lambda piece: (len(piece[0][0]), piece[1].tolist())), [(5, [0]), (3, [1]), (4, [2])])
        features = [{"x": torch.zeros(3), "y": index} for index in range(3)]
        self.assertEqual(seen(features, lambda piece: piece[0]["y"]), [0, 1, 2])
        pairs = [(torch.zeros(8), index) for index in range(3)]
        self.assertEqual(seen(pairs, lambda piece: [label for _, label in piece]), [[0], [1], [2]])
        self.assertEqual(seen((list("abc"), list("def")), lambda piece: piece), [(["a"], ["d"]), (["b"], ["e"]), (["c"], ["f"])])
        boxes = tuple({"boxes": torch.full((3, 4), float(index))} for index in range(3))
        self.assertEqual(seen((torch.zeros(3, 4), boxes), lambda piece: (len(piece[0]), piece[1][0]["boxes"][0, 0].item())),
                         [(1, 0.0), (1, 1.0), (1, 2.0)])

    def test_as_many_parts_as_samples_are_parts(self):
        batch = ({"x": torch.zeros(2, 3)}, {"y": torch.arange(2)})
        self.assertEqual([piece[1]["y"].tolist() for piece, _ in pieces(batch, 1)], [[0], [1]])

    def test_every_sample_is_in_one_piece_and_no_rest_is_too_small(self):
        draw = random.Random(0)
        for _ in range(300):
            samples, micro, minimum = draw.randrange(1, 200), draw.randrange(2, 60), draw.choice([1, 2])
            cut = sizes(samples, micro, minimum)
            self.assertEqual(sum(cut), samples)
            self.assertLessEqual(max(cut), micro)
            if samples >= minimum:
                self.assertGreaterEqual(min(cut), minimum)

    def test_what_leaves_a_single_sample_to_batch_normalisation_is_refused_before_the_first_piece(self):
        with self.assertRaisesRegex(StepError, "7 samples in micro-batches of 2 leave one"):
            next(pieces(torch.zeros(7, 3), 2, minimum=2))
        self.assertEqual([len(piece) for piece, _ in pieces(torch.zeros(7, 3), 3, minimum=2)], [3, 2, 2])

    def test_lists_of_images_are_cut_by_images_though_there_are_as_many_as_colours(self):
        model = torch.nn.Linear(1, 1)

        def step(batch, weight):
            means = torch.stack([image.mean() for image in batch[0]])
            (torch.nn.functional.mse_loss(model(means[:, None])[:, 0], batch[1]) * weight).backward()
        make = lambda n: ([torch.randn(3, 5 + i, 7) for i in range(n)], torch.arange(float(n)))
        plan = autotrain.find(step, make, model=model, effective=8, most=4, budget="64MiB")
        images, targets = make(3)
        self.assertEqual([len(piece[0]) for piece, _ in plan.pieces((images, targets))], [3])
        plan.micro_batch = 1
        cut = [(piece[0], piece[1].tolist()) for piece, _ in pickle.loads(pickle.dumps(plan)).pieces((images, targets))]
        self.assertEqual([(len(one), one[0].shape, target) for one, target in cut],
                         [(1, image.shape, [float(place)]) for place, image in enumerate(images)])

    def test_two_inputs_of_two_samples_are_inputs(self):
        model = torch.nn.Linear(4, 2)
        step = lambda batch, weight: ((model(batch[0][0]) + model(batch[0][1]) - batch[1]).square().mean() * weight).backward()
        make = lambda n: ([torch.randn(n, 4), torch.randn(n, 4)], torch.randn(n, 2))
        plan = autotrain.find(step, make, model=model, effective=8, most=4, budget="64MiB")
        plan.micro_batch = 1
        self.assertEqual([[part.shape[0] for part in piece[0]] for piece, _ in plan.pieces(make(2))], [[1, 1], [1, 1]])

    def found(self, make, micro=2):
        """A plan of micro-batches of so many samples, made with such batches."""
        model = torch.nn.Linear(1, 1)
        plan = autotrain.find(lambda batch: model(torch.ones(1, 1)).sum().backward(), make, model=model, effective=8, most=4, budget="24MiB", max_trials=2)
        plan.micro_batch = micro
        return plan

    def test_what_all_samples_share_is_whole_though_a_batch_is_as_long(self):
        table, names, weights = torch.randn(4, 2), ["a", "b", "c", "d"], numpy.ones(4)
        make = lambda n: {"x": torch.zeros(n, 2), "table": table, "meta": {"names": names, "both": [weights, torch.zeros(n)]}}
        for batch in (make(4), make(6)):
            for piece, _ in self.found(make).pieces(batch):
                self.assertEqual((len(piece["x"]), len(piece["meta"]["both"][1])), (2, 2))
                self.assertIs(piece["table"], table)
                self.assertIs(piece["meta"]["both"][0], weights)
                self.assertEqual(piece["meta"]["names"], names)
        first = lambda n: (table, torch.zeros(n, 2))
        self.assertEqual([(len(shared), len(x)) for (shared, x), _ in self.found(first, micro=3).pieces(first(4))], [(4, 3), (4, 1)])

    def test_gradients_are_the_whole_batch_s_beside_as_many_shared_negatives(self):
        torch.manual_seed(0)
        model, negatives = torch.nn.Linear(8, 8).double(), torch.randn(6, 8, dtype=torch.float64)
        make = lambda n: {"x": torch.randn(n, 8, dtype=torch.float64), "negatives": negatives}

        def step(batch, weight):
            (torch.logsumexp(model(batch["x"]) @ batch["negatives"].T, 1).mean() * weight).backward()
        plan = autotrain.find(step, make, model=model, effective=8, most=2, budget="24MiB", max_trials=2)
        batch = make(6)
        step(batch, 1.0)
        whole = gradients(model)
        for piece, weight in plan.pieces(batch):
            step(piece, weight)
        torch.testing.assert_close(gradients(model), whole, rtol=1e-10, atol=1e-12)

    def test_lists_with_an_entry_a_sample_at_any_depth(self):
        images = lambda n: {"in": {"images": [torch.full((3, 5, 5), float(place)) for place in range(n)]}, "y": torch.arange(n)}
        pairs = lambda n: [(torch.full((3,), float(place)), torch.ones(3)) for place in range(n)]
        for samples in (3, 4):
            cut = [(piece["y"].tolist(), [image[0, 0, 0].item() for image in piece["in"]["images"]])
                   for piece, _ in self.found(images, micro=1).pieces(images(samples))]
            self.assertEqual(cut, [([place], [float(place)]) for place in range(samples)])
            cut = [[x[0].item() for x, _ in piece] for piece, _ in self.found(pairs, micro=1).pieces(pairs(samples))]
            self.assertEqual(cut, [[float(place)] for place in range(samples)])

    def test_what_is_squeezed_or_padded_at_one_size_is_cut_all_the_same(self):
        squeezed = lambda n: (torch.zeros(n, 3), torch.arange(2 * n).reshape(n, 2).squeeze(0))
        padded = lambda n: (torch.zeros(n, 3), torch.arange(max(2, n)))
        for make in (squeezed, padded):
            self.assertEqual([len(piece[1]) for piece, _ in self.found(make).pieces(make(4))], [2, 2])

    def test_one_size_alone_tells_nothing(self):
        lengths = Lengths()
        lengths.note((torch.zeros(4, 2), torch.zeros(3)), 4)
        self.assertEqual(lengths.known(), {})
        lengths.note((torch.zeros(3, 2), torch.zeros(3)), 3)
        self.assertEqual(lengths.known(), {(0,): False, ("entry 0", 2): True, ("entry 1", 1): False})

    def test_sequences_of_any_lengths_are_a_batch(self):
        model = torch.nn.Linear(8, 4)

        def step(rows, weight):
            (sum(model(row).square().mean() for row in rows) / len(rows) * weight).backward()
        make = lambda n: [torch.randn(3 + i % 5, 8) for i in range(n)]
        plan = autotrain.find(step, make, model=model, effective=8, budget="64MiB")
        plan.micro_batch = 2
        for rows in (make(5), [torch.randn(5, 8)] * 5):
            self.assertEqual([len(piece) for piece, _ in plan.pieces(rows)], [2, 2, 1])
        self.assertTrue(autotrain.split_check(step, make, model=model).exact)

    def test_counts_that_are_no_numbers_are_named(self):
        for wrong in (None, "many", torch.ones(2), float("nan"), float("inf"), -1):
            with self.assertRaisesRegex(StepError, "count: gave"):
                list(pieces(torch.zeros(4, 2), 2, count=lambda piece, wrong=wrong: wrong))

    def test_what_has_no_samples(self):
        with self.assertRaisesRegex(StepError, "object has no tensor"):
            list(pieces(object(), 4))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
