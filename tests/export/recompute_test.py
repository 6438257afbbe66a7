#!/usr/bin/env python3
"""What memory exported modules take; and what execution.recompute does with them: the same bits, larger micro-batches, and both side by
side.

    recompute_test.py path/to/autotrain path/to/project
"""
import json
import sys
import unittest

from export_test import IMAGES, TOKENS, Exported, models


class Gradients(Exported):
    def test_they_are_added_as_they_come_and_not_held_twice(self):
        weights = sum(parameter.nbytes for parameter in self.exported(models.several_wide, IMAGES, precisions=["fp32"]).parameters())
        recipe = self.recipe("images", optimizer={"momentum": 0}, execution={"micro_batch": 4})
        out = self.autotrain("plan", "--config", recipe, "--json", "--fresh-plan")
        self.assertEqual(out.returncode, 0, out.stderr)
        most = max(probe["allocated_bytes"] for probe in json.loads(out.stdout)["search"]["probes"])
        self.assertGreater(most, 1.5 * weights, "the weights and what is accumulated")
        self.assertLess(most, 2.4 * weights)


class Recompute(Exported):
    def run_of(self, kind, recompute, **execution):
        recipe = self.recipe(kind, stop={"updates": 4}, execution={"recompute": recompute, **execution})
        self.train(recipe, f"run-{recompute}")
        return self.folder / f"run-{recompute}" / "checkpoints" / "update-4" / "model.safetensors"

    def test_no_bit_of_a_run_differs(self):
        for name, (maker, example, kind, part) in {"residual": (models.Residual, IMAGES, "images", None),
                                             "dropout": (models.dropping_tokens, TOKENS, "tokens", "logits"),
                                             "weights with several names": (models.ThreeNames, TOKENS, "tokens", None)}.items():
            with self.subTest(name):
                self.exported(maker, example, precisions=["fp32"], output_part=part)
                kept, again = (self.run_of(kind, way, micro_batch=16).read_bytes() for way in ("off", "on"))
                self.assertEqual(kept, again)
                for run in ("run-off", "run-on"):
                    self.remove(run)

    def remove(self, run):
        for path in sorted((self.folder / run).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.folder / run).rmdir()

    def test_a_deep_module_fits_more_samples_and_the_table_has_both(self):
        self.exported(models.deep, IMAGES, precisions=["fp32"])
        many = {"dataset": "synthetic", "kind": "images", "shape": [3, 12, 12], "classes": 5, "samples": 8192}
        recipe = self.recipe("images", batch={"effective": 4096}, execution={"micro_batch": None})
        document = json.loads(recipe.read_text())
        document["data"] = {"train": many}
        recipe.write_text(json.dumps(document))
        out = self.autotrain("plan", "--config", recipe, "--alternatives", "--json", "--fresh-plan")
        self.assertEqual(out.returncode, 0, out.stderr)
        plan = json.loads(out.stdout)
        rows = {(row["precision"], row["recompute"]): row for row in plan["alternatives"]}
        self.assertIn("has no graphs for bf16", rows["bf16", "off"]["why_not"])
        sizes = {way: rows["fp32", way]["plan"]["search"]["micro_batch"] for way in ("off", "on")}
        self.assertEqual(plan["search"]["micro_batch"], sizes["off"])
        self.assertGreater(sizes["on"], sizes["off"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
