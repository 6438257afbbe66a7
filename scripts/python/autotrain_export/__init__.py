"""Writes PyTorch modules as files that autotrain trains: `export` from Python, `python -m autotrain_export` from a shell."""

import importlib

__all__ = ["Example", "ExportError", "export"]
_WHERE = {"Example": "example", "ExportError": "errors", "export": "export"}


def __getattr__(name):
    """What is asked for is loaded then: PyTorch takes seconds, in which the command has something to say."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = globals()[name] = getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    return value
