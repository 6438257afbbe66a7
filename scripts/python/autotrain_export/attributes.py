"""What modules keep beside the values of their tensors: attributes, and the lists, dictionaries and objects in them."""

import argparse
import sys
import types
from collections import OrderedDict, deque
from contextlib import contextmanager
from functools import lru_cache, partial

import torch

from .places import is_theirs
from .values import call_all

DEPTH = 4  # of containers within each other
KINDS = (OrderedDict, dict, list, set, deque)


@lru_cache(1024)
def is_own(kind):
    """Whether a class is neither PyTorch's nor of Python's library."""
    source = sys.modules.get(kind.__module__)
    return is_theirs(getattr(source, "__file__", None) or "")


def attributes_of(value):
    """The attributes of an object of a class of somebody's own, or of one that is only for attributes; None of others. Modules are parts, or
    somebody else's."""
    kind = type(value)  # others than it may be asked for raise, or compute
    if issubclass(kind, (torch.nn.Module, torch.Tensor, type, types.ModuleType)):
        return None
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    known = issubclass(kind, (types.SimpleNamespace, argparse.Namespace))
    return attributes if type(attributes) is dict and (known or is_own(kind)) else None


def kind_of(container):
    """The kind of Python's own that a container is of: classes that are made of it may forbid, or do something else in, its methods."""
    return next(kind for kind in KINDS if isinstance(container, kind))


def _entries(container):
    kind = kind_of(container)
    return list(kind.items(container) if issubclass(kind, dict) else kind.__iter__(container))


def _flat(entries, kind):
    return [part for entry in entries for part in entry] if issubclass(kind, dict) else entries


PLAIN = (str, bytes, int, float, complex, bool, type(None))


def _containers(value, depth, objects, seen):
    """objects  whether the attributes of objects count, and what tuples hold, too
    seen     by identity, how deep each was looked into: many may hold the same one"""
    if type(value) in PLAIN or seen.get(id(value), -1) >= depth:
        return
    seen[id(value)] = depth
    held = attributes_of(value) if objects and not isinstance(value, (*KINDS, tuple)) else value
    if depth == 0 or not isinstance(held, (*KINDS, tuple) if objects else KINDS):
        return
    items = held if isinstance(held, tuple) else _entries(held)
    if not isinstance(held, tuple):
        yield held
    for item in [item for _, item in items] if isinstance(held, dict) else items:
        yield from _containers(item, depth - 1, objects, seen)


def _refill(container, before):
    kind, now = kind_of(container), _entries(container)
    if len(now) == len(before) and all(map(lambda one, other: one is other, _flat(now, kind), _flat(before, kind))):
        return
    kind.clear(container)
    if issubclass(kind, dict):
        for key, value in before:
            kind.__setitem__(container, key, value)
    else:
        (kind.update if kind is set else kind.extend)(container, before)


class Contents:
    """Of containers, and of those in them: the same objects, in the same order.

    objects  whether the attributes of objects are among them"""

    def __init__(self, values, depth=DEPTH, objects=False):
        seen = {}
        found = (each for value in values for each in _containers(value, depth, objects, seen))
        self.containers = {id(each): (each, _entries(each)) for each in found}

    def put_back(self):
        """What cannot be put back keeps nothing else from it."""
        call_all(partial(_refill, *each) for each in self.containers.values())


class Attributes:
    """Of the parts of a module as they are now. What is assigned to them later, or put into what they keep, can be taken back: parameters,
    buffers and parts that are made on the way, too."""

    def __init__(self, parts, objects=False):
        self.parts = [(part, dict(vars(part))) for part in parts]
        self.contents = Contents((value for _, attributes in self.parts for value in attributes.values()), objects=objects)

    def put_back(self):
        for part, before in self.parts:
            own = vars(part)
            for name in set(own) - set(before):
                del own[name]
            own.update(before)
        self.contents.put_back()


@contextmanager
def attributes_kept(module):
    attributes = Attributes(module.modules(), objects=True)
    try:
        yield
    finally:
        attributes.put_back()
