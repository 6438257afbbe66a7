#!/usr/bin/env python3
"""autotrain.find names what is wrong with what it is given, and whatever ends it leaves all as it was.

    refusals_test.py path/to/libautotrain_python.so path/to/project
"""
import os
import signal
import sys
import traceback
import unittest

from given import BUDGET, assert_same, everything, images_and_classes, mlp, searched, step_of, torch

import autotrain
from autotrain.state import interrupts_wait


class Refuses(unittest.TestCase):
    def assert_says(self, kind, words, **options):
        with self.assertRaises(kind) as caught:
            searched(**options)
        for word in words:
            self.assertIn(word, str(caught.exception))
        return caught.exception

    def test_one_sample_that_does_not_fit(self):
        model = torch.nn.Linear(32, 4)
        step = lambda batch: (model(batch[0]).sum() + torch.ones(32 << 20).sum() * 0).backward()
        error = self.assert_says(autotrain.DoesNotFit, ["not even 1 sample", "64.0 MiB", "try: raise the budget", "measured"],
                                 model=model, step=step, optimizer=torch.optim.SGD(model.parameters(), 0.1), budget="64MiB")
        enough = int(error.hint.split("raise the budget: ")[1].split("MiB")[0])
        searched(model=model, step=step, optimizer=torch.optim.SGD(model.parameters(), 0.1), budget=f"{enough}MiB", effective=1)

    def test_weights_that_are_more_than_the_budget(self):
        self.assert_says(autotrain.DoesNotFit, ["weights", "1.00 MiB"], budget="1MiB")

    def test_a_budget_that_is_none(self):
        self.assert_says(autotrain.Error, ["budget", "lots", "80%"], budget="lots")

    def test_too_few_samples(self):
        self.assert_says(autotrain.StepError, ["make_batch(", "gave 100 samples", "most=100"],
                         make_batch=lambda n: images_and_classes(min(n, 100)))

    def test_a_step_without_a_backward_pass(self):
        model = mlp()
        self.assert_says(autotrain.StepError, ["no gradient", "loss.backward()"], model=model,
                         step=lambda batch: model(batch[0]).sum())

    def test_a_model_of_which_nothing_trains(self):
        model = torch.nn.Linear(32, 4).requires_grad_(False)
        self.assert_says(autotrain.StepError, ["none of its parameters trains"], model=model)

    def test_a_step_that_makes_the_update_itself(self):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(batch):
            step_of(model)(batch)
            optimizer.step()
        self.assert_says(autotrain.StepError, ["makes the update itself"], model=model, optimizer=optimizer, step=step)
        self.assertEqual(searched(model=model, optimizer=optimizer, step=step, effective=None, most=64).micro_batch, 64)

    def test_a_step_that_accumulates_by_a_counter_of_its_own(self):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def counting(every, after):
            calls = []

            def step(batch):
                calls.append(1)
                step_of(model)(batch)
                if len(calls) % every == 0:
                    after()
            return step
        self.assert_says(autotrain.StepError, ["drops the gradients"], model=model, step=counting(4, optimizer.zero_grad))
        for given in (optimizer, None):
            options = {"model": model, "optimizer": given, "effective": 1000, "max_trials": 2}
            with self.assertRaisesRegex(autotrain.StepError, "makes the update itself"):
                autotrain.find(counting(12, optimizer.step), images_and_classes, budget=BUDGET, **options)

    def test_a_step_that_unscales_and_clips_gradients(self):
        model, scaler = mlp(), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.Adam(model.parameters())

        def step(batch):
            scaler.scale(torch.nn.functional.cross_entropy(model(batch[0]), batch[1])).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

        def steps(batch):
            step(batch)
            scaler.step(optimizer)
        options = {"model": model, "optimizer": optimizer, "scaler": scaler, "most": 64, "max_trials": 2}
        self.assert_says(autotrain.StepError, ["unscales gradients", "clip gradients after the last micro-batch"], step=step, **options)
        self.assert_says(autotrain.StepError, ["makes the update itself"], step=steps, **options)
        for each in (step, steps):
            self.assertEqual(searched(step=each, effective=None, **options).micro_batch, 64)
        self.assert_says(autotrain.StepError, ["a gradient scaler that was not given"], step=step, effective=None, **{**options, "scaler": None})
        scaler.update()
        step(images_and_classes(4))
        searched(step=step, effective=None, **options)
        with self.assertRaisesRegex(RuntimeError, "already been called"):  # in the update that had begun before the search
            scaler.unscale_(optimizer)

    def test_of_several_optimizers_the_trial_steps_those_that_the_step_does_not(self):
        for scaler in (None, torch.amp.GradScaler("cpu")):
            first, second = torch.nn.Linear(32, 2048), torch.nn.Linear(32, 4)
            optimizers = [torch.optim.Adam(part.parameters()) for part in (first, second)]
            scaled, by = (scaler.scale, scaler.step) if scaler else (lambda loss: loss, lambda optimizer: optimizer.step())

            def step(batch):
                scaled(second(batch[0]).square().mean()).backward()
                by(optimizers[1])
                optimizers[1].zero_grad()
                scaled(first(batch[0]).square().mean()).backward()
            plan = searched(model=[first, second], optimizer=optimizers, scaler=scaler, step=step, effective=None, most=4, max_trials=2)
            self.assertGreaterEqual(plan.carried_bytes, 3 * sum(p.nbytes for p in first.parameters()))
            self.assertEqual([optimizer.state for optimizer in optimizers], [{}, {}])

    def test_a_step_that_drops_gradients(self):
        model = mlp()

        def step(batch):
            model.zero_grad()
            step_of(model)(batch)
        self.assert_says(autotrain.StepError, ["drops the gradients"], model=model, step=step)

    def test_a_step_that_keeps_its_outputs(self):
        model, kept = mlp(), []

        def step(batch):
            outputs = model(batch[0])
            kept.append(torch.cat([outputs] * 300))
            outputs.sum().backward()
        self.assert_says(autotrain.StepError, ["more behind with each update", "loss.item()"], model=model, step=step)

    def test_a_step_that_catches_what_ran_out_leaves_no_sample_out(self):
        model, missed = torch.nn.Linear(32, 8), []

        def step(batch, weight):
            """Sizes that small ones promise are refused, as memory grows with the square of the samples."""
            try:
                outputs = model(batch[0])
                ((outputs @ outputs.T).square().mean() * weight).backward()
            except torch.OutOfMemoryError:
                missed.append(len(batch[0]))
        plan = searched(model=model, step=step, optimizer=torch.optim.SGD(model.parameters(), 0.1), effective=8192)
        self.assertIn("refused", [trial.outcome for trial in plan.trail], str(plan))
        missed.clear()
        with autotrain.hold(BUDGET, model=model):
            for piece, weight in plan.pieces(images_and_classes(8192)):
                step(piece, weight)
        self.assertEqual(missed, [])

    def test_an_optimizer_of_another_model(self):
        self.assert_says(autotrain.StepError, ["none of its parameters"], optimizer=torch.optim.SGD(mlp().parameters(), 0.1))

    def test_a_device_without_a_limit(self):
        with self.assertRaises(autotrain.Error) as caught:
            autotrain.find(lambda batch: None, lambda n: None, model=torch.nn.Linear(2, 2, device="meta"))
        self.assertIn("meta", str(caught.exception))


class Stops(unittest.TestCase):
    """Whatever a step raises, it is raised as it came, and all is as it was."""

    def stopped_by(self, error, after):
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters())
        step_of(model)(images_and_classes(4))
        optimizer.step()
        calls = []

        def step(batch):
            calls.append(len(batch[0]))
            if len(calls) == after:
                raise error
            step_of(model)(batch)
        before = everything(model, optimizer)
        try:
            searched(model=model, optimizer=optimizer, step=step)
        except BaseException as caught:  # unittest's own way drops the traceback
            self.assertIs(caught, error)
            self.assertIn("step", [frame.name for frame in traceback.extract_tb(caught.__traceback__)])
        else:
            self.fail("the error was swallowed")
        assert_same(self, before, everything(model, optimizer))
        return error

    def test_an_error_of_the_steps_own(self):
        error = self.stopped_by(KeyError("column"), after=11)
        self.assertIn("trying a micro-batch of 16 samples", error.__notes__[0])

    def test_an_error_in_the_first_update(self):
        self.stopped_by(RuntimeError("shapes differ"), after=1)

    def test_an_interrupt_in_a_trial(self):
        self.stopped_by(KeyboardInterrupt(), after=12)

    def test_a_signal_in_a_trial(self):
        model = mlp()
        calls = []

        def step(batch):
            calls.append(1)
            if len(calls) == 12:
                os.kill(os.getpid(), signal.SIGINT)
            step_of(model)(batch)
        before, handler = everything(model), signal.getsignal(signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            searched(model=model, step=step)
        self.assertEqual(len(calls), 12)
        self.assertIs(signal.getsignal(signal.SIGINT), handler)
        assert_same(self, before, everything(model))

    def test_an_interrupt_while_all_is_put_back_waits_for_it(self):
        done = []
        with self.assertRaises(KeyboardInterrupt):
            with interrupts_wait():
                os.kill(os.getpid(), signal.SIGINT)
                done.append(1)
        self.assertEqual(done, [1])

    def test_after_a_refusal_memory_is_free_and_unlimited(self):
        model = mlp()
        searched(model=model)
        del model
        self.assertEqual(torch.ones(200 << 18).numel(), 200 << 18)  # 200 MiB, of a budget of 48

    def test_refusals_do_not_end_a_search(self):
        model = torch.nn.Linear(32, 8)

        def step(batch):
            """Memory grows with the square of the samples: sizes that small ones promise are refused."""
            outputs = model(batch[0])
            (outputs @ outputs.T).square().mean().backward()
        plan = searched(model=model, step=step)
        self.assertIn("refused", [trial.outcome for trial in plan.trail], str(plan))
        self.assertTrue(plan.confirmed and plan.fill <= 0.9, str(plan))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
