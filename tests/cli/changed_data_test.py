#!/usr/bin/env python3
"""Training data that have changed since a run was trained: nothing reads samples by them as if they had not.

    changed_data_test.py path/to/autotrain
"""
import csv
import json
import struct
import sys
import unittest
import zlib

from runs import Runs


def recipe(train, validation, model, loss, **keys):
    return {"data": {"train": train, "validation": validation}, "model": model, "loss": {"name": loss}, "batch": {"effective": 8},
            "optimizer": {"reference_batch": 8}, "stop": {"epochs": 2}, "report": {"html": False},
            "execution": {"device": "cpu", "threads": 1, "memory": {"budget": "64MiB"}}, **keys}


def rows(kinds):
    return [f"{kinds[i % len(kinds)]},{i % 5},{(i % len(kinds)) * 10 + i % 5}" for i in range(60)]


def write_table(path, lines):
    path.write_text("\n".join(["kind,x,y", *lines]) + "\n")


def write_png(path, level):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.parent.mkdir(parents=True, exist_ok=True)
    side = 8
    pixels = b"".join(b"\0" + bytes((level + i + j) % 256 for j in range(side)) for i in range(side))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))


class ChangedData(Runs):
    def command(self, *arguments, code=0):
        out = self.autotrain(*arguments)
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        return " ".join((out.stdout + out.stderr).split())

    def commands_on(self, run, output):
        """Each command that reads the run's data by its training data."""
        return {"evaluate": ["evaluate", "--run", run],
                "predict": ["predict", "--run", run, "--output", output.with_suffix(".csv")],
                "compress": ["compress", "--run", run, "--methods", "int8-weights", "--output", output.with_suffix("")]}

    def table_run(self, name):
        train, validation = self.folder / f"{name}_train.csv", self.folder / f"{name}_validation.csv"
        write_table(train, rows("abc"))
        write_table(validation, rows("bc"))
        tables = [{"dataset": "table", "file": str(file), "target": "y"} for file in (train, validation)]
        return train, self.train(name, recipe(*tables, {"name": "mlp", "depth": 1, "width": 8}, "huber"))

    def test_a_study_goes_on_with_no_other_weights(self):
        _, run = self.table_run("weights")
        weights, config = self.folder / "first.safetensors", self.folder / "weights.yaml"
        self.command("export", "--run", run, "--output", weights)
        begun = ["--set", f"model.weights={weights}"]
        commands = {"compare": ["compare", config, "--seeds", "1", *begun, "--output", self.folder / "compare"],
                    "sweep": ["sweep", "--config", config, "--batches", "1", "--rounds", "1", "--seconds", "0.05", *begun, "--output", self.folder / "sweep"],
                    "lr": ["lr", "--config", config, "--race", "--rates", "0.01", "--seeds", "1", *begun, "--output", self.folder / "lr"]}
        for arguments in commands.values():
            self.command(*arguments)
        other = self.train("weights_other", json.loads(config.read_text()), "--set", "seed=7")
        self.command("export", "--run", other, "--output", weights, "--overwrite")
        for command, arguments in commands.items():
            with self.subTest(command):
                self.assertIn("the files of model.weights have changed", self.command(*arguments, code=64))

    def test_a_table_is_read_by_no_other_training_file(self):
        train, run = self.table_run("table")
        for what, lines in (("a row more", rows("abc") + ["a,5000,7"]), ("a category less", rows("dbc"))):
            write_table(train, lines)
            for command, arguments in self.commands_on(run, self.folder / "other").items():
                with self.subTest(command=command, what=what):
                    text = self.command(*arguments, code=65)
                    self.assertIn(f"{train}: is not the file that the run was trained with", text)
            with self.subTest(what=what, data="of its own"):
                text = self.command("predict", "--run", run, "--data", self.folder / "table_validation.csv",
                                    "--output", self.folder / "own.csv", code=65)
                self.assertIn("is not the file", text)
        write_table(train, rows("abc"))  # the same bytes again
        self.command(*self.commands_on(run, self.folder / "other")["evaluate"])

    def test_a_training_file_that_was_moved_may_be_named_where_it_lies(self):
        train, run = self.table_run("moved")
        before = self.command("evaluate", "--run", run, "--json")
        there = train.rename(self.folder / "elsewhere.csv")
        after = self.command("evaluate", "--run", run, "--json", "--set", f"data.train.file={there}")
        self.assertEqual(json.loads(before)["figures"], json.loads(after)["figures"])

    def test_the_best_is_looked_for_anew_on_other_validation_data(self):
        _, run = self.table_run("best")

        def best():
            return json.loads((run / "summary.json").read_text())["best"]

        before = best()
        write_table(self.folder / "best_validation.csv", [f"b,{i % 5},{1000 + i}" for i in range(60)])
        text = self.command("train", "--config", self.folder / "best.yaml", "--output", run, "--resume",
                            "--allow-change", "--set", "stop.epochs=3")
        self.assertIn("it is looked for anew", text)
        self.assertGreater(best()["update"], before["update"])
        self.assertGreater(best()["loss"], before["loss"])

    def test_the_best_is_looked_for_anew_where_the_validation_data_follow_a_key_that_changed(self):
        whole = self.folder / "share.csv"
        write_table(whole, rows("abc"))
        table = {"dataset": "table", "file": str(whole), "target": "y"}
        run = self.train("share", recipe({**table, "split": "train", "validation_share": 0.2}, {**table, "split": "validation"},
                                         {"name": "mlp", "depth": 1, "width": 8}, "huber"))
        text = self.command("train", "--config", self.folder / "share.yaml", "--output", run, "--resume", "--allow-change",
                            "--set", "stop.epochs=3", "--set", "data.train.validation_share=0.4")
        self.assertIn("it is looked for anew", text)

    def test_the_data_to_predict_may_be_any(self):
        _, run = self.table_run("fresh")
        write_table(self.folder / "fresh_validation.csv", rows("abc")[:7])
        self.command("predict", "--run", run, "--output", self.folder / "fresh.csv")
        with open(self.folder / "fresh.csv", newline="") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 7)

    def test_classes_that_have_other_names_are_told_and_images_that_were_added_are_fine(self):
        root = self.folder / "images"
        for i in range(24):
            write_png(root / ("blue" if i % 2 else "red") / f"{i}.png", 20 + 120 * (i % 2) + i)
        data = [{"dataset": "image_folder", "root": str(root), "size": [8, 8], "channels": 1, "split": split, "validation_share": 0.3}
                for split in ("train", "validation")]
        run = self.train("colours", recipe(*data, {"name": "cnn", "width": 4, "hidden": 8}, "cross_entropy"))
        write_png(root / "blue" / "added.png", 99)
        for command, arguments in self.commands_on(run, self.folder / "added").items():
            with self.subTest(command=command, change="an image added"):
                self.command(*arguments)
        (root / "blue").rename(root / "zblue")
        for command, arguments in self.commands_on(run, self.folder / "renamed").items():
            with self.subTest(command=command, change="a class renamed"):
                text = self.command(*arguments, code=65)
                self.assertIn("are now without blue, and with zblue", text)
        (root / "zblue").rename(root / "blue")
        (root / "also").mkdir()
        write_png(root / "also" / "1.png", 50)
        self.assertIn("are now with also", self.command("evaluate", "--run", run, code=65))

    def test_a_resume_with_changed_keys_tells_of_changed_files_too(self):
        train, run = self.table_run("resumed")
        write_table(train, rows("dbc"))
        more = ["--config", self.folder / "resumed.yaml", "--output", run, "--resume", "--allow-change", "--set", "stop.epochs=3"]
        text = self.command(*more)
        self.assertRegex(text, rf"resumed with other data: {train} is [\d,]+ bytes, \w+, and was [\d,]+ bytes, \w+")
        self.assertNotIn("_validation.csv is", text)
        # Fewer samples by a key of the recipe are no other data.
        write_table(train, rows("abc"))
        _, run = self.table_run("fewer")
        out = ["--config", self.folder / "fewer.yaml", "--output", run, "--resume", "--allow-change", "--set", "stop.epochs=3",
               "--set", "data.train.split=train"]
        text = self.command(*out)
        self.assertIn("resumed with changed keys", text)
        self.assertNotIn("other data", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
