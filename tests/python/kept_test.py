#!/usr/bin/env python3
"""What modules and optimizers of one's own keep in attributes, and what is given in keep=, is as it was after a search.

    kept_test.py path/to/libautotrain_python.so path/to/project
"""
import collections
import random
import sys
import unittest

from given import BUDGET, EFFECTIVE, autotrain, images_and_classes, mlp, numpy, searched, step_of, torch

from autotrain.state import Snapshot
from autotrain.tensors import leaves


class Measures(torch.nn.Module):
    """Keeps figures of the batches that it saw, in place."""

    def __init__(self):
        super().__init__()
        self.body, self.seen, self.histogram = mlp(width=32), torch.zeros(()), numpy.zeros(3)
        self.average, self.recent = {"output": [torch.zeros(4)]}, collections.deque([torch.zeros(1)], maxlen=2)

    def forward(self, inputs):
        outputs = self.body(inputs)
        self.seen += len(inputs)
        self.histogram[0] += len(inputs)
        self.average["output"][0].mul_(0.9).add_(outputs.detach().mean(0), alpha=0.1)
        self.recent[0].add_(1)
        return outputs

    def figures(self):
        return self.seen.item(), self.histogram.tolist(), self.average["output"][0].tolist(), self.recent[0].item()


class Momentum(torch.optim.Optimizer):
    """Keeps its state in attributes."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        self.updates, self.sums = 0, [torch.zeros_like(p) for p in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        self.updates += 1
        for parameter, total in zip(self.param_groups[0]["params"], self.sums):
            total.mul_(0.9).add_(parameter.grad)
            parameter.sub_(total, alpha=0.1)


class Slowly:
    """An optimizer around another, of no kind of PyTorch's."""

    def __init__(self, optimizer):
        self.optimizer, self.param_groups, self.updates = optimizer, optimizer.param_groups, 0
        self.slow = [p.detach().clone() for p in self.param_groups[0]["params"]]

    @torch.no_grad()
    def step(self):
        self.optimizer.step()
        self.updates += 1
        for slow, parameter in zip(self.slow, self.param_groups[0]["params"]):
            slow.lerp_(parameter, 0.5)


class Average(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.updates, self.share = 0, torch.ones(1)
        self.register_buffer("mean", torch.zeros(1), persistent=False)
        self.model = model

    def update(self):
        self.updates += 1
        self.share.mul_(0.5)
        self.mean.add_(self.model[0].bias.detach().mean())


class Kept(unittest.TestCase):
    def test_figures_that_a_module_changes_in_place(self):
        model = Measures()
        model(torch.ones(3, 32))
        before = model.figures()
        step_of(model)(images_and_classes(2))
        self.assertNotEqual(model.figures(), before)
        before = model.figures()
        autotrain.find(step_of(model), images_and_classes, model=model, effective=EFFECTIVE, budget=BUDGET, max_trials=3)
        self.assertEqual(model.figures(), before)

    def test_what_lies_in_tuples_and_deep_within_each_other(self):
        class Caches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.cache, self.deep = mlp(width=32), ([], {}), [[[[[[]]]]]]

            def forward(self, inputs):
                self.cache[0].append(len(inputs))
                self.cache[1]["last"] = len(inputs)
                self.deep[0][0][0][0][0].append(len(inputs))
                return self.body(inputs)
        model = Caches()
        searched(model, effective=64, max_trials=2)
        self.assertEqual((model.cache, model.deep), (([], {}), [[[[[[]]]]]]))

    def test_modules_and_generators_in_attributes(self):
        class Taught(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.teachers = mlp(width=32), ({"slow": mlp(width=32)},)
                self.drawn, self.noise = [random.Random(0), numpy.random.default_rng(0)], torch.Generator().manual_seed(0)

            def forward(self, inputs):
                teacher, (python, numbers) = self.teachers[0]["slow"], self.drawn
                with torch.no_grad():
                    teacher[0].weight.lerp_(self.body[0].weight, 0.1)
                    wanted = teacher(inputs)
                return self.body(inputs) - wanted + python.random() + numbers.random() + torch.rand((), generator=self.noise)

            def states(self):
                python, numbers = self.drawn
                return python.getstate(), numbers.bit_generator.state, self.noise.get_state().tolist()
        model = Taught()
        teacher = model.teachers[0]["slow"]
        before, states = {name: value.clone() for name, value in teacher.state_dict().items()}, model.states()
        searched(model, effective=64, max_trials=2, evaluate=lambda batch: model(batch[0]))
        self.assertTrue(all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items()))
        self.assertEqual(model.states(), states)

    def test_modules_in_lists_that_have_no_shape_yet_are_left_alone(self):
        model = mlp(width=32)
        model.later = [torch.nn.LazyLinear(4), torch.nn.ModuleList([torch.nn.Linear(2, 2)])]
        self.assertEqual(searched(model, effective=64, max_trials=2).effective_batch, 64)

    def test_optimizers_of_ones_own(self):
        model = mlp(width=32)
        for optimizer, tensors in ((Momentum(model.parameters()), "sums"),
                                   (Slowly(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)), "slow")):
            kept = getattr(optimizer, tensors)
            before = [tensor.clone() for tensor in kept]
            plan = searched(model, optimizer, effective=64, max_trials=2)
            self.assertGreaterEqual(plan.carried_bytes, 2 * sum(p.nbytes for p in model.parameters()))
            self.assertEqual(optimizer.updates, 0)
            self.assertIs(getattr(optimizer, tensors), kept)
            self.assertTrue(all(map(torch.equal, before, kept)))
        self.assertEqual(optimizer.optimizer.state, {})

    def test_a_module_in_keep_with_all_that_it_has(self):
        model = mlp(width=32)
        average, step = Average(model), step_of(model)

        def stepping(batch, weight):
            step(batch, weight)
            average.update()
        searched(model, step=stepping, effective=64, keep=[average], max_trials=2)
        self.assertEqual((average.updates, average.share.item(), average.mean.item()), (0, 1.0, 0.0))

    def test_generators_of_every_kind(self):
        generators = [random.Random(0), numpy.random.RandomState(0), numpy.random.default_rng(0), torch.Generator().manual_seed(0)]

        def draw():
            python, old, new, torchs = generators
            return python.random(), old.rand(), new.random(), torch.rand((), generator=torchs).item()
        snapshot = Snapshot([torch.nn.Linear(1, 1)], [], generators)
        drawn = draw()
        self.assertNotEqual(draw(), drawn)
        snapshot.put_back()
        self.assertEqual(draw(), drawn)

    def test_collections_within_themselves_end(self):
        loop = [torch.zeros(1)]
        loop += [loop, {"again": loop}]
        self.assertEqual(len(list(leaves(loop))), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
