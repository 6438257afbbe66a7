#!/usr/bin/env python3
"""Ranks of DistributedDataParallel search each alone, take the same size, and leave no trace; what would have them wait for each other is
refused by name.

    ranks_test.py path/to/libautotrain_python.so path/to/project
"""
import copy
import json
import os
import socket
import sys
import tempfile
import unittest
from datetime import timedelta
from pathlib import Path

from given import BUDGET, assert_same, everything, mlp, step_of, torch

import autotrain
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel

EFFECTIVE = 4000


def images_and_classes(samples):
    return torch.randn(samples, 32), torch.randint(0, 4, (samples,))


def replica():
    model = DistributedDataParallel(mlp(normal=True))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def searched(model, optimizer, step=None, **options):
    return autotrain.find(step or step_of(model), images_and_classes, model=model, optimizer=optimizer,
                          **{"effective": EFFECTIVE, "budget": BUDGET, **options})


def unequal_costs(rank):
    """A size of rank 0 costs more."""
    model, optimizer = replica()

    def step(batch, weight=1.0):
        inputs, targets = batch
        wide = inputs.repeat(1, 40).requires_grad_() * 1.0 if rank == 0 else inputs.requires_grad_() * 1.0
        loss = torch.nn.functional.cross_entropy(model(inputs), targets) + (wide * wide).mean()
        (loss * weight).backward()
    torch.manual_seed(rank)
    before = copy.deepcopy(everything(model, optimizer))
    plan = searched(model, optimizer, step)
    alone = everything(model, optimizer)
    test = unittest.TestCase()
    assert_same(test, before, alone)
    test.assertTrue(model.require_backward_grad_sync and model.require_forward_param_sync)
    test.assertEqual((plan.ranks, plan.effective_batch, plan.json["effective_batch"]), (2, EFFECTIVE, EFFECTIVE // 2))
    test.assertIn("2000 on each of 2 ranks", str(plan))
    return plan.micro_batch, plan.window, plan.fill


def big_batch(rank):
    """Accumulated pieces of the ranks' shares, of which one is smaller, are the gradient of all samples at once; under the limit that was
    searched with."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4))
    model = DistributedDataParallel(copy.deepcopy(plain))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    plan = searched(model, optimizer, most=300, effective=1400)
    torch.manual_seed(5)
    inputs, targets = images_and_classes(1400)
    shares = slice(0, 900), slice(900, 1400)
    step = step_of(model)
    with autotrain.hold(BUDGET, model=model, optimizer=optimizer) as held:
        for _ in range(3):  # buckets are made anew in the second
            optimizer.zero_grad()
            pieces = list(plan.pieces((inputs[shares[rank]], targets[shares[rank]])))
            with model.no_sync():
                for piece, weight in pieces[:-1]:
                    step(piece, weight)
            step(*pieces[-1])
            optimizer.step()
        assert held.peak_bytes <= held.budget_bytes
    step_of(plain)((inputs, targets))
    for one, other in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)
    return len(pieces), plan.micro_batch


def nothing_counts(rank):
    model, optimizer = replica()
    plan = searched(model, optimizer, most=100)
    try:
        list(plan.pieces(images_and_classes(50), count=lambda piece: 0 if rank == 1 else len(piece[1])))
    except autotrain.StepError as error:
        return str(error)


def one_fails(rank):
    model, optimizer = replica()

    def step(batch):
        if rank == 1 and len(batch[0]) > 100:
            raise ValueError("a label is missing")
        step_of(model)(batch)
    try:
        searched(model, optimizer, step)
    except Exception as error:
        return type(error).__name__, str(error)


def one_does_not_fit(rank):
    model, optimizer = replica()
    try:
        searched(model, optimizer, budget="64KiB" if rank == 0 else BUDGET)
    except Exception as error:
        return type(error).__name__, str(error)


def one_is_given_something_else(rank):
    model, optimizer = replica()
    said = []
    for option, value in (("effective", EFFECTIVE + 2 * rank), ("cut", "full" if rank else "even")):
        try:
            searched(model, optimizer, **{option: value})
        except autotrain.StepError as error:
            said.append(str(error))
    if rank == 1:
        model.eval()
    try:
        searched(model, optimizer)
    except autotrain.Error as error:
        said.append(str(error))
    return said


def refused(rank):
    said = []
    model, optimizer = replica()
    normal = torch.nn.SyncBatchNorm.convert_sync_batchnorm(mlp(normal=True))  # which DDP takes on GPUs alone
    from torch.distributed.optim import ZeroRedundancyOptimizer
    sharded = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    at_once = DistributedDataParallel(mlp(), static_graph=True)
    for options in ({"effective": EFFECTIVE + 1}, {"model": normal, "optimizer": None}, {"optimizer": sharded},
                    {"model": at_once, "optimizer": None}, {"model": model.module, "step": step_of(model)}):
        try:
            searched(**{"model": model, "optimizer": optimizer, **options})
            said.append("nothing")
        except autotrain.StepError as error:
            said.append(str(error))
    return said


def shared_budget(rank):
    model, optimizer = replica()
    from autotrain.ranks import Ranks
    ranks, cpu = Ranks([model]), torch.device("cpu")
    hosts = ranks.exchange(socket.gethostname())
    plan = searched(model, optimizer, budget="80%", most=50)
    assert plan.micro_batch == 50
    return ([ranks.budget(text, cpu, hosts) for text in ("80%", "auto", "512MiB", "lots%")] +
            [ranks.budget("80%", torch.device("meta"), hosts), ranks.budget("80%", cpu, [hosts[0], "other"])])


CASES = [unequal_costs, big_batch, nothing_counts, one_fails, one_does_not_fit, one_is_given_something_else, refused, shared_budget]


def on_rank(rank, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2,
                                   timeout=timedelta(seconds=120))
    results = {}
    for case in CASES:
        results[case.__name__] = case(rank)
        distributed.barrier()
    distributed.destroy_process_group()
    Path(folder, str(rank)).write_text(json.dumps(results))


class RanksOfDdp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(on_rank, args=(folder,), nprocs=2)
            cls.results = [json.loads(Path(folder, str(rank)).read_text()) for rank in range(2)]

    def both(self, what):
        return [results[what.__name__] for results in self.results]

    def test_all_take_the_size_of_the_costliest_and_nothing_is_left(self):
        (micro, window, fill), other = self.both(unequal_costs)
        self.assertEqual([micro, window], other[:2])
        self.assertTrue(0.5 < fill <= 0.9, fill)
        self.assertLess(other[2], fill)
        self.assertTrue(1 < micro * window >= EFFECTIVE // 2)

    def test_accumulating_on_all_is_the_big_batch(self):
        for count, micro in self.both(big_batch):
            self.assertTrue(count > 1 and micro <= 300)

    def test_an_error_of_one_ends_all(self):
        other, own = self.both(one_fails)
        self.assertEqual(own[0], "ValueError")
        self.assertEqual(other[0], "Error")
        self.assertIn("rank 1: ended its search: ValueError: a label is missing", other[1])

    def test_where_one_does_not_fit_none_does(self):
        own, other = self.both(one_does_not_fit)
        self.assertEqual([own[0], other[0]], ["DoesNotFit", "DoesNotFit"])
        self.assertIn("rank 0", other[1])

    def test_what_speaks_with_other_ranks_is_refused(self):
        for odd, normal, sharded, at_once, within in self.both(refused):
            self.assertIn("2 ranks cannot share evenly", odd)
            self.assertIn("SyncBatchNorm: it takes its statistics over all ranks", normal)
            self.assertIn("ZeroRedundancyOptimizer", sharded)
            self.assertIn("static_graph: it exchanges gradients in its first pass", at_once)
            self.assertIn("DistributedDataParallel that was not given", within)

    def test_ranks_that_are_given_other_things_do_not_wait_for_each_other(self):
        (effective, cut, mode), others = self.both(one_is_given_something_else)
        self.assertIn(f"effective: is {EFFECTIVE // 2 + 1} on rank 1 and {EFFECTIVE // 2} on rank 0", effective)
        self.assertIn("cut: is 'full' on rank 1", cut)
        self.assertIn("rank 1: ended its search: StepError: model: is in evaluation mode", mode)
        self.assertEqual([effective, cut], others[:2])

    def test_a_share_of_which_nothing_counts_ends_all(self):
        for said in self.both(nothing_counts):
            self.assertIn("rank 1 has nothing that counts", said)

    def test_ranks_of_one_machine_share_what_is_free(self):
        for shares in self.both(shared_budget):
            self.assertEqual(shares, ["40.000000%", "50.000000%", "512MiB", "lots%", "80%", "80%"])


if __name__ == "__main__":
    if not distributed.is_available() or not distributed.is_gloo_available():
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
