#!/usr/bin/env python3
"""`autotrain advise` from outside: advice on a run and after a short one, recipe lines that load, branches that end
with the bytes of the run they left, a batch that is worse at equal samples, a study that goes on, and misuse.

    advise_test.py path/to/autotrain
"""
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()

# Early in training, where Adam's steps are of one length: of four times the batch, under the √ rule, half as far in
# equal samples.
RECIPE = """
name: small
data:
  train: {dataset: synthetic, kind: vectors, samples: 4096}
  validation: {dataset: synthetic, kind: vectors, samples: 128, first: 5000}
model: {name: mlp, depth: 1, width: 16}
optimizer: {name: adamw, lr: 0.0005, reference_batch: 32, beta2: 0.98}
batch: {effective: 32, lr_rule: sqrt}
stop: {epochs: 4}
checkpoint: {every: 32 updates, keep: 20}
execution: {precision: fp32, micro_batch: 16, memory: {budget: 64MiB}}
"""


class Advise(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        (cls.folder / "r.yaml").write_text(RECIPE)
        cls.program("--config", "r.yaml", "--output", "run", "--quiet")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def program(cls, *arguments, code=0):
        out = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=600,
                             cwd=cls.folder, env={**os.environ, "CI": "1", "OMP_WAIT_POLICY": "passive"})
        assert out.returncode == code, f"{arguments}: {out.returncode}\n{out.stdout}{out.stderr}"
        return out.stderr if code else out.stdout

    def digest(self, run, update):
        return hashlib.sha256((self.folder / run / f"checkpoints/update-{update}/model.safetensors").read_bytes()).hexdigest()

    def test_advice_on_a_run(self):
        text = self.program("advise", "--run", "run", "--seconds", "0.2")
        self.assertRegex(text, r"(Raise|Lower|Keep)")
        self.assertIn("the run", text)
        printed = json.loads(self.program("advise", "--run", "run", "--seconds", "0.2", "--json"))
        self.assertEqual(printed.pop("folder"), "run")
        self.assertEqual(printed, json.loads((self.folder / "run/advice.json").read_text()))
        own = [row for row in printed["rows"] if row["effective_batch"] == 32]
        for what in ("updates", "samples", "seconds"):
            self.assertEqual(own[0][what], {"value": 1, "low": 1, "high": 1} if printed["noise_scale"]["samples"] else
                             {"value": None, "low": 1, "high": 1})
        self.assertTrue(all(speed["repeats"] >= 3 for speed in printed["speeds"]))
        self.assertIn("<html", (self.folder / "run/advice.html").read_text())

    def test_what_the_run_left_is_enough(self):
        found = json.loads(self.program("advise", "--run", "run", "--seconds", "0", "--output", "elsewhere", "--json"))
        self.assertTrue(all(speed["repeats"] == 0 for speed in found["speeds"]))
        self.assertEqual(found["seen"], 1)
        self.assertTrue((self.folder / "elsewhere/advice.html").exists())

    def test_a_run_without_parts_is_told_what_to_set_and_a_short_run_sets_it(self):
        single = ["--set", "execution.micro_batch=32", "--set", "stop.updates=40"]
        self.program("--config", "r.yaml", *single, "--output", "single", "--quiet")
        text = self.program("advise", "--run", "single", "--seconds", "0")
        self.assertIn("No verdict", text)
        self.assertIn("execution.lanes: 2", text)
        found = json.loads(self.program("advise", "--config", "r.yaml", "--set", "execution.micro_batch=32", "--updates",
                                        "64", "--seconds", "0", "--output", "short", "--json"))
        self.assertIsNotNone(found["noise_scale"])
        self.assertEqual(found["updates"], 64)
        self.assertIn("lanes: 2", (self.folder / "short/recipe.yaml").read_text())
        # The noise scale of the first eighth of a run does not tell that the rest could do with less.
        self.assertEqual(found["seen"], 0.125)
        self.assertIn("the beginning of the run, 12 % of it", " ".join(found["sentences"]))
        self.assertEqual({row["samples"]["value"] for row in found["rows"]}, {None})
        self.assertEqual({row["samples"]["high"] for row in found["rows"] if row["effective_batch"] <= 32}, {1})
        self.assertEqual(found["devices"], [])

    def test_a_short_run_with_parts_is_searched_once(self):
        out = subprocess.run([str(BINARY), "advise", "--config", "r.yaml", "--updates", "16", "--seconds", "0", "--output", "once",
                              "--fresh-plan", "--set", "execution.micro_batch=auto", "--set",
                              "batch.limits.max_micro_batch=16"], capture_output=True, text=True, timeout=600,
                             cwd=self.folder, env={**os.environ, "CI": "1"})
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual((out.stdout + out.stderr).count("searching the micro-batch"), 1, out.stderr)

    def test_a_run_that_lost_its_patience_has_been_seen_whole(self):
        patient = ["--set", "stop.patience=1", "--set", "optimizer.lr=1e-12", "--set", "evaluation.every=8 updates"]
        self.program("--config", "r.yaml", *patient, "--output", "patient", "--quiet")
        found = json.loads(self.program("advise", "--run", "patient", "--seconds", "0", "--json"))
        self.assertLess(found["updates"], 512 / 2)
        self.assertEqual(found["seen"], 1)

    def test_branches_are_the_run_and_a_batch_that_is_worse_is_found(self):
        how = ["advise", "--run", "run", "--seconds", "0", "--branches", "--checkpoint", "32", "--factor", "1,4", "--seeds",
               "3", "--samples", "2048", "--json"]
        found = json.loads(self.program(*how))["verification"]
        self.assertEqual([branch["verdict"] for branch in found["branches"]], ["reference", "worse"])
        self.assertEqual((found["critical"], found["at_edge"]), (32, False))
        # The run's own seed is 1.
        self.assertEqual(self.digest("run/branches/runs/E32-seed1", 96), self.digest("run", 96))
        rows = (self.folder / "run/branches/runs/E128-seed2/metrics.jsonl").read_text().splitlines()
        samples = [row["samples"] for row in map(json.loads, rows) if row["kind"] == "update"]
        self.assertEqual((samples[0], samples[-1]), (1024 + 128, 1024 + 2048))
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "run/branches/results").iterdir()}
        removed = self.folder / "run/branches/results/E128-seed2.json"
        removed.unlink()
        again = json.loads(self.program(*how))["verification"]
        self.assertEqual(again, found, "what was removed is made again to the same figures")
        self.assertTrue(all(path.stat().st_mtime_ns == when for path, when in before.items() if path != removed))
        text = (self.folder / "run/advice.html").read_text()
        self.assertIn("measured critical batch", text)
        for option, value, said in (("--samples", "1024", "branch/samples is 2048 there and 1024 now"), ("--checkpoint", "64", "branch/checkpoint is 32 there and 64 now")):
            other = how[:how.index(option) + 1] + [value] + how[how.index(option) + 2:]
            self.assertIn(said, self.program(*other, code=64))

    def test_the_printed_lines_are_a_recipe(self):
        settings = ["--set", "batch.effective=512", "--set", "execution.micro_batch=256"]
        self.program("--config", "r.yaml", *settings, "--output", "large", "--quiet")
        found = json.loads(self.program("advise", "--run", "large", "--seconds", "0", "--json"))
        sets = [part for line in found["recipe_lines"] for part in ("--set", f"{line['key']}={line['after']}")]
        if found["verdict"] in ("raise", "lower"):
            self.assertTrue(sets)
            self.program("plan", "--config", "large/recipe.yaml", *sets, "--quiet")

    def test_a_run_whose_batch_changes_is_advised_on_its_last_one(self):
        stages = ["--set", "batch.effective=null", "--set",
                  "batch.schedule=[{samples: 0, effective: 32}, {samples: 8192, effective: 128}]"]
        self.program("--config", "r.yaml", *stages, "--output", "staged", "--quiet")
        found = json.loads(self.program("advise", "--run", "staged", "--seconds", "0", "--json"))
        self.assertEqual((found["effective_batch"], found["recipe_lines"], found["seen"]), (128, [], 1))
        self.assertIn("changes as its recipe says", found["sentences"][1])
        # Forward and backward of the last updates, each of eight micro-batches, and the optimizer's step.
        rows = [row for row in map(json.loads, (self.folder / "staged/metrics.jsonl").read_text().splitlines())
                if row["kind"] == "update" and row["effective_batch"] == 128]
        passes = sum(statistics.median(row["activity_seconds"][part] for row in rows) for part in ("forward", "backward"))
        step = statistics.median(row["activity_seconds"]["update"] for row in rows)
        speed = next(point for point in found["speeds"] if point["micro_batch"] == 16)
        self.assertAlmostEqual(speed["seconds"], passes / 8 + step, places=6)
        said = self.program("advise", "--run", "staged", "--branches", code=64)
        self.assertIn("the batch of this run changes", said)
        self.assertFalse((self.folder / "staged/branches").exists())

    def test_misuse(self):
        for arguments, code, said in [
                ((), 64, "names no run"),
                (("--run", "run", "--config", "r.yaml"), 64, "names both"),
                (("--run", "nowhere"), 66, "holds no run"),
                (("--run", "run", "--updates", "20"), 64, "with --config only"),
                (("--run", "run", "--set", "batch.effective=128"), 64, "would be another run"),
                (("--run", "run", "--factor", "2"), 64, "with --branches only"),
                (("--run", "run", "--branches", "--factor", "0.3"), 64, "no whole number"),
                (("--run", "run", "--branches", "--factor", "1"), 64, "nothing to be compared with"),
                (("--run", "run", "--branches", "--factor", "1000"), 64, "more than the 4096 samples"),
                (("--run", "run", "--branches", "--checkpoint", "512"), 64, "0 samples left"),
                (("--run", "run", "--branches", "--checkpoint", "7"), 66, "no checkpoint of update 7"),
                (("--run", "run", "--seconds", "-1"), 64, "--seconds"),
                (("--config", "missing.yaml"), 66, "missing.yaml")]:
            with self.subTest(arguments):
                self.assertIn(said, self.program("advise", *arguments, code=code))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
