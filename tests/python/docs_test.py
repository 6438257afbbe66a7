#!/usr/bin/env python3
"""The scripts of docs/python.md and the notebook beside it run as they stand there.

    docs_test.py path/to/libautotrain_python.so path/to/project path/to/autotrain
"""
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, PROJECT, PROGRAM = (str(Path(argument).resolve()) for argument in sys.argv[1:4])
SCRIPTS = re.findall(r"```python\n(.*?)```", (Path(PROJECT) / "docs" / "python.md").read_text(), re.S)
NOTEBOOK = json.loads((Path(PROJECT) / "docs" / "python.ipynb").read_text())
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def shown(cell):
    """The cell with its last line printed, where that is a value, as a notebook shows it."""
    tree = ast.parse(cell)
    if not isinstance(tree.body[-1], ast.Expr):
        return cell
    return "\n".join([*cell.split("\n")[:tree.body[-1].lineno - 1], f"print({ast.unparse(tree.body[-1])})"])


class Docs(unittest.TestCase):
    def printed(self, script):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "PYTHONPATH": str(Path(PROJECT) / "scripts" / "python"), "AUTOTRAIN_LIBRARY": LIBRARY,
                           "AUTOTRAIN_PROGRAM": PROGRAM, "XDG_CACHE_HOME": folder}
            result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, env=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout

    def test_there_are_three(self):
        self.assertEqual(len(SCRIPTS), 3)

    def test_the_search(self):
        said = self.printed(SCRIPTS[0])
        self.assertRegex(said, r"micro-batch +\d+ samples")
        self.assertRegex(said, r"peak +[\d.]+ MiB of 64 MiB")

    def test_the_decorator(self):
        self.assertRegex(self.printed(SCRIPTS[1]), r"\d+ times \d+ samples")

    def test_the_run(self):
        said = self.printed(SCRIPTS[2])
        self.assertIn("report.html", said)
        self.assertGreater(float(said.splitlines()[-1]), 0.9)

    def test_the_notebook(self):
        self.assertEqual([cell.get("outputs", []) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"], [[]] * len(CELLS))
        said = self.printed("\n".join(map(shown, CELLS)))
        self.assertRegex(said, r"micro-batch +\d+ samples")
        self.assertRegex(said, r"completed, 280 updates")
        self.assertGreater(float(said.splitlines()[-1].split(",")[0].strip("(")), 0.85)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
