"""Batches cut into micro-batches, so that accumulating them is the whole batch."""

import copy
import dataclasses
from collections.abc import Mapping

import torch

from .errors import StepError


PACKED = ("a PackedSequence has its samples among each other, and cannot be cut",
          "give the padded sequences and their lengths, and pack them in the step")
LAID_OUT = ("a sparse or nested tensor cannot be cut", "give it dense, or padded with its lengths, and convert it in the step")


def is_array(value):
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        raise StepError("batch", *PACKED)
    if isinstance(value, torch.Tensor):  # a nested one has no shape to ask for
        return True
    return hasattr(value, "shape") and hasattr(value, "__getitem__") and hasattr(value, "dtype")


def shape_of(array):
    """The lengths of an array along its axes; of a nested tensor along the first, which is all that its samples have in common."""
    return (array.size(0),) if isinstance(array, torch.Tensor) and array.is_nested else tuple(array.shape)


def arrays(value):
    """Tensors and arrays in a batch, in order."""
    if is_array(value):
        yield value
        return
    for part in parts_of(value):
        yield from arrays(part)


def is_whole_of_parts(value):
    return isinstance(value, (Mapping, list, tuple)) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def parts_of(batch):
    """What a batch consists of, side by side."""
    if isinstance(batch, Mapping):
        return list(batch.values())
    if isinstance(batch, (list, tuple)):
        return list(batch)
    if is_whole_of_parts(batch):
        return [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    return []


def lists_of_samples(batch):
    """How many samples a batch has whose parts are lists with an entry a sample, as detectors take them: images of
    several sizes, and dictionaries of boxes. None where it is no such batch."""
    lists = [part for part in parts_of(batch) if isinstance(part, (list, tuple)) and not is_array(part)]
    if not lists or len({len(part) for part in lists}) != 1 or any(is_array(part) and shape_of(part) for part in parts_of(batch)):
        return None
    lengths = {shape_of(array)[0] for part in lists for array in part if is_array(array) and shape_of(array)}
    of_mappings = any(isinstance(entry, Mapping) for part in lists for entry in part)
    return len(lists[0]) if of_mappings or len(lengths) > 1 else None


def samples_of(batch):
    """How many samples a batch has: the first length of its first array, or what a list of anything else has.
    @return None where it cannot be told."""
    listed = lists_of_samples(batch)
    if listed is not None:
        return listed
    for array in arrays(batch):
        if shape_of(array):
            return int(shape_of(array)[0])
    return len(batch) if isinstance(batch, (list, tuple)) and batch else None


def axis_of(batch, samples):
    """The axis along which the first array of a batch is so long, if that is another than the first."""
    shape = next((shape_of(array) for array in arrays(batch) if shape_of(array)), ())
    return next((axis for axis, size in enumerate(shape) if axis > 0 and size == samples), None)


def is_samples(value, samples):
    """A list with an entry a sample, rather than one of a batch's parts."""
    return (isinstance(value, (list, tuple)) and len(value) == samples
            and not any(is_array(part) and shape_of(part)[:1] == (samples,) for part in value))


def is_shared(value):
    """What every piece may have whole: it says nothing of single samples."""
    return value is None or callable(value) or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device))


def cut(value, first, last, samples):
    """The samples [first, last) of a batch; what has no entry for each sample is in every piece."""
    if lists_of_samples(value) == samples:
        return with_parts(value, lambda part: part[first:last] if isinstance(part, (list, tuple)) else part)
    return cut_part(value, first, last, samples)


def with_parts(value, change):
    """The same kind of batch, of changed parts."""
    if isinstance(value, Mapping):
        parts = {key: change(part) for key, part in value.items()}
        if type(value) is dict:
            return parts
        other = copy.copy(value)  # its kind may take more than parts to be made
        for key, part in parts.items():
            other[key] = part
        return other
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(change, value))
    return dataclasses.replace(value, **{field.name: change(getattr(value, field.name)) for field in dataclasses.fields(value)})


def cut_part(value, first, last, samples):
    if is_array(value):
        if shape_of(value)[:1] != (samples,):
            return value
        if isinstance(value, torch.Tensor) and (value.is_nested or value.layout != torch.strided):
            raise StepError("batch", *LAID_OUT)
        return value[first:last]
    if not isinstance(value, Mapping) and is_samples(value, samples):
        return value[first:last]
    if is_whole_of_parts(value):
        return with_parts(value, lambda part: cut_part(part, first, last, samples))
    if is_shared(value):
        return value
    raise StepError("pieces", f"a batch with a {type(value).__name__} in it cannot be cut: which of its entries are of which "
                    "sample is not known", "give tensors, arrays, or tuples, lists, dictionaries or dataclasses of them")


def sizes(samples, micro_batch, minimum=1):
    """Full micro-batches and a rest; where that would be too small, all about equal."""
    rest = samples % micro_batch
    if samples > micro_batch and 0 < rest < minimum:
        count = -(-samples // micro_batch)
        return [samples // count + (index < samples % count) for index in range(count)]
    return [micro_batch] * (samples // micro_batch) + ([rest] if rest else [])


def of_one(total):
    """What the weights of one process are shares of."""
    return total


def pieces(batch, micro_batch, *, count=None, minimum=1, of_all=of_one):
    """Yields (piece, weight): a mean loss times its weight, added up over all pieces, is that of the whole batch.

    @param of_all: what weights are shares of, by the count of this batch: of several ranks, the mean of theirs.
    @param count: how many targets of a piece its loss is the mean of, where that is not its samples: words that are
    no padding. Called once a piece before the first is handed out; a piece that has none is left out."""
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
    total = of_all(sum(counts))
    for (first, last), counted in zip(bounds, counts):
        if counted:  # the mean over nothing is no number
            yield cut(batch, first, last, samples), counted / total
