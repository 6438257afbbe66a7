#!/usr/bin/env python3
"""Adapters that are trained here learn as adapters written in PyTorch do, and trained weights go back to Python.

    lora_test.py path/to/autotrain path/to/project
"""
import json
import math
import sys
import unittest

import torch
from export_test import EFFECTIVE, IMAGES, TOKENS, Exported, logits, made, models, plain
from safetensors.torch import load_file

RANK, ALPHA, RATE = 4, 6, 0.05


class Adapted(torch.nn.Module):
    """W x + alpha / rank · B (A x): LoRA as its authors write it, with nothing in the weight's place."""

    def __init__(self, layer, a, b):
        super().__init__()
        self.layer, self.a, self.b = layer, torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x):
        return self.layer(x) + ALPHA / RANK * torch.nn.functional.linear(torch.nn.functional.linear(x, self.a), self.b)


class Lora(Exported):
    # A pattern of weights that are matched, and the layers that have them.
    CASES = {
        "mlp": (models.mlp, IMAGES, "images", plain, {}, ["1", "3"], ["1", "3"]),
        "residual": (models.Residual, IMAGES, "images", plain, {}, ["first*", "*ond"], ["first", "second"]),
        "tokens": (models.tokens, TOKENS, "tokens", logits, {"output_part": "logits"}, ["layer.linear*"],
                   ["layer.linear1", "layer.linear2"]),
    }  # fmt: skip

    def exported(self, maker, example, **options):
        return super().exported(maker, example, precisions=["fp32"], **options)

    def lora_recipe(self, kind, match, updates, **sections):
        model = {"lora": {"match": match, "rank": RANK, "alpha": ALPHA}, **sections.pop("model", {})}
        return self.recipe(kind, model=model, stop={"updates": updates}, checkpoint={"every": "4 updates", "keep": 9},
                           optimizer={"lr": RATE, "momentum": 0}, **sections)  # fmt: skip

    def checkpoint(self, update, run="run"):
        return load_file(self.folder / run / "checkpoints" / f"update-{update}" / "model.safetensors")

    def export_to(self, output, *arguments, run="run", code=0):
        out = self.autotrain("export", "--run", self.folder / run, "--output", self.folder / output, "--overwrite", *arguments)
        self.assertEqual(out.returncode, code, out.stderr)
        return out

    def test_updates_follow_adapters_written_in_python(self):
        for name, (maker, example, kind, predict, options, match, layers) in self.CASES.items():
            with self.subTest(model=name):
                net = self.exported(maker, example, **options)
                rows = self.train(self.lora_recipe(kind, match, 16), f"run-{name}")
                begin, end = self.checkpoint(4, f"run-{name}"), self.checkpoint(16, f"run-{name}")
                for key, value in made(maker).state_dict().items():
                    if key in end:
                        self.assertTrue(torch.equal(end[key], value), f"{key} is the model's own")
                net.requires_grad_(False)
                for layer in layers:
                    parent, _, last = layer.rpartition(".")
                    a, b = begin[f"{layer}.lora_A.weight"].clone(), begin[f"{layer}.lora_B.weight"].clone()
                    setattr(net.get_submodule(parent), last, Adapted(net.get_submodule(layer), a, b))
                self.assertEqual(sum("lora" in key for key in end), 2 * len(layers))
                losses = self.train_in_python(net, kind, predict, 4, 16)
                for row, loss in zip(rows[4:], losses, strict=True):
                    self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
                for layer in layers:
                    adapted = net.get_submodule(layer)
                    for half, tensor in (("A", adapted.a), ("B", adapted.b)):
                        moved = (tensor - begin[f"{layer}.lora_{half}.weight"]).norm().item()
                        apart = (tensor - end[f"{layer}.lora_{half}.weight"]).norm().item()
                        self.assertGreater(moved, 0)
                        self.assertLess(apart, 1e-3 * moved, f"{layer} {half}")

    def train_in_python(self, net, kind, predict, first, last):
        inputs, targets = self.data[kind]
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], RATE)
        losses = []
        for update in range(first, last):
            begin = update * EFFECTIVE % len(inputs)
            prediction = predict(net(inputs[begin:begin + EFFECTIVE]))
            loss = torch.nn.functional.cross_entropy(prediction.flatten(0, -2), targets[begin:begin + EFFECTIVE].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_merged_weights_go_into_the_module_and_into_another_run(self):
        for name, (maker, example, kind, predict, options, match, _) in self.CASES.items():
            with self.subTest(model=name):
                self.exported(maker, example, **options)
                recipe = self.lora_recipe(kind, match, 8, evaluation={"every": "8 updates"})
                self.train(recipe, f"run-{name}")
                self.export_to("merged.safetensors", run=f"run-{name}")
                merged = load_file(self.folder / "merged.safetensors")
                net = made(maker, seed=5)
                net.load_state_dict(merged)
                inputs, targets = self.data[kind]
                with torch.no_grad():
                    prediction = predict(net.eval()(inputs))
                    loss = torch.nn.functional.cross_entropy(prediction.flatten(0, -2), targets.flatten()).item()
                final = json.loads((self.folder / f"run-{name}" / "summary.json").read_text())["final"]["loss"]
                self.assertAlmostEqual(loss, final, delta=1e-4)
                # Begun with these weights and not moved, a run without adapters evaluates as the adapted one did.
                self.train(self.recipe(kind, model={"weights": str(self.folder / "merged.safetensors")}, stop={"updates": 1},
                                       optimizer={"lr": 1e-30}, evaluation={"every": "1 update"}), f"again-{name}")  # fmt: skip
                again = json.loads((self.folder / f"again-{name}" / "summary.json").read_text())["final"]["loss"]
                self.assertAlmostEqual(again, final, delta=1e-5)

    def test_half_precision_is_rounded_and_refused_beyond_its_range(self):
        self.exported(models.mlp, IMAGES)
        self.train(self.recipe("images", stop={"updates": 2}))
        whole = self.weights()
        for word, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)):
            self.export_to("half.safetensors", "--dtype", word)
            half = load_file(self.folder / "half.safetensors")
            self.assertEqual(half.keys(), whole.keys())
            for key, value in whole.items():
                self.assertTrue(torch.equal(half[key], value.to(dtype)), key)
        far = {key: value.clone() for key, value in whole.items()}
        far["3.bias"][7] = -70000
        from safetensors.torch import save_file
        save_file(far, self.folder / "far.safetensors")
        self.train(self.recipe("images", model={"weights": str(self.folder / "far.safetensors")}, stop={"updates": 1},
                               optimizer={"lr": 1e-30}), "far")  # fmt: skip
        out = self.export_to("half.safetensors", "--dtype", "fp16", run="far", code=65)
        self.assertIn("3.bias: holds 7e+04, which is beyond the range of Half", out.stderr)
        self.export_to("half.safetensors", "--dtype", "bf16", run="far")

    def test_what_is_there_is_replaced_only_when_asked(self):
        self.exported(models.mlp, IMAGES)
        self.train(self.recipe("images", stop={"updates": 1}))
        recipe = self.folder / "run" / "recipe.yaml"
        before = recipe.read_bytes()
        words = ("export", "--run", self.folder / "run", "--output")
        for output, more in ((recipe, ()), (self.folder / "run", ()), (recipe, ("--adapters",)), (self.folder / "run", ("--adapters",))):
            out = self.autotrain(*words, output, *more)
            self.assertEqual(out.returncode, 64, out.stderr)
        self.assertEqual(recipe.read_bytes(), before)
        out = self.autotrain(*words, self.folder / "weights.bin")
        self.assertEqual(out.returncode, 64, out.stderr)
        self.assertIn(".safetensors", out.stderr)
        fresh = self.folder / "new" / "folder" / "weights.safetensors"
        self.assertEqual(self.autotrain(*words, fresh).returncode, 0)
        self.assertEqual([path.name for path in fresh.parent.iterdir()], [fresh.name])
        self.assertEqual(self.autotrain(*words, fresh).returncode, 64)
        self.assertEqual(self.autotrain(*words, fresh, "--overwrite").returncode, 0)

    def test_adapters_as_peft_names_them(self):
        self.exported(models.mlp, IMAGES)
        self.train(self.lora_recipe("images", ["1", "3"], 4, model={"lora": {"match": ["1", "3"], "rank": RANK, "alpha": ALPHA, "train": ["5"]}}))
        self.export_to("adapter", "--adapters")
        config = json.loads((self.folder / "adapter" / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", RANK, ALPHA))
        self.assertEqual((config["target_modules"], config["modules_to_save"]), (["1", "3"], ["5"]))
        tensors = load_file(self.folder / "adapter" / "adapter_model.safetensors")
        names = {f"base_model.model.{layer}.lora_{half}.weight" for layer in "13" for half in "AB"}
        self.assertEqual(tensors.keys(), names | {"base_model.model.5.weight", "base_model.model.5.bias"})
        self.assertEqual(tensors["base_model.model.1.lora_A.weight"].shape, (RANK, 432))
        self.assertEqual(tensors["base_model.model.1.lora_B.weight"].shape, (32, RANK))
        # The base model with these is the merged model.
        self.export_to("merged.safetensors")
        merged, base = load_file(self.folder / "merged.safetensors"), made(models.mlp).state_dict()
        for layer in "13":
            a, b = (tensors[f"base_model.model.{layer}.lora_{half}.weight"] for half in "AB")
            self.assertTrue(torch.allclose(merged[f"{layer}.weight"], base[f"{layer}.weight"] + ALPHA / RANK * b @ a, atol=1e-6))
            self.assertFalse(torch.equal(merged[f"{layer}.weight"], base[f"{layer}.weight"]))
            self.assertTrue(torch.equal(merged[f"{layer}.bias"], base[f"{layer}.bias"]))
        bound = 1 / math.sqrt(432)
        self.assertLess(tensors["base_model.model.1.lora_A.weight"].abs().max().item(), 1.2 * bound)

    def test_adapters_of_weights_that_lie_turned_are_those_of_peft(self):
        self.exported(models.turned, IMAGES)
        self.train(self.lora_recipe("images", ["1", "2", "3"], 4))
        self.export_to("adapter", "--adapters")
        self.export_to("merged.safetensors")
        config = json.loads((self.folder / "adapter" / "adapter_config.json").read_text())
        self.assertTrue(config["fan_in_fan_out"])
        tensors = load_file(self.folder / "adapter" / "adapter_model.safetensors")
        merged, base = load_file(self.folder / "merged.safetensors"), made(models.turned).state_dict()
        for layer, inputs, outputs in (("1", 432, 32), ("2", 32, 32), ("3", 32, 24)):
            a, b = (tensors[f"base_model.model.{layer}.lora_{half}.weight"] for half in "AB")
            self.assertEqual((a.shape[1], b.shape[0]), (inputs, outputs))
            moved = merged[f"{layer}.weight"] - base[f"{layer}.weight"]
            change = config["lora_alpha"] / config["r"] * b @ a
            self.assertTrue(torch.allclose(moved, change if layer == "1" else change.T, atol=1e-6))
            self.assertGreater(moved.abs().max().item(), 1e-4)

    def test_what_cannot_be_exported_or_adapted_is_said(self):
        self.exported(models.tokens, TOKENS, output_part="logits")
        for match, message in ((["token"], "token.weight [24, 32] is an embedding"),
                               (["position"], "position.weight [16, 32] is frozen in the file"),
                               (["layer.norm1"], "layer.norm1.weight [32] is no matrix")):  # fmt: skip
            out = self.autotrain("plan", "--config", self.lora_recipe("tokens", match, 2))
            self.assertEqual(out.returncode, 78, out.stderr)
            self.assertIn(message, out.stderr)
        self.train(self.lora_recipe("tokens", ["layer"], 2), "attention")
        self.export_to("attention.safetensors", run="attention")
        out = self.export_to("adapter", "--adapters", run="attention", code=78)
        self.assertIn("layer.self_attn.in_proj_weight, which is not the weight of a module", out.stderr)
        self.exported(models.mlp, IMAGES)
        both = self.lora_recipe("images", [], 1, model={"lora": {"match": ["3"], "train": ["3.bias"]}})
        self.train(both, "both")
        self.assertIn("adapts 3 and trains another tensor of it", self.export_to("adapter", "--adapters", run="both", code=78).stderr)
        self.exported(models.tokens, TOKENS, output_part="logits")
        self.train(self.recipe("tokens", stop={"updates": 1}), "whole")
        self.assertIn("had no model.lora", self.export_to("adapter", "--adapters", run="whole", code=78).stderr)
        self.assertIn("it has those of updates", self.export_to("x.safetensors", "--checkpoint", "7", run="whole", code=66).stderr)

    def test_ranks_that_share_the_optimizer_come_to_the_same_bytes(self):
        self.exported(models.mlp, IMAGES)
        model = {"lora": {"match": ["*"], "rank": RANK, "alpha": ALPHA, "train": ["5.bias"]}}
        recipe = self.lora_recipe("images", [], 4, model=model, average={"half_life": 100})
        sizes = ("--config", recipe, "--quiet", "--set", "execution.lanes=2", "--set", "execution.micro_batch=12")
        digests = []
        for name, more in (("one", ()), ("two", ("--ranks", "2")), ("shared", ("--ranks", "2", "--set", "execution.shard=optimizer"))):
            out = self.autotrain(*sizes, "--output", self.folder / name, *more)
            self.assertEqual(out.returncode, 0, out.stderr)
            last = self.folder / name / "checkpoints" / "update-4"
            digests.append([(last / file).read_bytes() for file in ("model.safetensors", "averaged.safetensors", "optimizer.safetensors")])
        self.assertTrue(digests[0] == digests[1] == digests[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
