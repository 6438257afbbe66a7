"""Writes PyTorch modules as files that autotrain trains: `export` from Python, `python -m autotrain_export` from a shell."""

from .errors import ExportError
from .example import Example
from .export import export

__all__ = ["Example", "ExportError", "export"]
