#!/usr/bin/env python3
"""A search leaves weights, buffers, optimizers, gradients, modes and random numbers bit for bit as they were, in place.

    state_test.py path/to/libautotrain_python.so path/to/project
"""
import copy
import random
import sys
import tempfile
import unittest
import warnings

from given import assert_same, everything, numpy, torch

import autotrain
import torch.nn.utils.prune
from torch import nn

warnings.filterwarnings("ignore", message="Detected call of .lr_scheduler.step")
OPTIMIZERS = [lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
              lambda p: torch.optim.Adam(p, 1e-3, amsgrad=True), lambda p: torch.optim.AdamW(p, 1e-3, foreach=False),
              lambda p: torch.optim.AdamW(p, torch.tensor(1e-3)), lambda p: torch.optim.RMSprop(p, 1e-3, centered=True),
              lambda p: torch.optim.Adagrad(p, 0.1), lambda p: torch.optim.NAdam(p), lambda p: torch.optim.RAdam(p),
              lambda p: torch.optim.Adafactor(p), lambda p: torch.optim.Rprop(p), lambda p: torch.optim.ASGD(p)]
PARTS = [lambda w: nn.ReLU(), lambda w: nn.BatchNorm1d(w), lambda w: nn.LayerNorm(w), lambda w: nn.Dropout(0.3),
         lambda w: nn.Linear(w, w), lambda w: nn.BatchNorm1d(w, momentum=None), lambda w: nn.Sequential(nn.Linear(w, w), nn.Tanh()),
         lambda w: nn.utils.parametrizations.weight_norm(nn.Linear(w, w)),
         lambda w: nn.utils.parametrizations.spectral_norm(nn.Linear(w, w))]


class Counting(nn.Module):
    """Keeps a buffer that it replaces, and one that it changes in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(1), persistent=False)

    def forward(self, inputs):
        self.calls = self.calls + 1
        self.mean.lerp_(inputs.detach().mean(), 0.1)
        return inputs


def asked(model, optimizer):
    return autotrain.find(step_of(model), lambda n: (torch.randn(n, 12), torch.randint(0, 3, (n,))), model=model, optimizer=optimizer,
                          effective=16, most=8, budget="64MiB", max_trials=2)


def any_module(draw):
    width = draw.choice([8, 16, 40])
    parts = [nn.Linear(12, width), *(draw.choice(PARTS)(width) for _ in range(draw.randrange(1, 5))), Counting()]
    model = nn.Sequential(*parts, nn.Linear(width, 3))
    if draw.random() < 0.3:
        model[0].weight.requires_grad_(False)
    if draw.random() < 0.3:
        model[1].eval()
    return model


def step_of(model):
    def step(batch):
        inputs, targets = batch
        noise = random.random() + numpy.random.rand()
        nn.functional.cross_entropy(model(inputs * noise), targets).backward()
    return step


class State(unittest.TestCase):
    def check(self, seed):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        model = any_module(draw)
        optimizer = OPTIMIZERS[seed % len(OPTIMIZERS)]([p for p in model.parameters() if p.requires_grad])
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
        step, make = step_of(model), lambda n: (torch.randn(n, 12), torch.randint(0, 3, (n,)))
        for _ in range(draw.randrange(3)):  # a search at the start, and in the middle of a training
            step(make(4))
            optimizer.step()
        if draw.random() < 0.5:
            optimizer.zero_grad()
        before, rates = everything(model, optimizer), schedule.state_dict()
        shown = []

        def searching(batch):
            step(batch)
            schedule.step()
            shown.append(model[0].bias.detach().clone())
        plan = autotrain.find(searching, make, model=model, optimizer=optimizer, effective=300, budget="64MiB",
                              schedulers=[schedule], evaluate=lambda batch: model(batch[0]))
        self.assertEqual(plan.effective_batch, 300)
        self.assertFalse(all(torch.equal(shown[0], later) for later in shown[1:]), "the search changed no weight")
        assert_same(self, before, everything(model, optimizer))
        self.assertEqual(rates, schedule.state_dict())


for number in range(30):
    setattr(State, f"test_module_{number}", lambda self, seed=number: self.check(seed))


class Others(unittest.TestCase):
    def test_tied_weights_and_views_come_back_once(self):
        model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16, bias=False))
        model[1].weight = model[0].weight
        optimizer = torch.optim.Adam(model.parameters())
        before = everything(model, optimizer)
        autotrain.find(lambda batch: model(batch).square().mean().backward(), lambda n: torch.randint(0, 16, (n, 3)), model=model,
                       optimizer=optimizer, effective=40, budget="64MiB")
        assert_same(self, before, everything(model, optimizer))
        self.assertIs(model[0].weight, model[1].weight)

    def test_weights_that_a_step_gives_other_memory_lie_where_they_were(self):
        model = nn.Linear(4, 4)

        def step(batch):
            model(batch).sum().backward()
            model.weight.data = model.weight.data.clone()
        before = everything(model)
        autotrain.find(step, lambda n: torch.randn(n, 4), model=model, effective=8, budget="64MiB")
        assert_same(self, before, everything(model))

    def test_schedules_with_an_end_do_not_reach_it(self):
        model = nn.Linear(12, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=6)
        before = schedule.state_dict(), [{**group, "params": 0} for group in optimizer.param_groups]

        def step(batch):
            step_of(model)(batch)
            schedule.step()
        for effective in (16, None):
            autotrain.find(step, lambda n: (torch.randn(n, 12), torch.randint(0, 3, (n,))), model=model, optimizer=optimizer,
                           schedulers=schedule, effective=effective, most=8, budget="64MiB")
            self.assertEqual(before, (schedule.state_dict(), [{**group, "params": 0} for group in optimizer.param_groups]))

    def test_a_scaler_and_a_generator_of_ones_own(self):
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler, mine, old = torch.amp.GradScaler("cpu"), torch.Generator(), numpy.random.default_rng(3)

        def step(batch):
            scaler.scale(model(batch + old.random()).sum()).backward()
        states = scaler.state_dict(), mine.get_state().tolist(), str(old.bit_generator.state)
        autotrain.find(step, lambda n: torch.randn(n, 4, generator=mine), model=model, optimizer=optimizer, scaler=scaler,
                       keep=[mine, old], effective=8, budget="64MiB")
        self.assertEqual(states, (scaler.state_dict(), mine.get_state().tolist(), str(old.bit_generator.state)))

    def test_optimizers_within_optimizers_under_any_name(self):
        class Lookahead(torch.optim.Optimizer):
            def __init__(self, base, inside):
                self.slow, self.updates = {}, 0
                setattr(self, inside, [base] if inside == "several" else base)
                self.base = (base,) if inside == "several" else base
                super().__init__(base.param_groups, {})
                self.param_groups = base.param_groups

            @torch.no_grad()
            def step(self):
                (self.base[0] if isinstance(self.base, tuple) else self.base).step()
                self.updates += 1
                for parameter in self.param_groups[0]["params"] if self.updates % 3 == 0 else ():
                    slow = self.slow.setdefault(parameter, parameter.clone())
                    parameter.copy_(slow.lerp_(parameter, 0.5))

        def trained(inside, search):
            torch.manual_seed(0)
            model = nn.Linear(12, 3)
            optimizer = Lookahead(torch.optim.Adam(model.parameters(), 0.01), inside)
            if search:
                asked(model, optimizer)
            for _ in range(4):
                step_of(model)((torch.ones(8, 12), torch.arange(8) % 3))
                optimizer.step()
                optimizer.zero_grad()
            return model.weight.detach()
        for inside in ("base_optimizer", "several"):
            random.seed(0), numpy.random.seed(0)
            plain = trained(inside, search=False)
            random.seed(0), numpy.random.seed(0)
            self.assertTrue(torch.equal(plain, trained(inside, search=True)), inside)

    def test_what_hooks_pruning_and_norms_keep_at_layers_of_pytorch(self):
        model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
        nn.utils.prune.l1_unstructured(model[0], "weight", 0.5)
        nn.utils.spectral_norm(model[2])
        model[1].register_forward_hook(lambda part, _, output: setattr(part, "seen", output.detach()))
        pruned = model[0].weight.detach().clone()
        copy.deepcopy(model[2])
        asked(model, torch.optim.SGD(model.parameters(), 1.0))
        self.assertTrue(torch.equal(pruned, model[0].weight))
        self.assertFalse(hasattr(model[1], "seen"))
        copy.deepcopy(model[2])

    def test_buffers_that_are_resized_and_files_that_are_only_read(self):
        class Sees(nn.Module):
            def __init__(self, table):
                super().__init__()
                self.normal, self.linear = nn.BatchNorm1d(12), nn.Linear(12, 3)
                self.register_buffer("seen", torch.zeros(0, 12))
                self.register_buffer("table", table)
                self.register_buffer("least", torch.zeros(2))

            def forward(self, inputs):
                if len(self.seen) < len(inputs):
                    self.seen.resize_(inputs.shape).copy_(inputs.detach())
                    self.least.resize_(12).copy_(inputs.detach().amin(0))
                return self.linear(self.normal(inputs) + self.table[0])
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/table.npy", numpy.ones((4, 12), numpy.float32))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = Sees(torch.from_numpy(numpy.load(f"{folder}/table.npy", mmap_mode="r")))
            before = {name: value.clone() for name, value in model.state_dict().items()}
            asked(model, torch.optim.SGD(model.parameters(), 0.1))
            for name, value in model.state_dict().items():
                self.assertTrue(torch.equal(value, before[name]), name)
            self.assertEqual(model.seen.untyped_storage().nbytes(), 0)

    def test_training_goes_on_as_without_a_search(self):
        def trained(search):
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(12, 16), nn.Dropout(0.2), nn.Linear(16, 3))
            optimizer = torch.optim.AdamW(model.parameters())
            make = lambda n: (torch.randn(n, 12), torch.randint(0, 3, (n,)))
            step = lambda batch: nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
            for update in range(6):
                if search and update == 3:
                    autotrain.find(step, make, model=model, optimizer=optimizer, effective=64, budget="64MiB")
                optimizer.zero_grad()
                step(make(32))
                optimizer.step()
            return torch.cat([p.detach().flatten() for p in model.parameters()])
        self.assertTrue(torch.equal(trained(search=False), trained(search=True)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
