#!/usr/bin/env python3
"""Steps in mixed precision: gradients that are not finite, scales that are large, updates that a scaler leaves out.

    precision_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import unittest

from given import assert_same, everything, images_and_classes, mlp, searched, torch

import autotrain
from torch import nn


class Warm(nn.Module):
    """Its first weight is a single number."""

    def __init__(self):
        super().__init__()
        self.temperature, self.body = nn.Parameter(torch.ones(())), mlp(width=32)

    def forward(self, inputs):
        return self.body(inputs) * self.temperature


def scaled_step(model, scaler, times=1.0, half=False):
    def step(batch, weight):
        with torch.autocast("cpu", dtype=torch.float16, enabled=half):
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1]) * weight * times
        scaler.scale(loss).backward()
    return step


class Scaled(unittest.TestCase):
    def found(self, model, step, **options):
        optimizer = options.pop("optimizer", None) or torch.optim.AdamW(model.parameters())
        before = everything(model, optimizer)
        plan = searched(model, optimizer, step=step, effective=64, **options)
        assert_same(self, before, everything(model, optimizer))
        return plan

    def test_a_loss_that_overflows_at_first(self):
        model, scaler = mlp(width=32), torch.amp.GradScaler("cpu")
        plan = self.found(model, scaled_step(model, scaler, times=1e35), scaler=scaler)
        self.assertEqual(plan.effective_batch, 64)
        model, scaler = mlp(width=32), torch.amp.GradScaler("cpu")
        self.found(model, scaled_step(model, scaler, times=1e3, half=True), scaler=scaler)

    def test_a_first_weight_that_is_a_number(self):
        for seed in range(6):
            model, scaler = Warm(), torch.amp.GradScaler("cpu", init_scale=2.0 ** 24)
            torch.manual_seed(seed)
            self.assertEqual(self.found(model, scaled_step(model, scaler), scaler=scaler, max_trials=1).effective_batch, 64)

    def test_gradients_that_are_dropped_are_still_seen(self):
        model, scaler = Warm(), torch.amp.GradScaler("cpu")
        scaled = scaled_step(model, scaler)

        def step(batch, weight):
            model.zero_grad()
            scaled(batch, weight)
        with self.assertRaisesRegex(autotrain.StepError, "drops the gradients"):
            self.found(model, step, scaler=scaler)

    def test_clipping_within_a_step_is_named(self):
        model = mlp(width=32)

        def step(batch, weight):
            (nn.functional.cross_entropy(model(batch[0]), batch[1]) * weight).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with self.assertRaisesRegex(autotrain.StepError, "clip gradients after the last micro-batch"):
            self.found(model, step)

    def test_updates_that_are_left_out_are_in_the_budget(self):
        """The state of an optimizer counts though the first updates, in which a scaler finds its scale, make none."""
        carried = []
        for scale in (1.0, 2.0 ** 127):
            model, scaler = mlp(width=512), torch.amp.GradScaler("cpu", init_scale=scale)
            plan = self.found(model, scaled_step(model, scaler, times=1e3), scaler=scaler)
            carried.append((plan.carried_bytes, scaler.get_scale()))
        self.assertEqual(carried[0][0], carried[1][0])
        self.assertEqual([scale for _, scale in carried], [1.0, 2.0 ** 127])

    def test_a_step_whose_own_updates_are_left_out_at_first(self):
        model, scaler = mlp(width=32), torch.amp.GradScaler("cpu", init_scale=2.0 ** 127)
        optimizer, scaled = torch.optim.AdamW(model.parameters()), scaled_step(model, scaler, times=1e3)

        def step(batch):
            optimizer.zero_grad()
            scaled(batch, 1.0)
            scaler.step(optimizer)
            scaler.update()
        before = everything(model, optimizer)
        plan = searched(model, optimizer, step=step, scaler=scaler, effective=None, most=64)
        self.assertEqual((plan.micro_batch, plan.window), (64, 1))
        assert_same(self, before, everything(model, optimizer))
        self.assertEqual(scaler.get_scale(), 2.0 ** 127)
        with self.assertRaisesRegex(autotrain.StepError, "makes the update itself"):
            self.found(model, step, optimizer=optimizer, scaler=scaler)
        self.assertNotIn("step", vars(scaler))

    def test_a_scaler_that_the_step_does_not_use_is_named(self):
        model = mlp(width=32)
        step = scaled_step(model, torch.amp.GradScaler("cpu", enabled=False))
        with self.assertRaisesRegex(autotrain.StepError, "scaler: is not used by the step"):
            self.found(model, step, scaler=torch.amp.GradScaler("cpu"))


class OtherWays(unittest.TestCase):
    def test_gradients_that_a_step_sets_itself(self):
        model = mlp(width=32)
        parameters = list(model.parameters())

        def step(batch, weight):
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1]) * weight
            for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters)):
                parameter.grad = grad if parameter.grad is None else parameter.grad + grad
        self.assertEqual(searched(model, step=step, effective=64).effective_batch, 64)

    def test_an_update_by_hand_is_named(self):
        model = mlp(width=32)

        def step(batch, weight):
            (nn.functional.cross_entropy(model(batch[0]), batch[1]) * weight).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
        with self.assertRaisesRegex(autotrain.StepError, "changes the weights itself"):
            searched(model, step=step, effective=64)

    def test_weights_of_one_layer_that_are_kept_normal_are_no_update(self):
        model = mlp(width=32)

        def step(batch, weight):
            with torch.no_grad():
                model[-1].weight.div_(model[-1].weight.norm())
            (nn.functional.cross_entropy(model(batch[0]), batch[1]) * weight).backward()
        self.assertEqual(searched(model, step=step, effective=64).effective_batch, 64)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
