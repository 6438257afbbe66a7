#!/usr/bin/env python3
"""What holds for every shipped recipe and configuration.

    recipes_test.py path/to/autotrain path/to/project

The schema is a valid JSON Schema and accepts every recipe and the reference configuration; the reference
configuration is what the program prints; the first line of a recipe says what to expect; every recipe
trains for two updates and leaves the run folder that was promised.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema
import yaml

BINARY, PROJECT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
RECIPES = sorted((PROJECT / "recipes").rglob("*.yaml"))
LARGE = {"fashion_mnist_resnet18": 64, "sweep_resnet50": 2, "bf16": 32}  # whose own update takes half a minute, and what is tried
NEED_DATA = [PROJECT / "recipes" / "yolo_fashion.yaml"]  # that a script makes
NEED_GPU = sorted((PROJECT / "recipes" / "gpu").glob("*.yaml"))


def run(*arguments, **options):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, cwd=PROJECT,
                          env={**os.environ, "CI": "1"}, timeout=600, **options)


class Schema(unittest.TestCase):
    def setUp(self):
        schema = json.loads(run("schema").stdout)
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)

    def errors(self, recipe):
        return [f"{error.json_path}: {error.message}" for error in self.validator.iter_errors(recipe)]

    def test_accepts_every_recipe_and_the_reference(self):
        for path in [*RECIPES, PROJECT / "configs" / "reference.yaml"]:
            self.assertEqual(self.errors(yaml.safe_load(path.read_text())), [], path)

    def test_accepts_every_resolved_recipe(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("--config", str(PROJECT / "recipes" / "smoke.yaml"), "--output", f"{folder}/run", "--quiet")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.errors(yaml.safe_load(Path(folder, "run", "recipe.yaml").read_text())), [])

    def test_accepts_what_the_program_takes(self):
        good = yaml.safe_load((PROJECT / "recipes" / "smoke.yaml").read_text())
        changes = [("evaluation", {"every": "1e3 updates"}), ("evaluation", {"every": ".5 epochs"}), ("schedule", {"warmup": "1e3 samples"}),
                   ("schedule", {"warmup": "2.5 %"}), ("schedule", None), ("data", None), ("extends", None), ("optimizer", {"groups": None})]
        for key, value in changes:
            self.assertEqual(self.errors({**good, key: value}), [], (key, value))

    def test_refuses_what_the_program_refuses(self):
        good = yaml.safe_load((PROJECT / "recipes" / "smoke.yaml").read_text())
        changes = [("optimzer", {}), ("model", {"name": "cnn", "depth": 3}), ("model", {"name": "cmm"}),
                   ("stop", {"epochs": -1}), ("batch", {"effective": "many"}), ("optimizer", {"lr": "fast"}),
                   ("checkpoint", {"every": "3 days"}), ("checkpoint", {"every": "1.5 updates"}), ("execution", {"precision": "fp23"})]
        for key, value in changes:
            self.assertNotEqual(self.errors({**good, key: value}), [], (key, value))


class Configuration(unittest.TestCase):
    def test_reference_is_what_the_program_prints(self):
        self.assertEqual((PROJECT / "configs" / "reference.yaml").read_text(), run("config").stdout,
                         "write it anew: autotrain config > configs/reference.yaml")


class Recipes(unittest.TestCase):
    def test_say_what_to_expect(self):
        for path in RECIPES:
            self.assertRegex(path.read_text().splitlines()[0], r"^# \S.{30,}", path)

    def test_those_for_a_gpu_are_refused_without_one_for_that_reason_only(self):
        environment = {**os.environ, "CI": "1", "CUDA_VISIBLE_DEVICES": ""}
        for path in NEED_GPU:
            result = subprocess.run([str(BINARY), "plan", "--config", str(path)], capture_output=True, text=True,
                                    timeout=600, env=environment)
            self.assertEqual(result.returncode, 78, result.stderr)
            self.assertIn("execution.device", result.stderr)

    def test_train_for_two_updates(self):
        for path in sorted(set(RECIPES) - set(NEED_GPU) - set(NEED_DATA)):
            with self.subTest(path.name), tempfile.TemporaryDirectory() as folder:
                settings = ["stop.epochs=null", "stop.updates=2"]
                if path.name.startswith("fashion_mnist") or path.parent.name == "compare":
                    settings += ["data.validation.limit=200", "data.test.limit=200"]
                if path.stem in LARGE:
                    settings.append(f"batch.effective={LARGE[path.stem]}")
                arguments = [part for setting in settings for part in ("--set", setting)]
                result = run("--config", str(path), "--output", f"{folder}/run", *arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.check_folder(Path(folder, "run"))

    def check_folder(self, folder):
        plan = json.loads((folder / "plan.json").read_text())
        self.assertTrue(plan["confirmed"] and plan["search"]["confirmed"])
        self.assertLessEqual(plan["search"]["fill"], plan["target"][1])
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual((summary["status"], summary["exit_code"], summary["updates"]), ("completed", 0, 2))
        self.assertLessEqual(summary["peak_bytes"], plan["budget_bytes"])
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([row["update"] for row in rows if row["kind"] == "update"], [1, 2])
        self.assertEqual(rows[-1]["kind"], "evaluation")
        checkpoint = folder / "checkpoints" / "update-2"
        self.assertEqual(sorted(path.name for path in checkpoint.iterdir()),
                         ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"])


class Accumulation(unittest.TestCase):
    """What holds on any machine at E = 1000, since rounding stays rounding: the gradient of a window in any cut, and a
    trajectory of plain descent. Not a trajectory of an adaptive optimizer: where a second moment is next to nothing, it
    makes a full step of what rounding leaves."""

    SGD = ["optimizer={name: sgd, lr: 0.05, reference_batch: 1000, clip_norm: 1.0}", "schedule=null"]

    def test_a_window_has_the_same_gradient_in_any_cut(self):
        self.check_cuts(updates=1)

    def test_plain_descent_takes_the_same_path_in_any_cut(self):
        self.check_cuts(*self.SGD, updates=6)

    def check_cuts(self, *settings, updates):
        curves = {size: self.updates(size, updates, settings) for size in (1000, 128, 37)}
        for size in (128, 37):
            self.assertEqual(len(curves[size]), updates)
            for whole, cut in zip(curves[1000], curves[size]):
                for key in ("loss", "grad_norm"):
                    self.assertAlmostEqual(cut[key] / whole[key], 1, delta=1e-5, msg=f"{key}, micro-batch {size}")

    def updates(self, micro_batch, updates, settings):
        settings = ["stop.epochs=null", f"stop.updates={updates}", "execution.precision=fp32", "data.validation=null",
                    "data.test=null",
                    "execution.memory.budget=2GiB", f"execution.micro_batch={micro_batch}", *settings]
        with tempfile.TemporaryDirectory() as folder:
            result = run("--config", str(PROJECT / "recipes" / "fashion_mnist_mlp.yaml"), "--output", f"{folder}/run",
                         *[part for setting in settings for part in ("--set", setting)])
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if row["kind"] == "update"]


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
