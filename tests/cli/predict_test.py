#!/usr/bin/env python3
"""`autotrain predict` writes the rows that an undisturbed one writes, whatever befalls it.

    predict_test.py path/to/autotrain tests/fixtures
"""
import csv
import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

BINARY, FIXTURES = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SAMPLES = 10_000
SIDE = 8
SLOW = ("--set", "data.validation.delay=0.0004")  # a sample: time to be killed in


def vectors(samples, first=0):
    return {"dataset": "synthetic", "kind": "vectors", "samples": samples, "first": first}


def recipe(train, validation, model, **others):
    return {"data": {"train": train, "validation": validation}, "model": model, "batch": {"effective": 64},
            "stop": {"updates": 8}, "checkpoint": {"every": "4 updates", "keep": 4},
            "execution": {"threads": 1, "memory": {"budget": "64MiB"}, "search": {"plan_cache": False}}} | others


def png(pixels):
    """An 8-bit grey image of rows of bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + bytes(row) for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_images(folder, count, names, seed):
    """Grey squares: class `dark` below the middle, `light` above it."""
    chance = random.Random(seed)
    for i in range(count):
        light = i % 2
        level = chance.randrange(150, 250) if light else chance.randrange(5, 105)
        path = folder / names(i, "light" if light else "dark")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png([[level + chance.randrange(-5, 5) for _ in range(SIDE)] for _ in range(SIDE)]))


def write_array(path, descr, shape, content):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text + content)


def read_array(path):
    """Shape and float32 numbers of a .npy file."""
    content = path.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\0", content[:8]
    length, = struct.unpack("<H", content[8:10])
    header = eval(content[10:10 + length], {})  # a dictionary of literals
    assert header["descr"] == "<f4" and not header["fortran_order"]
    assert (10 + length) % 64 == 0
    return header["shape"], struct.unpack(f"<{(len(content) - 10 - length) // 4}f", content[10 + length:])


class Predict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.parent = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.parent.name)
        cls.run_of("vectors", recipe(vectors(2000), vectors(SAMPLES, 100000), {"name": "mlp"},
                                     average={"half_life": 200},
                                     evaluation={"metrics": ["accuracy", "confusion_matrix"]}))

    @classmethod
    def tearDownClass(cls):
        cls.parent.cleanup()

    @classmethod
    def autotrain(cls, *arguments):
        return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True,
                              env={**os.environ, "CI": "1"})

    @classmethod
    def run_of(cls, name, content):
        (cls.folder / f"{name}.yaml").write_text(json.dumps(content))
        out = cls.autotrain("--config", cls.folder / f"{name}.yaml", "--output", cls.folder / name, "--quiet")
        assert out.returncode == 0, out.stderr

    def command(self, output, *arguments, run="vectors"):
        return ["predict", "--run", self.folder / run, "--output", self.folder / output, *arguments]

    def predict(self, output, *arguments, run="vectors", code=0):
        out = self.autotrain(*self.command(output, *arguments, run=run))
        self.assertEqual(out.returncode, code, out.stderr)
        return out

    def rows(self, name):
        path = self.folder / name
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def evaluate(self, *arguments, run="vectors"):
        out = self.autotrain("evaluate", "--run", self.folder / run, "--json", *arguments)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def test_the_classes_are_those_that_evaluation_counts(self):
        self.check_counts("counted.csv", "--checkpoint", "4")
        self.assertEqual([row["sample"] for row in self.rows("counted.csv")], [str(i) for i in range(SAMPLES)])

    def check_counts(self, output, *arguments, run="vectors"):
        """As many samples of each class as in the columns of evaluation's confusion matrix. The batch is that of the
        run's evaluations, so that no rounding differs."""
        batch = json.loads((self.folder / run / "plan.json").read_text())["evaluation_micro_batch"]
        self.predict(output, "--batch", str(batch), *arguments, run=run)
        tables = self.evaluate(*arguments, run=run)["tables"]
        columns = [sum(column) for column in zip(*tables["confusion_matrix"]["cells"])]
        rows = self.rows(output)
        self.assertEqual([sum(row["class"] == str(k) for row in rows) for k in range(10)], columns)

    def test_each_format_says_the_same(self):
        for output in ("same.csv", "same.jsonl"):
            self.predict(output, "--top", "2", "--probabilities", "--batch", "100")
        self.predict("same.npy", "--batch", "100")
        in_csv, in_json = self.rows("same.csv"), self.rows("same.jsonl")
        (samples, classes), logits = read_array(self.folder / "same.npy")
        self.assertEqual((samples, classes), (SAMPLES, 10))
        for i in range(0, SAMPLES, 97):
            self.assertEqual(list(in_csv[i]), list(in_json[i]))
            self.assertEqual({key: float(value) for key, value in in_csv[i].items()}, in_json[i])
            mine = logits[i * 10:i * 10 + 10]
            order = sorted(range(10), key=lambda k: -mine[k])
            self.assertEqual([in_json[i]["class"], in_json[i]["class_2"]], order[:2])
            total = sum(math.exp(x - max(mine)) for x in mine)
            for k in range(10):
                self.assertAlmostEqual(in_json[i][f"p_{k}"], math.exp(mine[k] - max(mine)) / total, places=5)

    def test_killed_twice_at_any_moment_it_ends_with_the_same_bytes(self):
        chance = random.Random(7)
        for ending in ("csv", "npy"):
            whole, killed = f"whole.{ending}", f"killed.{ending}"
            self.predict(whole, "--batch", "64")
            for _ in range(2):
                command = self.command(killed, "--batch", "64", "--resume", "-q", *SLOW)
                process = subprocess.Popen([BINARY, *map(str, command)], env={**os.environ, "CI": "1"},
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                state, before = self.folder / f"{killed}.partial.json", self.marked(killed)
                while process.poll() is None and self.marked(killed) == before:
                    time.sleep(0.01)
                time.sleep(chance.random())
                process.kill()
                process.wait()
                self.assertTrue(state.exists(), "it was killed before its end")
                self.assertFalse((self.folder / killed).exists())
            self.assertGreater(self.marked(killed), 0)
            self.predict(killed, "--resume", *SLOW)
            self.assertEqual((self.folder / killed).read_bytes(), (self.folder / whole).read_bytes())
            self.assertFalse(list(self.folder.glob(f"{killed}.*")), "nothing is left beside it")

    def marked(self, output):
        """Samples whose rows are safe on the disk."""
        try:
            return json.loads((self.folder / f"{output}.partial.json").read_text())["samples"]
        except FileNotFoundError:
            return 0

    def test_a_signal_stops_it_between_batches_and_it_goes_on(self):
        command = self.command("stopped.csv", "--batch", "50", *SLOW)
        process = subprocess.Popen([BINARY, *map(str, command)], env={**os.environ, "CI": "1"},
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while not (self.folder / "stopped.csv.partial.json").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
        self.assertEqual(process.returncode, 75, error)
        self.assertIn("--resume goes on", error)
        self.predict("stopped.csv", code=64)
        out = self.predict("stopped.csv", "--resume", "--json", *SLOW)
        self.assertEqual(json.loads(out.stdout)["batch"], 50)
        self.predict("undisturbed.csv", "--batch", "50")
        self.assertEqual((self.folder / "stopped.csv").read_bytes(), (self.folder / "undisturbed.csv").read_bytes())

    def test_the_batch_is_the_largest_in_the_band(self):
        out = json.loads(self.predict("band.csv", "--json", "--set", "data.validation.samples=3000000",
                                      "--set", "execution.memory.budget=24MiB", "--batch", "3000000", code=71).stdout)
        self.assertIn("--batch", out["error"])
        found = json.loads(self.predict("found.csv", "--json", "--set", "execution.memory.budget=16MiB",
                                        "--set", "data.validation.samples=60000").stdout)
        search = found["search"]
        self.assertEqual(found["batch"], search["batch"])
        self.assertLessEqual(search["fill"], 0.9)
        tried = {probe["micro_batch"]: probe for probe in search["probes"]}
        self.assertTrue(tried[found["batch"]]["fits"])
        if search["reason"] == "in_band":
            self.assertGreaterEqual(search["fill"], 0.8)

    def test_the_latency_bounds_the_batch(self):
        out = json.loads(self.predict("fast.csv", "--json", "--latency-ms", "10000").stdout)
        self.assertLessEqual(out["search"]["forward_seconds"], 10)
        self.assertIn("latency", self.predict("slow.csv", "--latency-ms", "1e-9", code=71).stderr)

    def test_folders_of_images_without_labels(self):
        classes, flat = self.folder / "classes", self.folder / "flat"
        write_images(classes, 120, lambda i, kind: f"{kind}/{i:03}.png", seed=1)
        write_images(flat, 30, lambda i, kind: f"{i:03}, {kind}.png", seed=2)
        (flat / "deeper").mkdir()
        (flat / "000, dark.png").rename(flat / "deeper" / "zero.png")
        images = {"dataset": "image_folder", "root": str(classes), "size": [SIDE, SIDE], "channels": 1}
        self.run_of("images", recipe(images | {"split": "train", "validation_share": 0.3},
                                     images | {"split": "validation", "validation_share": 0.3},
                                     {"name": "mlp"}, stop={"updates": 60}, batch={"effective": 32}))
        self.predict("validation.csv", run="images")
        for row in self.rows("validation.csv"):
            self.assertEqual(row["file"].split("/")[0], row["name"])
        self.predict("flat.csv", "--data", flat, run="images")
        rows = self.rows("flat.csv")
        self.assertEqual([row["file"] for row in rows],
                         sorted(path.name for path in flat.glob("*.png")) + ["deeper/zero.png"])
        for row in rows[:-1]:
            self.assertIn(row["name"], row["file"])
            self.assertEqual(row["class"], str(["dark", "light"].index(row["name"])))
        self.assertEqual(rows[-1]["name"], "dark")
        # Class folders without their labels are the same files, made to samples the same way.
        self.predict("unlabelled.jsonl", "--data", classes, run="images")
        unlabelled = {row["file"]: row for row in self.rows("unlabelled.jsonl")}
        for row in self.rows("validation.csv"):
            self.assertAlmostEqual(unlabelled[row["file"]]["probability"], float(row["probability"]), places=5)
        self.predict("one.csv", "--data", flat / "001, light.png", run="images")
        self.assertEqual([row["name"] for row in self.rows("one.csv")], ["light"])
        (flat / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno image")
        self.assertIn("broken.png", self.predict("broken.csv", "--data", flat, run="images", code=65).stderr)
        (self.folder / "none").mkdir()
        self.predict("none.csv", "--data", self.folder / "none", run="images", code=65)

    def test_images_held_as_bytes_and_the_same_as_files(self):
        chance = random.Random(4)
        count, files = 64, self.folder / "as_files"
        files.mkdir()
        images = [[[chance.randrange(256) for _ in range(SIDE)] for _ in range(SIDE)] for _ in range(count)]
        for i, image in enumerate(images):
            (files / f"{i:03}.png").write_bytes(png(image))
        inputs, targets = self.folder / "inputs.npy", self.folder / "targets.npy"
        write_array(inputs, "|u1", (count, SIDE, SIDE), b"".join(bytes(row) for image in images for row in image))
        write_array(targets, "<i8", (count,), struct.pack(f"<{count}q", *(i % 3 for i in range(count))))
        data = {"dataset": "npy", "inputs": str(inputs), "targets": str(targets)}
        self.run_of("bytes", recipe(data, data, {"name": "cnn"}, batch={"effective": 16}))
        self.predict("bytes.jsonl", "--probabilities", run="bytes")
        self.predict("files.jsonl", "--probabilities", "--data", files, run="bytes")
        for mine, other in zip(self.rows("bytes.jsonl"), self.rows("files.jsonl"), strict=True):
            self.assertEqual(other["file"], f"{other['sample']:03}.png")
            for k in range(3):
                self.assertAlmostEqual(mine[f"p_{k}"], other[f"p_{k}"], places=3)
        # Another array needs no targets.
        self.predict("array.jsonl", "--probabilities", "--data", inputs, run="bytes")
        self.assertEqual((self.folder / "array.jsonl").read_bytes(), (self.folder / "bytes.jsonl").read_bytes())

    def test_an_exported_model(self):
        shapes = {"dataset": "synthetic", "kind": "images", "samples": 300, "shape": [3, 32, 32]}
        model = {"name": "exported", "file": str(FIXTURES / "exported_small.autotrain")}
        content = recipe(shapes, shapes | {"first": 5000}, model, evaluation={"metrics": ["confusion_matrix"]})
        content["execution"]["precision"] = "fp32"
        self.run_of("exported", content)
        self.check_counts("exported.csv", run="exported")

    def test_sequences_have_a_loss_each(self):
        tokens = {"dataset": "synthetic", "kind": "tokens", "samples": 90, "shape": [16], "classes": 12}
        model = {"name": "transformer", "width": 16, "layers": 1, "heads": 2}
        self.run_of("tokens", recipe(tokens, tokens | {"first": 5000}, model))
        self.predict("tokens.jsonl", run="tokens")
        rows = self.rows("tokens.jsonl")
        mean = sum(row["loss"] * row["tokens"] for row in rows) / sum(row["tokens"] for row in rows)
        figures = self.evaluate(run="tokens")["figures"]
        self.assertAlmostEqual(mean / figures["loss"], 1, places=2)
        for row in rows:
            self.assertAlmostEqual(row["perplexity"] / math.exp(row["loss"]), 1, places=5)

    def test_numbers_are_predicted_as_they_are(self):
        chance = random.Random(3)
        lines = ["a,b,y"] + [f"{x},{z},{2 * x - z}" for x, z in ((chance.random(), chance.random()) for _ in range(300))]
        (self.folder / "table.csv").write_text("\n".join(lines) + "\n")
        table = {"dataset": "table", "file": str(self.folder / "table.csv"), "target": "y", "task": "regression"}
        self.run_of("table", recipe(table, table | {"like": str(self.folder / "table.csv")}, {"name": "mlp"},
                                    loss={"name": "mean_squared_error"}, batch={"effective": 16}))
        self.predict("table.csv.csv", run="table")
        rows = self.rows("table.csv.csv")
        self.assertEqual(list(rows[0]), ["sample", "value"])
        wanted = [float(line.split(",")[2]) for line in lines[1:]]
        loss = sum((float(row["value"]) - y) ** 2 for row, y in zip(rows, wanted)) / len(rows)
        self.assertAlmostEqual(loss / self.evaluate(run="table")["figures"]["loss"], 1, places=3)
        self.assertIn("--top", self.predict("top.csv", "--top", "2", run="table", code=64).stderr)

    def test_the_names_of_a_tables_classes(self):
        rows = [f"{i % 3 + (i % 7) / 100},{('ten', '9', '10')[i % 3]}" for i in range(240)]
        (self.folder / "kinds.csv").write_text("x,kind\n" + "\n".join(rows) + "\n")
        table = {"dataset": "table", "file": str(self.folder / "kinds.csv"), "target": "kind"}
        self.run_of("kinds", recipe(table, table, {"name": "mlp"}, stop={"updates": 150}, batch={"effective": 32}))
        self.predict("kinds.jsonl", run="kinds")
        found = self.rows("kinds.jsonl")
        self.assertEqual([(row["class"], row["name"]) for row in found[:3]], [(2, "ten"), (0, "9"), (1, "10")])
        # Other rows need no target; they are encoded as the training file's are.
        (self.folder / "new.csv").write_text("x\n1.01\n2.02\n0\n")
        self.predict("new.jsonl", "--data", self.folder / "new.csv", run="kinds")
        self.assertEqual([row["name"] for row in self.rows("new.jsonl")], ["9", "10", "ten"])
        same = "x,kind\n" + "\n".join(row.split(",")[0] + ",what" for row in rows) + "\n"
        (self.folder / "same.csv").write_text(same)
        self.predict("relabelled.jsonl", "--data", self.folder / "same.csv", run="kinds")
        self.assertEqual((self.folder / "relabelled.jsonl").read_bytes(), (self.folder / "kinds.jsonl").read_bytes())
        (self.folder / "other.csv").write_text("z\n1\n")
        self.predict("other.jsonl", "--data", self.folder / "other.csv", run="kinds", code=78)

    def test_what_is_wrong_is_said_before_anything_is_written(self):
        there = set(self.folder.iterdir())
        for output, arguments, code, message in (
            ("x.txt", (), 64, "end it in .csv, .jsonl or .npy"),
            ("x.csv", ("--checkpoint", "3"), 66, "it has those of updates 4, 8"),
            ("x.csv", ("--checkpoint", "last"), 64, "give newest, best"),
            ("x.csv", ("--data", "nothing"), 64, "takes validation, test, train, and no files"),
            ("x.csv", ("--data", "val"), 64, "neither a word that it knows nor a path that is there"),
            ("x.csv", ("--data", "valdation"), 64, "did you mean validation?"),
            ("x.csv", ("--data", self.folder), 78, "cannot be made into samples"),
            ("x.csv", ("--set", "data.validation=null"), 64, "the run has no validation data"),
            ("x.csv", ("--set", "data.validation.shape=[3]"), 65, "samples of 3; the model was built for samples of 64"),
            ("x.csv", ("--set", "model.width=9"), 65, "weights are of another model"),
            ("x.csv", ("--top", "11"), 64, "from 1 to 10"),
            ("x.npy", ("--top", "2"), 64, "end --output in .csv or .jsonl"),
            ("x.csv", ("--batch", "0"), 64, '"0" is no number above 0'),
            ("x.csv", ("--latency-ms", "-5"), 64, '"-5" is no number above 0'),
            ("x.csv", ("--latency-ms", "inf"), 64, "is no number above 0"),
            ("x.csv", ("--batch", "5", "--latency-ms", "9"), 64, "leave one of them out"),
            ("x.csv", ("--resume", "--overwrite"), 64, "contradicts"),
        ):
            self.assertIn(message, self.predict(output, *arguments, code=code).stderr)
        out = self.autotrain("predict", "--run", self.folder / "nothing", "--output", self.folder / "x.csv")
        self.assertEqual(out.returncode, 66, out.stderr)
        self.assertEqual(self.autotrain("predict", "--run", self.folder / "vectors").returncode, 64)
        self.assertEqual({path for path in self.folder.iterdir() if path.name.startswith("x.")} - there, set())

    def test_the_last_line_and_json(self):
        out = self.predict("said.csv", "--quiet")
        self.assertRegex(out.stdout, r"^10,000 samples in .* samples/s · batch \d+ .* · by update 8 \(newest\) · .*said\.csv\n$")
        self.assertEqual(out.stderr, "")
        said = json.loads(self.predict("said.csv", "--json", "--overwrite").stdout)
        self.assertEqual((said["samples"], said["update"], said["resumed_from"]), (SAMPLES, 8, 0))
        self.assertIn("--overwrite replaces it", self.predict("said.csv", code=64).stderr)
        self.assertIn("by update 4 ·", self.predict("said.csv", "--checkpoint", "4", "--overwrite").stdout)
        self.assertIn("said.csv is there already, and whole: nothing is left to do", self.predict("said.csv", "--resume").stdout)
        self.assertEqual(json.loads(self.predict("said.csv", "--resume", "--json").stdout)["already_whole"], True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
