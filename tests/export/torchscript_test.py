#!/usr/bin/env python3
"""TorchScript modules are trained here as in Python, and go back as TorchScript.

    torchscript_test.py path/to/autotrain path/to/project
"""
import sys
import unittest
import warnings

import torch
from export_test import IMAGES, Exported, losses_in_python, made, models, plain
from safetensors.torch import load_file
from torch import nn

warnings.filterwarnings("ignore", category=DeprecationWarning)


class TorchScript(Exported):
    CASES = {"mlp": models.mlp, "convolutional": models.convolutional, "frozen body": models.FrozenBody, "residual": models.Residual}

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
        self.fails(self.script_recipe(), 65, "is no TorchScript file that this program can read")
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
