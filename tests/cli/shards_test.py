#!/usr/bin/env python3
"""Weights in several files beside an index are read as the one file is; files of other formats are refused with what to do.

    shards_test.py path/to/autotrain
"""
import json
import re
import subprocess
import sys
import unittest

import torch
from runs import Runs
from safetensors.torch import load_file, save_file

RECIPE = {
    "data": {"train": {"dataset": "synthetic", "kind": "images", "samples": 128, "shape": [1, 12, 12]},
             "validation": {"dataset": "synthetic", "kind": "images", "samples": 64, "shape": [1, 12, 12], "first": 100000}},
    "model": {"name": "cnn", "width": 8, "hidden": 16},
    "batch": {"effective": 32},
    "stop": {"updates": 2},
    "execution": {"threads": 1, "micro_batch": 32, "memory": {"budget": "128MiB"}},
}


class Shards(Runs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.train("run", RECIPE)
        cls.whole = cls.folder / "whole.safetensors"
        out = cls.autotrain("export", "--run", cls.run_folder, "--output", cls.whole)
        assert out.returncode == 0, out.stderr
        cls.tensors = {name: tensor * 1.5 for name, tensor in load_file(cls.whole).items()}  # other than the run's own
        save_file(cls.tensors, cls.whole)
        cls.index = cls.split("parts", 3)

    @classmethod
    def split(cls, name, count):
        """The weights in so many files, as Hugging Face's writers name them; their index."""
        folder, names = cls.folder / name, sorted(cls.tensors)
        folder.mkdir()
        weight_map = {}
        for i in range(count):
            file = f"model-{i + 1:05}-of-{count:05}.safetensors"
            part = {tensor: cls.tensors[tensor] for tensor in names[i::count]}
            save_file(part, folder / file, {"format": "pt"})
            weight_map.update(dict.fromkeys(part, file))
        index = folder / "model.safetensors.index.json"
        size = sum(tensor.nbytes for tensor in cls.tensors.values())
        index.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": weight_map}))
        return index

    def figures(self, *arguments):
        out = self.autotrain("evaluate", "--run", self.run_folder, "--json", *arguments)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)["figures"]

    def refusal(self, weights, code=65):
        out = self.autotrain("evaluate", "--run", self.run_folder, "--weights", weights)
        self.assertEqual(out.returncode, code, out.stderr)
        return out.stderr

    def test_figures_are_those_of_the_one_file(self):
        expected = self.figures("--weights", self.whole)
        self.assertNotEqual(expected, self.figures())
        for weights in (self.index, self.index.parent):
            self.assertEqual(self.figures("--weights", weights), expected)

    def test_training_predicting_and_sweeping_begin_with_them(self):
        def trained(run):
            checkpoint, = (run / "checkpoints").glob("update-*2")
            return (checkpoint / "model.safetensors").read_bytes()

        ends, predictions = [], []
        for name, weights in (("one", self.whole), ("several", self.index), ("folder", self.index.parent)):
            recipe = {**RECIPE, "model": {**RECIPE["model"], "weights": str(weights)}}
            run = self.train(name, recipe)
            ends.append(trained(run))
            self.assertEqual(self.autotrain("predict", "--run", run, "--weights", weights, "--output", run / "p.csv").returncode, 0)
            predictions.append((run / "p.csv").read_text())
        self.assertEqual((len(set(ends)), len(set(predictions))), (1, 1))
        self.assertNotEqual(ends[0], trained(self.run_folder))
        out = self.autotrain("sweep", "--config", self.folder / "run.yaml", "--weights", self.index.parent, "--mode", "inference",
                             "--batches", "1", "--seconds", "0.01", "--rounds", "1", "--output", self.folder / "sweep")
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_a_resume_names_shards_that_changed(self):
        index = self.split("changing", 2)
        recipe = {**RECIPE, "model": {**RECIPE["model"], "weights": str(index)}}
        run = self.train("resumed", recipe)
        shard = index.parent / "model-00002-of-00002.safetensors"
        save_file({name: tensor + 1 for name, tensor in load_file(shard).items()}, shard)
        out = self.autotrain("--config", self.folder / "resumed.yaml", "--output", run, "--resume")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn(f"{index} has changed since the checkpoint was written", out.stderr)

    def test_a_shard_by_itself_is_a_part(self):
        said = self.refusal(self.index.parent / "model-00002-of-00003.safetensors")
        self.assertIn("is part 2 of 3 of a model", said)
        self.assertIn(str(self.index), said)

    def test_a_missing_shard_is_named(self):
        index = self.split("short", 2)
        (index.parent / "model-00001-of-00002.safetensors").unlink()
        self.assertIn("model-00001-of-00002.safetensors", self.refusal(index, 66))

    def test_a_shard_that_was_not_fetched_is_a_pointer(self):
        index = self.split("pointers", 2)
        shard = index.parent / "model-00002-of-00002.safetensors"
        shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n")
        said = self.refusal(index)
        self.assertIn(str(shard), said)
        self.assertIn("git lfs pull", said)

    def test_whole_numbers_are_no_weights(self):
        rounded = {name: (tensor * 100).to(torch.int8) for name, tensor in self.tensors.items()}
        save_file(rounded, self.folder / "rounded.safetensors")
        self.assertIn("whole numbers (Char)", self.refusal(self.folder / "rounded.safetensors"))

    def test_pickles_become_safetensors_by_the_lines_that_are_printed(self):
        folder = self.folder / "pickled"
        folder.mkdir()
        names = sorted(self.tensors)
        torch.save(self.tensors, folder / "weights.bin")
        weight_map = {}
        for i in range(2):
            file = f"pytorch_model-{i + 1:05}-of-00002.bin"
            torch.save({name: self.tensors[name] for name in names[i::2]}, folder / file)
            weight_map.update(dict.fromkeys(names[i::2], file))
        index = folder / "pytorch_model.bin.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        for weights, made in ((folder / "weights.bin", "weights.safetensors"), (index, "model.safetensors")):
            said = self.refusal(weights)
            lines = re.findall(r"^\s*(import glob.*|safetensors\.torch\.save_file.*)$", said, re.MULTILINE)
            self.assertEqual(len(lines), 2, said)
            subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
            self.assertEqual(self.figures("--weights", folder / made), self.figures("--weights", self.whole))
            (folder / made).unlink()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
