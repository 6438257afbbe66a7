#!/usr/bin/env python3
"""`autotrain lr`: its files, its line for a recipe, trained weights to begin with, races of rates, and the ways in which it
must refuse.

    lr_test.py path/to/autotrain
"""
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
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
RACE_RECIPE = RECIPE | {
    "data": {"train": {"dataset": "synthetic", "kind": "vectors", "samples": 1024},
             "validation": {"dataset": "synthetic", "kind": "vectors", "samples": 256, "first": 4096}},
    "stop": {"epochs": 3},
    "checkpoint": {"every": "1 epochs"},
}
QUICK = ["--from", "1e-4", "--to", "100", "--factor", "1.3", "--hold", "8"]


class LrTest(unittest.TestCase):
    def setUp(self):
        parent = tempfile.TemporaryDirectory()
        self.addCleanup(parent.cleanup)
        self.folder = Path(parent.name)
        (self.folder / "recipe.yaml").write_text(json.dumps(RECIPE))
        (self.folder / "race.yaml").write_text(json.dumps(RACE_RECIPE))

    def autotrain(self, *arguments, code=0):
        out = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                             timeout=600)
        self.assertEqual(out.returncode, code, out.stderr)
        return out


class Lr(LrTest):
    def test_its_line_is_at_the_reference_batch_and_its_files_are_there(self):
        out = self.autotrain("lr", "--config", "recipe.yaml", *QUICK)
        found = json.loads((self.folder / "runs/test-lr-1/lr.json").read_text())
        self.assertEqual(len(found["stretches"]), 3)
        self.assertEqual(found["undetermined"], "")
        for stretch in found["stretches"]:
            held = {each["lr"]: each["diverged"] for each in stretch["held"]}
            self.assertFalse(held[stretch["edge"]])
            self.assertLess(min(lr for lr, diverged in held.items() if diverged), stretch["edge"] * 1.3 * 1.001)
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
        for found in (first, second):
            found.pop("folder"), found.pop("plan")  # which tells how long its search took
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

    def test_copies_beside_which_nothing_fits_are_named_with_a_budget_that_is_enough(self):
        settings = ["model.width=1024", "model.depth=3", "batch.effective=64", "execution.memory.target=[0.2, 0.9]"]
        sets = [word for setting in settings for word in ("--set", setting)]
        how = ["--from", "1e-4", "--to", "1e-3", "--factor", "3", "--hold", "4", "--stretches", "1"]
        plan = json.loads(self.autotrain("plan", "--config", "recipe.yaml", *sets, "--json").stdout)
        tight = f"execution.memory.budget={int(1.45 * plan['peak_bytes'] / 2**20)}MiB"
        said = self.autotrain("lr", "--config", "recipe.yaml", *sets, "--set", tight, *how, code=71).stderr
        self.assertIn("copies of weights and optimizer state", said)
        budget = re.search(r"--set (execution.memory.budget=\d+MiB)", said).group(1)
        self.autotrain("lr", "--config", "recipe.yaml", *sets, "--set", budget, *how)

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


class Race(LrTest):
    def race(self, output, *arguments, code=0):
        """Returns lr.json, and what was printed."""
        out = self.autotrain("lr", "--config", "race.yaml", "--race", "--output", output, *arguments, code=code)
        return json.loads((self.folder / output / "lr.json").read_text()), out

    def results(self, output):
        """When each result of the race was written."""
        return {path.name: path.stat().st_mtime_ns for path in (self.folder / output / "race/results").glob("*.json")}

    def start(self, output, *arguments):
        process = subprocess.Popen([BINARY, "lr", "--config", "race.yaml", "--race", "--output", output, *arguments],
                                   cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def test_a_good_rate_beats_one_that_diverges_and_one_that_is_far_too_small(self):
        found, out = self.race("out", "--rates", "1e6,1e-7", "--seeds", "2")
        race = found["race"]
        self.assertEqual([racer["lr"] for racer in race["racers"]], [1e-7, 0.1, 1e6], "with the recipe's own")
        self.assertEqual([racer["outcome"] for racer in race["racers"]], ["finished", "won", "diverged"])
        self.assertEqual((race["winner"], race["at_the_end"], race["racers"][2]["diverged"]), (0.1, "none", 2))
        self.assertEqual(len(race["shares"]), 2)
        self.assertNotIn("stretches", found, "no range test is made where the rates are given")
        self.assertIn("reference_batch: 64}  # as the recipe has it", out.stdout.splitlines()[-2])
        self.assertIn("diverged in 2 of 2 runs", out.stdout)
        self.assertIn("Race", (self.folder / "out/lr.html").read_text())
        self.assertTrue((self.folder / "out/race/report.html").exists())
        self.assertEqual((self.folder / "race.yaml").read_text(), json.dumps(RACE_RECIPE), "nothing is applied")

    def test_whether_rates_are_told_apart_is_what_the_comparison_says_of_them(self):
        for output, other in ("winner-second", "1e-4"), ("winner-first", "2"):
            found, out = self.race(output, "--rates", other, "--seeds", "3")
            race = found["race"]
            loser = next(racer for racer in race["racers"] if racer["outcome"] == "finished")
            compared = json.loads((self.folder / output / "race/compare.json").read_text())
            difference = next(each for each in compared["differences"] if each["at_equal"] == "samples")
            won_first = difference["a"] == f"lr={race['winner']:g}"
            self.assertEqual(won_first, output == "winner-first")
            self.assertEqual(loser["told_apart_from_winner"], difference["b_is"] == ("worse" if won_first else "better"))
            self.assertEqual(loser["seeds_needed"], difference["runs_needed"])
            self.assertFalse(loser["contradicted"])
            said = "beyond what seeds explain" if loser["told_apart_from_winner"] else "not distinguishable"
            self.assertIn(said, out.stdout)

    def test_its_line_is_the_winners_run_bit_for_bit(self):
        own = ["--set", "optimizer.lr=0.0001"]
        _, out = self.race("out", *own, "--rates", "0.0123,1e-7", "--seeds", "2", "--quiet")
        line = re.fullmatch(r"optimizer: \{lr: (\S+), reference_batch: 64\}  # 0.0001 → (\S+)", out.stdout.split(";")[0].strip())
        self.assertEqual(line.groups(), ("0.0123", "0.0123"), out.stdout)
        self.autotrain("--config", "race.yaml", "--set", f"optimizer.lr={line[1]}", "--set", "seed=2", "--output", "run",
                       "--quiet")
        runs = [self.folder / name for name in ("run", "out/race/runs/lr-0.0123-seed2")]
        alone, raced = (json.loads((run / "summary.json").read_text())["final"] for run in runs)
        self.assertEqual(alone, raced)
        alone, raced = (max(run.glob("checkpoints/*"), key=lambda path: int(path.name.split("-")[1])) for run in runs)
        self.assertEqual(alone.name, raced.name)
        self.assertEqual((alone / "model.safetensors").read_bytes(), (raced / "model.safetensors").read_bytes())

    def test_killed_it_goes_on_with_the_range_test_and_the_runs_that_are_there(self):
        arguments = [*QUICK, "--seeds", "2"]
        whole, _ = self.race("whole", *arguments)
        self.assertIn(whole["race"]["own_lr"], [racer["lr"] for racer in whole["race"]["racers"]])
        self.assertIn("around", whole["race"]["rates"])
        process = self.start("out", *arguments)
        while not any("-rung" in name for name in self.results("out")):
            self.assertIsNone(process.poll(), "it ended before it was killed")
            time.sleep(0.002)
        process.kill()
        process.wait()
        before = self.results("out")
        self.assertLess(len(before), len(self.results("whole")))
        report = self.folder / "out/lr.json"
        marked = json.loads(report.read_text())
        self.assertNotIn("race", marked)
        marked["stretches"][0]["start_loss"] = 123
        report.write_text(json.dumps(marked))
        found, out = self.race("out", *arguments)
        self.assertEqual(found["stretches"][0]["start_loss"], 123, "the range test is not made again")
        self.assertIn("keeps the range test", out.stderr)
        self.assertEqual(found["race"], whole["race"])
        self.assertEqual({name: when for name, when in self.results("out").items() if name in before}, before)
        for metrics in self.folder.glob("out/race/runs/*/metrics.jsonl"):
            updates = [row["update"] for row in map(json.loads, metrics.read_text().splitlines()) if row["kind"] == "update"]
            self.assertEqual(updates, list(range(1, len(updates) + 1)), metrics)
        self.race("out", *arguments, "--set", "model.width=16", code=64)
        self.assertEqual(found, json.loads(report.read_text()), "another recipe is refused")

    def test_stopped_in_its_range_test_it_says_how_to_go_on(self):
        process = self.start("out", "--hold", "100000")
        self.assertTrue(any("range test" in line for line in process.stderr))
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("--output out goes on", said)

    def test_a_winner_at_the_end_asks_for_rates_beyond_it_which_the_same_folder_takes(self):
        own = ["--set", "optimizer.lr=0.0001", "--seeds", "2"]
        found, out = self.race("out", *own, "--rates", "0.001,0.01")
        self.assertEqual((found["race"]["winner"], found["race"]["at_the_end"]), (0.01, "largest"))
        self.assertIn("--rates, for instance 0.01,0.032,0.1", out.stdout)
        before = self.results("out")
        found, _ = self.race("out", *own, "--rates", "0.01,0.1")
        self.assertEqual(found["race"]["winner"], 0.1)
        self.assertEqual({name: when for name, when in self.results("out").items() if name in before}, before)

    def test_all_rates_lost_is_said_with_the_runs_exit_code(self):
        found, out = self.race("out", "--set", "optimizer.lr=1e4", "--rates", "1e6", "--seeds", "1", code=76)
        self.assertIsNone(found["race"]["winner"])
        self.assertIn("no winner", out.stdout)
        self.assertIn("Race smaller ones", out.stdout)

    def test_refusals(self):
        def refused(word, *arguments, recipe="race.yaml", code=64):
            said = self.autotrain("lr", "--config", recipe, *arguments, code=code).stderr
            self.assertIn(word, said)
            self.assertEqual(said.count("error"), 1, said)

        refused("add --race", "--rates", "0.1")
        refused("add --race", "--seeds", "2")
        refused("add --race", "--figure", "loss")
        refused("--run", "--race", "--run", "x")
        refused("add --run", "--checkpoint", "best")
        refused("--from", "--race", "--rates", "0.2", "--from", "1e-3")
        refused('"0" is no number from 1e-12 to 1000000', "--race", "--rates", "0")
        refused('"x" is no number', "--from", "x")
        refused("own rate alone", "--race", "--rates", "0.1")
        refused("data.validation", "--race", recipe="recipe.yaml", code=78)
        self.assertFalse((self.folder / "runs").exists())
        refused("is not measured", "--race", "--rates", "0.2", "--figure", "f2")
        refused("is not measured", "--race", "--figure", "f2", "--output", "untested")
        self.assertFalse((self.folder / "untested/lr.json").exists(), "said before the range test")
        tested = self.autotrain("lr", "--config", "race.yaml", "--race", "--figure", "loss", "--output", "tested", "--seeds", "1", "--json")
        self.assertEqual(json.loads(tested.stdout)["race"]["figure"], "loss")
        refused("holds a race", "--output", "tested")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
