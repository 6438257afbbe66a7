#!/usr/bin/env python3
"""A module is exported again only where it would be exported otherwise.

    exports_test.py path/to/libautotrain_python.so path/to/project
"""
import sys
import types
import unittest

import torch

from given import autotrain  # noqa: F401

from autotrain import exports  # noqa: E402

SCALE, settings, MODE = 1.0, types.ModuleType("settings"), "plain"
settings.__file__, settings.scale = "/home/settings.py", 1.0
sys.modules["settings"] = settings


class Config:
    scale = 1.0


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
        for make in (lambda: Global(None), lambda: Reads(by_global), lambda: Reads(by_helper), lambda: Inner(None)):
            self.changed_by(make, here, "SCALE", 0.0)
        self.changed_by(lambda: OfModule(None), settings, "scale", 0.0)
        self.changed_by(lambda: OfClass(None), Config, "scale", 0.0)
        self.changed_by(lambda: Activation(torch.tanh), Activation, "scale", 3)

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
