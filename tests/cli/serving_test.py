#!/usr/bin/env python3
"""`autotrain sweep --rate`, with a model so small that nothing takes long: serving_test.py path/to/autotrain

What is asked here holds however late a loaded machine makes everything.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
DELAY = 0.01  # seconds that a sample takes to read, at least
RECIPE = """
name: tiny
data:
  train: {dataset: synthetic, kind: vectors, samples: 16, shape: [8], classes: 3}
  validation: {dataset: synthetic, kind: vectors, samples: 16, shape: [8], classes: 3, first: 1000, delay: %s}
model: {name: mlp, depth: 1, width: 16}
optimizer: {name: adamw}
batch: {effective: 8}
stop: {updates: 2}
execution: {precision: fp32, threads: 1, memory: {budget: 256MiB}}
sweep: {batches: 1, max_seconds: 0.05, rounds: 1}
"""


class Serving(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.write(DELAY)

    def write(self, delay):
        (self.root / "tiny.yaml").write_text(RECIPE % delay)

    def sweep(self, *arguments, code=0):
        done = subprocess.run([BINARY, "sweep", "--config", "tiny.yaml", *map(str, arguments)], cwd=self.root,
                              capture_output=True, text=True, env={**os.environ, "CI": "1"}, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def lines(self, *arguments):
        result = json.loads(self.sweep("--json", *arguments).stdout)
        self.assertEqual(result["unfinished"], 0)
        return {(line["most"], line["window_ms"], line["servers"], line["processes"], line["load_ahead"]): line
                for line in result["variants"][0]["lines"]}

    def kept(self, folder="out"):
        results = [json.loads(path.read_text()) for path in (self.root / folder / "results").glob("*-rate-*.json")]
        return [result["value"] for result in results]

    def test_a_hopeless_rate_is_called_unstable_and_has_no_percentiles(self):
        hopeless = 20 / DELAY
        (line,) = self.lines("--rate", hopeless, "--requests", 50, "--output", "out").values()
        self.assertLessEqual(line["capacity_per_second"], 1 / DELAY)
        (point,) = line["points"]
        self.assertTrue(point["unstable"])
        self.assertEqual([point[name] for name in ("p50_seconds", "p99_seconds", "waiting_seconds", "md1_waiting_seconds")],
                         [None] * 4)
        self.assertGreater(point["backlog"], 30)
        self.assertLessEqual(point["served_per_second"], 1.001 / DELAY)
        self.assertIn("unstable: ", (self.root / "out" / "report.html").read_text())

    def test_every_request_is_served_once_by_threads_processes_and_with_loading_ahead(self):
        lines = self.lines("--rate", "60", "--requests", 20, "--batches", 3, "--window-ms", "20", "--servers", "1,2",
                           "--processes", "--load-ahead", "--output", "out")
        self.assertEqual(len(lines), 3 * 2)  # one server, threads, processes; with and without loading ahead
        for (most, window, servers, processes, ahead), line in lines.items():
            (point,) = line["points"]
            self.assertLessEqual(point["mean_batch"], most)
            self.assertGreater(point["peak_bytes"], 0)
            if point["unstable"]:
                continue  # a machine that cannot read four samples in 100 ms
            self.assertGreaterEqual(point["p50_seconds"], DELAY)
            self.assertGreaterEqual(point["loading_seconds"], DELAY)
            self.assertTrue(point["p50_seconds"] <= point["p95_seconds"] <= point["p99_seconds"])
        for value in self.kept():
            # Two of warm-up; a machine that is far behind gives some up.
            self.assertEqual(len(value["latencies_seconds"]) + value["given_up"], 20)
            stages = sum(value[f"{stage}_seconds"] for stage in ("waiting", "loading", "copying", "forward", "output"))
            self.assertAlmostEqual(stages, sum(value["latencies_seconds"]) / len(value["latencies_seconds"]))
        with open(self.root / "out" / "serving.csv", newline="", encoding="utf-8") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 6)

    def test_a_bound_below_what_reading_takes_is_held_by_nothing(self):
        done = self.sweep("--rate", "40", "--requests", 10, "--latency-ms", 1e3 * DELAY / 2, "--tries", 1, "--output", "out")
        self.assertRegex(done.stdout, "nothing that was tried holds 5 ms at p99")
        line = json.loads((self.root / "out" / "serving.json").read_text())["variants"][0]["lines"][0]
        self.assertIsNone(line["held_rate"])
        self.assertEqual([point["rate"] for point in line["points"]], [20, 40])  # half of what did not hold
        self.assertTrue(all(point["late_share"] in (1, None) for point in line["points"]))

    def test_a_bound_of_minutes_is_held_and_what_was_measured_is_not_measured_again(self):
        self.write(0)
        sweep = ("--rate", "auto", "--requests", 20, "--latency-ms", 1e6, "--tries", 1, "--output", "out")
        first = self.sweep(*sweep)
        results = {path: path.stat().st_mtime_ns for path in (self.root / "out" / "results").iterdir()}
        self.assertGreaterEqual(len(results), 1 + 6)  # the times of batches, six shares of the capacity, what was tried
        again = self.sweep(*sweep)
        self.assertEqual({path: path.stat().st_mtime_ns for path in (self.root / "out" / "results").iterdir()}, results)
        self.assertEqual(again.stdout, first.stdout)
        before = json.loads((self.root / "out" / "serving.json").read_text())
        drawn = subprocess.run([BINARY, "report", "out"], cwd=self.root, capture_output=True, text=True, check=False)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertEqual(json.loads((self.root / "out" / "serving.json").read_text()), before)
        line = before["variants"][0]["lines"][0]
        held = [point for point in line["points"] if point["rate"] == line["held_rate"]]
        for point in held:
            self.assertLessEqual(point["p99_seconds"], 1e3)
            self.assertFalse(point["unstable"])
        self.sweep(*sweep[:2], "--requests", 30, *sweep[4:], code=64)  # a folder holds one study

    def test_arrivals_come_from_a_file(self):
        (self.root / "trace.txt").write_text("# two bursts\n" + "".join(f"{100 + i // 10 * 0.3}\n" for i in range(20)))
        (line,) = self.lines("--trace", "trace.txt", "--batches", 4, "--output", "out").values()
        (point,) = line["points"]
        self.assertLessEqual(point["requests"], 18)  # without the first tenth
        self.assertIsNone(point["md1_waiting_seconds"])
        (value,) = self.kept()
        self.assertGreaterEqual(max(value["latencies_seconds"]), 3 * 2 * DELAY)  # the last of a burst waits for others
        (self.root / "trace.txt").write_text("1\ntwo\n")
        self.assertIn("trace.txt:2", self.sweep("--trace", "trace.txt", code=65).stderr)

    def test_what_does_not_go_together_is_refused_by_name(self):
        for part, *arguments in (("--rate", "--rate", "0"), ("--window-ms", "--window-ms", "2"),
                                 ("--servers", "--rate", "5", "--servers", "1.5"), ("--trace", "--rate", "5", "--trace", "t"),
                                 ("--decode", "--rate", "5", "--decode"),
                                 ("sweep.mode is training", "--rate", "5", "--mode", "training"),
                                 ("--requests", "--rate", "5", "--requests", "2"),
                                 ("--requests", "--rate", "5", "--requests", "100000000000"),
                                 ("--requests", "--trace", "t.txt", "--requests", "20"),
                                 ("--trace", "--trace", ""), ("--rate", "--rate", ""),
                                 ("--latency-ms", "--rate", "5", "--percentile", "95"),
                                 ("--servers", "--rate", "5", "--processes"),
                                 ("--batches", "--rate", "5", "--window-ms", "2", "--batches", "1")):
            self.assertIn(part, self.sweep(*arguments, code=64).stderr)
        self.assertIn("t.txt", self.sweep("--trace", "t.txt", code=66).stderr)
        self.assertFalse((self.root / "runs").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
