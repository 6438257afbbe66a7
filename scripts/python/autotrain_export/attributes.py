"""What modules keep beside the values of their tensors: attributes, and the lists and dictionaries in them."""

from collections import OrderedDict, deque
from contextlib import contextmanager
from functools import partial

from .values import call_all

DEPTH = 4  # of containers within each other
KINDS = (OrderedDict, dict, list, set, deque)


def _kind(container):
    """The kind of Python's own that a container is of: classes that are made of it may forbid, or do something else in, its methods."""
    return next(kind for kind in KINDS if isinstance(container, kind))


def _entries(container):
    kind = _kind(container)
    return list(kind.items(container) if issubclass(kind, dict) else kind.__iter__(container))


def _flat(entries, kind):
    return [part for entry in entries for part in entry] if issubclass(kind, dict) else entries


def _containers(value, depth):
    if isinstance(value, KINDS) and depth > 0:
        yield value
        for item in [item for _, item in _entries(value)] if isinstance(value, dict) else _entries(value):
            yield from _containers(item, depth - 1)


def _refill(container, before):
    kind, now = _kind(container), _entries(container)
    if len(now) == len(before) and all(map(lambda one, other: one is other, _flat(now, kind), _flat(before, kind))):
        return
    kind.clear(container)
    if issubclass(kind, dict):
        for key, value in before:
            kind.__setitem__(container, key, value)
    else:
        (kind.update if kind is set else kind.extend)(container, before)


class Contents:
    """Of containers, and of those in them: the same objects, in the same order."""

    def __init__(self, values, depth=DEPTH):
        found = (each for value in values for each in _containers(value, depth))
        self.containers = {id(each): (each, _entries(each)) for each in found}

    def put_back(self):
        """What cannot be put back keeps nothing else from it."""
        call_all(partial(_refill, *each) for each in self.containers.values())


class Attributes:
    """Of the parts of a module as they are now. What is assigned to them later, or put into what they keep, can be taken back: parameters,
    buffers and parts that are made on the way, too."""

    def __init__(self, parts):
        self.parts = [(part, dict(vars(part))) for part in parts]
        self.contents = Contents(value for _, attributes in self.parts for value in attributes.values())

    def put_back(self):
        for part, before in self.parts:
            own = vars(part)
            for name in set(own) - set(before):
                del own[name]
            own.update(before)
        self.contents.put_back()


@contextmanager
def attributes_kept(module):
    attributes = Attributes(module.modules())
    try:
        yield
    finally:
        attributes.put_back()
