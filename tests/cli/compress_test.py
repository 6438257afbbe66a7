#!/usr/bin/env python3
"""`autotrain compress` writes smaller weights that evaluate, predict and recipes read, and says what they cost.

    compress_test.py path/to/autotrain path/to/fixtures
"""
import csv
import json
import shutil
import struct
import sys
import unittest
from pathlib import Path

from runs import Runs

FIXTURES = Path(sys.argv[2]).resolve()
RECIPE = {
    "data": {"train": {"dataset": "synthetic", "kind": "images", "samples": 256, "shape": [1, 12, 12]},
             "validation": {"dataset": "synthetic", "kind": "images", "samples": 128, "shape": [1, 12, 12], "first": 100000}},
    "model": {"name": "cnn", "width": 8, "hidden": 64},
    "optimizer": {"name": "adamw", "lr": 0.003, "weight_decay": 0.1},
    "schedule": {"name": "constant"},
    "batch": {"effective": 64},
    "stop": {"updates": 8},
    "checkpoint": {"every": "4 updates", "keep": 8},
    "execution": {"threads": 1, "precision": "fp32", "micro_batch": 32, "memory": {"budget": "128MiB"}},
}
METHODS = ["int8", "int8-weights", "int4-weights:32", "2:4", "channels:0.5"]


def tensors_of(path):
    """Name → (dtype, shape, bytes), of a safetensors file."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def floats(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 4}f", tensor[2])


class Compress(Runs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("run", RECIPE)
        out = cls.autotrain("compress", "--run", cls.folder / "run", "--methods", ",".join(METHODS), "--rounds", "0", "--json",
                            "--output", cls.folder / "small")
        assert out.returncode == 0, out.stderr
        cls.models = {model["method"]: model for model in json.loads(out.stdout)["models"]}

    def evaluate(self, run, *arguments):
        out = self.autotrain("evaluate", "--run", run, "--json", *arguments)
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)

    def weights_of(self, run, update):
        found, = (path for path in (self.folder / run / "checkpoints").glob("update-*") if int(path.name[7:]) == update)
        return found / "model.safetensors"

    def expect_same_figures(self, found, expected):
        self.assertEqual(found, expected)

    def test_every_method_is_a_row_and_a_smaller_file(self):
        self.assertEqual(list(self.models), ["uncompressed", *METHODS])
        for method, least in (("int8", 3.5), ("int8-weights", 3.5), ("int4-weights:32", 4.5), ("2:4", 1.5), ("channels:0.5", 2)):
            model = self.models[method]
            self.assertGreater(model["ratio"], least, method)
            self.assertEqual(model["bytes"], Path(model["file"]).stat().st_size)
            self.assertEqual(set(model["figures"]), set(self.models["uncompressed"]["figures"]))
            self.assertIn("accuracy", model["figures"])
            self.assertNotEqual(model["figures"]["loss"], self.models["uncompressed"]["figures"]["loss"], method)
        self.assertEqual(self.models["int8-weights"]["changed"], 4)
        self.assertEqual(self.models["2:4"]["changed"], 3, "one input channel has no groups of four")
        self.assertLess(self.models["channels:0.5"]["flops_per_sample"], 0.5 * self.models["uncompressed"]["flops_per_sample"])
        with open(self.folder / "small" / "compress.csv", newline="", encoding="utf-8") as file:
            self.assertEqual([row["method"] for row in csv.DictReader(file)], list(self.models))
        page = (self.folder / "small" / "compress.html").read_text(encoding="utf-8")
        for words in (*self.models, "accuracy and the bytes of the file"):
            self.assertIn(words, page)
        self.assertNotIn('"samples a second"', page, "--rounds 0 measures none")

    def test_evaluate_finds_in_the_files_what_the_table_says(self):
        run = self.folder / "run"
        self.expect_same_figures(self.models["uncompressed"]["figures"], self.evaluate(run)["figures"])
        for method in METHODS:
            model = self.models["int8-weights" if method == "int8" else method]  # the same weights
            found = self.evaluate(run, "--weights", self.models[method]["file"])
            self.expect_same_figures(found["figures"], model["figures"])
            self.assertEqual(found["weights"], self.models[method]["file"])
        self.assertNotEqual(self.models["int8"]["figures"]["loss"], self.models["int8-weights"]["figures"]["loss"], "inputs are rounded")

    def test_all_validation_samples_count_unless_fewer_are_asked_for(self):
        printed = []
        for arguments in ((), ("--samples", "40")):
            out = self.autotrain("compress", "--run", self.folder / "run", "--methods", "int8", "--rounds", "0", "--overwrite",
                                 "--output", self.folder / "few", *arguments)
            self.assertEqual(out.returncode, 0, out.stderr)
            printed.append((out.stdout, json.loads((self.folder / "few" / "compress.json").read_text())))
        for (text, result), samples in zip(printed, (128, 40)):
            self.assertIn(f"figures of {samples} validation samples", text)
            self.assertEqual(result["samples"], samples)
        some = self.evaluate(self.folder / "run", "--set", "data.validation.samples=40")
        self.expect_same_figures(printed[1][1]["models"][0]["figures"], some["figures"])

    def test_half_precision_is_evaluated_as_the_run_was(self):
        run = self.train("half", RECIPE, "--set", "execution.precision=bf16")
        out = self.autotrain("compress", "--run", run, "--methods", "int8-weights", "--rounds", "0", "--json", "--output",
                             self.folder / "half-small")
        self.assertEqual(out.returncode, 0, out.stderr)
        result = json.loads(out.stdout)
        self.assertEqual(result["precision"], "bf16")
        whole, rounded = result["models"]
        self.expect_same_figures(whole["figures"], self.evaluate(run)["figures"])
        self.expect_same_figures(whole["figures"], json.loads((run / "summary.json").read_text())["final"])
        self.expect_same_figures(rounded["figures"], self.evaluate(run, "--weights", rounded["file"])["figures"])

    def test_a_file_says_what_it_is_and_is_an_ordinary_one_without_that(self):
        from safetensors import safe_open
        from safetensors.torch import load_file, save_file
        for method in METHODS:
            with safe_open(self.models[method]["file"], "pt") as file:
                self.assertEqual(file.metadata(), {"autotrain.smaller_weights": "2", "autotrain.method": method})
                self.assertTrue(all(file.get_tensor(name).numel() > 0 for name in file.keys()))
        with safe_open(self.models["uncompressed"]["file"], "pt") as file:
            self.assertIsNone(file.metadata())
        tensors, other = load_file(self.models["int8-weights"]["file"]), self.folder / "other.safetensors"
        for metadata, words in ((None, "hidden.weight..int8"), ({"autotrain.smaller_weights": "3"}, "version 3")):
            save_file(tensors, other, metadata)
            out = self.autotrain("evaluate", "--run", self.folder / "run", "--weights", other)
            self.assertEqual(out.returncode, 65, out.stderr)
            self.assertIn(words, out.stderr)

    def test_predict_takes_them(self):
        losses = {}
        for method in ("uncompressed", "int4-weights:32", "channels:0.5"):
            output = self.folder / "predictions.csv"
            out = self.autotrain("predict", "--run", self.folder / "run", "--weights", self.models[method]["file"], "--output", output,
                                 "--overwrite", "--batch", "16")
            self.assertEqual(out.returncode, 0, out.stderr)
            losses[method] = output.read_text()
            self.assertEqual(len(losses[method].splitlines()), 129)
        self.assertEqual(len(set(losses.values())), 3)

    def test_zeros_of_two_in_four_stay_in_training_and_through_a_resume(self):
        file = Path(self.models["2:4"]["file"])
        recipe = json.loads(json.dumps(RECIPE))
        recipe["model"]["weights"] = str(file)
        self.train("tuned", recipe)
        self.train("halted", recipe, "--set", "stop.updates=4")
        self.train("halted", recipe, "--resume", "--allow-change", "--set", "stop.updates=8")
        whole, resumed = self.weights_of("tuned", 8), self.weights_of("halted", 8)
        self.assertEqual(whole.read_bytes(), resumed.read_bytes())
        stored, trained = tensors_of(file), tensors_of(whole)
        for name in ("conv2.weight", "hidden.weight", "output.weight"):
            values = floats(trained[name])
            zeros = sum(value == 0 for value in values)
            self.assertGreaterEqual(zeros, len(values) // 2, name)
            self.assertNotEqual(floats(stored[name + "..sparse"])[:4], tuple(v for v in values if v != 0)[:4], "it learned")
        # Two dimensions have their inputs in the order of the file.
        places, values = stored["hidden.weight..places"][2], floats(trained["hidden.weight"])
        for group, place in enumerate(places):
            zero = [i for i in range(4) if i not in (place & 3, place >> 2)]
            self.assertEqual([values[4 * group + i] for i in zero], [0, 0], f"group {group}")

    def test_zeros_stay_when_a_run_that_has_them_is_made_smaller_again(self):
        recipe = json.loads(json.dumps(RECIPE))
        recipe["model"]["weights"] = self.models["2:4"]["file"]
        run = self.train("sparse", recipe)
        out = self.autotrain("compress", "--run", run, "--methods", "int8-weights,channels:0.5", "--rounds", "0", "--json",
                             "--output", self.folder / "sparse-again")
        self.assertEqual(out.returncode, 0, out.stderr)
        models = json.loads(out.stdout)["models"]
        zeros = [i for i, value in enumerate(floats(tensors_of(self.weights_of("sparse", 8))["hidden.weight"])) if value == 0]
        for number, model in enumerate(models):
            recipe["model"]["weights"] = model["file"]
            self.train(f"again-{number}", recipe)
            trained = floats(tensors_of(self.weights_of(f"again-{number}", 8))["hidden.weight"])
            left = [i for i, value in enumerate(trained) if value == 0]
            if model["method"] == "channels:0.5":  # other shapes: at least half of what is left was zero in each layer
                self.assertGreater(len(left), 0.4 * len(trained))
            else:  # what rounding made zero may stay so where no gradient comes
                self.assertLessEqual(set(zeros), set(left), model["method"])
                self.assertLess(len(left), 0.9 * len(trained))
        whole = self.folder / "sparse.safetensors"
        out = self.autotrain("export", "--run", run, "--output", whole)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("zeros that stayed, 2:4", out.stderr)
        self.expect_same_figures(self.evaluate(run, "--weights", whole)["figures"], self.evaluate(run)["figures"])

    def test_a_pruned_model_learns_on_and_is_made_smaller_again(self):
        recipe = json.loads(json.dumps(RECIPE))
        recipe["model"]["weights"] = self.models["channels:0.5"]["file"]
        run = self.train("smaller", recipe)
        self.assertEqual(tensors_of(self.weights_of("smaller", 8))["conv1.weight"][1], [4, 1, 3, 3])
        out = self.autotrain("compress", "--run", run, "--methods", "int8-weights,channels:0.5", "--rounds", "0", "--json",
                             "--output", self.folder / "again")
        self.assertEqual(out.returncode, 0, out.stderr)
        models = json.loads(out.stdout)["models"]
        self.expect_same_figures(models[0]["figures"], self.evaluate(run)["figures"])
        for model in models:
            self.expect_same_figures(self.evaluate(run, "--weights", model["file"])["figures"], model["figures"])
            # The run that was never pruned takes them just so.
            self.expect_same_figures(self.evaluate(self.folder / "run", "--weights", model["file"])["figures"], model["figures"])
        self.assertEqual(tensors_of(Path(models[2]["file"]))["conv1.weight"][1], [2, 1, 3, 3])
        whole = self.folder / "smaller.safetensors"
        out = self.autotrain("export", "--run", run, "--output", whole)
        self.assertEqual(out.returncode, 0, out.stderr)
        for other in (run, self.folder / "run"):
            self.expect_same_figures(self.evaluate(other, "--weights", whole)["figures"], models[0]["figures"])
        sweep = ("sweep", "--config", run / "recipe.yaml", "--batches", "1", "--rounds", "1", "--seconds", "0.01", "--output", self.folder / "sweep")
        out = self.autotrain(*sweep, "--weights", run)
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn(f"autotrain export --run {run}", out.stderr)
        out = self.autotrain(*sweep, "--weights", whole)
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_precisions_of_evaluations_are_those_asked_for_or_refused(self):
        run, other = self.folder / "run", {"fp32": "bf16", "bf16": "fp32"}
        own = json.loads((run / "plan.json").read_text())["precision"]
        asked = self.evaluate(run, "--set", f"execution.precision={other[own]}")["figures"]
        self.assertNotEqual(asked["loss"], self.evaluate(run)["figures"]["loss"])
        self.expect_same_figures(self.evaluate(run, "--set", f"execution.precision={own}")["figures"], self.evaluate(run)["figures"])
        for command in (("evaluate",), ("predict", "--output", self.folder / "int8.csv"), ("compress", "--output", self.folder / "int8")):
            out = self.autotrain(*command, "--run", run, "--set", "execution.precision=int8")
            self.assertEqual(out.returncode, 78, f"{command}: {out.stderr}")
            self.assertIn("int8 is what autotrain sweep measures", out.stderr)

    def test_weights_that_stay_whole_are_named(self):
        self.assertEqual(self.models["2:4"]["left_whole"], ["conv1.weight"], "one input channel")
        self.assertEqual(self.models["int8-weights"]["left_whole"], [])

    def test_experts_are_rounded_as_linear_layers_are(self):
        recipe = json.loads(json.dumps(RECIPE))
        for part, first in (("train", 0), ("validation", 1000)):
            recipe["data"][part] = {"dataset": "synthetic", "kind": "tokens", "samples": 64, "shape": [8], "classes": 11, "first": first}
        recipe["model"] = {"name": "transformer", "width": 32, "layers": 1, "heads": 2, "experts": 4, "experts_per_token": 1}
        recipe["batch"]["effective"] = 32
        run = self.train("experts", recipe, "--set", "stop.updates=2", "--set", "execution.micro_batch=16")
        methods = ["int8", "int8-weights", "int4-weights:32", "2:4", "channels:0.5"]
        out = self.autotrain("compress", "--run", run, "--methods", ",".join(methods), "--rounds", "1", "--seconds", "0.01", "--batches", "1",
                             "--json", "--output", self.folder / "experts-small")
        self.assertEqual(out.returncode, 78, out.stderr)
        models = {model["method"]: model for model in json.loads(out.stdout)["models"]}
        self.assertIn("without experts", models["channels:0.5"]["refused"])
        self.assertEqual({name.rsplit(".", 1)[1] for name in models["2:4"]["left_whole"]}, {"expand", "contract"})
        whole = models["uncompressed"]
        # Of queries, of the projection, the gate's, whose 4 outputs have no kernel of four bits, and two of each expert.
        for method, linear in (("int8", 11), ("int8-weights", 11), ("int4-weights:32", 10)):
            model = models[method]
            self.assertEqual(model["left_whole"], [], method)
            self.assertGreater(model["ratio"], 2.5, method)
            self.assertLess(model["weight_bytes"], 0.5 * whole["weight_bytes"], method)
            self.assertNotEqual(model["figures"]["loss"], whole["figures"]["loss"], method)
            self.assertEqual(model["packed_layers"], linear, method)
        stored = tensors_of(Path(models["int8-weights"]["file"]))
        self.assertEqual(stored["block0.experts.expand..int8"][:2], ("I8", [4, 128, 32]))
        self.assertEqual(stored["block0.experts.expand..scale"][:2], ("F32", [4, 128]))
        for method in ("int8-weights", "int4-weights:32", "2:4"):
            self.expect_same_figures(self.evaluate(run, "--weights", models[method]["file"])["figures"], models[method]["figures"])

    def test_speed_is_measured_in_turns_and_fewer_bytes_lower_the_predicted_batch(self):
        out = self.autotrain("compress", "--run", self.folder / "run", "--methods", "int8,int8-weights,int4-weights", "--rounds", "2",
                             "--seconds", "0.01", "--batches", "1,4", "--output", self.folder / "fast")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("samples/s at 4", out.stdout)
        models = json.loads((self.folder / "fast" / "compress.json").read_text())["models"]
        whole = models[0]
        for model in models:
            self.assertEqual([rate["batch"] for rate in model["rates"]], [1, 4])
            self.assertTrue(all(rate["samples_per_second"] > 0 for rate in model["rates"]))
        for model in models[2:]:  # the same products in the same precision: b* follows the bytes
            self.assertAlmostEqual(model["predicted_batch"] / whole["predicted_batch"],
                                   model["weight_bytes"] / whole["weight_bytes"], places=6)
        self.assertLess(models[2]["weight_bytes"], 0.3 * whole["weight_bytes"])
        self.assertLess(models[3]["weight_bytes"], 0.23 * whole["weight_bytes"])
        self.assertEqual([model["packed_layers"] for model in models[:3]], [0, 2, 2])

    def test_models_from_pytorch_are_rounded_alike_and_not_pruned(self):
        for name, file in (("exported", "exported_small.autotrain"), ("torchscript", "scripted_small.pt")):
            recipe = json.loads(json.dumps(RECIPE))
            recipe["model"] = {"name": name, "file": str(FIXTURES / file)}
            for part in ("train", "validation"):
                recipe["data"][part]["shape"] = [3, 32, 32]
            run = self.train(name, recipe, "--set", "stop.updates=2")
            out = self.autotrain("compress", "--run", run, "--methods", "channels:0.5,int8-weights,int4-weights,2:4", "--rounds", "0",
                                 "--json", "--output", self.folder / f"{name}-small")
            self.assertEqual(out.returncode, 78, out.stderr)
            models = {model["method"]: model for model in json.loads(out.stdout)["models"]}
            self.assertIn(f"model {name}", models["channels:0.5"]["refused"])
            self.assertEqual(models["int8-weights"]["changed"], models["int4-weights"]["changed"])
            self.assertGreater(models["int8-weights"]["changed"], 0)
            for method in ("int8-weights", "int4-weights", "2:4"):
                self.expect_same_figures(self.evaluate(run, "--weights", models[method]["file"])["figures"], models[method]["figures"])
                self.assertGreater(models[method]["ratio"], 1)

    def test_scripted_modules_are_read_alike_whatever_waits_on_the_interpreters_stack(self):
        import torch

        class Residual(torch.nn.Module):
            def __init__(self, shortcut_first):
                super().__init__()
                self.shortcut_first = shortcut_first
                self.first, self.inner = torch.nn.Linear(432, 64), torch.nn.Linear(64, 64)
                self.outer, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 4)

            def forward(self, x):
                x = self.first(x.flatten(1))
                if self.shortcut_first:  # it waits while the other operand of the sum is computed
                    x = x + self.outer(torch.relu(self.inner(x)))
                else:
                    x = self.outer(torch.relu(self.inner(x))) + x
                return self.last(x)

        found = []
        for shortcut_first in (True, False):
            name = f"residual-{shortcut_first}"
            torch.jit.script(Residual(shortcut_first)).save(self.folder / f"{name}.pt")
            recipe = json.loads(json.dumps(RECIPE))
            recipe["model"] = {"name": "torchscript", "file": str(self.folder / f"{name}.pt")}
            for part in ("train", "validation"):
                recipe["data"][part].update(shape=[3, 12, 12], classes=4)
            run = self.train(name, recipe, "--set", "stop.updates=1")
            out = self.autotrain("compress", "--run", run, "--methods", "int8-weights,2:4", "--rounds", "0", "--json",
                                 "--output", self.folder / f"{name}-small")
            self.assertEqual(out.returncode, 0, out.stderr)
            found.append([[model[key] for key in ("changed", "flops_per_sample", "weight_bytes", "left_whole")]
                          for model in json.loads(out.stdout)["models"]])
        self.assertEqual(found[0], found[1])
        whole, rounded, _ = found[0]
        weights = 432 * 64 + 2 * 64 * 64 + 64 * 4
        self.assertEqual((rounded[0], whole[1], whole[2]), (4, 2 * weights, 4 * (weights + 3 * 64 + 4)))

    def test_files_that_the_run_is_read_with_are_not_replaced(self):
        kept = self.folder / "kept"
        kept.mkdir()
        file = kept / "channels-0.5.safetensors"
        shutil.copy(self.models["channels:0.5"]["file"], file)
        recipe = json.loads(json.dumps(RECIPE))
        recipe["model"]["weights"] = str(file)
        run = self.train("began-smaller", recipe, "--set", "stop.updates=1")
        checkpoint = self.weights_of("began-smaller", 1)
        for command in (("compress", "--run", run, "--methods", "int8-weights,channels:0.5", "--rounds", "0", "--output", kept),
                        ("export", "--run", run, "--output", file), ("export", "--run", run, "--output", checkpoint)):
            before = file.read_bytes(), checkpoint.read_bytes()
            out = self.autotrain(*command, "--overwrite")
            self.assertEqual(out.returncode, 64, out.stderr)
            self.assertIn("give another --output", out.stderr)
            self.assertEqual((file.read_bytes(), checkpoint.read_bytes()), before)
        self.assertEqual([path.name for path in kept.iterdir()], [file.name], "nothing was begun")
        self.evaluate(run)

    def test_what_is_wrong_is_said(self):
        run = self.folder / "run"
        for arguments, code, message in (
            (("--methods", "int7", "--output", self.folder / "x"), 64, "int8-weights"),
            (("--output", self.folder / "small"), 64, "--overwrite"),
            (("--output", self.folder / "run.yaml"), 64, "is a file"),
            (("--batches", "0", "--output", self.folder / "x"), 64, "--batches"),
        ):
            out = self.autotrain("compress", "--run", run, *arguments)
            self.assertEqual(out.returncode, code, out.stderr)
            self.assertIn(message, out.stderr)
        out = self.autotrain("evaluate", "--run", run, "--weights", self.folder / "nothing.safetensors")
        self.assertEqual(out.returncode, 66, out.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
