#!/usr/bin/env python3
"""What strangers' modules do is followed, or refused with its place and with what to do.

    strangers_test.py path/to/autotrain path/to/project [Followed|Refused]
"""
import copy
import errno
import io
import json
import random
import sys
import unittest
from contextlib import redirect_stderr
from pathlib import Path

import numpy
import strange_models as models
import torch
from export_test import EFFECTIVE, IMAGES, TOKENS, Exported, losses_in_python, made, plain
from torch import nn, quantile
from torch.nn import functional as F

from safetensors.torch import load_file

from autotrain_export import ExportError, export
from autotrain_export.__main__ import main
from autotrain_export.known import Known

VALUES = "float32[4,8]"


def line_of(code):
    """The place of a line of strange_models.py that has the code, as refusals name it."""
    lines = Path(models.__file__).read_text().splitlines()
    return f"strange_models.py:{next(number for number, line in enumerate(lines, 1) if code in line)}: "


def forward_of(kind):
    return f"its forward pass (in {kind.__name__})"


class Followed(Exported):
    CASES = {"images": (models.WritesToItsImages, IMAGES, "images"), "tokens": (models.WritesToItsTokens, TOKENS, "tokens"),
             "memory": (models.LiesOtherwise, IMAGES, "images")}  # fmt: skip

    def test_inputs_that_are_written_to_and_weights_that_lie_otherwise_train_as_in_python(self):
        for name, (maker, example, kind) in self.CASES.items():
            net = self.exported(maker, example, precisions=["fp32"])
            rows = self.train(self.recipe(kind, stop={"updates": 4}), f"run-{name}")
            inputs, targets = self.data[kind]
            expected = losses_in_python(net, (inputs.clone(), targets), 4, 0.01, 0.9, plain)
            for row, loss in zip(rows, expected):
                self.assertAlmostEqual(row["loss"], loss, delta=1e-5)

    FUNCTIONS = {
        "numbers by their places": lambda h: torch.take_along_dim(h, h.argsort(1), 1),
        "one row by its places": lambda h: h.take_along_dim(torch.arange(7, -1, -1)[None], dim=-1),
        "a product of several": lambda h: torch.linalg.multi_dot([h, torch.ones(8, 3), torch.ones(3, 8)]),
        "a chain of products": lambda h: torch.chain_matmul(h, torch.ones(8, 3), torch.ones(3, 8)),
        "products of all pairs": lambda h: torch.kron(h[:, :4], torch.ones(1, 2)) + h.kron(torch.ones(())) + torch.kron(torch.ones(2), h[:, 4:]),
        "differences": lambda h: torch.gradient(h, dim=1)[0] + torch.gradient(h, spacing=0.5, dim=-1, edge_order=2)[0],
        "a quantile": lambda h: h + h.quantile(0.3, 1, True),
        "quantiles": lambda h: h + torch.quantile(h, torch.tensor([0.1, 0.8]), dim=-1).sum(0)[:, None],
        "a quantile by a name of its own": lambda h: h + quantile(h, 0.3, 1, True),
        "signs": lambda h: h + h.sgn() + torch.sgn(torch.fft.fft(h)).real,
    }

    def test_habits_that_change_nothing_are_taken(self):
        cases = {
            "arguments by name": (models.ByName, [VALUES, "mask=bool[4,8]"], {}),
            "an output within an output": (models.NestedOutput, VALUES, {"output_part": "named.logits.0"}),
            "parameters without numbers": (models.EmptyParameters, VALUES, {}),
            "tables that a function keeps": (models.CachesTables, VALUES, {"precisions": ["fp32", "bf16"]}),
            "texts": (models.SaysWhatItDoes, VALUES, {}),
            "bits of a size": (models.CountsInBits, VALUES, {}),
            "a normalisation of what lies transposed": (models.Series, VALUES, {}),
            "numbers for a log": (models.CountsForALog, VALUES, {}),
            "random numbers that decide nothing": (models.NeverLeavesOut, VALUES, {}),
            "parameters that are tied again": (models.TiesAgain, VALUES, {}),
            "kinds, and tensors in lists": (models.KeepsKindsAndTensors, VALUES, {}),
            "shares of 1": (models.MixesByKeptShares, VALUES, {}),
            "small gradients": (models.LearnsInSmallSteps, VALUES, {"precisions": ["fp16", "fp32"]}),
            "degrees of a graph that it keeps": (models.CountsDegrees, VALUES, {}),
            "a property called sparse": (models.SaysThatItIsSparse, VALUES, {}),
            "a precision of its own": (models.ChoosesItsPrecision, VALUES, {}),
            "counts that decide nothing": (models.CountsForALogElsewhere, VALUES, {}),
            "scripted functions": (models.CallsAScript, VALUES, {}),
            "an evaluation that predicts its inputs": (models.PredictsItsInputs, VALUES, {}),
            "columns as often as a table says": (models.RepeatsColumns, VALUES, {}),
            "the numbers that a table has": (models.MultipliesByWhatIsThere, VALUES, {}),
            **{name: (lambda function=function: models.Computes(function), VALUES, {}) for name, function in self.FUNCTIONS.items()},
        }
        for name, (maker, example, options) in cases.items():
            with self.subTest(case=name):
                said = []
                export(made(maker), example, self.folder / "m.autotrain", say=said.append, **{"precisions": ["fp32"], **options})
                self.assertIn("from other weights", said[0])
                out = self.autotrain("plan", "--config", self.recipe("images", **self.of_rows(name)))
                self.assertEqual(out.returncode, 0, out.stderr)

    def of_rows(self, case):
        """The sections of a recipe for what the examples of values say."""
        generator = numpy.random.default_rng(3)
        arrays = {"x": generator.normal(size=(96, 8)).astype("float32"), "mask": generator.random((96, 8)) < 0.5, "classes": generator.integers(0, 5, 96)}
        for name, array in arrays.items():
            numpy.save(self.folder / f"{name}.npy", array)
        names = ["x", "mask"] if case == "arguments by name" else ["x"]
        data = {"dataset": "npy", "arrays": [f"{name}={self.folder}/{name}.npy" for name in names], "targets": str(self.folder / "classes.npy")}
        return {"data": {"shuffle": False, "train": data, "validation": data}, "model": {"inputs": names}}

    def in_python(self, net, arrays, loss_of):
        """The losses of plain SGD in PyTorch, on the same samples in the same order."""
        optimizer, losses = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9), []
        for first in (0, EFFECTIVE, 2 * EFFECTIVE):
            loss = loss_of(net, *(torch.from_numpy(array[first : first + EFFECTIVE]) for array in arrays))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_what_is_done_with_choices_gradients_and_single_numbers_trains_as_in_python(self):
        rng = numpy.random.default_rng(5)
        x, points = (rng.normal(size=shape).astype("float32") for shape in ((3 * EFFECTIVE, 8), (3 * EFFECTIVE, 256, 2)))
        t, classes = (rng.integers(0, most, len(x)) for most in (9, 5))
        y = x.sum(1)

        def entropy(net, *batch):
            return F.cross_entropy(net(*batch[:-1]), batch[-1])

        def squares(net, inputs, targets):
            return F.mse_loss(net(inputs), targets)

        cases = {
            models.AddsToItsChoice: ({"x": points}, "x=float32[4,256,2]", classes, entropy),
            models.SharesGradients: ({"x": x}, VALUES, classes, entropy),
            models.AddsTables: ({"x": x}, VALUES, classes, entropy),
            models.ReversesOnTheWayBack: ({"x": x}, VALUES, classes, entropy),
            models.TakesOneNumber: ({"x": x, "t": t}, [VALUES, "t=int64[4]<9"], classes, entropy),
            models.PredictsOneNumber: ({"x": x}, VALUES, y, squares),
            models.TurnsPhases: ({"x": x}, VALUES, classes, entropy),
            models.LastStates: ({"x": points}, "x=float32[4,256,2]", classes, entropy),
            models.CorrectsAWeight: ({"x": x}, VALUES, classes, entropy),
            models.LooksAtBits: ({"x": x}, VALUES, classes, entropy),
            models.IsReversible: ({"x": x}, VALUES, classes, entropy),
            models.CastsALayer: ({"x": x}, VALUES, classes, entropy),
            models.rescues: ({"x": x}, VALUES, classes, entropy),
            models.AttendsToTheLargest: ({"x": x}, VALUES, classes, entropy),
            models.LooksUpSparsely: ({"x": x, "t": t}, [VALUES, "t=int64[4]<9"], classes, entropy),
        }
        for maker, (inputs, example, targets, loss_of) in cases.items():
            with self.subTest(case=maker.__name__):
                for name, array in {**inputs, "targets": targets}.items():
                    numpy.save(self.folder / f"{name}.npy", array)
                data = {"dataset": "npy", "arrays": [f"{name}={self.folder}/{name}.npy" for name in inputs], "targets": str(self.folder / "targets.npy")}
                net = made(maker)
                export(copy.deepcopy(net), example, self.folder / "m.autotrain", precisions=["fp32"])
                # Micro-batches of 32 and 16: what is kept for the backward pass is large enough to be kept in fewer bits.
                recipe = self.recipe("images", data={"train": data, "validation": data}, model={"inputs": list(inputs)}, stop={"updates": 3},
                                     loss={"name": "cross_entropy" if loss_of is entropy else "mean_squared_error"}, execution={"micro_batch": 32})
                out = self.autotrain("--config", recipe, "--output", self.folder / f"run-{maker.__name__}")
                self.assertEqual(out.returncode, 0, out.stderr)
                self.assertIn("%: rounding", out.stderr)
                rows = [json.loads(line) for line in (self.folder / f"run-{maker.__name__}" / "metrics.jsonl").read_text().splitlines()]
                rows = [row for row in rows if row["kind"] == "update"]
                for row, loss in zip(rows, self.in_python(net, [*inputs.values(), targets], loss_of), strict=True):
                    self.assertAlmostEqual(row["loss"], loss, delta=1e-5 * max(1, abs(loss)))

    def test_strides_of_its_own_mean_the_order_of_axes_however_images_lie(self):
        net = self.exported(models.ReadsByStrides, IMAGES, precisions=["fp32"])
        for layout in ("contiguous", "channels_last"):
            recipe = self.recipe("images", stop={"updates": 6}, optimizer={"lr": 0.05}, execution={"memory_format": layout})
            rows = self.train(recipe, f"run-{layout}")
            expected = losses_in_python(copy.deepcopy(net), self.data["images"], 6, 0.05, 0.9, plain)
            for row, loss in zip(rows, expected, strict=True):
                self.assertAlmostEqual(row["loss"], loss, delta=1e-5)

    def test_what_is_done_about_overflow_is_told_to_be_left_out(self):
        said = []
        export(made(models.rescues), VALUES, self.folder / "m.autotrain", precisions=["fp32"], say=said.append)
        self.assertEqual(sum("numbers that are not finite is left out" in line for line in said), 1)

    def test_an_offset_of_a_loss_learns(self):
        export(made(models.HasAnOffset), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True)

    def test_modes_of_the_caller_are_not_the_module_s(self):
        file = self.folder / "m.autotrain"
        for mode in (torch.no_grad(), torch.autocast("cpu", torch.bfloat16)):
            with mode:
                export(made(models.LossAndPrediction), VALUES, file, precisions=["fp32"], output_part=1)
        with torch.inference_mode():
            net = made(models.LossAndPrediction)
            with self.assertRaisesRegex(ExportError, "outside of torch.inference_mode"):
                export(made(models.LossAndPrediction), VALUES, file)
        with self.assertRaisesRegex(ExportError, "first.weight was made in inference mode"):
            export(net, VALUES, file, output_part=1)

    def test_parts_are_named_by_positions_too(self):
        file = self.folder / "m.autotrain"
        export(made(models.LossAndPrediction), VALUES, file, precisions=["fp32"], loss=0, output_part=1)
        for wrong in ({"output_part": True}, {"loss": 1.5}):
            with self.assertRaisesRegex(ExportError, "expected a key or a position"):
                export(made(models.LossAndPrediction), VALUES, file, **wrong)

    def test_files_devices_and_examples_that_are_none_are_refused_before_any_work(self):
        class Table:
            def __array__(self):
                return numpy.zeros((4, 8), "float32")
        file, untouched = self.folder / "m.autotrain", lambda *_: self.fail("runs")
        net = torch.nn.Linear(8, 5)
        export(net, Table(), file, precisions=["fp32"])
        zeros = torch.zeros(4, 8)
        for wrong, example, options in (("this is a folder", VALUES, {"output": self.folder}), ("the name of a file", VALUES, {"output": None}), ("expected cpu or cuda", VALUES, {"device": "gpu"}),
                                        ("nested, sparse or meta", zeros.to("meta"), {}), ("nested, sparse or meta", zeros.to_sparse(), {}),
                                        ("nested, sparse or meta", torch.nested.nested_tensor([zeros, zeros]), {}), ("the bound is", "int64[4,8]<0", {})):
            with self.assertRaisesRegex(ExportError, wrong):
                export(net, example, **{"output": file, "progress": untouched, **options})

    def test_roots_and_logarithms_are_held_against_inputs_above_0(self):
        said = []
        export(made(models.TakesLogarithms), VALUES, self.folder / "m.autotrain", precisions=["fp32"], say=said.append)
        self.assertIn("inputs from 0 to 1", said[0])

    def test_numbers_from_0_to_1_are_given_where_only_they_are_taken(self):
        def entropy(means, scales, targets):
            return F.binary_cross_entropy(means.sigmoid(), targets)
        of_one = torch.rand(4, 2)
        for maker, example, targets, words in ((models.ReconstructsItsInputs, VALUES, None, "other inputs"), (models.ReconstructsItsInputs, torch.rand(4, 8), None, None),
                                               (lambda: models.ComputesALoss(entropy), VALUES, "float32[4,2]", "other targets"),
                                               (lambda: models.ComputesALoss(entropy), VALUES, of_one.round(), None)):
            said = []
            export(made(maker), example, self.folder / "m.autotrain", precisions=["fp32"], loss=True, targets=targets, say=said.append)
            self.assertIn(words or "from other weights", said[0])

    def test_a_loss_of_means_and_variances_is_taken(self):
        for loss in (nn.GaussianNLLLoss(), nn.GaussianNLLLoss(full=True, reduction="sum")):
            net = made(lambda loss=loss: models.ComputesALoss(lambda means, scales, targets: loss(means, targets, F.softplus(scales))))
            export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True, targets="float32[4,2]")

    def test_losses_that_pytorch_traces_wrong_or_not_at_all_are_taken(self):
        weights = torch.tensor([1.0, 2.0, 0.5, 1.5])
        cases = {
            "probabilities": (lambda outputs, y: F.cross_entropy(outputs, y), torch.rand(4, 4)),
            "weighed and smoothed": (lambda outputs, y: F.cross_entropy(outputs, y, weights, label_smoothing=0.1, reduction="sum"), torch.rand(4, 4)),
            "probabilities of pixels": (lambda outputs, y: F.cross_entropy(outputs[..., None], y, weights), torch.rand(4, 4, 1)),
            "a variance for each sample": (lambda outputs, y: F.gaussian_nll_loss(outputs[:, :3], y, outputs[:, 3].exp()), "float32[4,3]"),
            "several classes": (lambda outputs, y: F.multilabel_margin_loss(outputs, y), "int64[4,4]<4"),
            "several, and behind them none": (lambda outputs, y: F.multilabel_margin_loss(outputs, F.pad(y, (0, 2), value=-1)), "int64[4,2]<4"),
        }
        for name, (loss, targets) in cases.items():
            with self.subTest(case=name):
                net = made(lambda loss=loss: models.ComputesALoss(lambda means, scales, y: loss(torch.cat([means, scales], 1), y)))
                export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32", "bf16"], loss=True, targets=targets)

    def test_a_mean_by_weights_that_let_rounding_grow_is_one(self):
        export(made(models.IsDeep), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True, targets="int64[4]<8")

    def test_targets_without_a_name_are_the_argument_that_is_called_so(self):
        said = []
        export(made(models.TakesAMaskFirst), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True, targets="int64[4]<5", say=said.append)
        self.assertIn("targets of -100, which the loss ignores", said[-1])

    def test_predictions_that_are_inputs_are_read(self):
        export(made(models.PredictsItsInputsToo), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss="loss", output_part="inputs", targets="float32[4,5]")
        recipe = self.recipe("images", **self.of_rows(""), loss={"name": "model"})
        data = json.loads(recipe.read_text())
        for part in ("train", "validation"):
            data["data"][part]["targets"] = str(self.folder / "y.npy")
        numpy.save(self.folder / "y.npy", numpy.zeros((96, 5), "float32"))
        recipe.write_text(json.dumps(data))
        out = self.autotrain("plan", "--config", recipe)
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_targets_that_only_training_ignores_are_noted(self):
        said = []
        export(made(models.IgnoresWhileItTrains), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True, targets="int64[4]<5", say=said.append)
        self.assertIn("targets of -1,", said[-1])

    def test_targets_that_a_loss_leaves_out_by_a_number_of_its_own_are_noted(self):
        weights = torch.ones(300)
        weights[7] = 0
        cases = {
            "an index": (lambda: models.IgnoresAClass(ignore_index=255), "int64[4]<200", 255),
            "an index among the classes": (lambda: models.IgnoresAClass(ignore_index=7), "int64[4]<300", 7),
            "smoothed labels": (lambda: models.IgnoresAClass(ignore_index=255, label_smoothing=0.1), "int64[4]<200", 255),
            "a class without weight": (lambda: models.IgnoresAClass(weight=weights), "int64[4]<300", 7),
            "weights of its own": (lambda: models.LeavesOutTargets(lambda y: weights[y] > 0.5), "int64[4]<300", 7),
            "another one": (lambda: models.LeavesOutTargets(lambda y: y != 255), "int64[4]<200", 255),
            "a tensor": (lambda: models.LeavesOutTargets(lambda y: torch.tensor(255) != y), "int64[4]<200", 255),
            "some of several": (lambda: models.LeavesOutTargets(lambda y: ~torch.isin(y, torch.tensor([7, 9]))), "int64[4]<300", 9),
            "what is no class": (lambda: models.LeavesOutTargets(lambda y: y < 200), "int64[4]<200", 200),
            "what they are made of": (lambda: models.LeavesOutTargets(lambda y: torch.where(y > 100, y, 7) != 255), "int64[4]<200", 255),
            "numbers": (lambda: models.LeavesOutTargets(lambda y: y != -999, 5), "float32[4,5]", -999),
        }
        for name, (maker, targets, number) in cases.items():
            with self.subTest(case=name):
                said = []
                export(made(maker), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True, targets=targets, say=said.append)
                self.assertIn(f"targets of {number}, which the loss ignores", "\n".join(said))

    def test_a_loss_that_random_samples_have_none_of_is_told_by_larger_ones(self):
        for reduction in (torch.sum, torch.mean):
            said = []
            export(made(lambda reduction=reduction: models.Tolerates(10, reduction)), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True,
                   targets="float32[4,5]", say=said.append)  # fmt: skip
            self.assertIn(f"is the {reduction.__name__} of its samples' losses", said[-1])

    def test_a_loss_beside_the_main_one_is_noted(self):
        for maker, part, words in ((models.KeepsALoss, None, "in self.beside,"), (models.KeepsALossAndAView, None, "in self.beside,"),
                                   (models.ReturnsALossBeside, "logits", "as beside,"), (models.LossAndPrediction, 1, "as 0,")):  # fmt: skip
            said = []
            export(made(maker), VALUES, self.folder / "m.autotrain", precisions=["fp32"], output_part=part, say=said.append)
            self.assertIn(f"a number with a gradient {words}", said[-1])

    def test_a_temperature_beside_the_prediction_is_no_loss(self):
        said = []
        export(made(models.ReturnsItsTemperature), VALUES, self.folder / "m.autotrain", precisions=["fp32"], output_part="logits", say=said.append)
        self.assertNotIn("a number with a gradient", "\n".join(said))

    def test_a_loss_that_is_returned_in_training_alone_is_refused(self):
        class Switches(models.Base):
            def forward(self, x):
                return self.body(x).square().mean() if self.training else self.body(x)

        with self.assertRaisesRegex(ExportError, r"\[4, 5\] in evaluation mode, not one number"):
            export(made(Switches), VALUES, self.folder / "m.autotrain", precisions=["fp32"], loss=True)

    def test_samples_that_attend_to_each_other_are_noted(self):
        for maker, example in ((models.AttendsToOtherSamples, VALUES), (models.ComparesBehindAMask, [VALUES, "bool[4,5]"])):
            said = []
            export(made(maker), example, self.folder / "m.autotrain", precisions=["fp32"], say=said.append)
            self.assertIn("depends on what else is in its batch", said[-1])

    def test_predictions_beside_very_large_numbers_are_the_module_s_bit_for_bit(self):
        for masked in (-1e9, float("-inf"), float("nan")):
            said = []
            export(models.MasksItsLogits(masked), [VALUES, "bool[4,5]"], self.folder / "m.autotrain", precisions=["fp32"], say=said.append)
            self.assertIn("bit for bit", said[0])
            # In half precision PyTorch's kernels of some processors round otherwise than those of graphs.
            export(models.MasksItsLogits(masked), [VALUES, "bool[4,5]"], self.folder / "m.autotrain", precisions=["bf16"])

    def test_weights_that_lie_in_one_memory_are_written_each_and_learn(self):
        net = made(models.LiesInOneMemory)
        export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"])
        written = load_file(self.folder / "m.autotrain")
        for name, parameter in net.named_parameters():
            self.assertTrue(torch.equal(written[name], parameter), name)

    def test_memory_that_was_seen_is_given_to_no_other_tensor(self):
        known = Known()
        with known:
            seen = torch.zeros(8)
            seen + 1
            self.assertIn(seen, known.of_module)
            del seen
        self.assertFalse([other for other in [torch.zeros(8) for _ in range(64)] if other in known.of_module])

    def test_layers_that_a_module_does_not_know_are_noted(self):
        said = []
        export(made(models.KeepsLayersInAList), VALUES, self.folder / "m.autotrain", precisions=["fp32"], say=said.append)
        self.assertIn("keep layers in nn.ModuleList", said[-1])

    def test_the_module_is_left_as_it_was(self):
        net = made(models.CountsForALog)
        export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"])
        self.assertEqual((net.calls, net.seen), (0, []))

    def test_what_is_counted_and_what_steps_of_its_own_write_is_left_as_it_was(self):
        net = made(models.CountsForALogElsewhere)
        export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"])
        self.assertEqual((net.info, net.settings.calls, net.warming.calls, net.numbers, net.pair, len(net.seen)), ({"calls": 0}, 0, 0, [0], (0, 0), 0))
        net = made(models.KeepsSteps)
        before = copy.deepcopy(net.state_dict())
        export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"])
        for name, tensor in load_file(self.folder / "m.autotrain").items():
            self.assertTrue(torch.equal(tensor, before[name]) and torch.equal(tensor, net.state_dict()[name]), name)

    def test_tables_that_are_filled_late_are_followed_and_empty_afterwards(self):
        net = made(models.FillsATableLate)
        export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"])
        self.assertEqual((net.table.tolist(), net.shifts.tolist(), net.filled), ([0.0] * 8, [0.0] * 8, False))

    def test_settings_that_cannot_be_changed_stay_and_what_follows_is_put_back(self):
        net = made(models.KeepsFrozenSettings)
        export(net, VALUES, self.folder / "m.autotrain", precisions=["fp32"])
        self.assertEqual((list(net.settings.items()), list(net.counted.items()), net.seen), ([("width", 8), ("depth", 2)], [("calls", 0)], []))


class Refused(Exported):
    def refused(self, module, example, **options):
        target = self.folder / "refused.autotrain"
        with self.assertRaises(ExportError) as caught:
            export(module, example, target, **{"precisions": ["fp32"], **options})
        self.assertFalse(target.exists())
        return str(caught.exception)

    def test_what_no_graph_follows_is_named_with_its_place(self):
        cases = {
            models.Counts: ("counts in self.calls", forward_of(models.Counts)),
            models.CountsForAll: ("counts in strange_models.CALLS", forward_of(models.CountsForAll)),
            models.CountsInAList: ("counts in self.seen", forward_of(models.CountsInAList)),
            models.SeldomLeavesOut: ("Python's random numbers", line_of("random.random()")),
            models.SeldomKeeps: ("Python's random numbers", line_of("random.random() < 0.999")),
            models.SeldomLeavesOutByNumPy: ("NumPy's random numbers", line_of("numpy.random.rand() <")),
            models.SetsASeed: ("a seed that it sets itself", line_of("torch.manual_seed(3)")),
            models.ByItsOwnGenerator: ("a generator of its own", line_of("generator=torch")),
            models.OtherForOneSize: ("something else for batches of 32: ", line_of("== 32")),
            models.OtherBetween: ("something else for batches of ", line_of("10 < x.shape[0]")),
            models.OtherForOneLargeSize: ("something else for batches of 300", line_of("== 300")),
            models.OtherForMultiples: ("something else for batches of 512, 1024", line_of("% 512 == 0")),
            models.DividesItsSize: ("int(a / b)", line_of("windows.view(samples")),
            models.ClipsOnTheWayBack: ("not proportional", forward_of(models.ClipsOnTheWayBack)),
            models.ClipsWhatIsSmall: ("not proportional", forward_of(models.ClipsWhatIsSmall)),
            models.NormalisesOnTheWayBack: ("not proportional", "optimizer.clip_norm"),
            models.SqueezesAll: ("does not evaluate a batch of one sample", forward_of(models.SqueezesAll)),
            models.NamedAsTheFileDoes: ("'constant 0', which the file uses itself", forward_of(models.NamedAsTheFileDoes)),
            models.LoopsOverSamples: ("makes a number of the size of its batch", line_of("for place in range")),
            models.SamplesSecond: ("its samples along axis 1", "y.movedim(1, 0)"),
            models.HookAfterAccumulation: ("first.weight has a hook", forward_of(models.HookAfterAccumulation)),
            models.FrozenShares: ("parameters first.weight and before share their memory", "tensor.clone()"),
            models.BufferShares: ("parameter first.weight and buffer before share their memory", "tensor.clone()"),
            models.WritesToAnAttribute: ("a tensor that it keeps in an attribute", line_of("self.steps[0] += 1")),
            models.KeepsStatisticsLate: ("a tensor that it keeps in an attribute", line_of("self.mean.mul_")),
            models.ParameterLate: ("makes its parameter shift", forward_of(models.ParameterLate)),
            models.FreezesLate: ("sets requires_grad of its parameter first.weight", forward_of(models.FreezesLate)),
            models.WritesToAWeight: ("writes to its parameter first.weight", forward_of(models.WritesToAWeight)),
            models.LearnsNothing: ("nothing that learns leads to what the module returns", "no_grad"),
            models.GoesBackItself: ("calls backward() within", "--loss"),
            models.TiesLate: ("assigns another one to its parameter second.weight", line_of("self.second.weight = ")),
            models.TakesColumnsByASavedMask: ("size depends on values", line_of("self.columns(x[:, self.mask])")),
            models.RepeatsByASavedTable: ("persistent=False", line_of("x[:, :4], self.times")),
            models.TakesASavedNumberOfPlaces: ("size depends on values", line_of("torch.arange(self.places")),
            models.LeavesOutSamples: ("size depends on values", line_of("kept = x[")),
            models.Chooses: ("torch.cond", line_of("torch.cond(")),
            models.DropsLayers: ("layerdrop=0.0", line_of("chance < self.layerdrop")),
            models.ChecksItsInputs: ("Leave the check out", line_of("if x.max() > 1e6")),
            models.PenalisesSlopes: ("torch.enable_grad()", line_of("torch.autograd.grad(self.body(x).sum()")),
            models.TakesAPair: ("does not take a batch like the example", "a module that takes them one by one"),
            models.JoinsWithinVmap: ("outside of torch.vmap", line_of("torch.cat([x[1:], torch.zeros(1)])")),
            models.LearnsThroughAStep: ("has no derivative of an operator that the module learns through", forward_of(models.LearnsThroughAStep)),
            models.TakesLeastSquares: ("torch.linalg.pinv(a) @ b", line_of("torch.linalg.lstsq(")),
            models.TakesHessians: ("torch.func.jacrev(torch.func.grad(f))", forward_of(models.TakesHessians)),
            models.TakesItsLength: ("x.shape[0] in the place of len(x)", line_of("x.new_zeros(len(x), 1)")),
            models.MergesItsAdapter: ("train() or eval() writes to its parameter first.weight", "merge_weights=False"),
            models.NormalisesParts: ("normalises parts of its batch", line_of("self.normal(part) for part")),
            models.NormalisesByAllBatches: ("momentum=None", "Give it a momentum"),
            models.on_meta: ("weight is on the device meta", "to_empty"),
            models.lazily: ("has no shape yet", "Run the module once"),
        }
        for maker, words in cases.items():
            with self.subTest(case=maker.__name__):
                example = {models.TakesAPair: [VALUES, VALUES], models.SqueezesAll: IMAGES}.get(maker, VALUES)
                said = self.refused(made(maker), example)
                for word in words:
                    self.assertIn(word, said)

    def test_what_is_counted_in_containers_objects_and_classes_is_seen(self):
        kind = models.WarmsUp
        cases = {
            kind.entry: "self.info['calls']", kind.setting: "self.settings.calls", kind.of_an_object: "self.warming.calls", kind.number: "self.numbers[0]",
            kind.of_a_nested_object: "self.nested['terms'][0][0].calls", kind.of_a_pair: "self.pair[0]", kind.length: "self.seen", kind.of_a_count: "self.count",
            kind.of_its_class: "WarmsUp.calls", kind.entry_of_its_class: "WarmsUp.book['calls']", kind.entry_of_its_file: "strange_models.BOOK['calls']",
            kind.of_a_tensor: "self.tensor", kind.of_a_buffer: "self._buffers['unsaved']", kind.of_a_function: "self.tick.calls",
            kind.of_an_argument: "self.counted.calls[0]", kind.of_numpy: "self.whole", kind.of_an_array: "self.array[1]",
        }  # fmt: skip
        for counted, words in cases.items():
            with self.subTest(case=counted.__name__):
                self.assertIn(f"counts in {words} and", self.refused(made(lambda counted=counted: kind(counted)), VALUES, loss=True))

    def test_losses_of_what_is_above_a_threshold_are_seen(self):
        for maker, targets in ((models.LearnsFromHardSamples, "int64[4]<5"), (models.LearnsFromTripletsThatCount, "float32[4,8]")):
            said = self.refused(made(maker), VALUES, loss=True, targets=targets)
            self.assertIn("random samples, from other weights", said)

    def test_very_large_and_infinite_numbers_hide_nothing_beside_them(self):
        for masked in (-1e2, -1e4, -1e9, float("-inf"), float("nan")):
            for kind in (models.KeepsAnAverageBehindAMask, *([models.AddsAMask] if masked > -1e10 else [])):
                for precision in ("fp32", "bf16"):
                    with self.subTest(masked=masked, kind=kind.__name__, precision=precision):
                        said = self.refused(made(lambda masked=masked, kind=kind: kind(masked)), [VALUES, "bool[4,5]"], precisions=[precision])
                        self.assertIn("evaluated outputs differ", said)
        self.assertIn("largest number of average", self.refused(made(models.AveragesBesideAMask), VALUES))

    def test_losses_that_do_not_tell_their_mean_from_their_sum_are_named(self):
        for reduction in (torch.sum, lambda losses: (losses.sum() - 1).log()):
            said = self.refused(made(lambda reduction=reduction: models.Tolerates(1e9, reduction)), VALUES, loss=True, targets="float32[4,5]")
            self.assertIn("does not tell the mean over samples from their sum", said)
            self.assertIn(forward_of(models.Tolerates), said)

    def test_a_module_that_computes_no_numbers_is_named(self):
        said = self.refused(made(models.ComputesNoNumbers), VALUES)
        self.assertIn("no numbers (NaN) of random samples", said)
        self.assertIn(forward_of(models.ComputesNoNumbers), said)

    def test_a_check_of_targets_is_named_as_such(self):
        said = self.refused(made(models.ChecksItsTargets), VALUES, loss=True, targets="int64[4]<5")
        self.assertIn("asserts something", said)
        self.assertIn(line_of("assert (classes >= 0)"), said)

    def test_what_is_no_module_is_named(self):
        self.assertIn("a function was given, and no module", self.refused(lambda x: x, VALUES))

    def test_a_loss_that_only_training_weighs_otherwise_is_seen(self):
        said = self.refused(made(models.MaskedWhileItTrains), [VALUES, "bool[4,8]"], loss=True)
        self.assertIn("in training mode", said)

    def test_losses_that_leave_out_inputs_or_compare_samples_are_seen(self):
        cases = {
            "more of 0 among input 1": (models.LeavesOutPadding, "float32[4,6,8]", None),
            "more of 7 among input 1": (models.PredictsTokensButOne, "int64[4,9]<300", None),
            "more of 255 among input 2": (lambda: models.IgnoresAClass(ignore_index=255), [VALUES, "int64[4]<200"], None),
            "more of -900 among the targets": (lambda: models.LeavesOutTargets(lambda y: y > -900, 5), VALUES, "float32[4,5]"),
            "more of 50 among the targets": (lambda: models.LeavesOutTargets(lambda y: y.abs() < 50, 5), VALUES, "float32[4,5]"),
            "more of 10000 among the targets": (lambda: models.LeavesOutTargets(lambda y: y.square().sum(1, keepdim=True) < 1e4, 5), VALUES, "float32[4,5]"),
            "numbers in common": (models.ContrastsEqualOnes, VALUES, "int64[4]<1000"),
            "have numbers in common": (models.ContrastsEqualOnes, VALUES, "float32[4]"),
            "that have numbers in common": (models.ContrastsEqualOnes, [VALUES, "int64[4]<1000"], None),
        }
        for words, (maker, example, targets) in cases.items():
            with self.subTest(case=words):
                self.assertIn(words, self.refused(made(maker), example, loss=True, targets=targets))

    def test_what_is_the_machines_is_raised_as_it_came_and_not_tried_again(self):
        for error in (torch.OutOfMemoryError("no memory"), MemoryError(), OSError(errno.ENOSPC, "no space"), RuntimeError("DefaultCPUAllocator: can't allocate memory")):
            for passes in (1, 2, 4, 8):
                with self.subTest(error=type(error).__name__, passes=passes):
                    net = made(lambda error=error, passes=passes: models.MeetsALimit(error, passes))
                    with self.assertRaises(type(error)) as caught:
                        export(net, VALUES, self.folder / "refused.autotrain", precisions=["fp32"])
                    self.assertIs(caught.exception, error)
                    self.assertEqual(next(net.turns), passes + 1)
        self.assertFalse((self.folder / "refused.autotrain").exists())

    def test_the_command_ends_with_what_the_machine_lacks(self):
        for maker, words, ends in (("no_memory", "autotrain_export: no memory", 71), ("no_space", "autotrain_export: [Errno 28] no space", 74)):
            said = io.StringIO()
            with redirect_stderr(said):
                status = main([f"strange_models:{maker}", "--example", VALUES, "--output", str(self.folder / "refused.autotrain")])
            self.assertEqual((status, said.getvalue().splitlines()[-1]), (ends, words))

    def test_the_command_names_what_fails_in_somebody_s_own_code(self):
        (self.folder / "theirs.py").write_text(
            "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width): super().__init__()\ndef fails():\n    raise ValueError('no such width')\n"
        )
        (self.folder / "runs.py").write_text("import argparse\nargparse.ArgumentParser().parse_args(['--epochs', '3'])\n")
        (self.folder / "broken.py").write_text("def net(:\n")
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        cases = {"theirs:Net": "takes width:", "theirs:fails": "theirs.py:5: raise ValueError", "runs:net": "__main__", "broken:net": "SyntaxError"}
        for source, words in cases.items():
            said = io.StringIO()
            with redirect_stderr(said):
                status = main([source, "--example", VALUES, "--output", str(self.folder / "refused.autotrain")])
            self.assertEqual(status, 65, source)
            self.assertIn(words, said.getvalue())

    def test_averages_that_no_state_dict_has_stay(self):
        net = made(models.AveragesBesideItsState)
        self.refused(net, VALUES)
        self.assertEqual((net.mean.tolist(), net.average.tolist(), net.book[0].tolist()), ([0.0] * 8, [1.0] * 8, torch.eye(8).tolist()))
        self.assertEqual(net.rows.data_ptr(), net.book[0][2:4].data_ptr())

    def test_weights_gradients_and_random_numbers_stay_when_a_forward_pass_changes_them(self):
        makers = (models.WritesToAWeight, models.GoesBackItself, models.FreezesLate, models.SeldomLeavesOutByNumPy, models.PrunesLate, models.PrunesSeldom)
        for maker in makers:
            net, state, of_numpy = made(maker), random.getstate(), numpy.random.get_state()[1].tolist()
            before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
            self.refused(net, VALUES)
            for name, parameter in net.named_parameters():
                self.assertTrue(torch.equal(parameter, before[name]) and parameter.grad is None and parameter.requires_grad, name)
            self.assertEqual((random.getstate(), numpy.random.get_state()[1].tolist()), (state, of_numpy))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
