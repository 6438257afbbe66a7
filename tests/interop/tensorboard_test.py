#!/usr/bin/env python3
"""TensorBoard and Python's csv module read from a run's files what metrics.jsonl says, resumed and rolled back runs too.

    tensorboard_test.py path/to/autotrain

Exits 77 where TensorBoard is not installed.
"""
import csv
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("tensorboard is not installed")
    sys.exit(77)

AUTOTRAIN = os.path.abspath(sys.argv[1])
RECIPE = """name: small
data: {train: {dataset: synthetic, kind: vectors, samples: 256}, validation: {dataset: synthetic, kind: vectors, samples: 64}}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 32}
stop: {updates: 20}
evaluation: {every: 5 updates}
checkpoint: {every: 4 updates}
execution: {precision: fp32, micro_batch: 16, telemetry: 0, memory: {budget: 64MiB}, search: {plan_cache: false}}
"""


def as_float32(number):
    return math.nan if number is None else struct.unpack("f", struct.pack("f", number))[0]


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def rows_of(folder, kind):
    """Those that no rollback replaced."""
    rows = []
    for row in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()):
        if row["kind"] == "event" and row["event"] == "rollback":
            rows = [kept for kept in rows if kept["update"] <= row["update"]]
        if row["kind"] == kind:
            rows.append(row)
    return rows


class Files(unittest.TestCase):
    def setUp(self):
        self.parent = tempfile.TemporaryDirectory()
        self.addCleanup(self.parent.cleanup)
        self.folder = Path(self.parent.name, "run")
        self.recipe = Path(self.parent.name, "recipe.yaml")
        self.recipe.write_text(RECIPE)

    def train(self, *more, code=0, environment=None):
        out = subprocess.run([AUTOTRAIN, "--config", self.recipe, "--output", self.folder, *more], text=True,
                             capture_output=True, env={**os.environ, "CI": "1", **(environment or {})})
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)

    def check_events(self):
        events = EventAccumulator(str(self.folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
        for kind, prefix, names in [("update", "train", ["loss", "lr", "grad_norm", "scale", "samples_per_second", "peak_bytes", "effective_batch"]),
                                    ("evaluation", "validation", ["loss", "accuracy"])]:
            rows = rows_of(self.folder, kind)
            self.assertGreater(len(rows), 0)
            for name in names:
                scalars = events.Scalars(f"{prefix}/{name}")
                self.assertEqual([scalar.step for scalar in scalars], [row["update"] for row in rows], name)
                for scalar, row in zip(scalars, rows):
                    self.assertTrue(same(scalar.value, as_float32(row[name])), (name, scalar, row[name]))
        self.check_noise(events)

    def check_noise(self, events):
        rows = [row for row in rows_of(self.folder, "update") if row.get("gradient_noise", {}).get("samples") is not None]
        tag = "train/noise_scale"
        scalars = events.Scalars(tag) if tag in events.Tags()["scalars"] else []
        self.assertEqual([scalar.step for scalar in scalars], [row["update"] for row in rows])
        for scalar, row in zip(scalars, rows):
            self.assertTrue(same(scalar.value, as_float32(row["gradient_noise"]["samples"])), (scalar, row))

    @staticmethod
    def flat(row):
        flat = {name: value for name, value in row.items() if name != "kind" and not isinstance(value, dict)}
        for inner in ("activity_seconds", "gradient_noise", "preconditioned_noise"):
            flat |= {f"{inner}.{name}": value for name, value in row.get(inner, {}).items()}
        return flat

    def check_csv(self):
        for kind, file in [("update", "metrics.csv"), ("evaluation", "evaluations.csv")]:
            rows = rows_of(self.folder, kind)
            with open(self.folder / file, newline="") as opened:
                table = list(csv.DictReader(opened))
            self.assertEqual(len(table), len(rows))
            flat_rows = [self.flat(row) for row in rows]
            columns = set().union(*flat_rows)  # of which a row may lack some: its cells are empty
            for cells, flat in zip(table, flat_rows):
                flat = {name: flat.get(name) for name in columns}
                self.assertEqual(set(cells), columns)
                for name, value in flat.items():
                    wanted = value if isinstance(value, str) else "" if value is None else float(value)
                    self.assertEqual(cells[name] if isinstance(wanted, str) else float(cells[name]), wanted, name)
        self.check_other_tables()

    def check_other_tables(self):
        def table(name):
            with open(self.folder / name, newline="") as opened:
                return list(csv.DictReader(opened))
        summary = json.loads((self.folder / "summary.json").read_text())
        values = {row["name"]: row["value"] for row in table("summary.csv")}
        self.assertEqual(values["status"], summary["status"])
        self.assertEqual(float(values["final.accuracy"]), summary["final"]["accuracy"])
        probes = json.loads((self.folder / "plan.json").read_text())["search"]["probes"]
        self.assertEqual([(int(row["micro_batch"]), row["outcome"], row["fits"]) for row in table("probes.csv")],
                         [(each["micro_batch"], each["outcome"], str(each["fits"]).lower()) for each in probes])
        if not (self.folder / "telemetry.jsonl").exists():
            return
        telemetry = [json.loads(line) for line in (self.folder / "telemetry.jsonl").read_text().splitlines()]
        self.assertGreater(len(telemetry), 0)
        self.assertEqual([float(row["seconds"]) for row in table("telemetry.csv")], [row["seconds"] for row in telemetry])

    def test_a_run_from_its_start_to_its_end(self):
        self.train("--set", "execution.telemetry=0.01")
        self.assertTrue((self.folder / "telemetry.jsonl").exists())
        self.check_events()
        self.check_csv()

    def test_a_run_that_lost_updates_to_a_kill_and_was_resumed(self):
        self.train()
        # As after a kill: the checkpoint of the end is gone, its rows and events are not.
        shutil.rmtree(self.folder / "checkpoints" / "update-20")
        self.train("--resume")
        self.assertEqual(len(list((self.folder / "tensorboard").iterdir())), 2)
        self.assertEqual(len(rows_of(self.folder, "update")), 20)
        self.check_events()
        self.check_csv()

    def test_a_run_that_was_rolled_back(self):
        self.train("--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e6", "--set", "stop.max_skipped=2", "--set",
                   "divergence.policy=rollback", "--set", "divergence.lr_factor=0.000001", "--set",
                   "divergence.max_rollbacks=100", "--set", "checkpoint.every=1 updates")
        self.assertIn('"rollback"', (self.folder / "metrics.jsonl").read_text())
        self.check_events()
        self.check_csv()

    def test_nothing_is_written_that_was_not_asked_for(self):
        self.train("--set", "report.html=false", "--set", "report.csv=false", "--set", "report.tensorboard=false")
        names = {path.name for path in self.folder.iterdir()}
        self.assertFalse(names & {"report.html", "metrics.csv", "evaluations.csv", "telemetry.csv", "probes.csv", "summary.csv",
                                    "tensorboard"}, names)
        out = subprocess.run([AUTOTRAIN, "report", self.folder], text=True, capture_output=True, check=True).stdout
        for name in ("report.html", "metrics.csv", "evaluations.csv", "probes.csv", "summary.csv"):
            self.assertIn(f"wrote {self.folder}/{name}\n", out)
            self.assertTrue((self.folder / name).exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
