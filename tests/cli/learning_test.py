#!/usr/bin/env python3
"""Groups, optimizers and schedules in recipes, through the program.

    learning_test.py path/to/autotrain

Each recipe is searched, trained, killed at random moments and resumed, by `autotrain verify`: the same bytes.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

BINARY = Path(sys.argv[1]).resolve()
GROUPS = [{"match": "*.bias", "weight_decay": 0}, {"match": ["conv?.*", "hidden.*"], "lr_factor": 0.1}]
RECIPES = {
    "adamw": ({"name": "adamw", "lr": 0.002, "weight_decay": 0.1, "groups": GROUPS}, {"name": "one_cycle"}),
    "nadamw": ({"name": "nadamw", "lr": 0.002, "groups": GROUPS}, {"name": "polynomial", "warmup": "2 updates"}),
    "lion": ({"name": "lion", "lr": 0.0003, "clip_norm": 1}, {"name": "restarts", "every": 2, "growth": 2}),
    "lars": ({"name": "lars", "lr": 10, "weight_decay": 0.0001},
             {"name": "warmup_stable_decay", "warmup": "1 updates", "decay": 0.5, "decay_shape": "sqrt"}),
    "lamb": ({"name": "lamb", "lr": 0.02, "weight_decay": 0.01, "groups": GROUPS},
             {"name": "plateau", "patience": 1, "threshold": 100, "factor": 0.5}),
}


def recipe(optimizer, schedule):
    data = {"dataset": "synthetic", "kind": "images", "shape": [1, 12, 12]}
    return {"data": {"train": {**data, "samples": 1000}, "validation": {**data, "samples": 100, "first": 100000}},
            "model": {"name": "cnn", "width": 8, "hidden": 32},
            "optimizer": {**optimizer, "reference_batch": 96},
            "schedule": schedule,
            "batch": {"effective": 96},
            "stop": {"updates": 8},
            "evaluation": {"every": "2 updates"},
            "checkpoint": {"every": "1 updates"},
            "execution": {"precision": "fp32", "memory": {"budget": "16MiB"}, "search": {"plan_cache": False}}}


class Learning(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def run_program(self, *arguments, code=0):
        out = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=600,
                             cwd=self.folder, env={**os.environ, "CI": "1", "OMP_WAIT_POLICY": "passive"})
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        return out

    def written(self, name, content):
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    def rates(self, run):
        rows = map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
        return [row["lr"] for row in rows if row["kind"] == "update"]

    def digest(self, run, update):
        files = sorted((self.folder / run / "checkpoints" / f"update-{update}").glob("*.safetensors"))
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]

    def test_every_recipe_is_the_same_bytes_whatever_happens_to_it(self):
        for name, parts in RECIPES.items():
            with self.subTest(name):
                path = self.written(name, recipe(*parts))
                self.run_program("verify", "--config", path, "--updates", "8", "--kills", "2", "--ranks", "1")

    def test_a_resolved_recipe_is_the_recipe(self):
        for name in ("adamw", "lamb"):
            path = self.written(name, recipe(*RECIPES[name]))
            self.run_program("--config", path, "--output", f"{name}-first", "--quiet")
            self.run_program("--config", f"{name}-first/recipe.yaml", "--output", f"{name}-again", "--quiet")
            self.assertEqual(self.digest(f"{name}-first", 8), self.digest(f"{name}-again", 8))

    def test_a_rate_falls_when_evaluations_do_not_improve_and_a_resume_knows(self):
        path = self.written("lamb", recipe(*RECIPES["lamb"]))
        self.run_program("--config", path, "--output", "straight", "--quiet")
        rates = self.rates("straight")
        self.assertEqual([rate / rates[0] for rate in rates], [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25])
        self.run_program("--config", path, "--output", "parts", "--set", "stop.updates=5", "--quiet")
        self.run_program("--config", path, "--output", "parts", "--resume", "--allow-change", "--quiet")
        self.assertEqual(self.rates("parts"), rates)
        self.assertEqual(self.digest("parts", 8), self.digest("straight", 8))

    def test_groups_are_told_and_slips_are_named(self):
        path = self.written("adamw", recipe(*RECIPES["adamw"]))
        out = self.run_program("--config", path, "--output", "run")
        self.assertIn("*.bias: 4 tensors", out.stdout + out.stderr)
        self.assertIn("learning rate × 0.1", out.stdout + out.stderr)
        slip = 'optimizer.groups=[{match: "hiden.weight", lr_factor: 0.1}]'
        for command in ([], ["plan"]):
            out = self.run_program(*command, "--config", path, "--set", slip, code=78)
            self.assertIn("optimizer.groups[0].match", out.stderr)
            self.assertIn('did you mean "hidden.weight"', out.stderr)

    def test_keys_that_change_nothing_are_told(self):
        path = self.written("adamw", recipe({"name": "adamw", "lr": 0.002}, {"name": "cosine"}))
        settings = {"stop.min_delta": "0.5 and changes nothing, since stop.patience is null",
                    "divergence.lr_factor": "0.1 and changes nothing, since divergence.policy is skip",
                    "execution.recompute_blocks": "1 and changes nothing, since execution.recompute is",
                    "optimizer.decay_all": "true and changes nothing, since optimizer.weight_decay is 0",
                    "execution.scaler.initial_scale": "4 and changes nothing, since execution.precision is fp32"}
        given = [word for key, said in settings.items() for word in ("--set", f"{key}={said.split()[0]}")]
        text = self.said_by(path, "idle", *given, "--set", "execution.trace=[9, 12]")
        self.assertIn("execution.trace begins at update 9, and the run has 8", text)
        for key, said in settings.items():
            self.assertIn(f"{key} is {said}", text)
        self.assertNotIn("changes nothing", self.said_by(path, "plain"))

    def test_a_rate_whose_steps_are_meant_in_epochs_is_told(self):
        def told(schedule):
            path = self.written("steps", recipe({"name": "sgd", "lr": 0.1}, {"name": "step", **schedule}))
            out = self.run_program("train", "--config", path, "--output", f"steps-{schedule['every']}").stderr
            return "hardly anything is learned" in out
        self.assertTrue(told({"every": 1, "factor": 0.01}))
        self.assertFalse(told({"every": 3, "factor": 0.01}))

    def test_a_rate_that_begins_anew_many_times_an_epoch_is_told(self):
        path = self.written("restarts", recipe({"name": "sgd", "lr": 0.1}, {"name": "restarts"}))
        for every, growth, updates, told in ((1, 1, 24, True), (2, 1, 24, False), (1, 2, 24, False), (1, 1, 8, False)):
            text = self.said_by(path, f"restarts-{every}-{growth}-{updates}", "--set", f"schedule.every={every}", "--set",
                                f"schedule.growth={growth}", "--set", f"stop.updates={updates}")
            self.assertEqual("begins anew 10.4 times in each epoch" in text, told, (every, growth, updates, text))

    def test_who_follows_evaluations_that_come_too_late_is_told(self):
        path = self.written("adamw", recipe({"name": "adamw", "lr": 0.002}, {"name": "cosine"}))
        for who, key in enumerate(("stop.patience=1", "schedule.name=plateau")):
            for number, (every, told) in enumerate((("8 updates", True), ("800 samples", True), ("2 updates", False))):
                text = self.said_by(path, f"run{who}{number}", "--set", key, "--set", f"evaluation.every={every}")
                self.assertEqual("no evaluation is due before the run ends" in text, told, (key, every, text))

    def said_by(self, path, output, *settings):
        out = self.run_program("--config", path, "--output", output, *settings)
        return out.stdout + out.stderr

    def test_groups_are_part_of_what_is_learned(self):
        path = self.written("adamw", recipe(*RECIPES["adamw"]))
        self.run_program("--config", path, "--output", "run", "--set", "stop.updates=4", "--quiet")
        changed = recipe(*RECIPES["adamw"])
        changed["stop"]["updates"] = 4
        changed["optimizer"]["groups"] = [GROUPS[0], {**GROUPS[1], "lr_factor": 0.2}]
        out = self.run_program("--config", self.written("changed", changed), "--output", "run", "--resume", code=78)
        self.assertIn("optimizer.groups[1].lr_factor: 0.1 → 0.2", out.stderr)

    def table_recipe(self, place, updates):
        data = {part: {"dataset": "table", "file": str(self.folder / place / f"{part}.csv"), "target": "y"} for part in ("train", "validation")}
        return {**recipe({"name": "sgd", "lr": 0.1, "momentum": 0.9}, {"name": "constant"}), "data": data,
                "model": {"name": "mlp", "depth": 1, "width": 8}, "loss": {"name": "huber"},
                "stop": {"updates": updates, "patience": 20}}

    def test_a_run_goes_on_with_data_that_were_moved(self):
        (self.folder / "here").mkdir()
        for part, first in (("train", 0), ("validation", 5)):
            rows = [f"{i % 17},{7 * i % 13},{i % 17 - 7 * i % 13}" for i in range(first, first + 200)]
            (self.folder / "here" / f"{part}.csv").write_text("\n".join(["x,z,y", *rows, ""]))
        self.run_program("train", "--config", self.written("short", self.table_recipe("here", 10)), "--output", "run")
        self.run_program("train", "--config", self.written("long", self.table_recipe("here", 16)), "--output", "straight")
        best = json.loads((self.folder / "run" / "summary.json").read_text())["best"]
        (self.folder / "here").rename(self.folder / "there")
        again = ["--output", "run", "--resume"]
        told = self.run_program("train", "--config", self.written("moved", self.table_recipe("there", 10)), *again).stderr
        self.assertIn("and are the same", told)
        self.assertIn("the continuation is exact", told)
        self.assertEqual(json.loads((self.folder / "run" / "summary.json").read_text())["best"], best)
        told = self.run_program("train", "--config", self.written("on", self.table_recipe("there", 16)), *again, "--allow-change").stderr
        self.assertNotIn("the best was found by another", told)
        self.assertEqual(self.digest("run", 16), self.digest("straight", 16))
        run, straight = (json.loads((self.folder / name / "summary.json").read_text()) for name in ("run", "straight"))
        self.assertEqual(run["best"], straight["best"])
        there = self.folder / "there" / "validation.csv"
        there.write_text(there.read_text() + "1,2,3\n")
        (self.folder / "there").rename(self.folder / "elsewhere")
        error = self.run_program("train", "--config", self.written("other", self.table_recipe("elsewhere", 16)), *again, code=78).stderr
        self.assertIn("data.validation.file: ", error)
        self.assertNotIn("data.train.file: ", error)

    def test_weights_of_a_model_that_had_other_keys_are_told(self):
        tokens = {"dataset": "synthetic", "kind": "tokens", "shape": [16], "classes": 8}
        path = self.written("heads", {
            **recipe({"name": "adamw", "lr": 0.002}, {"name": "constant"}),
            "data": {"train": {**tokens, "samples": 200}, "validation": {**tokens, "samples": 20, "first": 100000}},
            "model": {"name": "transformer", "layers": 1, "width": 16, "heads": 4}, "batch": {"effective": 16}, "stop": {"updates": 2}})
        self.run_program("train", "--config", path, "--output", "heads")
        weights = self.folder / "heads" / "checkpoints" / "update-2"

        def told(output, *more):
            return self.run_program("train", "--config", path, "--output", output, "--set", f"model.weights={weights}", *more).stderr
        self.assertNotIn("whose model was another", told("same", "--set", "model.dropout=0.1"))
        self.assertIn("model.heads: 4 → 2", told("other", "--set", "model.heads=2"))

    def test_what_cannot_go_together_is_refused(self):
        for name, changes, said in [
                ("lamb", ["execution.shard=optimizer"], "norms of whole tensors"),
                ("lamb", ["evaluation.every=never"], "evaluation.every is never"),
                ("lamb", ["evaluation.every=1 minutes"], "by the clock"),
                ("lamb", ["data.validation=null"], "follow"),
                ("adamw", ["schedule.warmup=5%"], "schedule.rise")]:
            path = self.written(name, recipe(*RECIPES[name]))
            settings = [part for change in changes for part in ("--set", change)]
            out = self.run_program("--config", path, "--output", "refused", *settings, code=78)
            self.assertIn(said, out.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
