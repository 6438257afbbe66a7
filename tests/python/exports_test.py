#!/usr/bin/env python3
"""A module is exported again only where it would be exported otherwise.

    exports_test.py path/to/libautotrain_python.so path/to/project
"""
import functools
import os
import sys
import tempfile
import types
import unittest
import unittest.mock
from os import getenv as variable
from pathlib import Path

import numpy
import torch

from given import autotrain

from autotrain import exports  # noqa: E402

SCALE, settings, MODE = 1.0, types.ModuleType("settings"), "plain"
settings.__file__, settings.scale = "/home/settings.py", 1.0
sys.modules["settings"] = settings


class Config:
    scale = 1.0


class Kind(type):
    scale = 1.0


class Scale(metaclass=Kind):
    pass


def by_global(value):
    return value * SCALE


def by_helper(value, depth=0):
    return by_helper(value, 1) if depth == 0 else by_global(value)  # calls itself, and another


def scaled_by(scale):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) * scale
    return Net


class Reads(torch.nn.Module):
    """Its pass reads what the test sets."""

    def __init__(self, read):
        super().__init__()
        self.linear, self.read = torch.nn.Linear(4, 4), read

    def forward(self, x):
        return self.read(self.linear(x))


class Global(Reads):
    def forward(self, x):
        return self.linear(x) * SCALE


class OfModule(Reads):
    def forward(self, x):
        return self.linear(x) * settings.scale


class OfClass(Reads):
    def forward(self, x):
        return self.linear(x) * Config.scale


class OfKind(Reads):
    def forward(self, x):
        return self.linear(x) * Scale.scale


class Imported(Reads):
    def forward(self, x):
        from settings import scale
        return self.linear(x) * scale


class ImportedWhole(Reads):
    def forward(self, x):
        import settings as here
        return self.linear(x) * here.scale


class ImportedOnce(Reads):
    @functools.cached_property
    def scale(self):
        return SCALE

    def forward(self, x):
        return self.linear(x) * self.scale


class OfInstalled(Reads):
    def forward(self, x):
        return self.linear(x) * numpy.autotrain_test_scale


class Named(Reads):
    def forward(self, x):
        return self.linear(x) * getattr(self, "read")


class ByName(Reads):
    def forward(self, x):
        return self.linear(x) * getattr(settings, "scale")


class OfDictionary(Reads):
    def forward(self, x):
        return self.linear(x) * vars(settings)["scale"]


class OfLoaded(Reads):
    def forward(self, x):
        return self.linear(x) * sys.modules["settings"].scale


class Environ(Reads):
    def forward(self, x):
        return self.linear(x) * float(os.environ.get("SCALE", "1"))


class Getenv(Reads):
    def forward(self, x):
        return self.linear(x) * float(variable("SCALE", "1"))


class OfFile(Reads):
    def forward(self, x):
        return self.linear(x) * float(open("scale").read())


class Unloaded(Reads):
    def forward(self, x):
        import this
        return self.linear(x) * len(this.s)


@functools.lru_cache
def cached_scale():
    return SCALE


class Cached(Reads):
    def forward(self, x):
        return self.linear(x) * cached_scale()


class CachedMethod(Reads):
    @functools.lru_cache
    def scale(self):
        return SCALE

    def forward(self, x):
        return self.linear(x) * self.scale()


class Usual(Reads):
    """What passes often name: functions, layouts, numbers and modules of installed packages, and parts of its own by name."""

    def forward(self, x):
        import torch.nn.functional as F
        from math import pi
        x = F.relu(getattr(self, f"{'linear'}")(x.contiguous(memory_format=torch.contiguous_format))).to(torch.float32) * pi
        return torch.cat([torch.tanh(x), torch.nn.functional.gelu(x * numpy.sqrt(2.0))], dim=-1).sum(-1)


class Inner(Reads):
    @property
    def scaled(self):
        return [self.linear.weight * SCALE for _ in range(1)][0]

    def forward(self, x):
        return x @ self.scaled


class Activation(torch.nn.Module):
    scale = 2

    def __init__(self, act):
        super().__init__()
        self.linear, self.act = torch.nn.Linear(4, 4), act

    def forward(self, x):
        return self.act(self.linear(x)) * self.scale


class Keys(unittest.TestCase):
    """An export is taken again only for a module that would be exported alike."""

    def key(self, module):
        return exports.fingerprint(module, "float32[4,4]", ("fp32",))

    def made(self, make):
        torch.manual_seed(0)
        return make()

    def test_whatever_changes_what_is_exported_changes_the_key(self):
        layer = lambda **options: torch.nn.TransformerEncoderLayer(8, 4, 16, **options)  # noqa: E731
        plain = self.made(layer)
        key = self.key(plain)
        self.assertIsNotNone(key)
        self.assertEqual(key, self.key(self.made(layer)))
        for other in (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16), lambda: layer(norm_first=True),
                      lambda: layer(activation=torch.nn.functional.gelu)):
            self.assertNotEqual(key, self.key(self.made(other)))
        plain.linear1.requires_grad_(False)
        self.assertNotEqual(key, self.key(plain))
        plain.linear1.requires_grad_(True)
        plain.norm1.eval()
        self.assertNotEqual(key, self.key(plain))

    def test_attributes_and_buffers_count(self):
        one, other = (self.made(lambda: Activation(torch.tanh)) for _ in range(2))
        self.assertEqual(self.key(one), self.key(other))
        other.scale = 3
        self.assertNotEqual(self.key(one), self.key(other))
        self.assertNotEqual(self.key(one), self.key(self.made(lambda: Activation(torch.sigmoid))))
        del other.scale
        other.register_buffer("shift", torch.zeros(2), persistent=False)
        self.assertNotEqual(self.key(one), self.key(other))

    def test_tensors_that_are_one_or_only_equal_differ(self):
        class Tied(torch.nn.Module):
            def __init__(self, tie):
                super().__init__()
                self.one, self.other = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
                tie(self)

            def forward(self, x):
                return self.other(self.one(x))

        def copied(net):
            net.other.weight = torch.nn.Parameter(net.one.weight.detach().clone())

        def tied(net):
            net.other.weight = net.one.weight

        def as_a_buffer(net):
            copied(net)
            weight = net.other._parameters.pop("weight").detach()
            net.other.register_buffer("weight", weight)

        def frozen(net):
            copied(net)
            net.other.weight.requires_grad_(False)

        def key(tie):
            return self.key(self.made(lambda: Tied(tie)))

        self.assertIsNotNone(key(tied))
        self.assertNotEqual(key(tied), key(copied))
        self.assertNotEqual(key(frozen), key(as_a_buffer))
        self.assertEqual(key(tied), key(tied))

    def test_what_has_no_numbers_yet_is_left_to_the_exporter(self):
        for module in (torch.nn.LazyLinear(4), torch.nn.Linear(4, 4, device="meta")):
            self.assertIsNone(self.key(module))
        for module, said in ((torch.nn.LazyLinear(4), "has no shape yet"), (torch.nn.Linear(4, 4, device="meta"), "on the device meta")):
            with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(autotrain.Error, said):
                exports.exported(module, "float32[4,4]", ("fp32",), folder)

    def test_examples_that_are_batches_are_told_apart_by_all_of_their_numbers(self):
        module, keys = torch.nn.Embedding(5000, 2), []

        def noted(module, examples, precisions):
            keys.append(str(examples))

        tokens = torch.zeros(4, 2000, dtype=torch.int64)
        with unittest.mock.patch.object(exports, "fingerprint", noted), tempfile.TemporaryDirectory() as folder:
            for batch in (tokens, tokens.index_fill(1, torch.tensor(1000), 7), tokens[:, :1500]):
                with unittest.mock.patch("autotrain_export.export", lambda *given, **options: Path(given[2]).touch()):
                    exports.exported(module, batch, ("fp32",), folder)
        self.assertEqual(len(set(keys)), 3)

    def test_what_has_no_lasting_name_is_exported_anew(self):
        self.assertIsNone(self.key(Activation(lambda x: x)))
        hooked = torch.nn.Linear(4, 4)
        hooked.register_forward_hook(lambda *_: None)
        self.assertIsNone(self.key(hooked))

    def test_values_of_closures_count(self):
        keys = [self.key(self.made(scaled_by(scale))) for scale in (1.0, 1.0, 0.0)]
        self.assertIsNotNone(keys[0])
        self.assertEqual(keys[0], keys[1])
        self.assertNotEqual(keys[0], keys[2])

    def changed_by(self, make, owner, name, value):
        """The keys before, with another value, and with the first one again."""
        keys, before = [], getattr(owner, name)
        for each in (before, value, before):
            setattr(owner, name, each)
            keys.append(self.key(self.made(make)))
        self.assertIsNotNone(keys[0])
        self.assertEqual(keys[0], keys[2])
        self.assertNotEqual(keys[0], keys[1])

    def test_globals_count_whoever_reads_them(self):
        here = sys.modules[__name__]
        for make in (lambda: Global(None), lambda: Reads(by_global), lambda: Reads(by_helper), lambda: Inner(None), lambda: ImportedOnce(None)):
            self.changed_by(make, here, "SCALE", 0.0)
        for make in (lambda: OfModule(None), lambda: Imported(None), lambda: ImportedWhole(None)):
            self.changed_by(make, settings, "scale", 0.0)
        numpy.autotrain_test_scale = 1.0
        self.addCleanup(delattr, numpy, "autotrain_test_scale")
        self.changed_by(lambda: OfInstalled(None), numpy, "autotrain_test_scale", 0.0)
        self.changed_by(lambda: OfClass(None), Config, "scale", 0.0)
        self.changed_by(lambda: Activation(torch.tanh), Activation, "scale", 3)

    def test_what_was_put_in_the_place_of_a_package_s_own_counts(self):
        for owner, name in ((torch.nn.Linear, "forward"), (Kind, "scale")):
            self.changed_by(lambda: OfKind(None), owner, name, by_helper)
        for owner, name in ((torch.nn.functional, "relu"), (torch.Tensor, "unflatten"), (torch, "einsum")):
            with unittest.mock.patch.object(owner, name, by_global):
                self.assertIsNone(self.key(Global(None)), name)
        hook = torch.nn.modules.module.register_module_forward_hook(by_helper)
        self.assertIsNone(self.key(Global(None)))
        hook.remove()
        self.assertIsNotNone(self.key(Global(None)))

    def test_what_no_name_tells_is_exported_anew(self):
        for kind in (ByName, OfDictionary, OfLoaded, Environ, Getenv, OfFile, Unloaded, Cached, CachedMethod):
            self.assertIsNone(self.key(kind(None)), kind.__name__)

    def test_usual_passes_are_exported_once(self):
        for make in (lambda: Usual(None), lambda: Named(2.0)):
            keys = [self.key(self.made(make)) for _ in range(2)]
            self.assertIsNotNone(keys[0])
            self.assertEqual(*keys)

    def test_defaults_of_torch_count(self):
        before = self.key(self.made(lambda: Global(None)))
        module = self.made(lambda: Global(None))
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.assertNotEqual(before, self.key(module))

    def test_globals_that_no_pass_reads_do_not_count(self):
        before = self.key(self.made(lambda: Global(None)))
        globals()["MODE"] = object()
        self.assertEqual(before, self.key(self.made(lambda: Global(None))))

    def test_a_global_without_a_lasting_name_is_exported_anew(self):
        globals()["SCALE"] = torch.ones(())
        self.addCleanup(globals().update, SCALE=1.0)
        self.assertIsNone(self.key(Global(None)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
