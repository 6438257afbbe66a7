#!/usr/bin/env python3
"""What autotrain.train is given, data and recipes, is written as it is, or refused by name.

    data_test.py path/to/libautotrain_python.so path/to/project
"""
import json
import sys
import tempfile
import unittest
from pathlib import Path

from given import autotrain, numpy, torch

from autotrain.data import example_of, write
from autotrain import recipes
from autotrain.recipes import merged, read, written
from autotrain.run import eager
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

INPUTS, TARGETS = torch.arange(12.0).view(6, 2), torch.arange(6)


class Made(Dataset):
    def __init__(self, make, samples=6):
        self.make, self.samples = make, samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return self.make(index)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(INPUTS, TARGETS))


class StreamWithLength(Stream):
    def __len__(self):
        return len(INPUTS)


class Data(unittest.TestCase):
    def written(self, data, name="train"):
        with tempfile.TemporaryDirectory() as folder:
            write(name, data, Path(folder))
            return [numpy.load(Path(folder) / f"{name}-{what}.npy").tolist() for what in ("inputs", "targets")]

    def refused(self, said, data, name="train"):
        with self.assertRaisesRegex(autotrain.StepError, f"{name}: .*{said}"):
            self.written(data, name)

    def test_arrays_and_datasets_in_any_form(self):
        expected = [INPUTS.tolist(), TARGETS.tolist()]
        for data in ((INPUTS, TARGETS), [INPUTS, TARGETS], (INPUTS.numpy(), TARGETS.tolist()), (INPUTS.tolist(), TARGETS.tolist()),
                     (list(INPUTS), list(TARGETS)), TensorDataset(INPUTS, TARGETS), list(zip(INPUTS, TARGETS)),
                     Made(lambda index: [INPUTS[index], int(TARGETS[index])])):
            self.assertEqual(self.written(data), expected)
        pairs = list(zip(INPUTS, TARGETS))[:2]
        self.assertEqual(self.written(pairs), [part[:2] for part in expected])

    def test_arrays_however_they_lie_in_memory(self):
        plain = INPUTS.numpy()
        for inputs in (torch.stack([INPUTS[:, 0], INPUTS[:, 1]]).t(), numpy.asfortranarray(plain), plain.astype(">f4"), plain.astype("float128"),
                       INPUTS.requires_grad_(False).clone().requires_grad_(), torch.complex(INPUTS, -INPUTS).conj().imag, INPUTS.bfloat16(),
                       numpy.ma.masked_array(plain), INPUTS.to(torch.float8_e4m3fn), numpy.asmatrix(plain)):
            for data in ((inputs, TARGETS), list(zip(inputs, TARGETS))):
                with tempfile.TemporaryDirectory() as folder:
                    write("train", data, Path(folder))
                    stored = numpy.load(Path(folder) / "train-inputs.npy")
                self.assertEqual(stored.reshape(6, 2).tolist(), INPUTS.tolist())
                self.assertTrue(stored.flags.c_contiguous and stored.dtype.isnative and stored.dtype.itemsize <= 8, stored.dtype)
        for targets in (TARGETS.numpy().astype(numpy.uint64), TARGETS.numpy().astype(">i2"), [target.bfloat16() for target in TARGETS]):
            self.assertEqual(self.written((INPUTS, targets))[1], TARGETS.tolist())

    def test_what_is_masked_out_is_not_trained_on(self):
        masked = numpy.ma.masked_greater(INPUTS.numpy(), 3)
        said = "masked numbers\n.*fill them"
        for data in ((masked, TARGETS), (INPUTS, numpy.ma.masked_equal(TARGETS.numpy(), 2)), (list(masked), TARGETS),
                     (INPUTS, [0, 1, 2, 3, 4, numpy.ma.masked]), Made(lambda i: (masked[i], 1)), (torch.masked.masked_tensor(INPUTS, INPUTS > 3), TARGETS)):
            self.refused(said, data)

    def test_numbers_that_no_file_holds(self):
        self.refused("18446744073709551615, beyond what int64 holds", (INPUTS, [2 ** 64 - 1] * 6))
        self.refused("on meta, which NumPy does not take", (INPUTS.to("meta"), TARGETS))
        self.refused("of torch.quint8 on cpu", (torch.quantize_per_tensor(INPUTS, 1.0, 0, torch.quint8), TARGETS))

    def test_samples_of_several_shapes(self):
        self.refused(r"input of sample 1 has \[4\] where the first has \[3\]", ([torch.zeros(3), torch.zeros(4)], [0, 1]))
        self.refused(r"sample 1 has a float32 of \[4\]", [(torch.zeros(3), 0), (torch.zeros(4), 1)])

    def test_samples_that_are_no_pairs(self):
        self.refused("sample 1 is a tuple of 1, not a pair", Made(lambda i: (INPUTS[i], 1) if i % 2 == 0 else (INPUTS[i],)))
        self.refused("sample 4 is a list of 3, not a pair", Made(lambda i: (INPUTS[i], 1) if i < 4 else [INPUTS[i], 1, 2]))
        self.refused("sample 0 is a Tensor, not a pair", INPUTS)

    def test_samples_that_are_others_each_time(self):
        draws = iter([False] * 9 + [True] * 50)
        for make in (lambda i: (torch.rand(2), 1), lambda i: (torch.rand(1 + i), 1), lambda i: (INPUTS[i].flip(0) if next(draws) else INPUTS[i], 1)):
            self.refused("is another each time it is read.*\n.*data.augment", Made(make))
        self.refused("sample 5[0-9] is another", Made(lambda i: (torch.rand(2) if i >= 50 else INPUTS[0], 1), samples=100))

    def test_examples_of_inputs(self):
        for inputs, example in ((INPUTS > 3, "bool[4,2]"), (INPUTS, "float32[4,2]"), (INPUTS.long(), "int64[4,2]<12")):
            self.assertEqual(example_of(inputs.numpy()), example)

    def test_images_of_bytes_are_made_floats(self):
        for shape in ((6, 3, 2, 2), (6, 2, 2)):
            with self.assertRaisesRegex(autotrain.StepError, "images of uint8"):
                example_of(numpy.zeros(shape, numpy.uint8))
        self.assertEqual(example_of(numpy.zeros((6, 2, 2), numpy.int64)), "int64[4,2,2]<1")

    def test_what_has_no_numbers(self):
        self.refused("the target of sample 0 is a NoneType, and no array", Made(lambda i: (INPUTS[i], None)))
        self.refused("the target of sample 0 is a dict", Made(lambda i: (INPUTS[i], {"label": 1})))
        self.refused("the target of sample 3 is an array of <U2", Made(lambda i: (INPUTS[i], 1 if i < 3 else "ab")))
        self.refused("a list, and no array of numbers", ([[1.0], [1.0, 2.0]], [0, 1]))
        self.refused("a sparse or nested tensor", (torch.eye(6).to_sparse(), TARGETS))
        self.refused("targets that are a NoneType", (INPUTS, None))

    def test_what_has_no_samples(self):
        self.refused("is a DataLoader.*\n.*the loader's dataset", DataLoader(TensorDataset(INPUTS, TARGETS)))
        for data, kind in (({"x": INPUTS, "y": TARGETS}, "dict"), (None, "NoneType"), (Stream(), "Stream"),
                           (StreamWithLength(), "StreamWithLength")):
            self.refused(f"is a {kind}, which has no samples by their number", data)
        self.refused("has no samples", TensorDataset(INPUTS[:0], TARGETS[:0]), "validation")
        for data in ((INPUTS[:0], TARGETS[:0]), (INPUTS[:0].long(), TARGETS[:0])):
            self.refused("has no samples", data)
        self.refused("has 6 inputs and 5 targets", (INPUTS, TARGETS[:5]))


class Recipes(unittest.TestCase):
    def test_files_that_are_extended_are_found_from_anywhere(self):
        here = Path.cwd()
        for named, found in (("base.yaml", [f"{here}/base.yaml"]), (Path("a") / "b.yaml", [f"{here}/a/b.yaml"]), (None, []),
                             (["base.yaml", "/x.yaml"], [f"{here}/base.yaml", "/x.yaml"]), ("${PLACE}/x.yaml", ["${PLACE}/x.yaml"])):
            self.assertEqual(read({"extends": named})["extends"], found)
        self.assertEqual(read({})["extends"], [])

    def test_files_are_read_by_the_program(self):
        with tempfile.TemporaryDirectory() as name:
            file = Path(name).resolve() / "of $$1.yaml"
            with self.assertRaisesRegex(autotrain.Error, "of ..1.yaml: is not a file"):
                read(file)
            file.write_text("stop: {updates: 3}\n")
            self.assertEqual(read(file), {"extends": [str(file).replace("$", "$$")]})
            link = Path(name).resolve() / "link.yaml"
            link.symlink_to(file)
            self.assertEqual(read(link), {"extends": [str(link)]})  # what it extends is looked for beside the link, as by the program

    def test_keys_of_ours_stand_above_files_and_a_name_below_them(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            file = recipes.write(read({"extends": "/base.yaml", "data": {"workers": 2}}), {"data": {"train": {"inputs": "/a$b.npy"}}}, "net", folder)
            self.assertEqual(json.loads(file.read_text()), {"data": {"workers": 2, "train": {"inputs": "/a$$b.npy"}},
                                                            "extends": [str(folder / "defaults.json"), "/base.yaml"]})
            self.assertEqual(json.loads((folder / "defaults.json").read_text()), {"name": "net"})
            self.assertEqual(recipes.with_places(f"{file}:1:8: lr: is\n{file}: x", file), "the recipe: lr: is\nthe recipe: x")

    def test_names_of_runs(self):
        module = torch.nn.Linear(2, 2)
        for recipe, name in (({"name": "a"}, "a"), ({"name": 5}, "5"), ({"name": None}, "linear"), ({}, "linear"), ("x/short.yaml", "short")):
            self.assertEqual(recipes.name_of(recipe, module), name)

    def test_sections_that_are_none_are_named(self):
        own = {"data": {"train": {"inputs": "x.npy"}}, "model": {"name": "exported"}}
        self.assertEqual(merged({"data": {"workers": 2}}, own)["data"], {"workers": 2, "train": {"inputs": "x.npy"}})
        for recipe, where in (({"data": "x"}, "data"), ({"model": "resnet"}, "model"), ({"data": {"train": ["a"]}}, "data.train")):
            with self.assertRaisesRegex(autotrain.StepError, f"^{where}: is .* in the recipe"):
                merged(recipe, own)
        with self.assertRaisesRegex(autotrain.StepError, "recipe: is a list"):
            read([1])

    def test_values_of_numpy_pytorch_and_paths(self):
        recipe = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": torch.tensor(2), "d": Path("x"), "e": numpy.arange(2)}
        self.assertEqual(json.loads(written(recipe)), {"a": 0.5, "b": 3, "c": 2, "d": "x", "e": [0, 1]})
        with self.assertRaisesRegex(autotrain.StepError, "has a object in it"):
            written({"a": object()})
        itself = {}
        itself["a"] = itself
        for recipe in (itself, {("a", "b"): 1}):
            with self.assertRaisesRegex(autotrain.StepError, "recipe: cannot be written"):
                written(recipe)

    def test_modules_that_are_compiled_or_none(self):
        module = torch.nn.Linear(2, 2)
        self.assertIs(eager(torch.compile(module)), module)
        with self.assertRaisesRegex(autotrain.StepError, "module: is a function"):
            eager(lambda inputs: inputs)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
