"""Texts of values, and of what code reads beside its arguments: the same in another process, and others where the value is another.

Source files tell what code is. What they do not tell are the values that it finds when it runs: in the function around it, in its
defaults, and in globals, which a program may set from its command line."""

import dis
import enum
import inspect
import logging
import sys
from pathlib import Path

import torch

READS = ("LOAD_GLOBAL", "LOAD_NAME")


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


def contents_of(cells):
    """Of those that have any yet."""
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass
    return found


def functions_of(kind):
    """Those of a class, but for the one that made the object: what it read is in the object."""
    for name, value in vars(kind).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if inspect.isfunction(function) and name != "__init__":
            yield function


def constants_of(kind):
    """What a class has that is no code and no entry of Python's own."""
    return {name: value for name, value in vars(kind).items()
            if not (name.startswith(("__", "_abc_")) or inspect.isroutine(value) or hasattr(type(value), "__get__"))}


class Texts:
    """Makes them; what a function or class reads is told once, where it is first met."""

    def __init__(self):
        self.told = set()

    def of(self, value):
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)):
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
        if inspect.isroutine(value) and (owner is None or inspect.ismodule(owner)) and "<" not in value.__qualname__:
            return self.function(value)
        raise Unknown

    def kind(self, kind):
        """A class, and what is in it beside its source."""
        text = f"{kind.__module__}.{kind.__qualname__}"
        if kind in self.told or not is_own(kind.__module__):
            return text
        self.told.add(kind)
        return f"{text}({self.of(constants_of(kind))}, {', '.join(map(self.function, functions_of(kind)))})"

    def function(self, function):
        text = f"{function.__module__}.{function.__qualname__}"
        code = getattr(function, "__code__", None)
        if code is None or function in self.told:
            return text
        self.told.add(function)
        kept = contents_of(function.__closure__ or ())
        kept += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if installed(code.co_filename):
            return f"{text}({self.of(kept)})"
        is_own(function.__module__)  # at a prompt nothing is
        named = [function.__globals__[name] for name in globals_in(code) if name in function.__globals__]
        return f"{text}:{code.co_firstlineno}({self.of(kept)}, {', '.join(self.read(value, code) for value in named)})"

    def read(self, value, code):
        """A global; of a module, and of a class that serves as one, what the code may ask it for."""
        if not inspect.ismodule(value):
            return self.of(value)
        if not is_own(value.__name__):
            return value.__name__
        asked = {name: vars(value)[name] for name in attributes_in(code) if name in vars(value)}
        return f"{value.__name__}({', '.join(f'{name}: {self.read(each, code)}' for name, each in asked.items())})"
