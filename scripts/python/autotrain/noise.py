"""How noisy a module's gradients are now: from which batch on a larger one stops being worth as much."""

import json
from collections import namedtuple

import torch

from . import library
from .errors import StepError
from .memory import device_of
from .state import Snapshot
from .tensors import modules_of, parameters_of
from .trial import takes_weight

NoiseScale = namedtuple("NoiseScale", "samples low high")


def gradient(step, batch, parameters):
    """Of one batch's mean loss, as one vector."""
    for parameter in parameters:
        parameter.grad = None
    step(batch, 1.0) if takes_weight(step) else step(batch)
    if all(p.grad is None for p in parameters):
        raise StepError("step", "made no gradient of any parameter of the model", "call loss.backward() in it")
    found = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad.to_dense()).detach().flatten() for p in parameters]).double()
    if not found.isfinite().all():
        raise StepError("step", "made gradients that are not finite", "look at the loss; at a lower precision, scale it")
    return found


def norms_of(step, make_batch, samples, pieces, parameters):
    """Squared norms of the gradients of a few micro-batches, and of their mean."""
    total, rows = 0, []
    for _ in range(pieces):
        found = gradient(step, make_batch(samples), parameters)
        rows.append([samples, found.square().sum().item()])
        total = total + found
    return {"pieces": rows, "square": (total / pieces).square().sum().item()}


def noise_scale(step, make_batch, *, model, samples, updates=64, pieces=4, keep=()):
    """The gradient noise scale at the weights that the model has: of an update of so many samples, noise and direction have
    the same share.

    @param step: forward and backward of the mean loss of a micro-batch, as for find. @param samples: of each of them.
    @param updates, pieces: how many updates are looked at, of how many micro-batches each; no weight is changed.
    @return NoiseScale(samples, low, high), the latter the 95 % interval; None where it cannot be told. All is as it was."""
    if pieces < 2 or updates < 32:
        raise StepError("noise_scale", f"{updates} updates of {pieces} pieces tell nothing", "give 32 updates or more, of 2 pieces or more")
    modules = modules_of(model)
    device_of(modules)
    snapshot = Snapshot(modules, [], keep)
    parameters = parameters_of(modules, [])
    try:
        rows = [norms_of(step, make_batch, samples, pieces, parameters) for _ in range(updates)]
    finally:
        snapshot.put_back()
    found = library.answer(library.load().autotrain_noise_scale(json.dumps(rows).encode()))
    return NoiseScale(**found) if found else NoiseScale(None, None, None)
