"""Numbers that a module changes each time it is called. A graph keeps those that they were when it was traced, so that nothing may be computed
by them."""

import ast
import random
import sys
import types
from collections import deque
from contextlib import contextmanager
from itertools import count

import torch

from .again import SEED, differ, outputs_in_both_modes, parameters_again
from .attributes import DEPTH, PLAIN, Contents, attributes_kept, attributes_of, is_own, kind_of
from .places import is_theirs
from .subject import refuse, tensors_in

FAR = (999_999, 1_000_000)  # calls after which a module is asked again: what is done each ten or thousand calls is done then
LONG = 10_000  # entries that a list is given more
MOST = 64  # entries of a container that are looked at, since longer ones are tables
ONE_BY_ONE = 16  # numbers that are tried by themselves
TENSORS = ("_parameters", "_modules")  # of a part, and its buffers: others look after them


class Numbers:
    """Those that a module keeps: in its parts, their classes and the files that these are written in, and in the containers, arrays and objects there, where a
    list without tensors counts by its length, too; and in what functions there find around them, or have for arguments that are left out."""

    def __init__(self, module):
        self.module = module
        kinds = dict.fromkeys(kind for part in module.modules() for kind in type(part).__mro__ if is_own(kind))
        sources = [(name, sys.modules.get(name)) for name in sorted({kind.__module__ for kind in kinds})]
        self.shared = [*((kind.__name__, kind) for kind in kinds),
                       *((name, source) for name, source in sources if source is not None and is_theirs(getattr(source, "__file__", None) or ""))]  # fmt: skip
        self.places = [*((name, "self", part) for name, part in module.named_modules()), *((None, *each) for each in self.shared)]
        self.first = self.now()

    def now(self):
        """(place, path, whether it is a length) → number."""
        found, seen = {}, {}
        for place, (_, _, holder) in enumerate(self.places):
            for name, value in vars(holder).items():
                if name == "_buffers" and isinstance(holder, torch.nn.Module):
                    value = {key: buffer for key, buffer in value.items() if key in holder._non_persistent_buffers_set}
                if name not in TENSORS:
                    found |= {(place, path, is_length): number for path, is_length, number in _numbers(value, ((True, name),), DEPTH, seen)}
        return found

    def put(self, key, number):
        place, path, is_length = key
        _changed(self.places[place][2], path, (lambda one: _longer(one, number)) if is_length else lambda one: _like(one, number))

    @contextmanager
    def kept(self):
        """They are what they were afterwards, as are all attributes; tensors keep their values."""
        before, contents = self.now(), Contents(value for _, holder in self.shared for value in vars(holder).values())
        try:
            with attributes_kept(self.module):
                yield
        finally:
            contents.put_back()
            now = self.now()
            for key, number in before.items():
                if not key[2] and key in now and now[key] != number:
                    place, path, _ = key
                    _changed(self.places[place][2], path, lambda one, number=number: one if isinstance(one, torch.Tensor) else _like(one, number))

    def words(self, key):
        """What a number is called in the forward pass."""
        place, path, _ = key
        return self.places[place][1] + "".join(f".{name}" if is_attribute else f"[{name!r}]" for is_attribute, name in path)


def _numbers(value, path, depth, seen):
    """(path, whether it is a length, number) of those that a value is or holds.

    path  of pairs: whether it is an attribute, and its name, or the key or the place of an entry
    seen  by identity, how deep containers and objects were looked into, and they themselves: many may hold the same one"""
    if type(value) in (int, float) or _is_of_numpy(value):  # others of these kinds stand for something else
        if value == value:  # what is no number is another each time
            yield path, False, value
    elif type(value) is count:
        yield path, False, _of_count(value)[0]
    elif isinstance(value, torch.Tensor):
        # Subclasses, and what torch.vmap has left, have no number.
        plain = type(value) is torch.Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(value)
        if plain and not value.is_meta and value.numel() == 1 and value.dtype != torch.bool and not value.requires_grad:
            yield path, False, value.item()
    elif depth > 0 and type(value) not in PLAIN and seen.get(id(value), (0,))[0] < depth:
        seen[id(value)] = depth, value
        if type(value) in (list, deque) and next(tensors_in(value), None) is None:
            yield path, True, len(value)
        attributes = attributes_of(value)
        for name, item in _entries(value if attributes is None else attributes):
            yield from _numbers(item, (*path, (attributes is not None, name)), depth - 1, seen)
        for name, item in _variables(value).items():
            yield from (each for each in _numbers(item, (*path, (True, name)), depth - 1, seen) if not each[1])


def _is_of_numpy(value):
    """Whether it is a number of NumPy's that can become a large one."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.integer, numpy.floating)) and value.dtype.itemsize >= 4


def _is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _variables(function):
    """What a function of somebody's own has for arguments that are left out, and finds in the function around it, by its names there."""
    if not isinstance(function, types.FunctionType) or not is_theirs(function.__code__.co_filename):
        return {}
    code, defaults = function.__code__, function.__defaults__ or ()
    found = {**dict(zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults)), **(function.__kwdefaults__ or {})}
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it has none yet
            pass
    return found


def _entries(value):
    """Of a container that is no long one."""
    if _is_array(value):
        known = value.size <= MOST and value.dtype.kind in "iuf" and value.dtype.itemsize >= 4 and value.flags.writeable
        return list(enumerate(value.flat)) if known else []
    if not isinstance(value, (dict, list, tuple, deque)) or len(value) > MOST:
        return []
    return list(dict.items(value)) if isinstance(value, dict) else list(enumerate(value))


def _of_count(value):
    """The next number of itertools.count, and its step where that is not 1."""
    return ast.literal_eval(f"({repr(value).removeprefix('count(')[:-1]},)")


def _like(value, number):
    """A number in the place of another, of its kind."""
    if isinstance(value, torch.Tensor):
        return torch.full_like(value, number)
    if type(value) is count:
        now, *step = _of_count(value)
        return count(type(now)(number), *step)
    return type(value)(number)


def _longer(entries, more):
    entries.extend([*entries][-1:] * min(more, LONG))
    return entries


def _changed(holder, path, change):
    """The holder with a change at the end of a path: itself or, where it cannot be changed, another."""
    if not path:
        return change(holder)
    (is_attribute, name), *rest = path
    if name in _variables(holder) and name not in vars(holder):
        now = _variables(holder)[name]
        then = _changed(now, rest, change)
        if then is not now and name in holder.__code__.co_freevars:
            holder.__closure__[holder.__code__.co_freevars.index(name)].cell_contents = then
        return holder
    if _is_array(holder):
        holder.flat[name] = _changed(holder.flat[name], rest, change)
        return holder
    held = vars(holder) if is_attribute else holder
    now = held[name]
    then = _changed(now, rest, change)
    if then is now:
        return holder
    if isinstance(holder, tuple):
        return tuple.__new__(type(holder), (*holder[:name], then, *holder[name + 1 :]))
    if isinstance(holder, type):
        setattr(holder, name, then)
    else:
        kind_of(held).__setitem__(held, name, then)
    return holder


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
    for together in [*([key] for key in changed[:ONE_BY_ONE]), *([changed] if len(changed) > 1 else [])]:
        for far in FAR:
            with numbers.kept():
                for key in together:
                    numbers.put(key, far)
                if differ(first, outputs()):
                    _refuse(subject, numbers, together[-1])


def _refuse(subject, numbers, key):
    part = numbers.places[key[0]][0]
    refuse(subject.original, f"{part}." if part else ".",
           f"the module counts in {numbers.words(key)} and computes something else by that, and a graph keeps the number that it was traced with",
           "Export a module for each of the ways, and train one after the other: model.weights takes what the first has learned; or count in a "
           "buffer, self.count.add_(1), and choose by torch.where.")  # fmt: skip
