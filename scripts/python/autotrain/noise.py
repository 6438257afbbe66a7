"""How noisy a module's gradients are now: from which batch on a larger one stops being worth as much."""

import json
from collections import namedtuple

import torch

from . import library
from .checks import check_least, count_of, smallest_batch
from .errors import StepError
from .gradients import Gradients
from .state import Snapshot
from .tensors import modules_of

NoiseScale = namedtuple("NoiseScale", "samples low high")


def norms_of(gradients, samples, pieces):
    """Squared norms of the gradients of a few micro-batches, and of their mean; and whether they are one and the same."""
    rows, first, total, alike = [], None, 0, True
    for _ in range(pieces):
        found = gradients.of([(gradients.batch(samples), 1.0)])
        rows.append([samples, found.square().sum().item()])
        first = found if first is None else first
        alike = alike and torch.equal(found, first)
        total = total + found
    return {"pieces": rows, "square": (total / pieces).square().sum().item()}, alike


def noise_scale(step, make_batch, *, model, samples, updates=64, pieces=4, keep=()):
    """The gradient noise scale at the weights that the model has: of an update of so many samples, noise and direction have
    the same share.

    @param step: forward and backward of the mean loss of a micro-batch, as for find. @param samples: of each of them.
    @param updates, pieces: how many updates are looked at, of how many micro-batches each; no weight is changed.
    @return NoiseScale(samples, low, high), the latter the 95 % interval; None where it cannot be told. All is as it was."""
    updates, pieces = count_of("updates", updates), count_of("pieces", pieces)
    if pieces < 2 or updates < 32:
        raise StepError("noise_scale", f"{updates} updates of {pieces} pieces tell nothing", "give 32 updates or more, of 2 pieces or more")
    samples, modules = count_of("samples", samples), modules_of(model)
    check_least(smallest_batch(modules), samples=samples)
    snapshot = Snapshot(modules, [], keep)
    try:
        gradients = Gradients("noise_scale", step, make_batch, modules, samples, keep)
        rows, alike = zip(*(norms_of(gradients, samples, pieces) for _ in range(updates)))
    finally:
        snapshot.put_back()
    if all(alike):
        raise StepError("make_batch", "gave micro-batches that all have the same gradient, which has no noise",
                        "have it draw other samples at each call")
    found = library.answer(library.load().autotrain_noise_scale(json.dumps(rows).encode()))
    return NoiseScale(**found) if found else NoiseScale(None, None, None)
