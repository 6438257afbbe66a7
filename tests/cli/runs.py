"""What tests of commands on a trained run begin with."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()


class Runs(unittest.TestCase):
    """Short runs, in a folder that the tests of a class share."""

    @classmethod
    def setUpClass(cls):
        cls.parent = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.parent.name)

    @classmethod
    def tearDownClass(cls):
        cls.parent.cleanup()

    @classmethod
    def autotrain(cls, *arguments):
        return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "CI": "1"})

    @classmethod
    def train(cls, name, recipe, *arguments):
        (cls.folder / f"{name}.yaml").write_text(json.dumps(recipe))
        out = cls.autotrain("--config", cls.folder / f"{name}.yaml", "--output", cls.folder / name, "--quiet", *arguments)
        assert out.returncode == 0, out.stderr
        return cls.folder / name
