#!/usr/bin/env python3
"""Arrays that NumPy saved, tables that Python's csv module wrote and lines of text are read with the values that were
written.

    files_test.py path/to/autotrain_tests

Every case is a folder with the file, the data set's keys and the samples expected of it, computed here.
"""
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file

TESTS = Path(sys.argv[1]).resolve()
TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def write_case(folder, choice, inputs, targets):
    folder.mkdir(exist_ok=True)
    (folder / "choice.json").write_text(json.dumps(choice))
    tensors = {"inputs": inputs, "targets": targets}
    save_file({name: torch.from_numpy(numpy.ascontiguousarray(array)) for name, array in tensors.items()},
              folder / "expected.safetensors")


def read_all(parent):
    return subprocess.run([TESTS, "--gtest_filter=PythonFiles.*"], capture_output=True, text=True,
                          env={**os.environ, "AUTOTRAIN_PYTHON_FILES": parent})


class Arrays(unittest.TestCase):
    def test_numpy_files_are_read_equal(self):
        rng = numpy.random.default_rng(0)
        with tempfile.TemporaryDirectory() as parent:
            for number in range(60):
                self.write(Path(parent, f"case-{number}"), rng, TYPES[number % len(TYPES)])
            out = read_all(parent)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("[  PASSED  ] 1 test", out.stdout)

    def values(self, rng, kind, shape):
        if kind == "bool":
            return rng.random(shape) < 0.5
        if kind.startswith("float"):
            return rng.normal(scale=100, size=shape).astype(kind)
        limits = numpy.iinfo(kind)
        return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)

    def write(self, folder, rng, kind):
        folder.mkdir()
        shape = tuple(rng.integers(1, 6, rng.integers(1, 5)))
        array = self.values(rng, kind, shape)
        self.save(folder / "inputs.npy", rng, array)
        expected = array.astype("float32")
        if len(shape) == 1:
            expected = expected[:, None]
        if kind == "uint8" and len(shape) >= 3:
            expected = expected / 255
            expected = expected[:, None] if len(shape) == 3 else expected
        if rng.random() < 0.5:
            targets = rng.integers(0, 100, shape[0]).astype(str(rng.choice(["uint8", "int8", "int16", "int32", "int64"])))
            wanted = targets.astype("int64")
        else:
            targets = rng.normal(size=(shape[0], 2)).astype(str(rng.choice(["float16", "float32", "float64"])))
            wanted = targets.astype("float32")
        self.save(folder / "targets.npy", rng, targets)
        first = int(rng.integers(0, shape[0]))
        limit = int(rng.integers(1, shape[0] + 1))
        choice = {"dataset": "npy", "inputs": str(folder / "inputs.npy"), "targets": str(folder / "targets.npy"),
                  "first": first, "limit": limit}
        write_case(folder, choice, expected[first:first + limit], wanted[first:first + limit])

    def save(self, path, rng, array):
        version = [(1, 0), (2, 0), (3, 0)][rng.integers(3)]
        with open(path, "wb") as file:
            numpy.lib.format.write_array(file, array, version)


class Tables(unittest.TestCase):
    WORDS = ["red", "green, really", 'the "blue" one', "über", "two\nlines", " padded ", "x"]
    MISSING = ["", "NA", "nan", "NULL"]

    def test_csv_files_are_read_equal(self):
        rng = random.Random(0)
        with tempfile.TemporaryDirectory() as parent:
            for number in range(60):
                self.write(Path(parent, f"case-{number}"), rng)
            out = read_all(parent)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("[  PASSED  ] 1 test", out.stdout)

    def column(self, rng, rows):
        """The fields of a column, and the columns of numbers that they become, standardized and not."""
        missing = rng.choice([0, 0.2])
        if rng.random() < 0.4:
            fields = [rng.choice(self.MISSING) if rng.random() < missing else rng.choice(self.WORDS)
                      for _ in range(rows)]
            fields[0] = "x"  # one word at least, so that the column is categorical
            names = [field.strip() for field in fields]
            ordered = sorted(set(names), key=lambda name: name.encode())
            columns = [[float(name == category) for name in names] for category in ordered]
            return fields, columns, columns
        scale = 10.0 ** rng.randint(-5, 5)
        numbers = [rng.gauss(1, 1) * scale for _ in range(rows)]
        fields = [rng.choice([repr, "{:e}".format, "+{:.17g}".format, " {:.17g}".format])(abs(number))
                  if number > 0 else repr(number) for number in numbers]
        numbers = [float(field) for field in fields]
        gone = [rng.random() < missing and i > 0 for i in range(rows)]
        fields = [rng.choice(self.MISSING) if lost else field for field, lost in zip(fields, gone)]
        there = [number for number, lost in zip(numbers, gone) if not lost]
        mean = math.fsum(there) / len(there)
        deviation = math.sqrt(math.fsum((number - mean) ** 2 for number in there) / len(there)) or 1
        numbers = [mean if lost else number for number, lost in zip(numbers, gone)]
        return fields, [numbers], [[(number - mean) / deviation for number in numbers]]

    def target(self, rng, rows):
        kind = rng.choice(["words", "classes", "numbers"])
        if kind == "numbers":
            numbers = [rng.gauss(0, 1) + 0.123 for _ in range(rows)]
            return [repr(number) for number in numbers], numpy.array(numbers, "float32")[:, None]
        fields = [rng.choice(self.WORDS) if kind == "words" else str(rng.randint(-3, 12)) for _ in range(rows)]
        fields[:2] = self.WORDS[:2] if kind == "words" else ["1", "2"]  # one class alone is refused
        names = [field.strip() for field in fields]
        ordered = sorted(set(names), key=lambda name: name.encode() if kind == "words" else int(name))
        return fields, numpy.array([ordered.index(name) for name in names], "int64")

    def write(self, folder, rng):
        folder.mkdir()
        rows = rng.randint(2, 40)
        fields, raw, standardized = zip(*[self.column(rng, rows) for _ in range(rng.randint(1, 5))])
        target_fields, targets = self.target(rng, rows)
        at = rng.randint(0, len(fields))
        table = [*fields[:at], target_fields, *fields[at:]]
        separator, extension = rng.choice([(",", "csv"), ("\t", "tsv"), (";", "txt")])
        names = [f'column "{i}",{separator}or rather more of a name' for i in range(len(table))]
        header, standardize = rng.random() < 0.7, rng.random() < 0.5
        path = folder / f"table.{extension}"
        with open(path, "w", newline="", encoding=rng.choice(["utf-8", "utf-8-sig"])) as file:
            writer = csv.writer(file, delimiter=separator, lineterminator=rng.choice(["\n", "\r\n"]),
                                quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
            if header:
                writer.writerow(names)
            writer.writerows(zip(*table))
        columns = [column for group in (standardized if standardize else raw) for column in group]
        choice = {"dataset": "table", "file": str(path), "target": names[at] if header else str(at + 1),
                  "header": header, "standardize": standardize, "missing": "mean"}
        write_case(folder, choice, numpy.array(columns).T.astype("float32"), targets)


class Documents(unittest.TestCase):
    ALPHABET = "aZ 0\t.é字😀\0"

    def test_lines_are_read_equal(self):
        rng = random.Random(0)
        with tempfile.TemporaryDirectory() as parent:
            for number in range(60):
                self.write(Path(parent, f"case-{number}"), rng)
            out = read_all(parent)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("[  PASSED  ] 1 test", out.stdout)

    def write(self, folder, rng):
        folder.mkdir()
        lines = ["".join(rng.choices(self.ALPHABET, k=rng.randint(0, 40))) for _ in range(rng.randint(1, 9))] + ["x"]
        path, end = folder / "lines.txt", rng.choice(["\n", "\r\n"])
        path.write_text(end.join(lines) + rng.choice(["", end]), encoding="utf-8", newline="")
        context, multiple = rng.randint(1, 50), rng.randint(1, 12)
        parts = []
        for line in filter(None, lines):
            tokens = [256, *line.encode(), 256]
            for first in range(0, len(tokens) - 1, context):
                parts.append(tokens[first:first + context + 1])
        longest = max(len(part) for part in parts) - 1
        width = min(context, -(-longest // multiple) * multiple)
        inputs = [part[:-1] + [256] * (width - len(part) + 1) for part in parts]
        targets = [part[1:] + [-100] * (width - len(part) + 1) for part in parts]
        choice = {"dataset": "documents", "files": [str(path)], "context": context, "multiple_of": multiple}
        write_case(folder, choice, numpy.array(inputs, "int64"), numpy.array(targets, "int64"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
