#!/usr/bin/env python3
"""`autotrain lr`: its files, its line for a recipe, trained weights to begin with, and the ways in which it must refuse.

    lr_test.py path/to/autotrain
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
RECIPE = {
    "name": "test",
    "data": {"train": {"dataset": "synthetic", "kind": "vectors", "samples": 4096}},
    "model": {"name": "mlp", "depth": 1, "width": 32},
    "optimizer": {"name": "sgd", "lr": 0.1, "reference_batch": 64, "momentum": 0.9},
    "batch": {"effective": 256, "lr_rule": "sqrt"},
    "schedule": {"name": "cosine", "warmup": "10%"},
    "stop": {"updates": 6},
    "checkpoint": {"every": "3 updates", "keep": 4},
    "execution": {"threads": 1, "precision": "fp32", "memory": {"budget": "64MiB"}},
}
QUICK = ["--from", "1e-4", "--to", "100", "--factor", "1.3", "--hold", "8"]


class Lr(unittest.TestCase):
    def setUp(self):
        parent = tempfile.TemporaryDirectory()
        self.addCleanup(parent.cleanup)
        self.folder = Path(parent.name)
        (self.folder / "recipe.yaml").write_text(json.dumps(RECIPE))

    def autotrain(self, *arguments, code=0):
        out = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                             timeout=600)
        self.assertEqual(out.returncode, code, out.stderr)
        return out

    def test_its_line_is_at_the_reference_batch_and_its_files_are_there(self):
        out = self.autotrain("lr", "--config", "recipe.yaml", *QUICK)
        found = json.loads((self.folder / "runs/test-lr-1/lr.json").read_text())
        self.assertEqual(len(found["stretches"]), 3)
        self.assertEqual(found["undetermined"], "")
        self.assertAlmostEqual(found["recipe_lr"] * 2, found["suggestion"], places=9)  # √(256 ÷ 64)
        self.assertLessEqual(found["suggestion"], found["edge"]["mean"] / 4 * (1 + 1e-9))
        self.assertIn("reference_batch: 64", out.stdout)
        self.assertIn("divergence edge", out.stdout)
        page = (self.folder / "runs/test-lr-1/lr.html").read_text()
        self.assertIn("Range test", page)
        self.assertEqual((self.folder / "recipe.yaml").read_text(), json.dumps(RECIPE), "nothing is applied")

    def test_the_same_command_finds_the_same(self):
        first, second = (json.loads(self.autotrain("lr", "--config", "recipe.yaml", *QUICK, "--json").stdout)
                         for _ in range(2))
        first.pop("folder"), second.pop("folder")
        self.assertEqual(first, second)

    def test_a_rate_that_never_diverges_is_undetermined(self):
        out = self.autotrain("lr", "--config", "recipe.yaml", "--from", "1e-6", "--to", "1e-4", "--factor", "2",
                             "--stretches", "1", "--quiet", "--output", "out")
        self.assertTrue(out.stdout.startswith("undetermined: "), out.stdout)
        self.assertIn("--to", out.stdout)
        self.assertIsNone(json.loads((self.folder / "out/lr.json").read_text())["recipe_lr"])

    def test_begins_with_trained_weights_and_leaves_the_run_alone(self):
        self.autotrain("--config", "recipe.yaml", "--output", "run", "--quiet")
        files = {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()}
        found = json.loads(self.autotrain("lr", "--run", "run", "--checkpoint", "3", *QUICK, "--json").stdout)
        self.assertEqual(found["updates"], 3)
        self.assertEqual(found["stretches"][0]["position"], 3 * 256)
        self.assertEqual(files, {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()})

    def test_copies_that_do_not_fit_beside_the_plan_take_a_smaller_micro_batch(self):
        settings = ["model.width=1024", "model.depth=3", "batch.effective=4096", "execution.memory.budget=72MiB"]
        sets = [word for setting in settings for word in ("--set", setting)]
        out = self.autotrain("lr", "--config", "recipe.yaml", *sets, "--from", "1e-4", "--to", "1e-3", "--factor", "3",
                             "--hold", "4", "--stretches", "1")
        self.assertIn("for copies of weights", out.stderr)

    def test_refusals(self):
        self.assertIn("--run", self.autotrain("lr", code=64).stderr)
        self.assertIn("--config", self.autotrain("lr", "--config", "recipe.yaml", "--run", "x", code=64).stderr)
        self.autotrain("lr", "--config", "recipe.yaml", "--from", "0", code=64)
        self.autotrain("lr", "--config", "recipe.yaml", "--factor", "1", code=64)
        self.assertIn("--from", self.autotrain("lr", "--config", "recipe.yaml", "--from", "2", "--to", "1", code=64).stderr)
        self.autotrain("lr", "--run", "none", code=66)
        self.autotrain("lr", "--config", "none.yaml", code=66)
        self.autotrain("lr", "--config", "recipe.yaml", "--set", "execution.memory.budget=4KiB", code=71)
        self.assertFalse((self.folder / "runs").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
