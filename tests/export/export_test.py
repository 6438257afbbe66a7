#!/usr/bin/env python3
"""PyTorch modules are exported, trained here and taken back, and compute what they compute in Python.

    export_test.py path/to/autotrain path/to/project
"""
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode

BINARY, PROJECT = (Path(argument).resolve() for argument in sys.argv[1:3])
sys.path[:0] = [str(PROJECT / "scripts" / "python"), str(Path(__file__).parent)]

import models  # noqa: E402
from autotrain_export import ExportError, export  # noqa: E402
from autotrain_export.checking import Trial, _compare, check, other_last_bits, scale_of  # noqa: E402
from autotrain_export.example import Examples  # noqa: E402
from autotrain_export.half import PRODUCTS, QuickProducts  # noqa: E402
from autotrain_export.subject import take_apart  # noqa: E402
from autotrain_export.tracing import trace_evaluation, trace_training  # noqa: E402
from strange_models import LearnsInLargeSteps  # noqa: E402

torch.set_num_threads(1)
IMAGES = "float32[4,3,12,12]"
TOKENS = "int64[4,16]<24"
SAMPLES, EFFECTIVE = 192, 48
FILES = {}  # exported already, for many tests begin with the same one


def made(maker, seed=0):
    torch.manual_seed(seed)
    return maker()


def write_data(folder):
    """Images of five classes, and a walk of tokens, as the data sets npy and tokens read them."""
    rng = numpy.random.default_rng(0)
    classes = rng.integers(0, 5, SAMPLES)
    images = rng.normal(size=(SAMPLES, 3, 12, 12)).astype("float32") + classes[:, None, None, None].astype("float32") / 4
    numpy.save(folder / "images.npy", images)
    numpy.save(folder / "classes.npy", classes)
    walk = numpy.cumsum(rng.integers(1, 4, SAMPLES * 16 + 1)) % 24
    (folder / "walk.bin").write_bytes(walk.astype("<u2").tobytes())
    windows = torch.from_numpy(walk[:-1].astype("int64")).view(SAMPLES, 16)
    following = torch.from_numpy(walk[1:].astype("int64")).view(SAMPLES, 16)
    return {"images": (torch.from_numpy(images), torch.from_numpy(classes)), "tokens": (windows, following)}


def line_of(code):
    """The number of the line of models.py that has the code."""
    return next(number for number, line in enumerate(Path(models.__file__).read_text().splitlines(), 1) if code in line)


class Exported(unittest.TestCase):
    def setUp(self):
        self.parent = tempfile.TemporaryDirectory()
        self.addCleanup(self.parent.cleanup)
        self.folder = Path(self.parent.name)
        self.data = write_data(self.folder)

    def recipe(self, kind, **sections):
        train = ({"dataset": "npy", "inputs": str(self.folder / "images.npy"), "targets": str(self.folder / "classes.npy")}
                 if kind == "images" else
                 {"dataset": "tokens", "files": [str(self.folder / "walk.bin")], "vocabulary": 24, "context": 16})
        recipe = {
            "seed": 1,
            "data": {"shuffle": False, "train": train, "validation": train},
            "model": {"name": "exported", "file": str(self.folder / "m.autotrain")},
            "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "reference_batch": EFFECTIVE},
            "batch": {"effective": EFFECTIVE},
            "stop": {"updates": 100},
            "evaluation": {"micro_batch": 32},
            "execution": {"precision": "fp32", "micro_batch": EFFECTIVE, "threads": 1, "memory": {"budget": "256MiB"}},
            "checkpoint": {"every": "50 updates"},
        }
        for name, section in sections.items():
            recipe[name] = {**recipe.get(name, {}), **section}
        path = self.folder / "recipe.yaml"
        path.write_text(json.dumps(recipe))  # which is YAML, too
        return path

    def autotrain(self, *arguments):
        return subprocess.run([BINARY, *arguments], capture_output=True, text=True, env={**os.environ, "CI": "1"})

    def train(self, recipe, run="run"):
        out = self.autotrain("--config", recipe, "--output", self.folder / run, "--quiet")
        self.assertEqual(out.returncode, 0, out.stderr)
        rows = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return [row for row in rows if row["kind"] == "update"]

    def weights(self, run="run"):
        newest = max((self.folder / run / "checkpoints").glob("update-*"), key=lambda path: int(path.name.split("-")[1]))
        return load_file(newest / "model.safetensors")

    def exported(self, maker, example, wholly=True, **options):
        net, file = made(maker), self.folder / "m.autotrain"
        what = (maker, example, repr(sorted(options.items())))
        if what not in FILES:
            export(copy.deepcopy(net), example, file, **options)
            FILES[what] = file.read_bytes()
        file.write_bytes(FILES[what])
        return net.train() if wholly else net


def losses_in_python(net, data, updates, rate, momentum, predict):
    """The losses of plain SGD in PyTorch, on the same samples in the same order."""
    inputs, targets = data
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], rate, momentum=momentum)
    losses = []
    for update in range(updates):
        first = update * EFFECTIVE % SAMPLES
        prediction = predict(net(inputs[first:first + EFFECTIVE]))
        loss = torch.nn.functional.cross_entropy(prediction.flatten(0, -2), targets[first:first + EFFECTIVE].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def plain(output):
    return output


def logits(output):
    return output["logits"]


class Training(Exported):
    CASES = {
        "mlp": (models.mlp, IMAGES, "images", plain, {}),
        "wide": (models.wide, IMAGES, "images", plain, {}),
        "convolutional": (models.convolutional, IMAGES, "images", plain, {}),
        "residual": (models.Residual, IMAGES, "images", plain, {}),
        "segmenter": (models.Segmenter, IMAGES, "images", plain, {}),
        "recurrent": (models.Recurrent, IMAGES, "images", plain, {}),
        "tokens": (models.tokens, TOKENS, "tokens", logits, {"output_part": "logits"}),
    }

    def test_a_hundred_updates_follow_the_same_loop_in_python_and_the_weights_go_back(self):
        for name, (maker, example, kind, predict, options) in self.CASES.items():
            with self.subTest(model=name):
                net = self.exported(maker, example, **options)
                rows = self.train(self.recipe(kind), f"run-{name}")
                expected = losses_in_python(net, self.data[kind], len(rows), 0.01, 0.9, predict)
                self.assertEqual(len(rows), 100)
                for row, loss in zip(rows, expected):
                    self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
                self.check_weights(maker, net, self.data[kind][0], predict, f"run-{name}")

    def check_weights(self, maker, trained, inputs, predict, run):
        """What Python loads from our checkpoint predicts as what it trained itself."""
        loaded = made(maker, seed=5)
        # Of tied weights one name is written, as safetensors.torch.save_model does it.
        left_out = loaded.load_state_dict(self.weights(run), strict=False)
        tied = {"head.weight"} if isinstance(loaded, models.Tokens) else set()
        self.assertEqual((set(left_out.missing_keys), left_out.unexpected_keys), (tied, []))
        with torch.no_grad():
            ours, theirs = predict(loaded.eval()(inputs[:16])), predict(trained.eval()(inputs[:16]))
        self.assertLess((ours - theirs).abs().max().item(), 1e-3 * theirs.abs().max().item())

    def test_the_gradient_of_a_first_window_is_eager_s(self):
        for name, (maker, example, kind, predict, options) in self.CASES.items():
            with self.subTest(model=name):
                net = self.exported(maker, example, **options)
                before = {key: value.clone() for key, value in net.state_dict().items()}
                # A rate of 1 without momentum: the weights move by the gradient. Cut into four, but for batch normalisation.
                cut = EFFECTIVE if name in ("convolutional", "segmenter") else EFFECTIVE // 4
                self.train(self.recipe(kind, stop={"updates": 1}, optimizer={"lr": 1.0, "momentum": 0.0},
                                       execution={"precision": "fp32", "micro_batch": cut, "threads": 1}), f"first-{name}")
                inputs, targets = self.data[kind]
                prediction = predict(net(inputs[:EFFECTIVE]))
                torch.nn.functional.cross_entropy(prediction.flatten(0, -2), targets[:EFFECTIVE].flatten()).backward()
                after = self.weights(f"first-{name}")
                for key, parameter in net.named_parameters():
                    moved = before[key] - after[key]
                    wanted = torch.zeros_like(moved) if parameter.grad is None else parameter.grad
                    self.assertLess((moved - wanted).abs().max().item(), 1e-5 * max(1, before[key].abs().max().item()), key)

    def test_dropout_in_half_precision_searches_recovers_and_resumes_to_the_same_bits(self):
        self.exported(models.dropping_tokens, TOKENS, output_part="logits")
        recipe = self.recipe("tokens", execution={"precision": "bf16", "micro_batch": "auto", "memory": {"budget": "64MiB"}})
        out = self.autotrain("verify", "--config", recipe, "--updates", "8", "--kills", "2")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        for line in ("searched, not typed in", "killed and resumed", "out of memory once", "searched by 2 ranks, not typed in"):
            self.assertRegex(out.stdout, rf"{line}\s+same bits")

    def test_batch_normalisation_and_dropout_likewise(self):
        self.exported(models.Dropping, IMAGES)
        out = self.autotrain("verify", "--config", self.recipe("images"), "--updates", "8", "--kills", "2")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertRegex(out.stdout, r"several ranks\s+not tried\s+batch normalisation")

    def test_frozen_parameters_stay_and_have_no_optimizer_state(self):
        net = self.exported(models.tokens, TOKENS, output_part="logits")
        self.train(self.recipe("tokens", stop={"updates": 3}))
        self.assertTrue(torch.equal(self.weights()["position.weight"], net.position.weight))
        states = load_file(next((self.folder / "run" / "checkpoints").glob("update-3")) / "optimizer.safetensors")
        self.assertFalse([name for name in states if "position" in name])
        self.assertTrue([name for name in states if "token.weight" in name])


    def test_another_model_file_is_noticed(self):
        self.exported(models.Residual, IMAGES)
        recipe = self.recipe("images", stop={"updates": 4}, checkpoint={"every": "1 update", "keep": 4})
        self.train(recipe)
        shutil.rmtree(self.folder / "run" / "checkpoints" / "update-4")
        export(made(models.Residual, seed=9), IMAGES, self.folder / "m.autotrain")
        out = self.autotrain("evaluate", "--run", self.folder / "run")
        self.assertEqual(out.returncode, 65, out.stderr)
        self.assertIn("is not the file that the run was trained with", out.stderr)
        out = self.autotrain("--config", recipe, "--output", self.folder / "run", "--resume")
        self.assertIn("model's file is", out.stderr + out.stdout)

    def test_too_few_classes_are_told_before_training(self):
        torch.manual_seed(0)
        export(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(432, 4)), IMAGES, self.folder / "m.autotrain")
        out = self.autotrain("plan", "--config", self.recipe("images"))
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("predicts 4 classes; data.train has 5", out.stderr)

    def test_a_file_of_one_precision_is_enough(self):
        self.exported(models.mlp, IMAGES, precisions=["bf16"])
        self.train(self.recipe("images", stop={"updates": 2}, execution={"precision": "bf16", "micro_batch": EFFECTIVE // 2}))
        for precision in ("fp32", "bf16"):  # one of them is not what this machine would take
            self.exported(models.mlp, IMAGES, precisions=[precision])
            self.train(self.recipe("images", stop={"updates": 2}, execution={"precision": "auto"}), f"auto-{precision}")
            plan = json.loads((self.folder / f"auto-{precision}" / "plan.json").read_text())
            self.assertEqual(plan["precision"], precision)
        self.exported(models.mlp, IMAGES, precisions=["fp32"])
        recipe = self.recipe("images", execution={"micro_batch": "auto", "memory": {"budget": "150KiB"}})
        out = self.autotrain("plan", "--config", recipe)
        self.assertEqual(out.returncode, 71, out.stderr)

    def test_a_sweep_measures_it_in_its_precisions(self):
        self.exported(models.mlp, IMAGES)
        out = self.autotrain("sweep", "--config", self.recipe("images", sweep={}), "--batches", "1,4", "--vary", "execution.precision=fp32,bf16",
                             "--set", "sweep.rounds=1", "--set", "sweep.max_seconds=0.1", "--output", self.folder / "sweep", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        points = [point for variant in json.loads(out.stdout)["variants"] for point in variant["points"]]
        self.assertEqual([point["failure"] for point in points], [None] * 4)

    def test_a_number_that_is_taken_out_of_tensors_is_computed_each_time(self):
        net, said = made(models.ByItsLargest), []
        export(net, IMAGES, self.folder / "m.autotrain", precisions=["fp32"], say=said.append)
        self.assertIn("depends on what else is in its batch", said[-1])
        recipe = self.recipe("images", stop={"updates": 8})
        losses = [row["loss"] for row in self.train(recipe)]
        ours = losses_in_python(net, self.data["images"], 8, 0.01, 0.9, plain)
        for mine, theirs in zip(losses, ours):
            self.assertAlmostEqual(mine, theirs, delta=1e-5)

    def test_a_frozen_body_keeps_its_statistics(self):
        net = self.exported(models.FrozenBody, IMAGES, wholly=False)
        before = {key: value.clone() for key, value in net.state_dict().items()}
        self.train(self.recipe("images", stop={"updates": 5}))
        for key, value in self.weights().items():
            self.assertEqual(torch.equal(value, before[key]), key.startswith("body."), key)

    def test_weights_of_a_run_begin_another_with_a_part_frozen(self):
        self.exported(models.mlp, IMAGES)
        self.train(self.recipe("images", stop={"updates": 5}), "first")
        first = self.weights("first")
        newest = self.folder / "first" / "checkpoints" / "update-5" / "model.safetensors"
        self.train(self.recipe("images", stop={"updates": 3}, model={"freeze": ["1.*", "3.*"], "weights": str(newest)}), "second")
        for key, value in self.weights("second").items():
            self.assertEqual(torch.equal(value, first[key]), not key.startswith("5."), key)

    def test_statistics_of_an_exported_model_are_not_frozen_here(self):
        self.exported(models.convolutional, IMAGES)
        out = self.autotrain("plan", "--config", self.recipe("images", model={"freeze": ["1.*"]}))
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("freeze it in Python", out.stderr)


class Supported(Exported):
    """Habits of PyTorch's users that say how to compute, and not what: their gradients are eager's, from other weights than the first."""

    CASES = {
        "checkpoints": (models.Checkpoints, IMAGES),
        "checkpoints reentrantly": (models.checkpoints_reentrantly, IMAGES),
        "three names": (models.ThreeNames, TOKENS),
        "a list of weights": (models.ListOfWeights, "float32[4,8]"),
        "a view of a weight": (models.ViewOfAWeight, "float32[4,8]"),
        "keeps a weight": (models.KeepsAWeight, "float32[4,8]"),
        "weight norm of old": (models.weight_norm_of_old, "float32[4,8]"),
        "a sparse table": (models.SparseTable, TOKENS),
        "a compiled part": (models.compiled_part, "float32[4,8]"),
        "a target mask": (models.TargetMask, TOKENS),
        "a known mask": (models.KnownMask, "float32[4,8]"),
        "dropout between layers": (models.DropsBetweenLayers, "float32[4,3,8]"),
        "dropout between layers, both ways": (models.drops_between_layers_both_ways, "float32[4,3,8]"),
        "arithmetic of sizes": (models.ArithmeticOfSizes, "float32[4,8]"),
        "auxiliary heads": (models.AuxiliaryHeads, "float32[4,8]"),
        "a table of complex numbers": (models.TurnsByComplexNumbers, "float32[4,8]"),
        "frequencies": (models.SplitsByFrequency, "float32[4,8]"),
        "places in images": (models.LooksElsewhere, IMAGES),
        "places in space": (models.LooksElsewhereInSpace, "float32[4,8]"),
        "a hook": (models.KeepsByAHook, "float32[4,8]"),
        "distributions": (models.Likely, "float32[4,8]"),
        "a number of the inputs": (models.ByItsLargest, IMAGES),
        "a number of the weights": (models.TakesANumberOut, "float32[4,8]"),
    }

    def test_they_are_exported_in_both_precisions_and_read(self):
        for name, (maker, example) in self.CASES.items():
            with self.subTest(case=name):
                options = {"output_part": "logits"} if name == "auxiliary heads" else {}
                target, said = self.folder / "m.autotrain", []
                export(made(maker), example, target, say=said.append, **options)
                self.assertIn("from other weights", said[0])
                self.assertEqual("depends on what else" in said[-1], name in ("a number of the inputs", "arithmetic of sizes"), said)
                self.read(target)

    def read(self, file):
        """The program reads the graphs before it finds that its data are others."""
        out = self.autotrain("plan", "--config", self.recipe("images", model={"file": str(file)}))
        self.assertTrue(out.returncode in (0, 78) and "cannot be run" not in out.stderr, out.stderr)

    def test_names_of_one_tensor_are_written_once(self):
        export(made(models.ThreeNames), TOKENS, self.folder / "m.autotrain", precisions=["fp32"])
        with safe_open(self.folder / "m.autotrain", "pt") as opened:
            document = json.loads(opened.metadata()["autotrain_model"])
        self.assertEqual(document["other_names"], {"encoder.token.weight": "token.weight", "head.weight": "token.weight"})

    def test_checkpoint_computes_again_once_it_is_exported(self):
        before = torch.utils.checkpoint.CheckpointFunction
        export(made(models.Checkpoints), IMAGES, self.folder / "m.autotrain", precisions=["fp32"])
        self.assertIs(torch.utils.checkpoint.CheckpointFunction, before)

    def test_a_random_loss_is_known_for_a_sum(self):
        said = []
        export(made(models.RandomLoss), "float32[4,8]", self.folder / "m.autotrain", loss=True, precisions=["fp32"], say=said.append)
        self.assertIn("the sum of its samples' losses", said[-1])
        self.assertIn("a run learns from their mean", said[-1])

    def test_weights_are_put_back_to_the_bit_when_the_check_refuses(self):
        net = made(models.KeepsAnAverage)
        before = {key: value.clone() for key, value in net.state_dict().items()}
        with self.assertRaises(ExportError):
            export(net, "float32[4,8]", self.folder / "m.autotrain")
        for key, value in net.state_dict().items():
            self.assertTrue(torch.equal(value, before[key]), key)
        self.assertEqual([path.name for path in self.folder.glob("*.part")], [])


class Refusals(Exported):
    def test_what_cannot_be_exported_is_not_written(self):
        cases = {
            "lacks a tensor": (models.tokens, TOKENS, {}, "--output-part names the part"),
            "has no such part": (models.tokens, TOKENS, {"output_part": "loss"}, "has no part loss: it is a dictionary of hidden, logits"),
            "branches on values": (models.BranchesOnValues, "float32[4,8]", {}, "models.py:%d: return" % line_of("if x.sum() > 0")),
            "takes a number out": (models.BranchesOnANumber, "float32[4,8]", {}, "models.py:%d: return" % line_of("if most > 3 else")),
            "complex weight": (models.ComplexWeight, "float32[4,8]", {}, "parameter weight is complex64"),
            "complex buffer": (models.saves_complex_numbers, "float32[4,8]", {}, "buffer turns is complex64, which no model file holds"),
            "packs sequences": (models.PacksSequences, "float32[4,3,8]", {}, "models.py:%d: packed = " % line_of("packed = nn.utils")),
            "pairs of samples": (models.PairsOfSamples, "float32[4,8]", {}, "mixes the samples"),
            "asserts": (models.Asserts, "float32[4,8]", {}, "models.py:%d: assert not" % line_of('"numbers only"')),
            "quantises": (models.Quantised, "float32[4,8]", {}, "models.py:%d: its forward pass (in Quantised)" % (line_of("return self.body(x) * 2") - 1)),
            "spreads batches": (models.spreads_batches, "float32[4,8]", {}, "Export what it wraps, net.0.module"),
            "a scripted part": (models.scripted_part, "float32[4,8]", {}, "part 0 is a TorchScript module"),
            "breaks": (models.Breaks, "float32[4,8]", {}, "KeyError"),
            "assigns a buffer": (models.KeepsAnAverage, "float32[4,8]", {}, "buffer mean in its forward pass, which a graph does not see:\n  "),
            "pools by fractions": (models.pools_by_fractions, IMAGES, {}, "by aten.fractional_max_pool2d_backward"),
            "no momentum": (models.normalises_without_momentum, IMAGES, {}, "models.py:%d: return" % line_of("return this.out(")),
            "NumPy": (models.ComputesWithNumPy, "float32[4,8]", {}, "models.py:%d: return" % line_of("x.numpy()")),
            "fixes a view": (models.FixesTheView, "float32[4,8]", {}, "fixes the size of the batch: RuntimeError: shape '[4, 2, 4]' is invalid for input of size 8*n"),
            "sparse tensors": (models.MultipliesBySparse, "float32[4,8]", {}, "computes with sparse tensors"),
            "max_norm": (models.ScalesItsWords, TOKENS, {}, "leave max_norm out"),
            "ctc": (models.AlignsByCtc, "float32[4,9,3]", {"loss": True, "targets": "int64[4,3]<4"}, "models.py:%d: return" % line_of("return nn.functional.ctc_loss")),
            "keeps a table of weights": (models.KeepsATableOfWeights, "float32[4,8]", {}, "tensors in attributes"),
            "copies a weight": (models.CopiesAWeight, "float32[4,8]", {}, "without that being its parameter"),
            "has a hook": (models.Hooked, "float32[4,8]", {}, "has a hook"),
            "shares memory": (models.SharesMemory, "float32[4,8]", {}, "share their memory"),
            "other for large batches": (models.AnotherForLargeBatches, "float32[4,8]", {}, "batches of more than 499"),
            "no folder": (models.mlp, IMAGES, {}, "its folder does not exist"),
            "no bound": (models.tokens, "int64[4,16]", {}, "say below what number"),
            "no precision": (models.mlp, IMAGES, {"precisions": []}, "name at least one"),
            "fixes the batch": (models.FixesTheBatch, "float32[4,8]", {}, "models.py:%d: return" % line_of(".view(4, 2)")),
            "mixes samples": (models.MixesSamples, "float32[4,8]", {}, "one result"),
            "draws elsewhere": (models.RandomOutsideOfPyTorch, "float32[4,8]", {}, "models.py:%d: " % line_of("return self.out(x) * random.random()")),
            "returns classes": (models.ReturnsClasses, "float32[4,8]", {}, "no gradient"),
            "half parameters": (models.HalfParameters, "float32[4,8]", {}, "parameter out.weight is torch.bfloat16"),
            "one sample": (models.mlp, "float32[1,3,12,12]", {}, "at least 2"),
            "no shape": (models.mlp, "float32", {}, "expected a type"),
            "other shape": (models.mlp, "float32[4,3,9,9]", {}, "does not take a batch like the example"),
            "other precision": (models.mlp, IMAGES, {"precisions": ["fp8"]}, "expected fp32, bf16, fp16"),
        }
        for name, (maker, example, options, message) in cases.items():
            with self.subTest(case=name):
                target = self.folder / ("nowhere/m" if name == "no folder" else "refused.autotrain")
                with self.assertRaises(ExportError) as caught:
                    export(made(maker), example, target, **options)
                self.assertIn(message, str(caught.exception))
                self.assertFalse(target.exists())

    def test_python_s_random_numbers_are_seen_whatever_was_drawn_before(self):
        for seed in (None, *range(12)):
            random.seed(seed)
            before = random.getstate()
            with self.assertRaises(ExportError) as caught:
                export(made(models.RandomOutsideOfPyTorch), "float32[4,8]", self.folder / "m.autotrain", precisions=["fp32"])
            self.assertIn("Python's random numbers", str(caught.exception))
            self.assertEqual(random.getstate(), before)

    def test_the_command_says_what_is_wrong_and_where(self):
        for source, message in (("nowhere:mlp", "No module named"), ("models:missing", "missing"), ("models", "module:name")):
            out = subprocess.run([sys.executable, "-m", "autotrain_export", source, "--example", IMAGES, "--output", "m.autotrain"],
                                 capture_output=True, text=True, cwd=Path(__file__).parent,
                                 env={**os.environ, "PYTHONPATH": str(PROJECT / "scripts" / "python")})
            self.assertEqual(out.returncode, 65, out.stderr)
            self.assertIn(message, out.stderr)


class Computed(TorchDispatchMode):
    """Notes in what types products are computed."""

    def __init__(self):
        super().__init__()
        self.types = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in PRODUCTS:
            self.types.append(args[0].dtype)
        return function(*args, **(kwargs or {}))


class Checking(unittest.TestCase):
    def test_a_small_number_among_few_makes_no_outliers_of_the_others(self):
        for masked in (None, -1e9, float("-inf")):
            theirs = torch.tensor([1e-5, 0.3, -1.0, 0.2, 0.5] + ([] if masked is None else [masked] * 3))
            ours = theirs + torch.where(theirs.abs() > 2, 0.0, 1e-3)
            self.assertEqual(scale_of(ours, theirs), 1.0, masked)

    def test_a_wrong_gradient_is_seen_among_those_that_are_let_go_of_and_beside_much_larger_ones(self):
        for maker, example in ((models.mlp, IMAGES), (LearnsInLargeSteps, "float32[4,8]")):
            subject = take_apart(made(maker), examples := Examples.parse(example))
            graphs = {"training": trace_training(subject, examples, "fp32"), "evaluation": trace_evaluation(subject, examples, "fp32")}
            self.assertEqual(check(graphs, subject, examples, Trial((2, 3), 2), "fp32"), 0)
            graph = graphs["training"].graph
            (results,) = (node for node in graph.nodes if node.op == "output")
            for place in range(1, len(results.args[0])):
                right = results.args[0][place]
                with graph.inserting_before(results):
                    wrong = graph.call_function(torch.ops.aten.mul.Scalar, (right, 1.001))
                results.args = ([*results.args[0][:place], wrong, *results.args[0][place + 1 :]],)
                with self.assertRaisesRegex(ExportError, "gradients differ"):
                    check(graphs, subject, examples, Trial((2,)), "fp32")
                results.args = ([*results.args[0][:place], right, *results.args[0][place + 1 :]],)

    def test_a_wrong_graph_in_half_precision_is_refused_whatever_precision_the_caller_has(self):
        """Weights that autocast has kept in half precision from the pass before would make the module as far from itself."""
        module, traces = sys.modules["autotrain_export.export"], []

        def wrong(*arguments):
            graphs = right(*arguments)
            if arguments[2] == "bf16":
                graph = graphs["training"].graph
                (results,) = (node for node in graph.nodes if node.op == "output")
                output, *gradients = results.args[0]
                with graph.inserting_before(results):
                    results.args = ([output, *(graph.call_function(torch.ops.aten.mul.Scalar, (each, 1.1)) for each in gradients)],)
                graphs["training"].recompile()
                traces.append(graph)
            return graphs

        right = module._trace
        for mode in (nullcontext(), torch.autocast("cpu", enabled=False), torch.autocast("cpu", torch.bfloat16)):
            with mode, tempfile.TemporaryDirectory() as folder, mock.patch.object(module, "_trace", wrong):
                with self.assertRaisesRegex(ExportError, "gradients differ"):
                    export(made(models.mlp), IMAGES, Path(folder, "m.autotrain"))
        self.assertEqual(len(traces), 3)

    def test_last_bits_are_turned_and_turned_back(self):
        values = torch.cat([torch.randn(1000), torch.tensor([0.0, -0.0, 1e-45, 1.1754943508222875e-38, 3.4e38, float("inf"), float("nan")])])
        with other_last_bits([other := values.clone()]):
            changed = (other != values) & ~values.isnan()
        self.assertEqual((changed[:1000].all().item(), changed[1000:].tolist()), (True, [False, False, False, True, True, False, False]))
        self.assertTrue(torch.equal(other.view(torch.int32), values.view(torch.int32)))

    def test_roundings_are_taken_where_they_are_the_module_s_own(self):
        """Of a difference of large numbers; one that is a thousand times as large is none."""
        torch.manual_seed(0)
        theirs = torch.randn(64)
        ours, rounded = theirs + 1e-3 * torch.randn(64), theirs + 1e-3 * torch.randn(64)
        with self.assertRaises(ExportError):
            _compare("outputs", [ours], [theirs], None, "fp32")
        self.assertGreater(_compare("outputs", [ours], [theirs], [(rounded, theirs)], "fp32"), 0)
        with self.assertRaises(ExportError):
            _compare("outputs", [theirs + 1], [theirs], [(rounded, theirs)], "fp32")

    def test_products_in_half_precision_are_those_of_float32_rounded(self):
        torch.manual_seed(0)
        a, b, images, kernel = torch.randn(9, 64), torch.randn(64, 7), torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
        for run, arguments in ((torch.mm, (a, b)), (torch.nn.functional.conv2d, (images, kernel))):
            half = [each.bfloat16() for each in arguments]
            with Computed() as computed, QuickProducts():
                result = run(*half)
            self.assertEqual((computed.types, result.dtype), ([torch.float32], torch.bfloat16))
            self.assertTrue(torch.equal(result, run(*(each.float() for each in half)).bfloat16()))

    def test_a_gradient_of_the_other_sign_is_seen_beside_one_that_is_noise(self):
        torch.manual_seed(0)
        right, noise = torch.randn(8, 8), 1e-9 * torch.randn(8)
        theirs, exact = [right + 1e-3 * torch.randn(8, 8), noise], [right, torch.zeros(8)]
        passes = list(zip(theirs, exact))
        for precision in ("fp32", "bf16"):
            for wrong in (-right, torch.zeros(8, 8)):
                with self.assertRaises(ExportError):
                    _compare("gradients", [wrong, -noise], theirs, passes, precision)
            self.assertLess(_compare("gradients", [theirs[0], -noise], theirs, passes, precision), 1e-6)

    def test_the_user_s_module_and_random_numbers_are_left_as_they_were(self):
        net = made(models.Dropping).train()
        before, state = {key: value.clone() for key, value in net.state_dict().items()}, torch.get_rng_state()
        with tempfile.TemporaryDirectory() as folder:
            export(net, IMAGES, Path(folder, "m.autotrain"), precisions=["fp32"])
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        self.assertTrue(all(part.training for part in net.modules()))
        for key, value in net.state_dict().items():
            self.assertTrue(torch.equal(value, before[key]), key)


class HostileFiles(Exported):
    """A file that is none, or was changed, is refused before any operator runs."""

    def setUp(self):
        super().setUp()
        self.exported(models.mlp, IMAGES)
        self.file = self.folder / "m.autotrain"
        self.good = self.file.read_bytes()
        self.tensors = load_file(self.file)
        with safe_open(self.file, "pt") as opened:
            self.document = json.loads(opened.metadata()["autotrain_model"])
        self.config = self.recipe("images")

    def write(self, change_document=lambda document: None, change_tensors=lambda tensors: None):
        """Writes the file again, changed, with right checksums of the document."""
        document, tensors = copy.deepcopy(self.document), dict(self.tensors)
        change_document(document)
        change_tensors(tensors)
        text = json.dumps(document)
        save_file(tensors, self.file, metadata={"autotrain_model": text, "autotrain_model_crc32": str(zlib.crc32(text.encode()))})

    def refused(self, message, code=65):
        out = self.autotrain("plan", "--config", self.config)
        self.assertEqual(out.returncode, code, out.stderr)
        self.assertIn(message, out.stderr)
        self.assertIn("m.autotrain", out.stderr)

    def nodes(self, document):
        return document["graphs"]["fp32"]["training"]["nodes"]

    def test_the_good_file_is_taken(self):
        self.write()
        out = self.autotrain("plan", "--config", self.config)
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_files_that_are_damaged_or_none(self):
        self.file.unlink()
        self.refused("there is no such file", code=66)
        self.file.write_bytes(b"")
        self.refused("shorter than a header length")
        self.file.write_bytes(self.good[:-20])
        self.refused("which is not its shape and type")
        self.file.write_bytes(numpy.random.default_rng(0).bytes(5000))
        self.refused("claims a header")
        save_file(self.tensors, self.file)
        self.refused("holds tensors but no model")
        flipped = bytearray(self.good)
        flipped[-5] ^= 1
        self.file.write_bytes(flipped)
        self.refused("has another checksum")
        self.file.write_bytes(self.good.replace(b"aten::addmm", b"aten::addmv", 1))
        self.refused("its description has another checksum")

    def test_descriptions_that_do_not_hold_together(self):
        def change(path, value):
            def apply(document):
                *parents, last = path
                for key in parents:
                    document = document[key]
                document[last] = value
            return apply

        training = ("graphs", "fp32", "training")
        first = (*training, "nodes", 1)
        cases = {
            ("format",): (7, "is of format 7; this program reads format 2"),
            ("torch",): ("2.4.1+cpu", "was exported by PyTorch 2.4.1"),
            ("graphs",): ({}, "has no graphs"),
            ("constants",): (2, 'lacks the tensor "constant 0"'),
            ("parameters",): ([], "which no graph is given"),
            ("inputs",): ({"shape": "all"}, "has a description that cannot be read"),
            ("inputs", 0, "dtype"): ("complex64", "is the type"),
            ("loss",): ("median", "has a loss of the reduction"),
            (*training, "prediction"): (10**9, "which is not made yet"),
            (*training, "gradients"): ([1], "1 gradients for 6 parameters"),
            (*first, "op"): ("aten::from_file", "is no operator that a model file may use"),
            (*training, "nodes", 0, "op"): ("prim::Print", "is no operator that a model file may use"),
            (*training, "nodes", 2, "op"): ("trunc", "is no operator on sizes that is known here"),
            (*first, "overload"): ("Nowhere", "is no operator of this LibTorch"),
            (*first, "args"): ([{"v": 10**6}], "which is not made yet"),
            (*first, "out"): ([0], "makes another value than number"),
        }
        for path, (value, message) in cases.items():
            with self.subTest(path=path):
                self.write(change(path, value))
                self.refused(message)

    def test_graphs_that_write_where_they_must_not(self):
        self.write(lambda document: self.nodes(document).append(
            {"op": "aten::zero_", "overload": "", "args": [{"v": 0}], "out": [None]}))
        self.refused("is written to, a parameter, a constant or the inputs")

    def test_another_run_than_it_was_exported_for(self):
        export(made(models.mlp), IMAGES, self.file, precisions=["bf16"])
        out = self.autotrain("plan", "--config", self.config)
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("has no graphs for fp32", out.stderr)
        torch.manual_seed(0)
        export(torch.nn.Linear(7, 5), "float32[4,7]", self.file)
        out = self.autotrain("plan", "--config", self.config)
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("takes samples of Float of the shape [7]; those of data.train are Float of the shape [3, 12, 12]", out.stderr)
        export(torch.nn.Embedding(9, 5), "int64[4,7]<9", self.file)
        out = self.autotrain("plan", "--config", self.config)
        self.assertEqual(out.returncode, 78, out.stderr)
        self.assertIn("arrays: [input=FILE.npy] in its place", " ".join(out.stderr.split()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
