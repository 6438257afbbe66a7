"""Modules exported once: files kept by what the module is."""

import hashlib
import inspect
import os
from pathlib import Path

import torch

from .errors import Error


def folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Path(base) / "autotrain" / "exports"
    found.mkdir(parents=True, exist_ok=True)
    return found


def source_of(kind):
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # written at a prompt: two of them cannot be told apart by their names
        return None


def fingerprint(module, example, precisions):
    """Of weights, structure and the source of every class that is not PyTorch's own; None where a source cannot be had."""
    digest = hashlib.sha256(f"{torch.__version__}\n{example}\n{precisions}\n{module!r}".encode())
    for part in module.modules():
        kind = type(part)
        if kind.__module__.startswith("torch."):
            continue
        source = source_of(kind)
        if source is None or any(callable(value) for value in vars(part).values()):
            return None
        digest.update(source.encode())
        plain = {key: value for key, value in vars(part).items() if isinstance(value, (int, float, str, bool, tuple))}
        digest.update(repr(sorted(plain.items())).encode())
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def exported(module, example, precisions, scratch):
    """The file of the module, made or found. @param scratch: the folder for one that cannot be kept."""
    from autotrain_export import ExportError, export
    key = fingerprint(module, example, precisions)
    file = (folder() if key else Path(scratch)) / f"{key or 'module'}.autotrain"
    if key and file.is_file():
        return file
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        export(module, example, str(partial), precisions=precisions)
    except ExportError as error:
        raise Error("module", str(error), "docs/exported_models.md says what can be exported") from error
    partial.rename(file)
    return file
