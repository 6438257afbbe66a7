#!/usr/bin/env python3
"""autotrain sweep from end to end, with models so small that nothing takes long.

    sweep_test.py path/to/autotrain tests/fixtures
"""
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BINARY, FIXTURES = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
RECIPE = """
name: tiny
data:
  train: {dataset: synthetic, kind: vectors, samples: 16, shape: [8], classes: 3}
  validation: {dataset: synthetic, kind: vectors, samples: 16, shape: [8], classes: 3, first: 1000}
model: {name: mlp, depth: 1, width: 16}
optimizer: {name: adamw, reference_batch: 8}
batch: {effective: 8}
stop: {updates: 2}
execution: {precision: fp32, memory: {budget: 256MiB}}
sweep: {batches: 1..4, max_seconds: 0.05, rounds: 1}
"""


class Sweep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.recipe = self.root / "tiny.yaml"
        self.recipe.write_text(RECIPE)

    def command(self, *arguments):
        return [str(BINARY), "sweep", "--config", str(self.recipe), "--output", str(self.root / "out"), *arguments]

    def sweep(self, *arguments, code=0):
        result = subprocess.run(self.command(*arguments), capture_output=True, text=True, cwd=self.root, timeout=1200,
                                env={**os.environ, "CI": "1"}, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def result(self):
        return json.loads((self.root / "out" / "sweep.json").read_text())

    def test_the_largest_batch_in_the_band_of_every_value(self):
        result = self.sweep("--vary", "execution.precision=fp32,bf16", "--batches", "1", "--largest",
                            "--set", "execution.memory.budget=64MiB", "--set", "model.width=4096")
        for variant in self.result()["variants"]:
            largest = variant["largest"]
            tried = {trial["micro_batch"]: trial for trial in largest["trials"]}
            self.assertTrue(tried[largest["batch"]]["fits"])
            self.assertLessEqual(largest["fill"], 0.9)
            if largest["reason"] == "in_band":
                self.assertGreaterEqual(largest["fill"], 0.8)
            self.assertIn(f" {largest['batch']} ", result.stdout)
        self.assertIn("largest batches in the memory band", result.stdout)
        self.assertIn("Largest batches", (self.root / "out" / "report.html").read_text())
        before = self.result()
        report = subprocess.run([str(BINARY), "report", str(self.root / "out")], capture_output=True, text=True)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertEqual(self.result(), before)
        self.sweep("--largest", "--mode", "training", code=64)

    def test_models_from_pytorch_are_measured_end_to_end_and_at_their_largest_batch(self):
        shapes = "{dataset: synthetic, kind: images, samples: 16, shape: [3, 32, 32]}"
        for model in ("{name: exported, file: %s/exported_small.autotrain}" % FIXTURES,
                      "{name: torchscript, file: %s/scripted_small.pt}" % FIXTURES):
            with self.subTest(model):
                shutil.rmtree(self.root / "out", ignore_errors=True)
                self.recipe.write_text(f"name: theirs\ndata: {{train: {shapes}, validation: {shapes}}}\nmodel: {model}\n"
                                       + RECIPE[RECIPE.index("optimizer:"):])
                self.sweep("--largest", "--end-to-end", "--batches", "1,4", "--set", "execution.memory.budget=64MiB")
                variant = self.result()["variants"][0]
                largest = variant["largest"]
                self.assertIsNone(largest["failure"])
                tried = {trial["micro_batch"]: trial for trial in largest["trials"]}
                self.assertTrue(tried[largest["batch"]]["fits"])
                self.assertLessEqual(largest["fill"], 0.9)
                if largest["reason"] == "in_band":
                    self.assertGreaterEqual(largest["fill"], 0.8)
                self.assertEqual([point["batch"] for point in variant["points"]], [1, 4])
                for point in variant["points"]:
                    self.assertIsNone(point["failure"])
                    self.assertGreater(point["end_to_end"]["samples_per_second"], 0)
                    self.assertIn(point["end_to_end"]["slowest_stage"], ("loading", "copying", "forward", "output"))

    def test_end_to_end_says_which_stage_bounds_it(self):
        delay = 0.002  # of reading a sample, which sleeps
        result = self.sweep("--end-to-end", "--batches", "1,4,1000000", "--set", f"data.validation.delay={delay}",
                            "--set", "execution.loader.workers=1", "--set", "execution.memory.budget=32MiB")
        variant = self.result()["variants"][0]
        for point in variant["points"][:2]:
            whole = point["end_to_end"]
            self.assertEqual(whole["slowest_stage"], "loading")
            self.assertLessEqual(whole["loading_samples_per_second"], 4 / delay)  # some batches are ready at once
            self.assertLess(whole["samples_per_second"], whole["forward_samples_per_second"])
            self.assertTrue(0 < whole["waiting_share"] <= 1)
            self.assertEqual(whole["workers"], 1)
        self.assertNotIn("end_to_end", variant["points"][2], "what does not fit alone is not loaded either")
        self.assertFalse(list((self.root / "out" / "results").glob("*end-to-end-1000000*")))
        self.assertEqual(self.result()["unfinished"], 0)
        self.assertRegex(result.stdout, "end to end, from the data to outputs, the most is .* loading ")
        with open(self.root / "out" / "sweep.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["end_to_end_slowest_stage"] for row in rows], ["loading", "loading", ""])
        self.assertIn("End to end", (self.root / "out" / "report.html").read_text())
        self.assertIn("--end-to-end", self.sweep("--end-to-end", "--mode", "training", code=64).stderr)

    def test_lists_are_values_of_an_axis(self):
        images = "{dataset: synthetic, kind: images, samples: 16, shape: [1, 8, 8], classes: 3}"
        self.recipe.write_text(f"name: tiny\ndata: {{train: {images}, validation: {images}}}\nmodel: {{name: cnn}}\n"
                               + RECIPE[RECIPE.index("optimizer:"):])
        self.sweep("--vary", "data.train.shape,data.validation.shape=[1,8,8],[1, 16, 16]", "--batches", "2")
        result = self.result()
        self.assertEqual(result["key"], "data.train.shape,data.validation.shape")
        self.assertEqual([variant["value"] for variant in result["variants"]], ["[1,8,8]", "[1, 16, 16]"])
        flops = [variant["flops_per_sample"] for variant in result["variants"]]
        self.assertGreater(flops[1], 3 * flops[0])
        with open(self.root / "out" / "sweep.csv", newline="", encoding="utf-8") as file:
            self.assertEqual([row["value"] for row in csv.DictReader(file)], ["[1,8,8]", "[1, 16, 16]"])

    def test_measures_every_batch_of_every_value(self):
        result = self.sweep("--vary", "execution.precision=fp32,bf16,int8", "--batches", "1,3", "--json")
        printed = json.loads(result.stdout)
        self.assertEqual(printed.pop("folder"), str(self.root / "out"))
        self.assertEqual(printed, self.result())
        self.assertEqual([v["value"] for v in printed["variants"]], ["fp32", "bf16", "int8"])
        for variant in printed["variants"]:
            self.assertEqual([p["batch"] for p in variant["points"]], [1, 3])
            self.assertEqual(variant["flops_per_sample"], 2 * (8 * 16 + 16 * 3))
            # Not every machine has peaks of all precisions: bf16 only has one where it is native.
            self.assertEqual(variant["predicted_batch"] > 0, variant["value"] in variant["machine"]["flops"])
            if variant["value"] == "fp32":
                first = variant["operators"][0]
                moved, weights = 4 * (8 + 8 * 16 + 16 + 16), 4 * (8 * 16 + 16)
                self.assertEqual(first["intensity"], first["flops"] / moved)
                self.assertEqual(first["intensity_at_large_batch"], first["flops"] / (moved - weights))
            for point in variant["points"]:
                self.assertGreater(point["allocated_bytes"], 0)
                self.assertGreaterEqual(point["fragmentation_bytes"], 0)
                self.assertEqual(point["fragmentation_bytes"], point["reserved_bytes"] - point["allocated_bytes"])
                self.assertLessEqual(point["reserved_bytes"], point["peak_bytes"])
                self.assertLessEqual(point["p50_seconds"], point["p99_seconds"])
                self.assertIsNone(point["copy_to_device_seconds"])
        with open(self.root / "out" / "sweep.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["value"], row["batch"]) for row in rows],
                         [(value, batch) for value in ("fp32", "bf16", "int8") for batch in ("1", "3")])

    def test_trains(self):
        self.sweep("--mode", "training", "--batches", "2,4")
        variant = self.result()["variants"][0]
        forward = 2 * (8 * 16 + 16 * 3)
        self.assertEqual(variant["flops_per_sample"], forward + 2 * forward - 2 * 8 * 16)

    def test_says_what_stays_within_a_latency(self):
        self.assertIn("within 1000 ms the largest throughput is at batch", self.sweep("--latency-ms", "1000").stdout)
        self.assertIn("no batch stays within 1e-06 ms", self.sweep("--latency-ms", "0.000001").stdout)

    def test_memory_that_does_not_suffice_is_a_row(self):
        self.sweep("--batches", "1,4,1000000", "--set", "execution.memory.budget=8MiB")
        points = self.result()["variants"][0]["points"]
        self.assertEqual([point["failure"] is None for point in points], [True, True, False])
        self.assertIn("batch 1000000", points[2]["failure"])

    def test_a_sweep_of_which_nothing_succeeded_has_failed(self):
        self.sweep("--batches", "1000000", "--set", "execution.memory.budget=8MiB", code=71)
        self.assertEqual(self.result()["variants"][0]["points"][0]["code"], 71)

    def test_a_point_that_failed_has_no_further_rounds(self):
        self.sweep("--batches", "1,1000000", "--rounds", "2", "--set", "execution.memory.budget=8MiB")
        rounds = sorted(path.stem for path in (self.root / "out" / "results").glob("*-round-*.json"))
        self.assertEqual(rounds, ["v0-batch-1-round-0", "v0-batch-1-round-1", "v0-batch-1000000-round-0"])
        kept, failed = self.result()["variants"][0]["points"]
        self.assertGreaterEqual(kept["drift"], 0)
        self.assertNotIn("drift", failed)
        fewest = min(len(json.loads((self.root / "out" / "results" / f"{name}.json").read_text())["value"]["latencies_seconds"])
                     for name in rounds[:2])
        self.assertEqual(kept["repeats"], 2 * fewest)

    def test_the_parts_of_a_call_make_up_the_whole(self):
        for mode in ("inference", "training"):
            with self.subTest(mode):
                shutil.rmtree(self.root / "out", ignore_errors=True)
                self.sweep("--batches", "2,4", "--mode", mode)
                variant = self.result()["variants"][0]
                for point in variant["points"]:
                    self.assertIsNone(point["drift"], "of one round")
                    self.assertTrue(0 < point["products_share"] < 1)
                    self.assertTrue(0 < point["others_share"] < 1 - point["products_share"])
                    # The products of the whole update that was observed are those that were counted.
                    taken = json.loads((self.root / "out" / "results" / f"v0-batch-{point['batch']}-round-0.json").read_text())
                    self.assertEqual(taken["value"]["time"]["products_flops"], variant["flops_per_sample"] * point["batch"])
                self.assertEqual(len(variant["products_at_best_throughput"]), 2 if mode == "inference" else 0)

    def test_auto_ends_where_memory_does(self):
        self.sweep("--batches", "auto", "--set", "execution.memory.budget=8MiB", "--set", "data.train.shape=[4096]",
                   "--set", "data.validation.shape=[4096]")
        points = self.result()["variants"][0]["points"]
        self.assertLess(len(points), 13)
        self.assertEqual(points[0]["batch"], 1)

    def await_end_of_group(self, group):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(0.01)
        self.fail("a process of the sweep outlives it")

    def test_killed_and_started_again_it_repeats_nothing(self):
        process = subprocess.Popen(self.command("--batches", "1..64"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=self.root, start_new_session=True)
        results = self.root / "out" / "results"
        deadline = time.monotonic() + 120
        while len(list(results.glob("*batch*.json"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.await_end_of_group(process.pid)  # its child ends by itself
        before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in results.glob("*.json")}
        self.assertLess(len(before), 8)
        self.assertGreater(self.result()["unfinished"], 0)
        self.assertGreater(len(self.result()["variants"][0]["points"]), 0)
        drawn = subprocess.run([str(BINARY), "report", str(self.root / "out")], capture_output=True, text=True, check=True,
                               timeout=1200).stdout
        self.assertIn("report.html", drawn)
        self.assertIn("measurements to come", (self.root / "out" / "report.html").read_text())
        self.sweep("--batches", "1..64")
        after = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in results.glob("*.json")}
        self.assertEqual(self.result()["unfinished"], 0)
        self.assertEqual(len(after), 8)
        self.assertEqual({name: after[name] for name in before}, before)

    def test_predicts_for_a_device_from_its_data_sheet(self):
        result = self.sweep("--device-figures", "65TFLOP/s,300GB/s")
        found = self.result()
        self.assertEqual(found["device_figures"], "65TFLOP/s,300GB/s")
        variant = found["variants"][0]
        there = variant["weight_bytes"] / 300e9 / (variant["flops_per_sample"] / 65e12)
        self.assertAlmostEqual(variant["predicted_batch_elsewhere"] / there, 1)
        self.assertIn("on a device of 65TFLOP/s,300GB/s the predicted batch is", result.stdout)
        self.assertIn("FLOP/s", self.sweep("--device-figures", "65,300", code=78).stderr)

    def test_an_interruption_names_the_folder_to_go_on_with(self):
        process = subprocess.Popen([str(BINARY), "sweep", "--config", str(self.recipe), "--batches", "1..64"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.root)
        results = self.root / "runs" / "tiny-sweep-1" / "results"
        deadline = time.monotonic() + 120
        while not list(results.glob("*batch*.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=1200)[1]
        self.assertEqual(process.returncode, 75, said)
        self.assertIn("--output runs/tiny-sweep-1 goes on", said)

    def test_quiet_says_one_line(self):
        result = self.sweep("--batches", "1,2", "--quiet")
        self.assertEqual(result.stdout, f"2 points · {self.root / 'out' / 'report.html'}\n")
        self.assertEqual(result.stderr, "")

    def test_what_has_no_peak_says_so(self):
        said = self.sweep("--batches", "1,2", "--set", "execution.precision=fp16").stdout
        self.assertIn("no prediction: the peak of fp16 is not measured", said)
        self.assertIn("fp16", said.split("precision", 1)[1])

    def test_a_folder_of_which_nothing_is_finished_says_so(self):
        (self.root / "out").mkdir()
        (self.root / "out" / "study.json").write_text('{"kind": "sweep"}')
        result = subprocess.run([str(BINARY), "report", str(self.root / "out")], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 66)
        self.assertIn("nothing is finished yet", result.stderr)

    def test_values_and_batches_that_are_there_twice_are_measured_once(self):
        self.sweep("--vary", "execution.precision=fp32,fp32", "--batches", "2,2,4")
        self.assertEqual([len(variant["points"]) for variant in self.result()["variants"]], [2])

    def test_a_prediction_needs_no_knee(self):
        said = self.sweep("--batches", "2").stdout
        self.assertIn("fp32", said.split("predicted", 1)[1])

    def test_more_batches_keep_what_was_measured(self):
        self.sweep("--batches", "1,2")
        stamp = (self.root / "out" / "results" / "v0-batch-2-round-0.json").stat().st_mtime_ns
        self.sweep("--batches", "1,2,4")
        self.assertEqual((self.root / "out" / "results" / "v0-batch-2-round-0.json").stat().st_mtime_ns, stamp)
        self.assertEqual(len(self.result()["variants"][0]["points"]), 3)

    def test_another_model_in_the_same_folder_is_refused(self):
        self.sweep("--batches", "1,2")
        result = self.sweep("--batches", "1,2", "--set", "model.width=32", code=64)
        self.assertIn("--output", result.stderr)
        self.assertIn("model.width is 16 there and 32 now", result.stderr)

    def train(self, run, *settings):
        subprocess.run([str(BINARY), "--config", str(self.recipe), "--output", str(run), "--quiet", *settings], check=True,
                       capture_output=True, timeout=1200)
        return json.loads((run / "summary.json").read_text())["final"]

    def test_trained_weights_show_what_a_precision_costs(self):
        run = self.root / "run"
        trained = self.train(run)
        self.sweep("--weights", str(run), "--vary", "execution.precision=fp32,int8", "--batches", "1,2")
        figures = [variant["figures"] for variant in self.result()["variants"]]
        self.assertAlmostEqual(figures[0]["loss"], trained["loss"], delta=1e-5)
        self.assertAlmostEqual(figures[0]["accuracy"], trained["accuracy"], delta=1e-6)
        self.assertNotEqual(figures[1]["loss"], figures[0]["loss"])
        self.assertAlmostEqual(figures[1]["loss"], figures[0]["loss"], delta=0.1)

    def test_the_path_of_weights_is_taken_as_it_is(self):
        trained = self.train(self.root / "run ${NOWHERE} $$ 'a' #1")
        self.sweep("--weights", str(self.root / "run ${NOWHERE} $$ 'a' #1"), "--batches", "1")
        self.assertAlmostEqual(self.result()["variants"][0]["figures"]["loss"], trained["loss"], delta=1e-5)

    def test_weights_of_a_run_that_averages_are_the_averages(self):
        trained = self.train(self.root / "run", "--set", "average.half_life=8", "--set", "optimizer.lr=0.1")
        self.sweep("--weights", str(self.root / "run"), "--batches", "1,2")
        self.assertAlmostEqual(self.result()["variants"][0]["figures"]["loss"], trained["loss"], delta=1e-5)

    def test_mistakes_are_named(self):
        for arguments, code, word in [(["--batches", "8..1"], 78, "sweep.batches"),
                                      (["--mode", "both"], 64, "--mode"),
                                      (["--seeds", "2"], 64, "--seeds"),
                                      (["--training-set"], 64, "--training-set"),
                                      (["--mode", "training", "--rules", "none"], 64, "--rules"),
                                      (["--vary", "model.width"], 78, "sweep.vary"),
                                      (["--vary", "model.wdith=1,2"], 78, "wdith"),
                                      (["--vary", "data.train.shape=[8],[16"], 78, "key=[1,2],[3,4]"),
                                      (["--vary", "sweep.mode=inference,training"], 78, "sweep.vary"),
                                      (["--latency-ms", "0"], 78, "sweep.latency_ms"),
                                      (["--mode", "training", "--vary", "execution.precision=fp32,int8"], 78, "int8"),
                                      (["--mode", "converge"], 64, "autotrain compare R.yaml --vary"),
                                      (["--weights", str(self.root / "nope")], 66, "nope"),
                                      (["--weights", str(self.root)], 66, "holds no weights")]:
            with self.subTest(arguments):
                self.assertIn(word, self.sweep(*arguments, code=code).stderr)

    def test_a_mistake_leaves_no_folder(self):
        result = subprocess.run([str(BINARY), "sweep", "--config", str(self.recipe), "--vary", "model.wdith=1,2"],
                                capture_output=True, text=True, cwd=self.root, check=False, timeout=1200)
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertFalse((self.root / "runs").exists())

    def test_nothing_trains_in_int8(self):
        result = subprocess.run([str(BINARY), "--config", str(self.recipe), "--output", str(self.root / "run"), "--set",
                                 "execution.precision=int8"], capture_output=True, text=True, check=False, timeout=1200)
        self.assertEqual(result.returncode, 78)
        self.assertIn("int8", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
