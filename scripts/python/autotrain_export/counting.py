"""Numbers that a module changes each time it is called. A graph keeps those that they were when it was traced, so that nothing may be computed
by them."""

import random
import sys
from contextlib import contextmanager

import torch

from .attributes import attributes_kept
from .checking import copies
from .machine import of_machine
from .places import is_theirs
from .subject import refuse

FAR = (999_999, 1_000_000)  # calls after which a module is asked again: what is done each ten or thousand calls is done then
LONG = 10_000  # entries that a list is given more
SEED = 11


class Numbers:
    """Those that a module keeps: in its parts, where a list counts by its length, and in the files that their classes are written in."""

    def __init__(self, module):
        self.module = module
        self.places = [(name, "self", part.__dict__) for name, part in module.named_modules()]
        for name in sorted({type(part).__module__ for part in module.modules()}):
            source = sys.modules.get(name)
            if source is not None and is_theirs(getattr(source, "__file__", None) or ""):
                self.places.append((None, name, source.__dict__))
        self.first = self.now()

    def now(self):
        """(place, attribute) → number."""
        found = {}
        for place, (part, _, attributes) in enumerate(self.places):
            for name, value in attributes.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    found[place, name] = value
                elif isinstance(value, list) and part is not None:
                    found[place, name] = len(value)
        return found

    def put(self, key, value):
        place, name = key
        attributes = self.places[place][2]
        if isinstance(attributes[name], list):
            attributes[name].extend(attributes[name][-1:] * min(value, LONG))
        else:
            attributes[name] = type(attributes[name])(value)

    @contextmanager
    def kept(self):
        """They are what they were afterwards, as are all attributes."""
        before = self.now()
        try:
            with attributes_kept(self.module):
                yield
        finally:
            for (place, name), value in before.items():
                if self.places[place][0] is None:
                    self.places[place][2][name] = value


def check_counts(subject, examples, samples, numbers):
    """Refuses a module that computes something else once its numbers have become large.

    numbers  made before the module was first run"""
    now = numbers.now()
    if now == numbers.first:
        return
    with numbers.kept():
        outputs = _outputs(subject, examples, samples)
        then = numbers.now()
    for key in (key for key in now if now[key] != then.get(key)):
        for far in FAR:
            with numbers.kept():
                numbers.put(key, far)
                theirs = _outputs(subject, examples, samples)
            if not all(map(_is_same, outputs, theirs)):
                _refuse(subject, numbers, key)


def _outputs(subject, examples, samples):
    """In both modes, with the same random numbers; None where it raises."""
    results = []
    for training in (True, False):
        torch.manual_seed(SEED)
        random.seed(SEED)
        try:
            with torch.no_grad():
                results.append(subject.run({**subject.parameters, **copies(subject.buffers)}, examples.batch(samples), training)[0])
        except Exception as error:
            if of_machine(error):
                raise
            results.append(None)
    return results


def _is_same(mine, other):
    if mine is None or other is None:
        return mine is other
    return mine.shape == other.shape and torch.allclose(mine, other, rtol=0, atol=0, equal_nan=True)


def _refuse(subject, numbers, key):
    part, holder, _ = numbers.places[key[0]]
    refuse(subject.original, f"{part}." if part else ".",
           f"the module counts in {holder}.{key[1]} and computes something else by that, and a graph keeps the number that it was traced with",
           "Export a module for each of the ways, and train one after the other: model.weights takes what the first has learned; or count in a "
           "buffer, self.count.add_(1), and choose by torch.where.")  # fmt: skip
