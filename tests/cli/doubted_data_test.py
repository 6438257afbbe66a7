#!/usr/bin/env python3
"""Data that may not be what was meant: each start doubts them by name, and says nothing of those that are well.

    doubted_data_test.py path/to/autotrain
"""
import array
import json
import random
import shutil
import struct
import sys
import unittest
import zlib

from runs import Runs

SIDE = 8


def npy(path, code, shape, values):
    """An array of NumPy's, of float32 ("<f4"), int64 ("<i8") or uint8 ("|u1")."""
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    numbers = array.array({"<f4": "f", "<i8": "q", "|u1": "B"}[code], values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + numbers.tobytes())


def png(path, pixel):
    """A grey image of the bytes pixel(i)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = b"".join(b"\0" + bytes(pixel(y * SIDE + x) for x in range(SIDE)) for y in range(SIDE))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def idx(folder, prefix, labels, largest):
    """A set in MNIST's format whose images have values up to `largest`."""
    folder.mkdir(exist_ok=True)
    pixels = bytes((i * 7 + label) % (largest + 1) for label in labels for i in range(784))
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, len(labels), 28, 28) + pixels)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(labels)) + bytes(labels))


class DoubtedData(Runs):
    def setUp(self):
        self.folder = type(self).folder / self._testMethodName
        self.folder.mkdir()

    def start(self, train, validation=None, model=None, loss="cross_entropy", code=0, **keys):
        """What a start says of the data, in one line."""
        recipe = {"data": {"train": train, "validation": validation}, "model": model or {"name": "mlp", "depth": 1, "width": 4},
                  "loss": {"name": loss}, "batch": {"effective": 4}, "stop": {"updates": 2},
                  "execution": {"device": "cpu", "threads": 1, "micro_batch": 4, "memory": {"budget": "64MiB"}}, **keys}
        (self.folder / "r.yaml").write_text(json.dumps(recipe))
        out = self.autotrain("plan", "--config", self.folder / "r.yaml")
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        return " ".join((out.stdout + out.stderr).split())

    # ---------------------------------------------------------------- low values

    LOW = "images whose largest value is small"

    def test_arrays_of_bytes_with_low_values(self):
        npy(self.folder / "y.npy", "<i8", (40,), [i % 2 for i in range(40)])
        for largest, doubted in ((1, True), (9, True), (16, True), (64, False), (255, False)):
            with self.subTest(largest=largest):
                npy(self.folder / "x.npy", "|u1", (40, SIDE, SIDE), [(i * 13 + i // 64) % (largest + 1) for i in range(40 * 64)])
                text = self.start({"dataset": "npy", "inputs": str(self.folder / "x.npy"), "targets": str(self.folder / "y.npy")},
                                  model={"name": "cnn", "width": 4, "hidden": 8})
                self.assertEqual(self.LOW in text, doubted, text)
                if doubted:
                    self.assertIn(f"x.npy: the largest value is {largest}, which becomes 0.0", text)
                    self.assertIn(f"save them times {255 // largest}, or as bool or float32", text)

    def test_sets_in_mnists_format_with_low_values(self):
        for largest, doubted in ((1, True), (255, False)):
            with self.subTest(largest=largest):
                folder = self.folder / str(largest)
                idx(folder, "train", [i % 10 for i in range(40)], largest)
                text = self.start({"dataset": "fashion_mnist", "root": str(folder)}, model={"name": "cnn", "width": 4, "hidden": 8})
                self.assertEqual(self.LOW in text, doubted, text)

    def folder_of(self, root, pixel, split="all"):
        for i in range(12):
            png(self.folder / root / ("odd" if i % 2 else "even") / f"{i}.png", lambda at, i=i: pixel(at + i))
        return {"dataset": "image_folder", "root": str(self.folder / root), "size": [SIDE, SIDE], "channels": 1, "split": split,
                "validation_share": 0.5}

    def test_image_files_with_low_values(self):
        cnn = {"name": "cnn", "width": 4, "hidden": 8}
        self.assertIn(self.LOW, self.start(self.folder_of("masks", lambda at: at % 2), model=cnn))
        self.assertIn(self.LOW, self.start(self.folder_of("four_bits", lambda at: at % 16), model=cnn))
        self.assertNotIn(self.LOW, self.start(self.folder_of("dim", lambda at: 40 + at % 16), model=cnn))

    # ---------------------------------------------------------------- classes of MNIST's format

    def test_a_set_in_mnists_format_of_one_class_is_refused(self):
        idx(self.folder / "one", "train", [3] * 20, 255)
        text = self.start({"dataset": "fashion_mnist", "root": str(self.folder / "one")}, code=65)
        self.assertIn("train-labels-idx1-ubyte: has one class only, 3", text)
        idx(self.folder / "two", "train", [3] * 19 + [4], 255)
        self.start({"dataset": "fashion_mnist", "root": str(self.folder / "two"), "limit": 8})

    def test_classes_of_validation_data_that_the_training_data_lack(self):
        idx(self.folder / "set", "train", [i % 5 for i in range(40)], 255)
        idx(self.folder / "set", "t10k", [1 + i % 5 for i in range(20)], 255)
        data = {"dataset": "fashion_mnist", "root": str(self.folder / "set")}
        text = self.start(data, {**data, "split": "test"})
        self.assertRegex(text, r"classes of the validation data that the training data lack: \S*set: class 5 ")
        idx(self.folder / "set", "t10k", [i % 5 for i in range(20)], 255)
        self.assertNotIn("training data lack", self.start(data, {**data, "split": "test"}))

    def test_labels_beyond_nine_are_refused_with_what_helps(self):
        idx(self.folder / "letters", "train", [i % 27 for i in range(54)], 255)
        text = self.start({"dataset": "fashion_mnist", "root": str(self.folder / "letters")}, code=65)
        self.assertIn("try: number the classes from 0, and save data of more than 10 as arrays: dataset: npy", text)

    # ---------------------------------------------------------------- training data that validate

    SAME = "validation data that are the training data"

    def test_a_folder_of_images_that_is_trained_on(self):
        bright = lambda at: 40 * (at % 6)  # noqa: E731
        both = self.folder_of("both", bright)
        self.assertIn(self.SAME, self.start(both, both))
        shutil.copytree(self.folder / "both", self.folder / "copy")
        self.assertIn(self.SAME, self.start(both, {**both, "root": str(self.folder / "copy")}))
        train, validation = {**both, "split": "train"}, {**both, "split": "validation"}
        self.assertNotIn("training data", self.start(train, validation))
        self.assertNotIn(self.SAME, self.start(train, {**validation, "root": str(self.folder / "copy")}))
        self.assertIn(self.SAME, self.start(both, validation))
        other = self.folder_of("other", lambda at: 30 + 40 * (at % 5))  # the same names
        self.assertNotIn("training data", self.start(both, other))

    # ---------------------------------------------------------------- stand-ins for what is missing

    def table(self, name, header, rows):
        (self.folder / name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
        return {"dataset": "table", "file": str(self.folder / name), "target": "y"}

    def numbers(self, stand_in, share=0.1, rows=1500):
        chance = random.Random(3)
        once = rows // 2
        return [stand_in if (chance.random() < share if share else i == once) else round(chance.gauss(0, 1), 4) for i in range(rows)]

    STAND_IN = "may stand for what is missing"

    def test_numbers_that_stand_for_what_is_missing(self):
        stand_ins = {"nines": (-999, 0.1), "nines and a decimal": (9999.9, 0.1), "netcdf": (9.96921e36, 0.1), "huge": (-1e20, 0.1),
                     "least": (-2147483648, 0.1), "once": (1e30, 0)}
        columns = [self.numbers(*each) for each in stand_ins.values()]
        rows = [(*values, i % 7 + 0.5) for i, values in enumerate(zip(*columns))]
        data = self.table("t.csv", ",".join([*stand_ins, "y"]), rows)
        self.start(data, loss="mean_squared_error")
        found = json.loads(self.autotrain("data", "--config", self.folder / "r.yaml", "--json").stdout)
        doubt, = [each for each in found["sets"][0]["doubts"] if self.STAND_IN in each["kind"]]
        self.assertEqual([place.split('"')[1] for place in doubt["places"]], list(stand_ins))
        self.assertIn(f"numbers that {self.STAND_IN} (6)", self.start(data, loss="mean_squared_error"))

    def test_targets_that_stand_for_what_is_missing(self):
        rows = [(i % 11, value) for i, value in enumerate(self.numbers(-999))]
        text = self.start(self.table("t.csv", "x,y", rows), loss="mean_squared_error")
        self.assertRegex(text, rf"targets that {self.STAND_IN}: \S*t\.csv: \"y\": -999, far")
        for stand_in in (-999, 255):
            rows = [(i % 11, stand_in if i % 10 == 0 else i % 2) for i in range(200)]
            text = self.start(self.table("c.csv", "x,y", rows))
            self.assertRegex(text, rf"targets that {self.STAND_IN}: \S*c\.csv: \"y\": {stand_in}, far")
        npy(self.folder / "x.npy", "<f4", (1500, 2), [(i % 13) / 13 for i in range(3000)])
        npy(self.folder / "y.npy", "<f4", (1500,), self.numbers(-999))
        text = self.start({"dataset": "npy", "inputs": str(self.folder / "x.npy"), "targets": str(self.folder / "y.npy")},
                          loss="mean_squared_error")
        self.assertRegex(text, rf"targets that {self.STAND_IN}: \S*y\.npy: -999, far")

    def test_numbers_with_heavy_tails_stand_for_nothing(self):
        chance = random.Random(5)
        columns = {
            "log-normal": lambda i: round(chance.lognormvariate(0, 2), 3),
            "pareto": lambda i: round(chance.paretovariate(1.2), 3),
            "counts": lambda i: int(chance.paretovariate(0.9)),
            "mostly zero": lambda i: 0 if i % 10 else round(chance.lognormvariate(5, 1), 2),
            "cut off": lambda i: min(50, round(chance.expovariate(1 / 20), 2)),
            "few": lambda i: (1, 2, 5, 10, 20)[i % 5],
        }
        drawn = {name: [draw(i) for i in range(1500)] for name, draw in columns.items()}
        data = self.table("t.csv", ",".join([*drawn, "y"]), [(*values, i % 7 + 0.5) for i, values in enumerate(zip(*drawn.values()))])
        for target in ("y", "log-normal", "pareto", "mostly zero"):
            self.assertNotIn(self.STAND_IN, self.start({**data, "target": target}, loss="mean_squared_error"), target)
        for classes in ((0, 1, 2), (3, 5, 7), (200, 404, 500), (0, 255)):
            rows = [(i % 11, classes[i % len(classes)]) for i in range(200)]
            self.assertNotIn(self.STAND_IN, self.start(self.table("c.csv", "x,y", rows)), classes)

    # ---------------------------------------------------------------- other encodings

    def test_a_table_in_another_encoding_is_refused_by_its_line(self):
        lines = ["x,y"] + [f"{i},{('é', 'è')[i % 2]}" for i in range(40)]
        (self.folder / "t.csv").write_bytes("\n".join(lines).encode("windows-1252"))
        data = {"dataset": "table", "file": str(self.folder / "t.csv"), "target": "y"}
        text = self.start(data, code=65)
        self.assertIn("t.csv:2: is no text in UTF-8: it has the byte 0xe9", text)
        self.assertIn("iconv -f WINDOWS-1252 -t UTF-8", text)
        (self.folder / "t.csv").write_bytes("\n".join(lines).encode())
        self.start(data)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
