"""Layers that look whether they overflowed, to clamp what did, are traced as those that did not."""

import os
import sys

import torch
from torch.overrides import TorchFunctionMode

from .places import place_now

_TESTS = {torch.isfinite: True, torch.Tensor.isfinite: True, torch.isinf: False, torch.Tensor.isinf: False}
_OVER_ALL = {torch.all, torch.Tensor.all, torch.any, torch.Tensor.any}
_NOT = {torch.logical_not, torch.Tensor.logical_not, torch.Tensor.__invert__}


def _asked_by_transformers():
    """There only what is half precision overflows, and its own losses then are what the recipe's scaler skips. Elsewhere such a test may be
    of inputs, of which some are meant not to be finite."""
    frame = sys._getframe(2)
    while frame is not None and os.path.realpath(frame.f_code.co_filename).startswith(_TORCH):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("transformers.models.")


_TORCH = os.path.join(os.path.realpath(os.path.dirname(torch.__file__)), "")


class Finite(TorchFunctionMode):
    """Answers by what holds of finite numbers, and notes where in `subject.rescues`."""

    def __init__(self, subject):
        super().__init__()
        self.subject = subject
        self.truths = {}  # id of a tensor → it, and the truth that all of its elements are

    def __torch_function__(self, function, types, args=(), kwargs=None):
        of = self.truths.get(id(args[0])) if args else None
        if of is not None and function is torch.Tensor.__bool__:
            self.subject.rescues.add(place_now(self.subject.module))
            return of[1]
        result = function(*args, **(kwargs or {}))
        if function in _TESTS and _asked_by_transformers():
            self.truths[id(result)] = result, _TESTS[function]
        elif of is not None and function in _OVER_ALL:
            self.truths[id(result)] = result, of[1]
        elif of is not None and function in _NOT:
            self.truths[id(result)] = result, not of[1]
        return result
