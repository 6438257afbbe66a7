#!/usr/bin/env python3
"""`autotrain evaluate` finds what the run's own evaluations found.

    evaluate_test.py path/to/autotrain
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = Path(sys.argv[1]).resolve()
RECIPE = {
    "data": {"train": {"dataset": "synthetic", "kind": "images", "samples": 512},
             "validation": {"dataset": "synthetic", "kind": "images", "samples": 200, "first": 100000},
             "test": {"dataset": "synthetic", "kind": "images", "samples": 120, "first": 300000}},
    "model": {"name": "cnn"},
    "average": {"half_life": 200},
    "batch": {"effective": 64},
    "stop": {"updates": 8},
    "evaluation": {"every": "2 updates", "metrics": ["accuracy", "macro_f1", "confusion_matrix"]},
    "checkpoint": {"every": "2 updates", "keep": 8},
    "execution": {"threads": 1, "memory": {"budget": "64MiB"}},
}


class Evaluate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.parent = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.parent.name)
        (cls.folder / "recipe.yaml").write_text(json.dumps(RECIPE))
        out = cls.autotrain("--config", cls.folder / "recipe.yaml", "--output", cls.folder / "run", "--quiet")
        assert out.returncode == 0, out.stderr
        cls.summary = json.loads((cls.folder / "run" / "summary.json").read_text())
        rows = [json.loads(line) for line in (cls.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        cls.evaluations = {row["update"]: row for row in rows if row["kind"] == "evaluation"}

    @classmethod
    def tearDownClass(cls):
        cls.parent.cleanup()

    @classmethod
    def autotrain(cls, *arguments):
        return subprocess.run([BINARY, *arguments], capture_output=True, text=True, env={**os.environ, "CI": "1"})

    def evaluate(self, *arguments, code=0):
        out = self.autotrain("evaluate", "--run", self.folder / "run", *arguments)
        self.assertEqual(out.returncode, code, out.stderr)
        return out

    def test_every_checkpoint_has_the_figures_of_the_run_to_the_last_bit(self):
        for update in (2, 4, 8):
            found = json.loads(self.evaluate("--checkpoint", str(update), "--json").stdout)
            self.assertEqual(found["update"], update)
            for name, value in found["figures"].items():
                self.assertEqual(value, self.evaluations[update][name], f"{name} of update {update}")

    def test_the_newest_the_best_and_the_confusion_matrix(self):
        found = json.loads(self.evaluate("--json").stdout)
        self.assertEqual(found["figures"], self.summary["final"])
        self.assertEqual(found["tables"], self.summary["tables"])
        best = json.loads(self.evaluate("--checkpoint", "best", "--json").stdout)
        self.assertEqual(best["figures"] | {"update": best["update"]}, self.summary["best"])
        text = self.evaluate().stdout
        self.assertIn(f"update 8: accuracy {self.summary['final']['accuracy']:.4f}", text)
        self.assertIn("confusion_matrix", text)
        evaluated = int(sum(map(sum, found["tables"]["confusion_matrix"]["cells"])))
        self.assertRegex(text, rf"update 8: .* · on {evaluated:,} samples")

    def test_the_test_data_are_read_once_by_the_weights_that_the_run_ends_with(self):
        found = json.loads(self.evaluate("--data", "test", "--json").stdout)
        self.assertEqual(found["figures"] | {"update": 8}, self.summary["test"])
        self.assertNotEqual(found["figures"]["loss"], self.summary["final"]["loss"])
        out = self.autotrain("predict", "--run", self.folder / "run", "--data", "test", "--output", self.folder / "test.csv")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(len((self.folder / "test.csv").read_text().splitlines()), 121)

    def test_of_a_run_that_patience_ends_they_are_read_by_the_best(self):
        patient, run = self.folder / "patient.yaml", self.folder / "patient"
        patient.write_text(json.dumps(RECIPE | {"stop": {"updates": 60, "patience": 2, "min_delta": 0.5},
                                                "optimizer": {"lr": 0.05}}))
        out = self.autotrain("--config", patient, "--output", run, "--quiet")
        self.assertEqual(out.returncode, 0, out.stderr)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["stopped_by"], "patience")
        found = json.loads(self.autotrain("evaluate", "--run", run, "--data", "test", "--checkpoint", "best", "--json").stdout)
        self.assertEqual(found["figures"] | {"update": summary["best"]["update"]}, summary["test"])
        newest = json.loads(self.autotrain("evaluate", "--run", run, "--json").stdout)
        self.assertEqual(newest["figures"], summary["final"])

    def test_data_that_choose_are_no_test_data(self):
        chosen = json.dumps(RECIPE["data"]["validation"])
        out = self.autotrain("plan", "--config", self.folder / "recipe.yaml", "--set", f"data.test={chosen}")
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("data.test", out.stderr)

    def test_other_data(self):
        found = json.loads(self.evaluate("--set", "data.validation.first=200000", "--set", "data.validation.samples=70", "--json").stdout)
        self.assertNotEqual(found["figures"]["loss"], self.summary["final"]["loss"])
        self.assertEqual(sum(map(sum, found["tables"]["confusion_matrix"]["cells"])), 70)

    def with_another_tensor(self, name, tensor_type):
        """The run's weights in a file that has a further tensor of eight bytes."""
        plain, path = self.folder / "plain.safetensors", self.folder / name
        out = self.autotrain("export", "--run", self.folder / "run", "--output", plain, "--overwrite")
        self.assertEqual(out.returncode, 0, out.stderr)
        raw = plain.read_bytes()
        begin = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:begin])
        self.assertEqual(header["__metadata__"], {"format": "pt"}, "as transformers asks for it")
        end = len(raw) - begin
        header["head.scale"] = {"dtype": tensor_type, "shape": [8], "data_offsets": [end, end + 8]}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[begin:] + bytes(8))
        return path

    def test_weights_of_a_file_that_has_more_than_the_model(self):
        for tensor_type in ("U8", "F8_E4M3"):
            path = self.with_another_tensor(f"{tensor_type}.safetensors", tensor_type)
            self.assertIn("model.weights.skip names what is not to be taken",
                          self.evaluate("--weights", path, code=65).stderr)
            found = json.loads(self.evaluate("--weights", path, "--set", "model.weights.skip=[head.*]", "--json").stdout)
            self.assertEqual(found["figures"], self.summary["final"])
        self.assertIn("what is drawn has learned nothing",
                      self.evaluate("--weights", path, "--set", "model.weights.missing=keep", code=64).stderr)
        self.assertIn(f"give --weights {path}", self.evaluate("--set", f"model.weights={path}", code=64).stderr)

    def test_what_is_wrong_is_said(self):
        for arguments, code, message in (
            (("--checkpoint", "3"), 66, "it has those of updates 2, 4, 6, 8"),
            (("--checkpoint", "last"), 64, "give newest, best"),
            (("--set", "data.validation=null"), 78, "there is nothing to evaluate on"),
            (("--data", "test", "--set", "data.test=null"), 78, "there are no test data"),
            (("--set", "model.width=8"), 65, "these weights are of another model"),
        ):
            self.assertIn(message, self.evaluate(*arguments, code=code).stderr)
        out = self.autotrain("evaluate", "--run", self.folder / "nothing")
        self.assertEqual(out.returncode, 66, out.stderr)
        self.assertIn("holds no run", out.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
