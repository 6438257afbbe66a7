"""Tensors in what surrounds them."""

from collections import deque

import torch
from autotrain_export.values import storage_of
from torch.nn.parallel import DistributedDataParallel

from .errors import StepError

COLLECTIONS = (dict, list, tuple, set, frozenset, deque)


def as_list(value):
    """What is given as one, as several, or not at all."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def modules_of(model):
    """@param model: a module, or any collection of them."""
    modules = [model] if isinstance(model, torch.nn.Module) else list(model) if hasattr(model, "__iter__") else [model]
    for module in modules:
        if not isinstance(module, torch.nn.Module):
            raise StepError("model", f"is a {type(module).__name__}, and no module", "give the torch.nn.Module that is trained, or a list of them")
    return modules


def parts_of(modules):
    """Every module within them, and they themselves."""
    return [part for module in modules for part in module.modules()]


def replicas_of(modules):
    """Those of them that exchange gradients with other ranks."""
    return [part for part in parts_of(modules) if isinstance(part, DistributedDataParallel)]


def all_in(values):
    """They and what they have, where they are collections, and those within; each collection is looked into once."""
    found, known = list(values), set()
    for value in found:
        if isinstance(value, COLLECTIONS) and id(value) not in known:
            known.add(id(value))
            found.extend(value.values() if isinstance(value, dict) else value)
    return found


def leaves(value, kind=torch.Tensor):
    """The tensors in nested dictionaries, lists and other collections, none of which is looked into within itself."""
    return those_in(value, lambda each: isinstance(each, kind))


def those_in(value, is_one, within=()):
    if is_one(value):
        yield value
    elif isinstance(value, COLLECTIONS) and id(value) not in within:
        for part in list(value.values() if isinstance(value, dict) else value):
            yield from those_in(part, is_one, (*within, id(value)))


def layers_of(optimizer):
    """An optimizer, and those that it wraps, under whatever name: Lookahead, SAM, mixed precision's."""
    found = [optimizer]
    for layer in found:
        inner = getattr(layer, "optimizer", None)
        for each in [*([inner] if inner is not None else []), *those_in(own_of(layer), is_optimizer)]:
            if not any(each is known for known in found):
                found.append(each)
    return found


def is_optimizer(value):
    return isinstance(value, torch.optim.Optimizer) or "param_groups" in own_of(value)


def own_of(optimizer):
    """Its attributes; a class may have none that can be looked at."""
    own = getattr(optimizer, "__dict__", {})
    return own if isinstance(own, dict) else {}


def state_of(optimizer):
    """What it keeps for each weight, where it is of the kind that has this in one place."""
    state = getattr(optimizer, "state", None)
    return state if isinstance(state, dict) else {}


def kept_by(optimizer):
    """What it and those that it wraps keep, in whatever attributes."""
    return [kept for layer in layers_of(optimizer) for kept in (state_of(layer), own_of(layer))]


def parameters_of(modules, optimizers):
    """Each parameter once, those that only an optimizer has too."""
    found = {}
    for module in modules:
        found.update((id(parameter), parameter) for parameter in module.parameters())
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            found.update((id(parameter), parameter) for parameter in group["params"])
    return list(found.values())


def state_tensors(modules, optimizers):
    """Weights, buffers and what optimizers keep: what is there at any size of a micro-batch."""
    yield from parameters_of(modules, optimizers)
    for module in modules:
        yield from module.buffers()
    for optimizer in optimizers:
        yield from leaves(kept_by(optimizer))


def carried_bytes(device, modules, optimizers):
    """Of a training on the device, whatever its batches: weights, buffers, what optimizers keep, and the buckets by which
    DistributedDataParallel exchanges gradients."""
    buckets = sum(p.nbytes for p in parameters_of(replicas_of(modules), []) if p.requires_grad and p.device == torch.device(device))
    return bytes_on(device, state_tensors(modules, optimizers)) + buckets


def bytes_on(device, tensors):
    """Of their memory on the device, where each piece counts once."""
    device = torch.device(device)
    sizes = {}
    for tensor in tensors:
        storage = storage_of(tensor)
        if storage is not None and storage.device == device:
            sizes[storage.data_ptr()] = max(storage.nbytes(), sizes.get(storage.data_ptr(), 0))
    return sum(sizes.values())
