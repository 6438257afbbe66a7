"""Modules exported once: files kept by what the module is."""

import hashlib
import inspect
import os
import sys
from pathlib import Path

import torch

from .errors import Error


def folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Path(base) / "autotrain" / "exports"
    found.mkdir(parents=True, exist_ok=True)
    return found


def installed(file):
    """Whether a source file is part of a package that was installed, whose version says what it is."""
    return any(part in ("site-packages", "dist-packages") or part.startswith("python3.") for part in Path(file).parts)


def own_sources():
    """Every source file that is loaded and of no installed package: a module may call any of them."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(file for file in files if file and file.endswith(".py") and os.path.isfile(file) and not installed(file))


class Unknown(Exception):
    """Something of a module that has no lasting name."""


def plain(value):
    """A text for a value that is the same in another process, and differs where the value does."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, torch.dtype, torch.device, torch.Size)):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [plain(part) for part in value]
        return f"{type(value).__name__}({', '.join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{plain(key)}: {plain(part)}' for key, part in value.items())})"
    if inspect.isroutine(value) and getattr(value, "__self__", None) is None and "<" not in value.__qualname__:
        return f"{value.__module__}.{value.__qualname__}"
    raise Unknown


def attributes_of(part):
    """What a part of a module has beside parameters, buffers and parts. Hooks are code that nothing tells apart."""
    found = dict(vars(part))
    for name in ("_parameters", "_buffers", "_modules"):
        found.pop(name, None)
    for name in [name for name in found if name.endswith("_hooks") or "_hooks_" in name]:
        if found.pop(name):
            raise Unknown
    return plain(found)


def kinds_of(part):
    """The classes of a part, with the files that they are written in."""
    for kind in type(part).__mro__:
        if kind.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
            raise Unknown  # written at a prompt: two of them cannot be told apart by their names
        yield f"{kind.__module__}.{kind.__qualname__}"


def fingerprint(module, example, precisions):
    """Of all that an export is made of: weights, which of them learn, buffers, modes, attributes, classes, and the sources
    of all code that is of no installed package, the exporter's too. None where something of it has no lasting name."""
    import autotrain_export
    digest = hashlib.sha256(f"{torch.__version__}\n{example}\n{precisions}\n{module!r}\n".encode())
    try:
        for name, part in module.named_modules():
            digest.update(f"{name} {' '.join(kinds_of(part))} {attributes_of(part)}\n".encode())
    except (Unknown, RecursionError):
        return None
    packages = sorted({type(part).__module__.split(".")[0] for part in module.modules()} - {"torch", "__main__"})
    for package in packages:
        digest.update(f"{package} {getattr(sys.modules.get(package), '__version__', '')}\n".encode())
    exporter = sorted(map(str, Path(autotrain_export.__file__).parent.glob("*.py")))
    for file in [*own_sources(), *exporter]:
        digest.update(Path(file).read_bytes())
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad}\n".encode())
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
