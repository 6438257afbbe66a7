"""Batches cut into micro-batches, so that accumulating them is the whole batch."""

import dataclasses
from collections.abc import Mapping

import torch

from .errors import StepError


def is_array(value):
    return hasattr(value, "shape") and hasattr(value, "__getitem__") and hasattr(value, "dtype")


def arrays(value):
    """Tensors and arrays in a batch, in order."""
    if is_array(value):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from arrays(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from arrays(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays(getattr(value, field.name))


def samples_of(batch):
    """How many samples a batch has: the first length of its first array, or what a list of anything else has.
    @return None where it cannot be told."""
    for array in arrays(batch):
        if len(array.shape) > 0:
            return int(array.shape[0])
    return len(batch) if isinstance(batch, (list, tuple)) else None


def is_samples(value, samples):
    """A list with an entry a sample, rather than one of a batch's parts."""
    return (isinstance(value, (list, tuple)) and len(value) == samples
            and not any(is_array(part) and len(part.shape) > 0 and part.shape[0] == samples for part in value))


def cut(value, first, last, samples):
    """The samples [first, last) of a batch; what has no entry for each sample is in every piece."""
    if is_array(value):
        return value[first:last] if len(value.shape) > 0 and value.shape[0] == samples else value
    if isinstance(value, Mapping):
        parts = {key: cut(part, first, last, samples) for key, part in value.items()}
        return parts if type(value) is dict else type(value)(parts)
    if is_samples(value, samples):
        return value[first:last]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cut(part, first, last, samples) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(cut(part, first, last, samples) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{field.name: cut(getattr(value, field.name), first, last, samples)
                                             for field in dataclasses.fields(value)})
    return value


def sizes(samples, micro_batch, minimum=1):
    """Full micro-batches and a rest; where that would be too small, all about equal."""
    rest = samples % micro_batch
    if samples > micro_batch and 0 < rest < minimum:
        count = -(-samples // micro_batch)
        return [samples // count + (index < samples % count) for index in range(count)]
    return [micro_batch] * (samples // micro_batch) + ([rest] if rest else [])


def pieces(batch, micro_batch, *, count=None, minimum=1):
    """Yields (piece, weight): a mean loss times its weight, added up over all pieces, is that of the whole batch.

    @param count: how many targets of a piece its loss is the mean of, where that is not its samples: words that are
    no padding. Called once a piece before the first is handed out."""
    samples = samples_of(batch)
    if samples is None:
        raise StepError("pieces", f"a {type(batch).__name__} has no tensor by which its samples could be counted",
                        "give tensors, arrays, or tuples, lists, dictionaries or dataclasses of them")
    bounds, first = [], 0
    for size in sizes(samples, micro_batch, minimum):
        bounds.append((first, first + size))
        first += size
    if count is None:
        counts = [last - first for first, last in bounds]
    else:
        counts = [float(count(cut(batch, first, last, samples))) for first, last in bounds]
    total = sum(counts)
    for (first, last), counted in zip(bounds, counts):
        yield cut(batch, first, last, samples), counted / total if total else 0.0
