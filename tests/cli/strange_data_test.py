#!/usr/bin/env python3
"""Data and settings from which there is nothing to learn, or nothing to measure: what a run makes of them.

    strange_data_test.py path/to/autotrain
"""
import array
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
SAMPLES, FEATURES = 400, 4


def npy(path, code, shape, values):
    """An array of NumPy's, of float32 ("<f4") or int64 ("<i8")."""
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    numbers = array.array("f" if code == "<f4" else "q", values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes())


class StrangeData(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.inputs(lambda i, j: ((i * 7 + j * 3) % 11) / 11 + (i % 3 == j))

    def inputs(self, value):
        npy(self.folder / "x.npy", "<f4", (SAMPLES, FEATURES), [value(i, j) for i in range(SAMPLES) for j in range(FEATURES)])

    def recipe(self, target, **keys):
        """320 training and 80 validation samples of three classes, but those of `target(i)`."""
        npy(self.folder / "y.npy", "<i8", (SAMPLES,), [target(i) for i in range(SAMPLES)])
        recipe = {
            "data.train": {"dataset": "npy", "inputs": str(self.folder / "x.npy"), "targets": str(self.folder / "y.npy"), "limit": 320},
            "data.validation": {"dataset": "npy", "inputs": str(self.folder / "x.npy"), "targets": str(self.folder / "y.npy"), "first": 320},
            "data.shuffle": False,
            "model": {"name": "mlp", "depth": 1, "width": 8},
            "batch.effective": 32,
            "optimizer.reference_batch": 32,
            "stop.epochs": 2,
            "report": {"html": False, "csv": False, "tensorboard": False},
            "execution": {"device": "cpu", "threads": 1, "memory": {"budget": "64MiB"}},
            **keys,
        }
        nested = {"name": "strange", "seed": 1}
        for key, value in recipe.items():
            *path, last = key.split(".")
            place = nested
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
        file = self.folder / "r.yaml"
        file.write_text(json.dumps(nested))
        return file

    def train(self, recipe, *more, code=0, output="run"):
        run = subprocess.run([BINARY, "--config", recipe, "--output", self.folder / output, *more],
                             capture_output=True, text=True, env={**os.environ, "CI": "1"})
        text = " ".join((run.stdout + run.stderr).split())
        self.assertEqual(run.returncode, code, text)
        return text

    def run_command(self, *arguments, code=0):
        run = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "CI": "1"})
        text = " ".join((run.stdout + run.stderr).split())
        self.assertEqual(run.returncode, code, text)
        return text

    def summary(self, output="run"):
        return json.loads((self.folder / output / "summary.json").read_text())

    def rows(self, output="run"):
        return [json.loads(line) for line in (self.folder / output / "metrics.jsonl").read_text().splitlines()]

    def test_windows_without_a_counted_target_are_skipped_for_their_reason_and_are_no_divergence(self):
        # Eight windows of ten in each epoch, more in all than max_skipped.
        recipe = self.recipe(lambda i: 3 if i < 256 else i % 3, **{"loss.ignore_index": 3, "stop.max_skipped": 3, "stop.epochs": 2})
        text = self.train(recipe)
        self.assertIn("none of its 32 targets counts: loss.ignore_index 3", text)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["updates"]), ("completed", 20))
        self.assertGreaterEqual(summary["skipped_updates"], 8)

    def test_data_without_a_counted_target_are_refused_before_training(self):
        ignored = {"loss.ignore_index": 3}
        for message, target, more in (
                ("every target is 3, which the loss does not count", lambda i: 3, ignored),
                ("data.validation: none of the targets of its", lambda i: 3 if i >= 320 else i % 3, ignored),
                ("data.train: none of the targets of its", lambda i: i % 3, {"loss.class_weights": [0, 0, 0]})):
            with self.subTest(message=message):
                text = self.train(self.recipe(target, **more), code=65)
                self.assertIn(message, text)
                self.assertNotIn("update 1/", text)

    def test_a_figure_that_is_never_defined_ends_no_run_and_lowers_no_rate(self):
        recipe = self.recipe(lambda i: 1 if i >= 320 else i % 2, **{
            "evaluation": {"metrics": ["roc_auc"], "monitor": "roc_auc"},
            "schedule": {"name": "plateau", "patience": 1}, "stop.epochs": 6, "stop.patience": 2})
        text = self.train(recipe)
        self.assertIn("roc_auc: the validation data has one class, 1", text)
        self.assertIn("roc_auc, which evaluation.monitor names, was never defined", text)
        summary = self.summary()
        self.assertEqual((summary["stopped_by"], summary["updates"]), ("epochs", 60))
        self.assertEqual(len({row["lr"] for row in self.rows() if "lr" in row}), 1)

    def test_an_evaluation_at_a_stop_counts_for_no_patience(self):
        # Targets that have nothing to do with the inputs: validation soon no longer improves.
        keys = {"evaluation.every": "10 updates", "stop.epochs": None, "stop.patience": 3, "optimizer.lr": 0.1}
        noise = lambda i: (i * i // 7 + i) % 2  # noqa: E731
        self.train(self.recipe(noise, **keys, **{"stop.updates": 200}), output="straight")
        straight = self.summary("straight")
        self.assertEqual(straight["stopped_by"], "patience")
        stop = straight["updates"] - 15
        self.train(self.recipe(noise, **keys, **{"stop.updates": stop}), output="parts")
        self.train(self.recipe(noise, **keys, **{"stop.updates": 200}), "--resume", "--allow-change", output="parts")
        self.assertEqual(self.summary("parts")["updates"], straight["updates"])

    def test_a_rate_that_jumps_at_a_resume_with_more_epochs_is_told_with_both_values(self):
        keys = {"schedule": {"name": "cosine"}, "optimizer.lr": 0.01}
        self.train(self.recipe(lambda i: i % 3, **keys))
        text = self.train(self.recipe(lambda i: i % 3, **keys, **{"stop.epochs": 4}), "--resume", "--allow-change")
        self.assertRegex(text, r"lr at update 20: 6\.156e-05 before, 0\.005 now")

    def test_data_that_changed_are_told_at_a_resume_though_they_are_as_many(self):
        longer = {"stop.epochs": None, "stop.updates": 10}
        recipe = self.recipe(lambda i: i % 3, **longer)
        self.train(recipe)
        recipe = self.recipe(lambda i: i % 3, **longer)  # written again, the same bytes
        self.assertNotIn("other data", self.train(recipe, "--resume"))
        # Neither the first nor the last sample, nor the size of the file.
        recipe = self.recipe(lambda i: 1 if i == 201 else i % 3, **longer)
        text = self.train(recipe, "--resume")
        self.assertRegex(text, r"resumed with other data: \S*y\.npy is [\d,]+ bytes, \w+, and was [\d,]+ bytes, \w+")
        self.assertIn("the continuation is with other data than it was begun with", text)
        self.assertNotIn("x.npy is", text)

    def test_a_file_of_first_weights_that_changed_is_told_at_a_resume_and_is_not_read(self):
        keys = {"stop.epochs": None, "stop.updates": 10}
        self.train(self.recipe(lambda i: i % 3, **keys), output="donor")
        weights = self.folder / "first.safetensors"
        subprocess.run([BINARY, "export", "--run", self.folder / "donor", "--output", weights], check=True, capture_output=True)
        keys["model"] = {"name": "mlp", "depth": 1, "width": 8, "weights": {"file": str(weights)}}
        self.train(self.recipe(lambda i: i % 3, **keys))
        weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))
        text = self.train(self.recipe(lambda i: i % 3, **keys), "--resume")
        self.assertIn("first.safetensors has changed since the checkpoint was written", text)
        self.assertNotIn("other data", text)

    def spoil(self, path, value, tensor=0):
        """Writes another number into the first place of a tensor of a safetensors file."""
        content = bytearray(path.read_bytes())
        length = int.from_bytes(content[:8], "little")
        entries = {name: entry for name, entry in json.loads(content[8:8 + length]).items() if name != "__metadata__"}
        name = sorted(entries)[tensor]
        at = 8 + length + entries[name]["data_offsets"][0]
        content[at:at + 4] = array.array("f", [value]).tobytes()
        path.write_bytes(content)
        return name

    def test_weights_that_are_not_finite_are_refused_at_every_door(self):
        keys = {"stop.epochs": None, "stop.updates": 10}
        self.train(self.recipe(lambda i: i % 3, **keys), output="donor")
        weights, donor = self.folder / "w.safetensors", self.folder / "donor"
        self.run_command("export", "--run", donor, "--output", weights)
        model = {"name": "mlp", "depth": 1, "width": 8, "weights": {"file": str(weights)}}
        doors = {"train": lambda code: self.train(self.recipe(lambda i: i % 3, **keys, model=model), output="next", code=code),
                 "predict": lambda code: self.run_command("predict", "--run", donor, "--weights", weights,
                                                          "--output", self.folder / "p.csv", code=code)}
        for value in (float("nan"), float("inf")):
            self.run_command("export", "--run", donor, "--output", weights, "--overwrite")
            name = self.spoil(weights, value)
            for door, enter in doors.items():
                with self.subTest(door=door, value=value):
                    text = enter(65)
                    self.assertIn(f'w.safetensors: "{name}" has 1 of', text)
                    self.assertIn("numbers that are not finite as Float", text)

    def test_checkpoints_that_are_not_finite_are_refused(self):
        keys = {"stop.epochs": None, "stop.updates": 10}
        recipe = self.recipe(lambda i: i % 3, **keys)
        self.train(recipe)
        checkpoint, = (self.folder / "run" / "checkpoints").glob("update-10")
        name = self.spoil(checkpoint / "model.safetensors", float("inf"))
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        manifest["files"]["model.safetensors"]["crc32"] = zlib.crc32((checkpoint / "model.safetensors").read_bytes())
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))
        run = self.folder / "run"
        for command in (["evaluate", "--run", run], ["predict", "--run", run, "--output", self.folder / "p.csv"],
                        ["--config", recipe, "--output", run, "--resume", "--allow-change", "--set", "stop.updates=20"]):
            with self.subTest(command=command[0]):
                text = self.run_command(*command, code=65)
                self.assertIn(f'update-10: "{name}" has 1 of', text)

    def test_a_warm_up_and_an_average_that_are_longer_than_the_run_are_told(self):
        well = {"schedule.warmup": "5 updates", "average.half_life": 60}
        self.assertNotRegex(self.train(self.recipe(lambda i: i % 3, **well), output="well"), "schedule.warmup takes|half_life is")
        for warmup in ("100 updates", "100000 samples", "100%"):
            with self.subTest(warmup=warmup):
                text = self.train(self.recipe(lambda i: i % 3, **{"schedule.warmup": warmup}), output=f"w{len(warmup)}")
                self.assertRegex(text, r"schedule\.warmup takes [\d,]+ updates, and the run has 20: the learning rate comes to [\d.]+ %")
        text = self.train(self.recipe(lambda i: i % 3, **{"average.half_life": 10000}), output="average")
        self.assertIn("average.half_life is 10,000 samples, and the run has 640: of the averaged weights, which are evaluated, 95.7 %", text)

    def test_keys_that_would_do_nothing_are_refused(self):
        sgd = {"name": "sgd", "lr": 0.1, "reference_batch": 32}
        for keys, message in (({"model.weights": {"skip": ["fc*"]}}, "model.weights.skip"),
                              ({"model.weights": {"rename": ["a -> b"]}}, "model.weights.rename"),
                              ({"model.weights": {"missing": "keep"}}, "model.weights.missing"),
                              ({"model.weights": {"shapes": "keep"}}, "model.weights.shapes"),
                              ({"optimizer": {**sgd, "nesterov": True}}, "optimizer.nesterov")):
            with self.subTest(key=message):
                self.assertIn(message, self.train(self.recipe(lambda i: i % 3, **keys), code=78))
        self.train(self.recipe(lambda i: i % 3, optimizer={**sgd, "nesterov": True, "momentum": 0.9}))

    def test_samples_of_another_shape_are_refused_by_their_path(self):
        self.train(self.recipe(lambda i: i % 3))
        other = self.folder / "other.npy"
        npy(other, "<f4", (10, FEATURES + 1), [0.5] * (10 * (FEATURES + 1)))
        text = self.run_command("predict", "--run", self.folder / "run", "--data", other, "--output", self.folder / "p.csv", code=65)
        self.assertIn(f"error: {other}: holds samples of 5; the model was built for samples of 4", text)

    def test_other_samples_that_the_model_does_not_take_are_refused_before_training(self):
        for name, side in (("small", 4), ("large", 5)):
            npy(self.folder / f"{name}.npy", "<f4", (SAMPLES, 1, side, side), [(i * 7 % 11) / 11 for i in range(SAMPLES * side * side)])
        recipe = json.loads(self.recipe(lambda i: i % 3).read_text())
        recipe["data"]["train"]["inputs"] = str(self.folder / "small.npy")
        for place in ("validation", "test"):
            other = {**recipe["data"]["train"], "inputs": str(self.folder / "large.npy"), "limit": 64}
            data = {**recipe["data"], "validation": {**recipe["data"]["train"], "first": 320}, place: other}
            file = self.folder / "other.yaml"
            file.write_text(json.dumps({**recipe, "data": data}))
            text = self.train(file, code=78)
            self.assertIn(f"data.{place}: has samples of 1 × 5 × 5, which the model does not take", text)
            self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())

    def test_predictions_have_their_channels_where_the_training_data_have_them_and_are_warned_of(self):
        npy(self.folder / "x.npy", "<f4", (SAMPLES, 2, 2, 3), [((i // 12 * 7 + i) % 11) / 11 for i in range(SAMPLES * 12)])
        npy(self.folder / "large.npy", "<f4", (SAMPLES, 2, 2, 3), [200 * ((i // 12 * 7 + i) % 11) / 11 for i in range(SAMPLES * 12)])
        self.train(self.recipe(lambda i: i % 3), "--set", "data.train.channels=last")
        for name, source in (("all", self.folder / "x.npy"), ("validation", "validation"), ("large", self.folder / "large.npy")):
            text = self.run_command("predict", "--run", self.folder / "run", "--data", source, "--output", self.folder / f"{name}.csv", "--probabilities")
            self.assertEqual(text.count("inputs of another size than the training data's"), 1 if name == "large" else 0, text)
        rows = {name: (self.folder / f"{name}.csv").read_text().splitlines()[1:] for name in ("all", "validation")}
        self.assertEqual([row.split(",")[1:] for row in rows["all"][320:]], [row.split(",")[1:] for row in rows["validation"]])

    def test_a_budget_that_is_too_small_for_anything_is_named(self):
        text = self.train(self.recipe(lambda i: i % 3), "--set", "execution.memory.budget=10KiB", code=71)
        self.assertIn("execution.memory.budget", text[text.index("try:"):])

    def test_a_metric_that_is_not_measured_of_so_few_classes_is_told(self):
        text = self.train(self.recipe(lambda i: i % 4, **{"evaluation.metrics": ["top5", "top2"]}))
        self.assertIn('"top5" is not measured: it needs more than 5 classes, and there are 4', text)
        self.assertNotIn('"top2"', text)
        recipe = self.recipe(lambda i: i % 4, **{"evaluation": {"metrics": ["top4"], "monitor": "top4"}})
        self.assertIn("it needs more than 4 classes, and there are 4", self.train(recipe, code=78, output="monitored"))

    def test_a_value_that_is_not_finite_is_named_by_its_sample(self):
        self.inputs(lambda i, j: float("nan") if (i, j) == (150, 2) else (i + j) % 5)
        text = self.train(self.recipe(lambda i: i % 3), code=65)
        self.assertRegex(text, r"x\.npy: sample 150, number 2: nan")
        self.assertNotIn("update 1/", text)  # though the sample would be read in the fifth
        text = self.train(self.recipe(lambda i: i % 3, **{"data.bad_samples": "skip"}), output="skipping")
        self.assertIn("sample 150", text)
        self.assertEqual(self.summary("skipping")["skipped_updates"], 0)

    def test_metrics_that_keep_more_than_there_is_memory_for_are_refused_before_training(self):
        synthetic = {"dataset": "synthetic", "kind": "vectors", "classes": 100}
        recipe = self.recipe(lambda i: 0, **{
            "data.train": {**synthetic, "samples": 2000}, "data.validation": {**synthetic, "samples": 200000, "first": 100000},
            "evaluation": {"metrics": ["roc_auc", "average_precision"]}})
        text = self.train(recipe, code=71)
        self.assertIn("roc_auc_binned", text)
        self.assertNotIn("update 1/", text)

    def test_metrics_that_keep_too_much_of_the_test_data_are_refused_before_training(self):
        synthetic = {"dataset": "synthetic", "kind": "vectors", "classes": 100}
        recipe = self.recipe(lambda i: 0, **{
            "data.train": {**synthetic, "samples": 2000}, "data.validation": {**synthetic, "samples": 200, "first": 100000},
            "data.test": {**synthetic, "samples": 200000, "first": 200000}, "evaluation": {"metrics": ["roc_auc"]}})
        text = self.train(recipe, code=71)
        self.assertIn("200,000 test samples", text)
        self.assertNotIn("update 1/", text)

    def test_tables_of_many_classes_are_counted_beside_the_model(self):
        synthetic = {"dataset": "synthetic", "kind": "vectors", "classes": 20000, "samples": 40}
        recipe = self.recipe(lambda i: 0, **{
            "data.train": synthetic, "data.validation": {**synthetic, "first": 100}, "execution.memory.budget": "500MiB",
            "evaluation": {"metrics": ["roc_auc_binned"]}})
        text = self.train(recipe, code=71)
        self.assertIn("roc_auc_binned", text)
        self.assertIn("add tables up", text)
        self.assertNotIn("update 1/", text)

    def test_a_batch_of_one_that_batch_normalisation_cannot_learn_from_is_refused(self):
        images = {"dataset": "synthetic", "kind": "images", "samples": 21, "classes": 2}
        for key, more in (("batch.effective", {"batch.effective": 1}), ("execution.micro_batch", {"batch.effective": "auto", "execution": {"micro_batch": 1, "device": "cpu"}})):
            with self.subTest(key=key):
                recipe = self.recipe(lambda i: 0, **{"data.train": images, "data.validation": images, "model": {"name": "resnet18"}, "execution": {"device": "cpu", "memory": {"budget": "1GiB"}}, **more})
                text = self.train(recipe, code=78)
                self.assertIn("batch normalisation", text)
                self.assertIn(key, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
