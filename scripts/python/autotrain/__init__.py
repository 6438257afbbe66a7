"""Which micro-batch, and how many to accumulate: `find` answers it for any eager module, in the process that trains it.

What is imported from here is loaded when it is first used: PyTorch takes seconds."""

import importlib

__all__ = ["DoesNotFit", "Error", "Plan", "Run", "StepError", "find", "hold", "noise_scale", "split_check", "train"]
_WHERE = {"DoesNotFit": "errors", "Error": "errors", "StepError": "errors", "Plan": "plan", "Run": "run", "find": "search",
          "hold": "memory", "noise_scale": "noise", "split_check": "split", "train": "training"}


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = globals()[name] = getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
