"""Batches cut into micro-batches, so that accumulating them is the whole batch."""

import math
from collections.abc import Mapping

import torch

from .errors import StepError
from .lengths import lengths_in, place_of
from .parts import arrays, has_arrays, is_array, is_list, is_whole_of_parts, named_parts, parts_of, shape_of, with_parts

LAID_OUT = ("a sparse or nested tensor cannot be cut", "give it dense, or padded with its lengths, and convert it in the step")


def of_one_kind(value):
    """Whether a list has dictionaries of the same entries, or tuples whose parts have no length in common: samples that nobody has put
    together, or what is known of each."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    if all(isinstance(entry, Mapping) for entry in value):
        return len({frozenset(entry) for entry in value}) == 1
    if not isinstance(value, list) or any(type(entry) is not tuple or len(entry) != len(value[0]) for entry in value):
        return False
    lengths = {shape_of(part)[:1] if is_array(part) else () for entry in value for part in entry}
    return len(lengths) > 1 or () in lengths


def is_list_of(batch, samples):
    """A list of arrays that may have an entry a sample, whatever their first lengths are."""
    return isinstance(batch, list) and len(batch) == samples and all(map(is_array, batch))


def lists_of_samples(batch):
    """How many samples a batch has whose parts are lists with an entry a sample, as detectors take them: images of
    several sizes, and dictionaries of boxes; or texts. None where it is no such batch."""
    lists = [part for part in parts_of(batch) if is_list(part)]
    if not lists or len({len(part) for part in lists}) != 1 or any(is_array(part) and shape_of(part) for part in parts_of(batch)):
        return None
    lengths = {shape_of(array)[0] for part in lists for array in part if is_array(array) and shape_of(array)}
    of_mappings = any(isinstance(entry, Mapping) for part in lists for entry in part)
    of_others = not all(map(has_arrays, lists))
    return len(lists[0]) if of_mappings or of_others or len(lengths) > 1 else None


def counted(batch, known={}):
    """How many samples a batch has, and what says so: an array or a list that is known to have an entry for each, the first length of its
    first array, what a list has beside an array that is as long, or what a list of anything else has. None where it cannot be told.

    @param known: of its arrays and lists, see Lengths."""
    for path, place, lengths in lengths_in(batch, known) if known else ():
        if known.get(place):
            return lengths[0], ", ".join(path) or ("the list" if is_list(batch) else "its first axis")
    listed = lists_of_samples(batch)
    if listed is not None:
        return listed, "its lists"
    if isinstance(batch, list) and of_one_kind(batch):
        return len(batch), "the list"
    lengths = {shape_of(part)[0] for part in parts_of(batch) if is_array(part) and shape_of(part)}
    for name, part in [("its first axis", batch)] if is_array(batch) else named_parts(batch):
        if is_list(part) and len(part) in lengths:
            return len(part), name
        for array in arrays(part):
            if shape_of(array):
                return int(shape_of(array)[0]), name
    return (len(batch), "the list") if isinstance(batch, (list, tuple)) and batch else (None, None)


def samples_of(batch, known={}):
    return counted(batch, known)[0]


def has_samples(part, samples):
    return any(shape_of(array)[:1] == (samples,) for array in arrays(part))


def is_samples(value, samples):
    """A list with an entry a sample, rather than a list of parts, each of which has all samples where it has an array at all."""
    if not isinstance(value, (list, tuple)) or len(value) != samples:
        return False
    with_arrays = [part for part in value if has_arrays(part)]
    return of_one_kind(value) or not with_arrays or not all(has_samples(part, samples) for part in with_arrays)


def is_batch_of_samples(batch, samples):
    """The same of a batch as a whole, which may have parts that all samples share."""
    if isinstance(batch, list) and of_one_kind(batch):
        return len(batch) == samples
    return is_samples(batch, samples) and not any(has_samples(part, samples) for part in batch)


def is_shared(value):
    """What every piece may have whole: it says nothing of single samples."""
    return value is None or callable(value) or isinstance(value, (bool, int, float, complex, str, bytes, torch.dtype, torch.device))


def cut(batch, first, last, samples, known={}):
    """The samples [first, last) of a batch; what has no entry for each sample is in every piece. @param known: of its arrays and lists,
    see Lengths."""
    itself = known.get(place_of(batch, ())) if is_list(batch) else None
    if itself:
        return batch[first:last]
    if not any(place_of(part, (name,)) in known for name, part in named_parts(batch) if is_list(part)):
        if lists_of_samples(batch) == samples:
            return with_parts(batch, lambda _, part: part[first:last] if isinstance(part, (list, tuple)) else part)
        if itself is None and is_batch_of_samples(batch, samples):
            return batch[first:last]
    if is_whole_of_parts(batch) and not is_array(batch):
        return cut_parts(batch, first, last, samples, known)
    return cut_part(batch, first, last, samples, known)


def cut_parts(value, first, last, samples, known, path=()):
    return with_parts(value, lambda name, part: cut_part(part, first, last, samples, known, (*path, name)))


def cut_part(value, first, last, samples, known={}, path=()):
    """@param path: the names on the way to it."""
    has_entries = known.get(place_of(value, path)) if is_array(value) or is_list(value) else None
    if is_array(value):
        if has_entries is False or shape_of(value)[:1] != (samples,):
            return value
        if isinstance(value, torch.Tensor) and (value.is_nested or value.layout != torch.strided):
            raise StepError("batch", *LAID_OUT)
        return value[first:last]
    if has_entries or (has_entries is None and is_samples(value, samples)):
        return value[first:last]
    if is_whole_of_parts(value):
        return cut_parts(value, first, last, samples, known, path)
    if is_shared(value):
        return value
    raise StepError("pieces", f"a batch with a {type(value).__name__} in it cannot be cut: which of its entries are of which "
                    "sample is not known", "give tensors, arrays, or tuples, lists, dictionaries or dataclasses of them")


def sizes(samples, micro_batch, minimum=1):
    """Full micro-batches and a rest; where that would be too small, all about equal."""
    rest = samples % micro_batch
    if samples > micro_batch and 0 < rest < minimum:
        count = -(-samples // micro_batch)
        if samples // count < minimum:
            raise StepError("pieces", f"{samples} samples in micro-batches of {micro_batch} leave one with less than {minimum}, and batch normalisation "
                            "has no statistics of one sample", f"give a multiple of {micro_batch}, or leave the last batch of an epoch out (drop_last)")
        return [samples // count + (index < samples % count) for index in range(count)]
    return [micro_batch] * (samples // micro_batch) + ([rest] if rest else [])


def of_one(total):
    """What the weights of one process are shares of."""
    return total


def count_in(piece, count):
    """@param count: the user's own function."""
    found = count(piece)
    try:
        number = float(found)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise StepError("count", f"gave {found!r} for a piece", "have it return how many targets of the piece its loss is the mean of")
    return number


def pieces(batch, micro_batch, *, count=None, minimum=1, of_all=of_one, known={}):
    """Yields (piece, weight): a mean loss times its weight, added up over all pieces, is that of the whole batch.

    @param known: of the batch's arrays and lists, see Lengths.
    @param of_all: what weights are shares of, by the count of this batch: of several ranks, the mean of theirs.
    @param count: how many targets of a piece its loss is the mean of, where that is not its samples: words that are
    no padding. Called once a piece before the first is handed out; a piece that has none is left out."""
    samples = samples_of(batch, known)
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
        counts = [count_in(cut(batch, first, last, samples, known), count) for first, last in bounds]
    total = of_all(sum(counts))
    for (first, last), counted in zip(bounds, counts):
        if counted:  # the mean over nothing is no number
            yield cut(batch, first, last, samples, known), counted / total
