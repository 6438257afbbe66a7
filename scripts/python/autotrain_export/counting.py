"""Numbers that a module changes each time it is called. A graph keeps those that they were when it was traced, so that nothing may be computed
by them."""

import random
import sys
from contextlib import contextmanager

from .again import SEED, differ, outputs_in_both_modes, parameters_again
from .attributes import attributes_kept
from .places import is_theirs
from .subject import refuse, tensors_in

FAR = (999_999, 1_000_000)  # calls after which a module is asked again: what is done each ten or thousand calls is done then
LONG = 10_000  # entries that a list is given more


class Numbers:
    """Those that a module keeps: in its parts, where a list without tensors counts by its length, and in the files that their classes are written in."""

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
                if type(value) in (int, float):  # others of these kinds stand for something else
                    found[place, name] = value
                elif type(value) is list and part is not None and next(tensors_in(value), None) is None:
                    found[place, name] = len(value)
        return found

    def put(self, key, value):
        place, name = key
        attributes = self.places[place][2]
        if type(attributes[name]) is list:
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
    """Refuses a module that computes something else once its numbers have become large, and the same each time while they are not.

    numbers  made before the module was first run"""
    now = numbers.now()
    if now == numbers.first:
        return

    parameters = parameters_again(subject)

    def outputs():
        return outputs_in_both_modes(subject, parameters, examples, samples, begin=lambda: random.seed(SEED))

    with numbers.kept():
        first = outputs()
        then = numbers.now()
    changed = [key for key in now if now[key] != then.get(key)]
    with numbers.kept():
        if not changed or differ(first, outputs()):
            return
    for key in changed:
        for far in FAR:
            with numbers.kept():
                numbers.put(key, far)
                if differ(first, outputs()):
                    _refuse(subject, numbers, key)


def _refuse(subject, numbers, key):
    part, holder, _ = numbers.places[key[0]]
    refuse(subject.original, f"{part}." if part else ".",
           f"the module counts in {holder}.{key[1]} and computes something else by that, and a graph keeps the number that it was traced with",
           "Export a module for each of the ways, and train one after the other: model.weights takes what the first has learned; or count in a "
           "buffer, self.count.add_(1), and choose by torch.where.")  # fmt: skip
