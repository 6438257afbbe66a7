"""Modules exported once: files kept by what the module is."""

import json
import os
from pathlib import Path

import torch

from .errors import Error
from .fingerprint import fingerprint


def folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Path(base) / "autotrain" / "exports"
    found.mkdir(parents=True, exist_ok=True)
    return found


def exported(module, example, precisions, scratch):
    """The file of the module, made or found. @param scratch: the folder for one that cannot be kept."""
    from autotrain_export import ExportError, export
    from autotrain_export.example import Examples
    try:
        examples = Examples.parse(example).inputs
        key = fingerprint(module, examples, precisions)
        file = (folder() if key else Path(scratch)) / f"{key or 'module'}.autotrain"
        if key and file.is_file():
            return file
        partial = file.with_suffix(f".{os.getpid()}")
        export(module, examples, str(partial), precisions=precisions)
    except ExportError as error:
        raise Error("module", str(error), "docs/exported_models.md says what can be exported") from error
    partial.rename(file)
    return file


def network_of(file):
    """What an export computes, whatever its weights are: operators, shapes, and tensors that nothing trains."""
    from safetensors import safe_open
    with safe_open(str(file), "pt") as export:
        names = sorted(export.keys())
        constants = [export.get_tensor(name).reshape(-1).view(torch.uint8).numpy().tobytes() for name in names if name.startswith("constant ")]
        document = json.loads(export.metadata()["autotrain_model"])
        document.pop("crc32", None)  # of weights
        return document, [export.get_slice(name).get_shape() for name in names], constants
