"""What an export is made of, in a few characters: two modules that have the same are exported alike."""

import hashlib
import os
import sys
from pathlib import Path

import torch

from .readings import Texts, Unknown, installed, is_put_there

CALLED_BY_ALL = (torch, torch.Tensor, torch.nn.functional)  # whose functions passes call, of whatever class


def own_sources():
    """Every source file that is loaded and of no installed package: a module may call any of them."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(file for file in files if file and file.endswith(".py") and os.path.isfile(file) and not installed(file))


def attributes_of(part):
    """What a part of a module has beside parameters, buffers and parts. Hooks are code that nothing tells apart."""
    found = dict(vars(part))
    for name in ("_parameters", "_buffers", "_modules"):
        found.pop(name, None)
    for name in [name for name in found if name.endswith("_hooks") or "_hooks_" in name]:
        if found.pop(name):
            raise Unknown
    return found


def check_torch():
    """@raise Unknown where functions of somebody's own stand in the place of PyTorch's, or are called before or after each layer."""
    hooks = [value for name, value in vars(torch.nn.modules.module).items() if name.startswith("_global_") and "hooks" in name and isinstance(value, dict)]
    if any(hooks) or any(is_put_there(value) for holder in CALLED_BY_ALL for value in vars(holder).values()):
        raise Unknown


def code_of(module):
    """Texts of each part: its classes, what it keeps, and what its methods read."""
    texts = Texts()
    for name, part in module.named_modules():
        yield f"{name} {' '.join(map(texts.kind, type(part).__mro__))} {texts.of(attributes_of(part))}"


def tensors_of(module):
    """Texts and bytes of each parameter and buffer under each of its names, with the first of them: those that are tied are one.
    @raise Unknown where one has no numbers, as before a lazy module was run, or has them in no row: the exporter says so."""
    first = {}
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        if torch.nn.parameter.is_lazy(tensor) or tensor.is_meta or tensor.layout != torch.strided:
            raise Unknown
        own = first.setdefault(id(tensor), name)
        yield f"{name} {own} {isinstance(tensor, torch.nn.Parameter)} {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad}\n".encode()
        yield tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def fingerprint(module, examples, precisions):
    """Of all that an export is made of: weights, which of them learn and are tied, buffers, modes, attributes, classes, what their code reads of
    closures and globals, and the sources of all code that is of no installed package, the exporter's too. None where something of it
    has no lasting name."""
    import autotrain_export
    made_by_default = f"{torch.get_default_dtype()} {torch.get_default_device()}"
    digest = hashlib.sha256(f"{torch.__version__}\n{made_by_default}\n{examples}\n{precisions}\n{module!r}\n".encode())
    try:
        check_torch()
        for line in code_of(module):
            digest.update(f"{line}\n".encode())
        for content in tensors_of(module):
            digest.update(content)
    except (Unknown, RecursionError):
        return None
    packages = sorted({type(part).__module__.split(".")[0] for part in module.modules()} - {"torch", "__main__"})
    for package in packages:
        digest.update(f"{package} {getattr(sys.modules.get(package), '__version__', '')}\n".encode())
    exporter = sorted(map(str, Path(autotrain_export.__file__).parent.glob("*.py")))
    for file in [*own_sources(), *exporter]:
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()
