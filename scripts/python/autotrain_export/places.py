"""Where in somebody's own code something happened: file, line, and the part of the module."""

import inspect
import linecache
import os
import sys
import sysconfig
import traceback

import torch

_NOT_THEIRS = tuple(os.path.join(os.path.realpath(folder), "") for folder in (os.path.dirname(torch.__file__), os.path.dirname(__file__)))
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")


BACKWARD = "in the backward pass, by "  # how a place begins that no forward pass called


def is_theirs(path):
    path = os.path.realpath(path)
    if path.startswith(_NOT_THEIRS) or not os.path.exists(path):
        return False
    return "site-packages" in path or not path.startswith(_STANDARD)


def _is_forward(code, part):
    """Whether it is the forward pass of the part, by whatever name it was made, and however it was decorated."""
    return code.co_name == "forward" or code is getattr(type(part).forward, "__code__", None)


def _first_argument(code):
    """The name of what a method is called of, which most call self."""
    return code.co_varnames[0] if code.co_argcount > 0 else "self"


def _described(frames, module):
    """frames  (frame, line), the innermost last. Only what a module's forward pass calls counts."""
    names = {id(part): name for name, part in module.named_modules()}
    inside, part, line = False, "", ""
    for frame, number in frames:
        one = frame.f_locals.get(_first_argument(frame.f_code))
        if isinstance(one, torch.nn.Module) and _is_forward(frame.f_code, one):
            inside = True
            name = names.get(id(one), "")
            part = f"{name} ({type(one).__name__})" if name else type(one).__name__
        if inside and is_theirs(frame.f_code.co_filename):
            code, after = (linecache.getline(frame.f_code.co_filename, each).strip() for each in (number, number + 1))
            if code.startswith("if ") and after.startswith("raise "):  # a check, as an assert is
                code += f" {after}"
            line = f"{frame.f_code.co_filename}:{number}" + (f": {code}" if code else "")
    if not inside:
        return ""
    return f"{line} (in {part})" if line else f"in {part}"


def place_of(error, module):
    """Where an exception arose in a module's forward pass, or "" where that is not known."""
    while error.__cause__ is not None and error.__cause__.__traceback__ is not None:
        error = error.__cause__
    return _described(list(traceback.walk_tb(error.__traceback__)), module)


def place_now(module):
    """Where in a module's forward pass the program is."""
    frames = list(traceback.walk_stack(sys._getframe()))
    outermost = (value for frame, _ in frames[::-1] for value in frame.f_locals.values() if isinstance(value, torch._ops.OpOverload))
    return _described(frames[::-1], module) or next((f"{BACKWARD}{operator}" for operator in outermost), "")


def within_vmap():
    """Whether the program is in a function that torch.vmap computes of all samples at once."""
    return any(frame.f_code.co_filename.endswith(os.path.join("_functorch", "vmap.py")) for frame, _ in traceback.walk_stack(sys._getframe()))


_TORCH = os.path.realpath(os.path.dirname(torch.__file__))
_NUMBERS, _SYMBOLIC = os.path.join(_TORCH, "__init__.py"), os.path.join(_TORCH, "fx", "experimental", "")
_OURS = ("_log_guard", "_set_replacement")  # by which the tracer tells of it


def asked_by_module():
    """Whether it is somebody's own code that makes a number or a truth of a size now, and not one of PyTorch's kernels: these do so without
    the class of sizes that Python has."""
    frame, by_python = sys._getframe(1), False
    while frame is not None:
        file = os.path.realpath(frame.f_code.co_filename)
        by_python = by_python or file == _NUMBERS
        if not (file == _NUMBERS or file.startswith(_SYMBOLIC) or frame.f_code.co_name in _OURS):
            return by_python and is_theirs(file)
        frame = frame.f_back
    return False


def operator_of(error):
    """The operator in which an exception arose, by its traceback."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((str(value) for frame in frames[::-1] for value in frame.f_locals.values() if isinstance(value, torch._ops.OpOverload)), "an operator")


def goes_back(error):
    """Whether an exception arose where gradients were computed."""
    return any(frame.f_code.co_filename == torch.autograd.__file__ for frame, _ in traceback.walk_tb(error.__traceback__))


def forward_of(module, name):
    """Where the forward pass is written of the part that a tensor belongs to, or of the nearest around it that is not PyTorch's own; "" where
    there is none."""
    while name:
        name = name.rpartition(".")[0]
        part = module.get_submodule(name)
        code = getattr(inspect.unwrap(type(part).forward), "__code__", None)
        if code is not None and is_theirs(code.co_filename):
            return f"{code.co_filename}:{code.co_firstlineno}: its forward pass (in {name + ' (' if name else ''}{type(part).__name__}{')' if name else ''})"
    return ""
