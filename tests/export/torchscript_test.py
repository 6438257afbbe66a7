#!/usr/bin/env python3
"""TorchScript modules are trained here as in Python, and go back as TorchScript.

    torchscript_test.py path/to/autotrain path/to/project
"""
import sys
import unittest
import warnings

import numpy
import torch
from export_test import EFFECTIVE, IMAGES, SAMPLES, Exported, losses_in_python, made, models, plain
from safetensors.torch import load_file
from torch import nn

warnings.filterwarnings("ignore", category=DeprecationWarning)


class Scripted(Exported):
    def scripted(self, maker):
        net = made(maker)
        torch.jit.script(net).save(self.folder / "m.pt")
        return net if maker is models.FrozenBody else net.train()

    def script_recipe(self, **sections):
        model = {"name": "torchscript", "file": str(self.folder / "m.pt"), **sections.pop("model", {})}
        return self.recipe("images", model=model, **{"stop": {"updates": 30}, **sections})

    def fails(self, recipe, code, message):
        out = self.autotrain("plan", "--config", recipe)
        self.assertEqual(out.returncode, code, out.stderr)
        self.assertIn(message, out.stderr)


class TorchScript(Scripted):
    CASES = {"mlp": models.mlp, "convolutional": models.convolutional, "frozen body": models.FrozenBody, "residual": models.Residual}

    def test_updates_follow_the_same_loop_in_python_and_the_module_goes_back(self):
        for name, maker in self.CASES.items():
            with self.subTest(model=name):
                net = self.scripted(maker)
                rows = self.train(self.script_recipe(), f"run-{name}")
                expected = losses_in_python(net, self.data["images"], 30, 0.01, 0.9, plain)
                for row, loss in zip(rows, expected, strict=True):
                    self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
                out = self.autotrain("export", "--run", self.folder / f"run-{name}", "--output", self.folder / "trained.pt", "--overwrite")
                self.assertEqual(out.returncode, 0, out.stderr)
                trained, state = torch.jit.load(self.folder / "trained.pt"), self.weights(f"run-{name}")
                self.assertEqual(set(trained.state_dict()), set(made(maker).state_dict()), "names as in Python")
                for key, value in trained.state_dict().items():
                    self.assertTrue(torch.equal(value, state[key]), key)
                inputs = self.data["images"][0][:16]
                with torch.no_grad():
                    self.assertLess((trained.eval()(inputs) - net.eval()(inputs)).abs().max().item(), 1e-2)
                for key, value in made(maker).state_dict().items():
                    if name == "frozen body" and key.startswith("body."):
                        self.assertTrue(torch.equal(state[key], value), f"{key} is frozen")

    def test_dropout_stops_and_goes_on_to_the_same_bytes(self):
        self.scripted(models.Dropping)
        recipe = self.script_recipe(checkpoint={"every": "4 updates", "keep": 20}, stop={"updates": 12})
        self.train(recipe, "straight")
        self.train(self.script_recipe(checkpoint={"every": "4 updates", "keep": 20}, stop={"updates": 7}), "run")
        recipe = self.script_recipe(checkpoint={"every": "4 updates", "keep": 20}, stop={"updates": 12})
        out = self.autotrain("--config", recipe, "--output", self.folder / "run", "--resume", "--allow-change", "--quiet")
        self.assertEqual(out.returncode, 0, out.stderr)
        for file in ("model.safetensors", "optimizer.safetensors"):
            ends = [(self.folder / run / "checkpoints" / "update-12" / file).read_bytes() for run in ("straight", "run")]
            self.assertTrue(ends[0] == ends[1], file)

    def test_batch_normalisation_and_dropout_search_recover_and_resume_to_the_same_bits(self):
        self.scripted(models.Dropping)
        recipe = self.script_recipe(execution={"micro_batch": "auto", "memory": {"budget": "32MiB"}})
        out = self.autotrain("verify", "--config", recipe, "--updates", "8", "--kills", "2")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        for line in ("searched, not typed in", "killed and resumed", "stopped by a signal and resumed", "out of memory once"):
            self.assertRegex(out.stdout, rf"{line}\s+same bits")
        self.assertRegex(out.stdout, r"several ranks\s+not tried\s+batch normalisation")

    def test_memory_that_is_refused_inside_the_interpreter_is_known_as_such(self):
        # Activations of a sample take some 300 KiB, and 192 of them 56 MiB: more than the budget, in the forward pass.
        net = nn.Sequential(nn.Conv2d(3, 256, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(256 * 144, 5))
        torch.jit.script(net).save(self.folder / "m.pt")
        for micro_batch, code in ((192, 71), ("auto", 0)):
            recipe = self.script_recipe(batch={"effective": 192}, stop={"updates": 2},
                                        execution={"micro_batch": micro_batch, "memory": {"budget": "48MiB"}})  # fmt: skip
            out = self.autotrain("plan", "--config", recipe)
            self.assertEqual(out.returncode, code, out.stderr)
            if code == 71:
                self.assertIn("refused", out.stderr)

    def test_parts_are_frozen_and_layers_adapted(self):
        self.scripted(models.convolutional)
        self.train(self.script_recipe(model={"freeze": ["0.*", "1.*"]}, stop={"updates": 3}), "frozen")
        for key, value in made(models.convolutional).state_dict().items():
            stays = key.startswith(("0.", "1."))
            self.assertEqual(torch.equal(self.weights("frozen")[key], value), stays, key)
        self.train(self.script_recipe(model={"lora": {"match": ["9"], "rank": 3}}, stop={"updates": 3}), "adapted")
        adapted = self.weights("adapted")
        for key, value in made(models.convolutional).state_dict().items():
            self.assertTrue(torch.equal(adapted[key], value), key)
        self.autotrain("export", "--run", self.folder / "adapted", "--output", self.folder / "merged.pt")
        merged = torch.jit.load(self.folder / "merged.pt").state_dict()["9.weight"]
        change = 2 * adapted["9.lora_B.weight"] @ adapted["9.lora_A.weight"]
        self.assertGreater(change.abs().max().item(), 0)
        self.assertTrue(torch.allclose(merged, adapted["9.weight"] + change, atol=1e-6))

    def test_what_cannot_be_trained_is_said(self):
        torch.jit.trace(made(models.Dropping).eval(), torch.randn(2, 3, 12, 12)).save(self.folder / "m.pt")
        self.fails(self.script_recipe(), 78, "it was traced, and train() and eval() change nothing in it")
        (self.folder / "m.pt").write_bytes(b"PK\x03\x04 not a zip")
        self.fails(self.script_recipe(), 65, "is no TorchScript file that this program can read")
        torch.save(made(models.mlp).state_dict(), self.folder / "m.pt")
        self.fails(self.script_recipe(), 65, "is no TorchScript file that this program can read: it was written by torch.save")
        program = torch.export.export(made(models.mlp), (torch.randn(2, 3, 12, 12),))
        torch.export.save(program, self.folder / "m.pt2")
        self.fails(self.script_recipe(model={"file": str(self.folder / "m.pt2")}), 65, "it was written by torch.export")
        (self.folder / "m.pt").unlink()
        self.fails(self.script_recipe(), 66, "there is no such file")
        torch.jit.script(nn.Sequential(nn.Linear(7, 5))).save(self.folder / "m.pt")
        self.fails(self.script_recipe(), 78, "fails on a batch of [")
        frozen = torch.jit.freeze(torch.jit.script(made(models.mlp).eval()))
        frozen.save(self.folder / "m.pt")
        self.fails(self.script_recipe(), 65, "it was frozen for inference")
        self.exported(models.mlp, IMAGES)
        self.train(self.recipe("images", stop={"updates": 1}))
        out = self.autotrain("export", "--run", self.folder / "run", "--output", self.folder / "x.pt")
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("the run's model is exported", out.stderr)

    def test_tied_weights_stay_one(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(432, 432), nn.Linear(432, 432)
                self.out = nn.Linear(432, 5)
                self.second.weight = self.first.weight

            def forward(self, x):
                return self.out(torch.tanh(self.second(torch.tanh(self.first(x.flatten(1))))))

        net = self.scripted(Tied)
        rows = self.train(self.script_recipe(stop={"updates": 10}))
        expected = losses_in_python(net, self.data["images"], 10, 0.01, 0.9, plain)
        for row, loss in zip(rows, expected, strict=True):
            self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
        out = self.autotrain("export", "--run", self.folder / "run", "--output", self.folder / "w.safetensors")
        self.assertEqual(out.returncode, 0, out.stderr)
        made(Tied).load_state_dict(load_file(self.folder / "w.safetensors"))

        self.train(self.script_recipe(model={"lora": {"match": ["second"], "rank": 2, "alpha": 2}}, stop={"updates": 10}), "adapted")
        adapted = self.weights("adapted")
        names = {key for key in adapted if "lora" in key}
        self.assertEqual(names, {"first.lora_A.weight", "first.lora_B.weight"}, "of the one tensor's first name")
        self.autotrain("export", "--run", self.folder / "adapted", "--output", self.folder / "w.safetensors", "--overwrite")
        merged = load_file(self.folder / "w.safetensors")
        change = adapted["first.lora_B.weight"] @ adapted["first.lora_A.weight"]
        self.assertGreater(change.abs().max().item(), 0)
        for name in ("first.weight", "second.weight"):
            self.assertTrue(torch.allclose(merged[name], adapted["first.weight"] + change, atol=1e-6), name)


class KeepsAMean(nn.Module):
    """Assigns its buffer, as nn.Module allows."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(432, 5)
        self.register_buffer("mean", torch.zeros(432))

    def forward(self, x):
        x = x.flatten(1)
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * (x + 3).detach().mean(0)
        return self.out(x + 3 - self.mean)


class SquaresInside(nn.Module):
    """Learns numbers [n] by a loss of its own, with noise that hides a loss over all pairs."""

    def __init__(self, rows=False):
        super().__init__()
        self.out, self.rows = nn.Linear(6, 1), rows

    def forward(self, x, y):
        z = self.out(x + 0.1 * torch.randn_like(x))
        return ((z - y) ** 2).mean() if self.rows else ((z.squeeze(1) - y) ** 2).mean()


class PyTorchsOwnLossInside(nn.Module):
    """Is told by PyTorch that [n, 1] and [n] are held against each other."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 1)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.out(x), y)


class TokensInside(nn.Module):
    """The mean over the tokens of a batch, of which short samples have fewer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(257, 257)

    def forward(self, tokens, labels):
        return nn.functional.cross_entropy(self.table(tokens).flatten(0, 1), labels.flatten())


class WhatTheFilesSay(Scripted):
    """What a script is given, and what it leaves."""

    def test_assigned_buffers_are_evaluated_exported_and_resumed(self):
        net = self.scripted(KeepsAMean)
        recipe = self.script_recipe(evaluation={"every": "30 updates"})
        rows = self.train(recipe)
        expected = losses_in_python(net, self.data["images"], 30, 0.01, 0.9, plain)
        for row, loss in zip(rows, expected, strict=True):
            self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
        self.assertTrue(torch.allclose(self.weights()["mean"], net.mean, atol=1e-4))
        # Two ranks have other means: each takes them of its own samples.
        out = self.autotrain("verify", "--config", recipe, "--updates", "8", "--kills", "1")
        for line in ("killed and resumed", "stopped by a signal and resumed", "out of memory once"):
            self.assertRegex(out.stdout, rf"{line}\s+same bits")

    def numbers_recipe(self, shape):
        rng = numpy.random.default_rng(0)
        inputs = rng.normal(size=(SAMPLES, 6)).astype("float32")
        numpy.save(self.folder / "inputs.npy", inputs)
        numpy.save(self.folder / "numbers.npy", (3 * inputs[:, 0]).reshape(shape))
        data = {"dataset": "npy", "inputs": str(self.folder / "inputs.npy"), "targets": str(self.folder / "numbers.npy")}
        model = {"name": "torchscript", "file": str(self.folder / "m.pt"), "loss": "all"}
        return self.recipe("images", data={"train": data, "validation": data}, model=model, loss={"name": "model"},
                           stop={"updates": 200}, optimizer={"lr": 0.05, "momentum": 0, "reference_batch": EFFECTIVE})  # fmt: skip

    def test_numbers_have_the_shape_of_their_file(self):
        for rows, shape in ((False, (SAMPLES,)), (True, (SAMPLES, 1))):
            self.scripted(lambda rows=rows: SquaresInside(rows))
            self.train(self.numbers_recipe(shape), f"run-{rows}")
            self.assertAlmostEqual(self.weights(f"run-{rows}")["out.weight"][0, 0].item(), 3, delta=0.3)
            other = (SAMPLES, 1) if shape == (SAMPLES,) else (SAMPLES,)
            self.fails(self.numbers_recipe(other), 78, "are held against all of them")

    def test_a_loss_over_all_pairs_of_predictions_and_targets_is_refused(self):
        self.scripted(PyTorchsOwnLossInside)
        self.train(self.numbers_recipe((SAMPLES, 1)))
        self.fails(self.numbers_recipe((SAMPLES,)), 78, "holds each prediction against every target")

    def test_a_loss_that_weighs_tokens_is_seen_though_the_first_samples_are_equally_long(self):
        self.scripted(TokensInside)
        lines = ["abcdefgh" * 4] * 40 + ["zq"] * 8 + ["hgfedcba" * 4] * 40
        (self.folder / "lines.txt").write_text("".join(line[:31] + "\n" for line in lines))
        data = {"dataset": "documents", "files": [str(self.folder / "lines.txt")], "context": 32}
        model = {"name": "torchscript", "file": str(self.folder / "m.pt"), "loss": "all"}
        self.fails(self.recipe("images", data={"train": data, "validation": data}, model=model, loss={"name": "model"}),
                   78, "it is not what it is said to be")  # fmt: skip


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
