#!/usr/bin/env python3
"""autotrain.train trains a module on arrays, and autotrain.Run reads what a run left.

    run_test.py path/to/libautotrain_python.so path/to/project path/to/autotrain
"""
import copy
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import given  # noqa: F401
import torch

os.environ["AUTOTRAIN_PROGRAM"] = str(Path(sys.argv[3]).resolve())

import autotrain  # noqa: E402
from autotrain import exports, program, training  # noqa: E402
from autotrain.run import standing  # noqa: E402

RECIPE = {"name": "points", "seed": 1, "loss": {"name": "cross_entropy"}, "optimizer": {"name": "adamw", "lr": 0.01,
          "reference_batch": 64}, "batch": {"effective": 64}, "stop": {"updates": 40},
          "execution": {"device": "cpu", "precision": "fp32", "memory": {"budget": "96MiB"}}}


def points(samples, seed):
    """Two classes on either side of a line."""
    inputs = torch.randn(samples, 6, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs[:, 0] + inputs[:, 1] > 0).long()


def module():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def accuracy(model):
    inputs, targets = points(500, 9)
    return (model(inputs).argmax(1) == targets).float().mean().item()


class Trains(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = str(Path(cls.folder.name) / "cache")
        cls.model = module()
        cls.first = copy.deepcopy(cls.model.state_dict())
        cls.output = Path(cls.folder.name) / "run"
        cls.run_ = autotrain.train(RECIPE, cls.model, train=points(512, 1), validation=points(128, 2), output=cls.output)

    def test_the_run_is_there_with_its_figures(self):
        run = autotrain.Run(self.output)
        self.assertEqual((run.summary["status"], run.summary["updates"]), ("completed", 40))
        self.assertEqual(len(list(run.metrics["loss"])), 40)
        self.assertEqual(list(run.metrics["update"]), list(range(1, 41)))
        self.assertIn("accuracy", run.evaluations)
        self.assertEqual(run.plan["effective_batch"], 64)
        self.assertIn("<html", run.page.read_text())
        self.assertIn("completed, 40 updates", repr(run))
        self.assertIn("<iframe", run._repr_html_())

    def test_the_module_is_untouched_until_it_is_given_the_weights(self):
        self.assertTrue(all(torch.equal(self.first[name], value) for name, value in self.model.state_dict().items()))
        model = copy.deepcopy(self.model)
        self.assertLess(accuracy(model), 0.9)
        self.assertGreater(accuracy(self.run_.load_into(model)), 0.95)

    def test_weights_of_another_module_are_refused(self):
        with self.assertRaisesRegex(autotrain.Error, "not this module's"):
            self.run_.load_into(torch.nn.Linear(2, 2))

    def test_weights_of_other_shapes_are_refused(self):
        other = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        with self.assertRaisesRegex(autotrain.Error, r"0.weight of \[16, 6\] where this has \[8, 6\]"):
            self.run_.load_into(other)

    def test_the_module_that_is_compiled_takes_them(self):
        model = copy.deepcopy(self.model)
        self.run_.load_into(torch.compile(model))
        self.assertGreater(accuracy(model), 0.95)

    def test_a_module_with_a_state_of_its_own_takes_them(self):
        class Versioned(torch.nn.Sequential):
            def get_extra_state(self):
                return torch.ones(2)

            def set_extra_state(self, state):
                raise AssertionError("the run has none")

        class Named(torch.nn.Identity):
            def get_extra_state(self):
                return {"version": 1}

            def set_extra_state(self, state):
                raise AssertionError("the run has none")
        model = Versioned(*copy.deepcopy(self.model), Named())
        self.run_.load_into(model)
        self.assertGreater(accuracy(model), 0.95)

    def test_a_recipe_file_that_extends_another(self):
        folder = Path(self.folder.name)
        (folder / "base.json").write_text(json.dumps({**RECIPE, "stop": {"updates": 9}}))
        (folder / "short.yaml").write_text("extends: base.json\nstop: {updates: 3}\n")
        run = autotrain.train(folder / "short.yaml", self.model, train=points(512, 1), output=folder / "short")
        self.assertEqual(run.summary["updates"], 3)

    def trained_by(self, name, text):
        """A run of that file, whose working directory is not the file's."""
        folder = Path(self.folder.name) / f"of {name}"
        folder.mkdir()
        rest = {key: value for key, value in RECIPE.items() if key not in ("name", "batch", "stop", "execution")}
        (folder / "base.json").write_text(json.dumps(rest))
        (folder / "recipe.yaml").write_text("extends: base.json\n" + text)
        return autotrain.train(folder / "recipe.yaml", self.model, train=points(128, 1), output=folder / "run")

    def test_a_recipe_file_is_read_as_the_program_reads_it(self):
        machine = "execution: {device: cpu, memory: {budget: 96MiB}, recompute: off}\n"
        run = self.trained_by("numbers", "batch: {effective: 010}\nstop: {updates: 2}\noptimizer: {lr: 2e-2}\nmodel: resnet18\n" + machine)
        self.assertEqual(run.plan["effective_batch"], 10)
        self.assertRegex(run.recipe, "(?m)^name: recipe$")
        self.assertRegex(run.recipe, "(?m)^  lr: 0.02$")
        for name, text, said in (("twice", "stop: {epochs: 1, epochs: 3}\n", r"of twice/recipe.yaml:2:19: the key \"epochs\" stands twice"),
                                 ("broken", "stop: {updates: 3\n", "of broken/recipe.yaml:3:10: not valid YAML"),
                                 ("word", "stop: {updats: 3}\n", "of word/recipe.yaml:2:8: stop.updats")):
            with self.assertRaisesRegex(autotrain.Error, said):
                self.trained_by(name, text + machine)

    def test_places_in_a_dictionary_are_no_places_in_a_file(self):
        with self.assertRaises(autotrain.Error) as caught:
            autotrain.train({**RECIPE, "stop": {"updats": 3}}, self.model, train=points(64, 1), output=Path(self.folder.name) / "bad")
        self.assertIn("the recipe: stop.updats", str(caught.exception))
        self.assertNotIn("json", str(caught.exception))

    def test_what_a_pass_reads_is_trained_with(self):
        def losses(scale, name):
            class Scaled(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = module()

                def forward(self, inputs):
                    return self.inner(inputs) * scale
            run = autotrain.train({**RECIPE, "stop": {"updates": 1}}, Scaled(), train=points(128, 1), output=Path(self.folder.name) / name)
            return list(run.metrics["loss"])
        self.assertNotAlmostEqual(losses(1.0, "one")[0], math.log(2), places=4)
        self.assertAlmostEqual(losses(0.0, "none")[0], math.log(2), places=5)

    def test_a_model_of_tokens_trains_on_whole_numbers(self):
        torch.manual_seed(4)
        model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20))
        tokens = torch.randint(0, 20, (256, 5), generator=torch.Generator().manual_seed(5))
        run = autotrain.train({**RECIPE, "name": "tokens"}, model, train=(tokens, (tokens + 1) % 20),
                              validation=(tokens[:64], (tokens[:64] + 1) % 20), output=Path(self.folder.name) / "tokens")
        losses = list(run.metrics["loss"])
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertEqual((run.load_into(model)(tokens).argmax(-1) == (tokens + 1) % 20).float().mean().item(), 1)

    def test_several_inputs_are_refused_by_name(self):
        inputs, targets = points(16, 1)
        for several in ((inputs, inputs), [inputs, inputs], {"a": inputs, "b": inputs}):
            with self.assertRaisesRegex(autotrain.StepError, "several inputs"):
                autotrain.train(RECIPE, self.model, train=(several, targets))

    def test_a_loss_inside_the_module_is_refused_by_name(self):
        output = Path(self.folder.name) / "inside"
        file = Path(self.folder.name) / "inside.yaml"
        file.write_text("loss: {name: model}\nstop: {updates: 1}\n")
        of_a_file = {key: section for key, section in RECIPE.items() if key != "loss"} | {"extends": file}
        for recipe in ({**RECIPE, "loss": {"name": "model"}}, {**RECIPE, "loss": "model"}, file, of_a_file):
            with self.assertRaisesRegex(autotrain.StepError, "loss: is the module's own"):
                autotrain.train(recipe, self.model, train=points(16, 1), output=output)
        self.assertFalse(output.exists())

    def test_a_dataset_is_the_same_as_its_arrays(self):
        dataset = torch.utils.data.TensorDataset(*points(512, 1))
        kept = len(list(exports.folder().iterdir()))
        again = autotrain.train(RECIPE, self.model, train=dataset, validation=points(128, 2), output=Path(self.folder.name) / "second")
        self.assertEqual(list(again.metrics["loss"]), list(self.run_.metrics["loss"]))
        self.assertEqual(len(list(exports.folder().iterdir())), kept, "the same module was exported twice")

    def test_other_weights_are_another_file(self):
        one, other = module(), module()
        with torch.no_grad():
            other[0].weight[0, 0] += 1
        prints = [exports.fingerprint(m, "float32[4,6]", ("fp32",)) for m in (one, module(), other)]
        self.assertEqual(prints[0], prints[1])
        self.assertNotEqual(prints[0], prints[2])

    def test_what_the_program_says_is_said(self):
        with self.assertRaises(autotrain.Error) as caught:
            autotrain.train({**RECIPE, "stop": {"updats": 3}}, self.model, train=points(64, 1), output=Path(self.folder.name) / "bad")
        self.assertIn("updats", str(caught.exception))

    def test_an_error_is_said_from_its_beginning_without_frames(self):
        logged = [f"[train] update {number}" for number in range(30)]
        frames = [f"frame #{number}: <unknown function> + 0x1 (0x2 in libc.so.6)" for number in range(30)]
        error = ["error: internal: index out of range in self", "Exception raised from operator() at Embedding.cpp:1"]
        said = str(program.failure(70, "\n".join([*logged, *error, *frames, "", "this is a bug of autotrain; please report it"])))
        self.assertEqual(said.splitlines()[1:], [*error, "this is a bug of autotrain; please report it"])
        self.assertEqual(str(program.failure(-9, "\n".join(logged))).splitlines()[1:], logged[-12:])

    def test_a_folder_that_is_no_run(self):
        with self.assertRaisesRegex(autotrain.Error, "no run folder"):
            autotrain.Run(self.folder.name)


class Resumes(unittest.TestCase):
    """Runs that were interrupted, and go on by the same call."""

    RECIPE = {**RECIPE, "stop": {"updates": 400}}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = str(Path(cls.folder.name) / "cache")

    def train(self, name, seed=3, recipe=None, training=None, width=16, **options):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Dropout(0.1), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 2))
        return autotrain.train(recipe or self.RECIPE, model, train=training or points(300, 1), output=Path(self.folder.name) / name, **options)

    def interrupted(self, name):
        """A run that gets an interrupt, as from a keyboard, once it has made some updates."""
        folder = Path(self.folder.name) / name

        def interrupt():
            while not ((folder / "recipe.yaml").exists() and len(autotrain.Run(folder).rows("update")) > 20):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt) as caught:
            self.train(name)
        thread.join()
        if sys.version_info >= (3, 11):
            self.assertIn(f"output='{folder.resolve()}', resume=True", caught.exception.__notes__[0])
        run = autotrain.Run(folder)
        self.assertEqual(run.summary["status"], "interrupted")
        self.assertLess(run.summary["updates"], 400)
        return run

    def weights_of(self, run):
        file = run.path / "weights.safetensors"
        program.call("export", "--run", run.path, "--output", file)
        return file.read_bytes()

    def test_an_interrupted_run_ends_as_one_that_was_not(self):
        straight = self.train("straight")
        began = self.interrupted("resumed")
        for said, options in (("train-targets: is not what the run in .*resumed was begun with", {"training": (points(300, 1)[0], points(300, 2)[1])}),
                              ("module: is not what", {"width": 8})):
            with self.assertRaisesRegex(autotrain.StepError, said):
                self.train("resumed", resume=True, **options)
        with self.assertRaisesRegex(autotrain.Error, "holds a run already\n.*resume=True"):
            self.train("resumed")
        run = self.train("resumed", seed=4, resume=True)  # a new process may draw other first weights
        self.assertEqual((run.summary["status"], run.summary["updates"]), ("completed", 400))
        self.assertEqual(run.path, began.path)
        self.assertEqual(self.weights_of(run), self.weights_of(straight))
        losses = [list(each.metrics["loss"]) for each in (run, straight)]
        self.assertEqual(*losses)
        self.assertEqual(sorted(file.name for file in (run.path / "given").iterdir()), ["model.autotrain"])
        self.assertEqual(self.train("resumed", resume=True).summary["updates"], 400)  # and again, with nothing left to do

    def test_the_program_resumes_it_too(self):
        run = self.interrupted("by program")
        program.call("train", "--config", run.path / "recipe.yaml", "--output", run.path, "--resume", "--quiet")
        self.assertEqual(run.summary["status"], "completed")

    def test_without_a_run_it_begins(self):
        with self.assertRaisesRegex(autotrain.StepError, "resume: does not say which run"):
            autotrain.train(RECIPE, module(), train=points(64, 1), resume=True)
        short = {**RECIPE, "stop": {"updates": 2}}
        with self.assertRaises(autotrain.Error):
            self.train("none", recipe={**short, "optimizer": {"name": "none"}})
        self.assertFalse((Path(self.folder.name) / "none").exists())
        (Path(self.folder.name) / "file").touch()
        with self.assertRaisesRegex(autotrain.Error, "file/run: cannot be made: Not a directory"):
            self.train("file/run", recipe=short)
        left = Path(self.folder.name) / "none" / "given"  # by one that was killed in its search
        left.mkdir(parents=True)
        for name in ("train-inputs.npy", "model.autotrain"):
            (left / name).write_text("of something else")
        self.assertEqual(self.train("none", recipe=short, resume=True).summary["updates"], 2)

    def test_a_folder_that_another_trains_in_is_left_alone(self):
        folder = Path(self.folder.name) / "busy"
        folder.mkdir()
        with training.held(folder), self.assertRaisesRegex(autotrain.Error, "busy: is being trained in by another process"):
            self.train("busy")
        self.assertEqual(list(folder.iterdir()), [])


class Folders(unittest.TestCase):
    """What became of a run's folder since."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name).resolve() / "run"
        self.path.mkdir()
        for name, content in (("recipe.yaml", "name: x\n"), ("summary.json", '{"status": "completed", "updates": 1}'), ("plan.json", "{}"),
                              ("metrics.jsonl", '{"kind": "update", "update": 1, "loss": 2.0}\n')):
            (self.path / name).write_text(content)

    def test_files_that_are_damaged_are_named(self):
        run = autotrain.Run(self.path)
        for name, read in (("summary.json", lambda: repr(run)), ("plan.json", lambda: run.plan), ("metrics.jsonl", lambda: run.metrics),
                           ("metrics.jsonl", lambda: run.events)):
            whole = (self.path / name).read_bytes()
            for content in (whole[:-5] + b"\n", bytes(30) + b"\n", b"\n", b"\xff\xfe\x80\n", b"[1]\n", whole + b"{]\n"):
                (self.path / name).write_bytes(content)
                with self.assertRaisesRegex(autotrain.Error, f"{self.path / name}.*is damaged"):
                    read()
            (self.path / name).write_bytes(whole)
        with self.assertRaisesRegex(autotrain.Error, "metrics.jsonl:2: is damaged"):
            (self.path / "metrics.jsonl").write_bytes((self.path / "metrics.jsonl").read_bytes() + b"\n")
            run.rows("update")
        with self.assertRaisesRegex(autotrain.Error, "recipe.yaml: is damaged"):
            (self.path / "recipe.yaml").write_bytes(b"name: \xff\n")
            run.recipe

    def test_it_is_found_from_another_working_directory(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.path.parent)
        run = autotrain.Run("run")
        os.chdir(before)
        self.assertIn("completed, 1 updates", repr(run))
        self.assertEqual(len(run.rows("update")), 1)

    def test_one_that_is_gone_is_not_said_to_be_running(self):
        run = autotrain.Run(self.path)
        self.path.rename(self.path.with_name("moved"))
        for read in (lambda: repr(run), lambda: run.summary, lambda: run.rows("update"), lambda: run.recipe):
            with self.assertRaisesRegex(autotrain.Error, "is no run folder"):
                read()


class Rows(unittest.TestCase):
    def test_updates_before_a_rollback_stand_once(self):
        rows = [{"kind": "update", "update": n} for n in (1, 2, 3, 4)]
        rows += [{"kind": "event", "event": "rollback", "update": 2}, {"kind": "update", "update": 3}]
        self.assertEqual([row["update"] for row in standing(rows) if row["kind"] == "update"], [1, 2, 3])

    def test_a_line_that_is_being_written_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "recipe.yaml").write_text("name: x\n")
            (Path(folder) / "metrics.jsonl").write_text(json.dumps({"kind": "update", "update": 1, "loss": 2.0}) + '\n{"kind":"upd')
            self.assertEqual(list(autotrain.Run(folder).metrics["update"]), [1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
