#!/usr/bin/env python3
"""Modules that take several inputs, or compute their loss themselves, learn here as in Python: exported ones and TorchScript.

    inputs_test.py path/to/autotrain path/to/project
"""
import json
import shutil
import unittest
import sys
import warnings

import numpy
import torch
from export_test import EFFECTIVE, SAMPLES, Exported, made, models
from autotrain_export import ExportError, export
from torch import nn
from torch.nn.functional import cross_entropy

warnings.filterwarnings("ignore", category=DeprecationWarning)
TOKENS, PADDING, LABELS = "int64[4,16]<24", "bool[4,16]", "int64[4]<5"
BOTH = ["tokens", "padding"]


def write_texts(folder):
    """Texts of four to sixteen tokens, a mask of what is none, and classes, as the data set npy reads them."""
    rng = numpy.random.default_rng(1)
    tokens = rng.integers(1, 24, (SAMPLES, 16))
    padding = numpy.arange(16) >= rng.integers(4, 17, SAMPLES)[:, None]
    tokens[padding] = 0
    for name, array in (("tokens", tokens), ("padding", padding), ("labels", tokens[:, 0] % 5)):
        numpy.save(folder / f"{name}.npy", array)
    return [torch.from_numpy(array) for array in (tokens, padding, tokens[:, 0] % 5)]


def losses_in_python(net, data, updates, loss_of, rate=0.01, momentum=0.9):
    optimizer = torch.optim.SGD(net.parameters(), rate, momentum=momentum)
    losses = []
    for update in range(updates):
        first = update * EFFECTIVE % SAMPLES
        loss = loss_of(net, *(tensor[first:first + EFFECTIVE] for tensor in data))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def of_logits(net, tokens, padding, labels):
    return cross_entropy(net(tokens, padding), labels)


def of_dictionary(net, tokens, padding, labels):
    return cross_entropy(net(tokens, padding)["logits"], labels)


def its_own(net, tokens, padding, labels):
    return net(tokens, padding, labels)["loss"]


def its_own_sum(net, tokens, padding, labels):
    return net(tokens, padding, labels)[0] / len(labels)


class SeveralInputs(Exported):
    # model: how it is made; how its loss is computed in Python, its logits of a batch; what the recipe says of it.
    CASES = {
        "exported": (models.Padded, of_logits, lambda net, *batch: net(*batch[:2]), {}),
        "exported with its loss": (models.PaddedWithLoss, its_own, lambda net, *batch: net(*batch)["logits"], {}),
        "scripted": (models.Attends, of_dictionary, lambda net, *batch: net(*batch[:2])["logits"], {"output": "logits"}),
        "scripted with its loss": (models.AttendsWithLoss, its_own_sum, lambda net, *batch: net(*batch)[1],
                                   {"loss": "0", "output": "1", "reduction": "sum"}),
    }  # fmt: skip

    def setUp(self):
        super().setUp()
        self.texts = write_texts(self.folder)

    def write_model(self, kind, maker):
        net = made(maker)
        if kind.startswith("scripted"):
            torch.jit.script(net).save(self.folder / "m.pt")
        else:
            own = {"loss": "loss", "output_part": "logits", "targets": f"labels={LABELS}"} if "loss" in kind else {}
            export(net, [TOKENS, f"padding={PADDING}"], self.folder / "m.autotrain", precisions=["fp32"], **own)
        return net.train()

    def text_recipe(self, kind, **sections):
        file = {"name": "torchscript", "file": "m.pt"} if kind.startswith("scripted") else {"name": "exported", "file": "m.autotrain"}
        data = {"dataset": "npy", "arrays": [f"padding={self.folder}/padding.npy", f"tokens={self.folder}/tokens.npy"],
                "targets": f"{self.folder}/labels.npy"}  # fmt: skip
        own = {"loss": {"name": "model", "targets": "classes"}} if "loss" in kind else {}
        model = {**file, "file": str(self.folder / file["file"]), "inputs": BOTH, **self.CASES[kind][3], **sections.pop("model", {})}
        return self.recipe("images", data={"train": data, "validation": data}, model=model, **own, **sections)

    def fails(self, recipe, code, *messages, command=("plan", "--config")):
        out = self.autotrain(*command, recipe)
        self.assertEqual(out.returncode, code, out.stderr)
        for message in messages:
            self.assertIn(message, out.stderr)


class Training(SeveralInputs):
    def test_a_hundred_updates_follow_python_and_the_logits_are_python_s(self):
        for kind, (maker, loss_of, logits_of, _) in self.CASES.items():
            with self.subTest(model=kind):
                net, run = self.write_model(kind, maker), self.folder / kind.replace(" ", "-")
                rows = self.train(self.text_recipe(kind), run.name)
                self.assertEqual(len(rows), 100)
                for row, loss in zip(rows, losses_in_python(net, self.texts, 100, loss_of), strict=True):
                    self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
                # What Python loads says the same as the run.
                out = self.autotrain("predict", "--run", run, "--data", "validation", "--output", self.folder / f"{run.name}.npy")
                self.assertEqual(out.returncode, 0, out.stderr)
                loaded = made(maker, seed=5).eval()
                loaded.load_state_dict(self.weights(run.name))
                with torch.no_grad():
                    theirs = logits_of(loaded, *self.texts)
                ours = torch.from_numpy(numpy.load(self.folder / f"{run.name}.npy"))
                self.assertLess((ours - theirs).abs().max().item(), 1e-5 * max(1, theirs.abs().max().item()))
                self.check_evaluation(run, theirs)

    def check_evaluation(self, run, logits):
        """Loss and accuracy of the last evaluation, of a loss of its own, too."""
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        last = [row for row in rows if row["kind"] == "evaluation"][-1]
        labels = self.texts[2]
        self.assertAlmostEqual(last["loss"], cross_entropy(logits, labels).item(), delta=1e-4)
        self.assertAlmostEqual(last["accuracy"], (logits.argmax(1) == labels).double().mean().item(), delta=1e-6)

    def test_the_gradient_of_a_first_window_is_eager_s_however_it_is_cut(self):
        for kind, (maker, loss_of, _, _) in self.CASES.items():
            with self.subTest(model=kind):
                net, run = self.write_model(kind, maker), "first-" + kind.replace(" ", "-")
                before = {key: value.clone() for key, value in net.state_dict().items()}
                self.train(self.text_recipe(kind, stop={"updates": 1}, optimizer={"lr": 1.0, "momentum": 0.0},
                                            execution={"micro_batch": EFFECTIVE // 4}), run)  # fmt: skip
                loss_of(net, *(tensor[:EFFECTIVE] for tensor in self.texts)).backward()
                after = self.weights(run)
                for key, parameter in net.named_parameters():
                    moved = before[key] - after[key]
                    self.assertLess((moved - parameter.grad).abs().max().item(), 1e-5 * max(1, before[key].abs().max().item()), key)

    def verify(self, kind, maker):
        self.write_model(kind, maker)
        recipe = self.text_recipe(kind, execution={"micro_batch": "auto", "memory": {"budget": "48MiB"}})
        out = self.autotrain("verify", "--config", recipe, "--updates", "8", "--kills", "2")
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        for line in ("searched, not typed in", "killed and resumed", "out of memory once", "searched by 2 ranks, not typed in"):
            self.assertRegex(out.stdout, rf"{line}\s+same bits")

    def test_an_exported_one_with_its_loss_searches_recovers_and_resumes_to_the_same_bits(self):
        self.verify("exported with its loss", models.dropping_with_loss)

    def test_a_scripted_one_likewise(self):
        self.verify("scripted", models.dropping_attends)

    def test_a_loss_that_needs_no_targets_is_learned_from_inputs_alone(self):
        net = made(models.LossAlone)
        export(net, "float32[4,3,12,12]", self.folder / "m.autotrain", precisions=["fp32"], loss=True)
        data = {"dataset": "npy", "inputs": str(self.folder / "images.npy")}
        recipe = self.recipe("images", loss={"name": "model"}, stop={"updates": 20})
        document = json.loads(recipe.read_text())
        document["data"] = {"shuffle": False, "train": data, "validation": data}
        recipe.write_text(json.dumps(document))
        rows = self.train(recipe)
        images = (self.data["images"][0],)
        for row, loss in zip(rows, losses_in_python(net, images, 20, lambda net, x: net(x) / len(x)), strict=True):
            self.assertAlmostEqual(row["loss"], loss, delta=1e-4 * max(1, abs(loss)))
        self.fails(self.folder / "run", 78, "gives its loss alone, no prediction",
                   command=("predict", "--data", "validation", "--output", self.folder / "x.npy", "--run"))  # fmt: skip


class Refusals(SeveralInputs):
    def test_inputs_that_do_not_fit_are_named(self):
        self.write_model("exported", models.Padded)
        self.fails(self.text_recipe("exported", model={"inputs": ["tokens", "paddings"]}), 78,
                   'names "paddings"; samples of data.train have padding, tokens', 'did you mean "padding"?')  # fmt: skip
        self.fails(self.text_recipe("exported", model={"inputs": []}), 78, "is not set, and samples of data.train have the inputs padding, tokens")
        self.fails(self.text_recipe("exported", model={"inputs": ["tokens"]}), 78, "takes 2 inputs, tokens, padding, and is given 1")
        self.fails(self.text_recipe("exported", model={"inputs": ["padding", "tokens"]}), 78, 'takes as input "tokens" samples of Long')
        recipe = self.text_recipe("exported")
        document = json.loads(recipe.read_text())
        document["model"] = {"name": "mlp"}
        recipe.write_text(json.dumps(document))
        self.fails(recipe, 78, "mlp takes one input")
        self.write_model("scripted", models.Attends)
        self.fails(self.text_recipe("scripted", model={"inputs": ["tokens"]}), 78, "takes tokens, padding, and is given 1 input")
        self.fails(self.text_recipe("scripted", model={"output": "logit"}), 78, "with the parts hidden, logits", 'did you mean "logits"?')
        self.fails(self.text_recipe("scripted", model={"output": None}), 78, "returns GenericDict with the parts hidden, logits, not a tensor")

    def test_an_index_that_the_model_has_no_place_for_is_the_data_s(self):
        for kind, maker in (("exported", models.Padded), ("scripted", models.Attends), ("exported", models.PaddedOneHot), ("scripted", models.OneHotMeans)):
            self.write_model(kind, maker)
            for token in (-1, 24):
                tokens = self.texts[0].numpy().copy()
                tokens[3, 2] = token
                numpy.save(self.folder / "tokens.npy", tokens)
                with self.subTest(kind=kind, model=maker.__name__, token=token):
                    self.fails(self.text_recipe(kind), 65, "an index that it has no place for", "tokens of another vocabulary")

    def test_examples_are_texts_or_batches(self):
        net = made(models.Padded)
        tokens, padding = (tensor[:4] for tensor in self.texts[:2])
        tokens[0, 0] = 23  # the largest: whole numbers are drawn below one more
        ways = {"texts": [TOKENS, PADDING], "tensors": (tokens, padding), "arrays": [tokens.numpy(), padding.numpy()],
                "names": {"padding": padding, "tokens": TOKENS}}
        files = {way: self.folder / f"{way}.autotrain" for way in ways}
        for way, examples in ways.items():
            export(net, examples, files[way], precisions=["fp32"])
        for way in ("tensors", "arrays"):
            self.assertEqual(files[way].read_bytes(), files["texts"].read_bytes(), way)
        for wrong, what in (((tokens, padding.float().double()), r"a tensor float64\[4, 16\]: inputs are float32, int64, bool"),
                            ((tokens - 30, padding), "has numbers below 0"), ((tokens[:1], padding[:1]), "give at least 2"),
                            ((tokens, None), "and got none"), (4, "and got one of type int")):
            with self.assertRaisesRegex(ExportError, what):
                export(net, wrong, self.folder / "wrong.autotrain")

    def test_arrays_that_do_not_fit_are_named(self):
        self.write_model("exported", models.Padded)
        for change, message in ((["tokens=a.npy", "tokens=b.npy"], 'names "tokens" twice'), (["tokens"], "name=file")):
            recipe = self.text_recipe("exported")
            document = json.loads(recipe.read_text())
            arrays = [name.replace("a.npy", f"{self.folder}/tokens.npy") for name in change]
            document["data"]["train"]["arrays"] = arrays
            recipe.write_text(json.dumps(document))
            self.fails(recipe, 78, message)

    def test_a_loss_is_either_the_recipe_s_or_the_model_s(self):
        self.write_model("exported with its loss", models.PaddedWithLoss)
        recipe = self.text_recipe("exported with its loss")
        document = json.loads(recipe.read_text())
        document["loss"] = {"name": "cross_entropy"}
        recipe.write_text(json.dumps(document))
        self.fails(recipe, 78, "is cross_entropy, and the model computes its loss itself")
        self.write_model("exported", models.Padded)
        document["loss"] = {"name": "model"}
        recipe.write_text(json.dumps(document))
        self.fails(recipe, 78, "the model computes no loss of its own")

    def test_losses_that_are_no_mean_over_samples_are_not_exported(self):
        cases = {
            "masked": (models.MaskedMean, ["float32[4,8]", "bool[4,8]"], None),
            "weighted": (models.WeightedMean, "float32[4,8]", "int64[4]<3"),
        }
        for name, (maker, example, targets) in cases.items():
            with self.subTest(case=name):
                with self.assertRaisesRegex(ExportError, "neither their mean nor their sum"):
                    export(made(maker), example, self.folder / "refused", precisions=["fp32"], loss=True, targets=targets)
                self.assertFalse((self.folder / "refused").exists())
        for example, options, message in (
            ([TOKENS, f"mask={PADDING}"], {}, "has no such argument; it has tokens, padding"),
            ([TOKENS, "bool[5,16]"], {}, "must be the same for all: 4, 5"),
            ([TOKENS, PADDING], {"targets": LABELS}, "--loss says"),
            ([TOKENS, PADDING], {"loss": True}, "not one number"),
        ):
            with self.assertRaises(ExportError) as caught:
                export(made(models.Padded), example, self.folder / "refused", precisions=["fp32"], **options)
            self.assertIn(message, str(caught.exception))

    def test_a_script_s_loss_is_held_against_its_parts_before_it_is_trained(self):
        values = numpy.random.default_rng(0).normal(size=(16, 8)).astype("float32")
        numpy.save(self.folder / "values.npy", values)
        numpy.save(self.folder / "late.npy", values * numpy.where(numpy.arange(16) < 8, 1, 1000)[:, None].astype("float32"))
        numpy.save(self.folder / "mask.npy", numpy.arange(8) <= numpy.arange(16)[:, None] % 8)
        for maker, arrays, model, message in (
            (models.MaskedMean, ["values", "mask"], {"loss": "all"}, "it is not what it is said to be"),
            (models.LossAlone, ["images"], {"loss": "all"}, "model.reduction: sum"),
            (models.Tolerant, ["late"], {"loss": "all"}, "it is their sum, and is said to be the mean"),
            (models.Tolerant, ["late"], {"loss": "all", "reduction": "sum"}, None),
            (models.LossAlone, ["images"], {"loss": "all", "reduction": "sum"}, None),
        ):
            torch.jit.script(made(maker)).save(self.folder / "m.pt")
            recipe = self.recipe("images", loss={"name": "model"}, batch={"effective": 8}, execution={"micro_batch": 4},
                                 model={"name": "torchscript", "file": str(self.folder / "m.pt"), "inputs": arrays, **model})  # fmt: skip
            document = json.loads(recipe.read_text())
            document["data"] = {"train": {"dataset": "npy", "arrays": [f"{name}={self.folder}/{name}.npy" for name in arrays]}}
            recipe.write_text(json.dumps(document))
            self.fails(recipe, 78 if message else 0, message or "")

    def test_a_loss_that_draws_random_numbers_is_held_against_its_parts_on_average(self):
        values = numpy.random.default_rng(0).normal(size=(SAMPLES, 8)).astype("float32")
        numpy.save(self.folder / "values.npy", values)
        for reduction, message in (("sum", None), ("mean", "with other random numbers each time and more apart than these explain")):
            torch.jit.script(made(models.RandomLoss)).save(self.folder / "m.pt")
            recipe = self.recipe("images", loss={"name": "model"}, stop={"updates": 3},
                                 model={"name": "torchscript", "file": str(self.folder / "m.pt"), "loss": "all", "reduction": reduction})  # fmt: skip
            document = json.loads(recipe.read_text())
            document["data"] = {"train": {"dataset": "npy", "inputs": str(self.folder / "values.npy")}}
            recipe.write_text(json.dumps(document))
            self.fails(recipe, 78 if message else 0, message or "")
        export(made(models.RandomLoss), "float32[4,8]", self.folder / "m.autotrain", precisions=["fp32"], loss=True)
        document["model"] = {"name": "exported", "file": str(self.folder / "m.autotrain")}
        recipe.write_text(json.dumps(document))
        self.assertEqual(len(self.train(recipe)), 3)

    def test_a_target_that_the_loss_ignores_ends_the_run(self):
        torch.manual_seed(0)
        said = []
        export(models.TokenMean(vocabulary=257), "int64[4,16]<257", self.folder / "m.autotrain", precisions=["fp32"], loss=True,
               targets="int64[4,16]<257", say=said.append)  # fmt: skip
        self.assertTrue(any("targets of -100" in line for line in said), said)
        (self.folder / "lines.txt").write_text("".join("word " * (1 + i % 3) + "\n" for i in range(SAMPLES)))
        recipe = self.recipe("images", loss={"name": "model"})
        document = json.loads(recipe.read_text())
        data = {"dataset": "documents", "files": [str(self.folder / "lines.txt")], "context": 16, "multiple_of": 16}
        document["data"] = {"train": data}
        recipe.write_text(json.dumps(document))
        self.fails(recipe, 65, "is given the target -100, which its loss ignores")


    def test_documents_of_other_lengths_than_the_file_takes_are_refused_before_training(self):
        export(nn.Sequential(nn.Embedding(257, 8), nn.Linear(8, 257)), "int64[4,16]<257", self.folder / "m.autotrain", precisions=["fp32"])
        places = ("train", "validation", "test")
        recipe = self.recipe("images")
        document = json.loads(recipe.read_text())
        document["data"] = {key: {"dataset": "documents", "files": [str(self.folder / f"{key}.txt")], "context": 16} for key in places}
        for place in places:
            for key in places:
                last = "abc" if key == place else "fifteen letters"
                (self.folder / f"{key}.txt").write_text("fifteen letters\n" * (SAMPLES - 1) + last + "\n")
            document["data"]["train"].pop("multiple_of", None)
            recipe.write_text(json.dumps(document))
            with self.subTest(place=place):
                self.fails(recipe, 78, f"data.{place}: has samples of different lengths", f"set data.{place}.multiple_of: 16")
            document["data"]["train"]["multiple_of"] = 16  # which the other data take from it
            recipe.write_text(json.dumps(document))
            with self.subTest(place=place, multiple_of=16):
                self.fails(recipe, 0)


class Ranks(SeveralInputs):
    def test_two_ranks_learn_what_one_does(self):
        for kind in ("exported with its loss", "scripted"):
            with self.subTest(model=kind):
                self.write_model(kind, models.dropping_with_loss if "loss" in kind else models.dropping_attends)
                recipe = self.text_recipe(kind, stop={"updates": 4}, checkpoint={"every": "4 updates"},
                                          execution={"micro_batch": 12, "lanes": 2})  # fmt: skip
                ends = []
                for ranks in (1, 2):
                    shutil.rmtree(self.folder / "run", ignore_errors=True)
                    out = self.autotrain("--config", recipe, "--output", self.folder / "run", "--quiet", *(["--ranks", "2"] if ranks == 2 else []))
                    self.assertEqual(out.returncode, 0, out.stderr)
                    ends.append((self.folder / "run" / "checkpoints" / "update-4" / "model.safetensors").read_bytes())
                self.assertTrue(ends[0] == ends[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
