"""Texts of values, and of what code reads beside its arguments: the same in another process, and others where the value is another.

Source files tell what code is. What they do not tell are the values that it finds when it runs: in the function around it, in its
defaults, and in globals, which a program may set from its command line."""

import dis
import enum
import functools
import importlib.util
import inspect
import logging
import sys
import types
from pathlib import Path

import numpy
import torch

READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
# What code reads by these is written nowhere in it.
UNSEEN = frozenset(("__dict__", "__getattribute__", "__globals__", "__import__", "_getframe", "attrgetter", "currentframe", "eval", "exec",
                    "f_globals", "fromfile", "getenv", "getenvb", "globals", "import_module", "load", "memmap", "open", "read_bytes",
                    "read_text", "vars"))
PLAIN_DESCRIPTORS = (types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
                     types.MethodDescriptorType, types.ClassMethodDescriptorType)  # of no code in Python
SIMPLE = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, numpy.ufunc)


class Unknown(Exception):
    """Something that has no lasting name."""


def installed(file):
    """Whether a source file is part of a package that was installed, whose version says what it is."""
    return any(part in ("site-packages", "dist-packages") or part.startswith("python3.") for part in Path(file).parts)


def is_own(module_name):
    """Whether a module is of no installed package. @raise Unknown for what was written at a prompt: two of those cannot be told apart."""
    module = sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    if file is None and module_name == "__main__":
        raise Unknown
    return file is not None and not installed(file)


def codes_in(code):
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from codes_in(constant)


def globals_in(code):
    """Names that code, or code within it, asks the module for."""
    return sorted({step.argval for each in codes_in(code) for step in dis.get_instructions(each) if step.opname in READS})


def attributes_in(code):
    return sorted({name for each in codes_in(code) for name in each.co_names})


def is_of_self(step):
    """Whether an instruction puts `self` on the stack, whose attributes are told all: alone, or before another variable."""
    return step.argval == "self" or isinstance(step.argval, tuple) and step.argval[0] == "self"


def check_seen(code):
    """@raise Unknown for code that finds values in a way that no name in it tells."""
    for each in codes_in(code):
        if not UNSEEN.isdisjoint(each.co_names):
            raise Unknown
        steps = [step for step in dis.get_instructions(each) if step.opname not in ("PUSH_NULL", "CACHE", "EXTENDED_ARG")]
        for step, following in zip(steps, steps[1:]):
            if step.argval in ("getattr", "hasattr") and not is_of_self(following):
                raise Unknown


def imports_in(code, package):
    """Modules that code imports where it runs. @raise Unknown for one that is not loaded yet."""
    for each in codes_in(code):
        steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
        for index, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                dots = "." * steps[index - 2].argval
                name = importlib.util.resolve_name(dots + step.argval, package) if package or not dots else None
                if name not in sys.modules:
                    raise Unknown
                yield from (sys.modules[name], sys.modules[name.split(".")[0]])


def contents_of(cells):
    """Of those that have any yet."""
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass
    return found


def functions_in(value):
    """Those of an attribute of a class: a method, a property, or what another decorator made of one."""
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if inspect.isclass(value) or not hasattr(type(value), "__get__") or isinstance(value, PLAIN_DESCRIPTORS):
        return []
    return [value]


def functions_of(kind):
    """Those of a class, but for the one that made the object: what it read is in the object."""
    return [function for name, value in vars(kind).items() if name != "__init__" for function in functions_in(value)]


def is_put_there(value):
    """Whether a function of somebody's own stands in what is of an installed package."""
    file = value.__code__.co_filename if inspect.isfunction(value) else "<"
    return not (file.startswith("<") or installed(file))


def constants_of(kind):
    """What a class has that is no code and no entry of Python's own."""
    return {name: value for name, value in vars(kind).items()
            if not (name.startswith(("__", "_abc_")) or inspect.isroutine(value) or hasattr(type(value), "__get__"))}


class Texts:
    """Makes them; what a function or class reads is told once, where it is first met."""

    def __init__(self):
        self.told = set()

    def of(self, value):
        if value is None or isinstance(value, SIMPLE):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, enum.Enum):
            return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
        if isinstance(value, (list, tuple, set, frozenset)):
            parts = [self.of(part) for part in value]
            return f"{type(value).__name__}({', '.join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)})"
        if isinstance(value, dict):
            return f"dict({', '.join(f'{self.of(key)}: {self.of(part)}' for key, part in value.items())})"
        if inspect.isclass(value):
            return self.kind(value)
        if isinstance(value, logging.Logger):
            return f"logger {value.name}"
        owner = getattr(value, "__self__", None)
        if inspect.isroutine(value) and (owner is None or inspect.ismodule(owner)) and "<" not in getattr(value, "__qualname__", "<"):
            return self.function(value)
        raise Unknown

    def kind(self, kind):
        """A class, and what is in it beside its source."""
        text = f"{kind.__module__}.{kind.__qualname__}"
        if kind in self.told:
            return text
        if not is_own(kind.__module__):
            put_there = [self.function(each) for each in functions_of(kind) if is_put_there(each)]
            return f"{text}({', '.join(put_there)})" if put_there else text
        self.told.add(kind)
        functions = [self.function(each) if inspect.isfunction(each) else self.of(each) for each in functions_of(kind)]
        return f"{text}({self.of(constants_of(kind))}, {', '.join([self.kind(type(kind)), *functions])})"

    def function(self, function):
        text = f"{function.__module__}.{function.__qualname__}"
        if function.__name__ in UNSEEN:
            raise Unknown
        code = getattr(function, "__code__", None)
        if code is None and is_own(function.__module__):  # compiled, or what a decorator made of one
            raise Unknown
        if code is None or function in self.told:
            return text
        self.told.add(function)
        kept = contents_of(function.__closure__ or ())
        kept += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if installed(code.co_filename):
            return f"{text}({self.of(kept)})"
        is_own(function.__module__)  # at a prompt nothing is
        check_seen(code)
        named = [function.__globals__[name] for name in globals_in(code) if name in function.__globals__]
        named += imports_in(code, function.__globals__.get("__package__"))
        return f"{text}:{code.co_firstlineno}({self.of([kept, vars(function)])}, {', '.join(self.read(value, code) for value in named)})"

    def read(self, value, code):
        """A global; of a module, and of a class that serves as one, what the code may ask it for."""
        if not inspect.ismodule(value):
            return self.of(value)
        if (value, code) in self.told:
            return value.__name__
        self.told.add((value, code))
        own = is_own(value.__name__)
        if own and "__getattr__" in vars(value):
            raise Unknown
        asked = {name: vars(value)[name] for name in attributes_in(code) if name in vars(value)}
        if not own:  # its code is that of its version
            asked = {name: each for name, each in asked.items() if is_put_there(each) or not (inspect.isclass(each) or inspect.isroutine(each))}
        return f"{value.__name__}({', '.join(f'{name}: {self.read(each, code)}' for name, each in asked.items())})"
