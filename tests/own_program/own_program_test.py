#!/usr/bin/env python3
"""A program with parts of its own has the whole command line, and its names in recipes.

    own_program_test.py path/to/own_program
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, RECIPE = Path(sys.argv[1]).resolve(), Path(__file__).resolve().parent / "rings.yaml"


class OwnProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_program(self, *arguments, code=0):
        result = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                                env={**os.environ, "CI": "1", "CUDA_VISIBLE_DEVICES": ""}, timeout=900)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def train(self, name, *settings, options=()):
        sets = [part for setting in settings for part in ("--set", setting)]
        self.run_program("train", "--config", RECIPE, "--output", name, *sets, *options)
        return self.folder / name

    def updates(self, run):
        rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [row for row in rows if row["kind"] == "update"]

    def bits(self, run):
        newest = max((run / "checkpoints").glob("update-*"), key=lambda path: int(path.name.split("-")[1]))
        return hashlib.sha256((newest / "model.safetensors").read_bytes()).hexdigest()

    def tensor(self, run, update, name):
        """The bytes of one in a checkpoint's safetensors file: a header of JSON behind its length, then the data."""
        whole = (run / "checkpoints" / f"update-{update}" / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(whole[:8], "little")
        first, last = json.loads(whole[8:start])[name]["data_offsets"]
        return whole[start + first:start + last]

    def test_trains_and_measures_with_its_own_parts(self):
        run = self.train("run")
        final = json.loads((run / "summary.json").read_text())["final"]
        self.assertGreater(final["accuracy"], 0.9)
        self.assertGreaterEqual(final["near_miss"], final["accuracy"])
        rates = [row["lr"] for row in self.updates(run)]
        top = rates.index(max(rates))
        self.assertAlmostEqual(top / len(rates), 0.3, delta=0.02)
        for below, above in zip(rates[:top], rates[1:top + 1]):
            self.assertLess(below, above)

    def test_what_is_no_exception_ends_with_a_sentence(self):
        os.environ["RINGS_THROW_A_NUMBER"] = "1"
        self.addCleanup(os.environ.pop, "RINGS_THROW_A_NUMBER")
        for command in ("train", "plan"):
            said = self.run_program(command, "--config", RECIPE, *(("--output", "run") if command == "train" else ()), code=77)
            self.assertIn("threw int, which is no std::exception", said)

    def test_its_optimizer_is_the_same_rule_built_in(self):
        own = self.updates(self.train("own", "stop={updates: 20}"))
        other = self.updates(self.train("other", "stop={updates: 20}",
                                        "optimizer={name: sgd, momentum: 0.9, lr: 0.03}"))
        self.assertEqual(len(own), 20)
        for one, two in zip(own, other):
            self.assertAlmostEqual(one["loss"] / two["loss"], 1, delta=1e-4)

    def test_an_optimizer_of_libtorchs_kind_has_groups_with_rates_and_turns(self):
        groups = "groups: [{match: 'hidden.*', every: 3, lr_factor: 0.5, weight_decay: 0.1}]"
        fixed = ("schedule={name: constant}", "checkpoint={every: 1 updates, keep: 20}")
        own = self.train("own", *fixed, "stop={updates: 10}", f"optimizer={{name: torch_adam, lr: 0.01, {groups}}}")
        other = self.train("other", *fixed, "stop={updates: 10}", f"optimizer={{name: adam, lr: 0.01, {groups}}}")
        for one, two in zip(self.updates(own), self.updates(other)):
            self.assertAlmostEqual(one["loss"] / two["loss"], 1, delta=1e-4)
        hidden = [self.tensor(own, update, "hidden.weight") for update in range(1, 11)]
        self.assertEqual([before != after for before, after in zip(hidden, hidden[1:])],
                         [update % 3 == 0 for update in range(2, 11)])
        stopped = f"optimizer={{name: torch_adam, lr: 0.01, {groups}}}"
        self.train("stopped", *fixed, "stop={updates: 4}", stopped)
        self.train("stopped", *fixed, "stop={updates: 10}", stopped, options=("--resume", "--allow-change"))
        self.assertEqual(self.bits(self.folder / "stopped"), self.bits(own))

    def test_resumes_with_the_same_bits_found_or_typed(self):
        constant = ("schedule={name: constant}", "stop={updates: 30}")
        straight = self.train("straight", *constant)
        self.train("stopped", constant[0], "stop={updates: 11}")
        self.train("stopped", *constant, options=("--resume", "--allow-change"))
        self.assertEqual(self.bits(self.folder / "stopped"), self.bits(straight))
        size = json.loads((straight / "plan.json").read_text())["micro_batch"]
        self.assertEqual(self.bits(self.train("typed", *constant, f"execution.micro_batch={size}")), self.bits(straight))
        states = (straight / "checkpoints" / "update-30" / "optimizer.safetensors").read_bytes()
        self.assertIn(b"speed.hidden.weight", states)

    def test_a_program_that_was_built_again_still_evaluates_its_runs(self):
        self.train("run", "stop={updates: 20}")
        again = self.folder / "built_again"
        shutil.copy(PROGRAM, again)
        os.utime(again, (1, 1))
        result = subprocess.run([str(again), "evaluate", "--run", "run"], capture_output=True, text=True, cwd=self.folder,
                                env={**os.environ, "CI": "1", "CUDA_VISIBLE_DEVICES": ""}, timeout=900)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("the program was built again since it trained the run", result.stdout + result.stderr)
        self.assertNotIn("built again", self.run_program("evaluate", "--run", "run"))

    def test_a_layer_of_its_own_has_no_adapter(self):
        said = self.run_program("train", "--config", RECIPE, "--output", "run", "--set", 'model.lora.match=["hidden"]', code=78)
        self.assertIn("hidden.weight [32, 3] is of a layer of the program's own", said)

    def test_ranks_and_cuts_learn_the_same(self):
        constant = ("schedule={name: constant}", "stop={updates: 20}")
        whole = self.updates(self.train("whole", *constant))
        cut = self.updates(self.train("cut", *constant, "execution.micro_batch=16"))
        ranks = self.updates(self.train("ranks", *constant, options=("--ranks", 2)))
        for other in (cut, ranks):
            self.assertEqual(len(other), 20)
            for one, two in zip(whole, other):
                self.assertAlmostEqual(one["loss"] / two["loss"], 1, delta=1e-4)

    def test_every_command_knows_the_names(self):
        config, schema = self.run_program("config"), self.run_program("schema")
        for name in ("polar_net", "rings", "margin", "near_miss", "triangle", "heavy_ball"):
            self.assertIn(name, schema, name)
        self.assertIn("polar_net", config)
        self.assertIn("Units of the hidden layer.", config)
        self.run_program("plan", "--config", RECIPE)
        self.run_program("verify", "--config", RECIPE)
        run = self.train("run", "stop={updates: 20}")
        self.assertIn("accuracy", self.run_program("evaluate", "--run", run))
        self.run_program("report", run)

    def test_what_is_wrong_is_refused_by_name(self):
        text = self.run_program("plan", "--config", RECIPE, "--set", "model.width=0", code=78)
        self.assertIn("width", text)
        self.assertIn("from 1 to 4096", text)
        text = self.run_program("plan", "--config", RECIPE, "--set", "model={name: polar_nets}", code=78)
        self.assertIn("polar_net", text)
        text = self.run_program("plan", "--config", RECIPE, "--set", "model={name: polar_net, wide: 3}", code=78)
        self.assertIn("width", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
