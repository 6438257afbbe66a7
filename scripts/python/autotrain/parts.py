"""What a batch is made of, and the same kind of batch made of other parts."""

import copy
import dataclasses
from collections.abc import Mapping

import torch

from .errors import StepError

PACKED = ("a PackedSequence has its samples among each other, and cannot be cut",
          "give the padded sequences and their lengths, and pack them in the step")


def is_array(value):
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        raise StepError("batch", *PACKED)
    if isinstance(value, torch.Tensor):  # a nested one has no shape to ask for
        return True
    known_of = type(value) if isinstance(value, (Mapping, list, tuple)) else value  # whose entries may be attributes too
    return all(hasattr(known_of, name) for name in ("shape", "dtype", "__getitem__"))


def is_list(value):
    return isinstance(value, (list, tuple)) and not is_array(value)


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


def has_arrays(value):
    return any(True for _ in arrays(value))


def is_whole_of_parts(value):
    return isinstance(value, (Mapping, list, tuple)) or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def named_parts(batch):
    """What a batch consists of, side by side."""
    if isinstance(batch, Mapping):
        return [(repr(key), part) for key, part in batch.items()]
    if isinstance(batch, (list, tuple)):
        return [(f"entry {index}", part) for index, part in enumerate(batch)]
    if is_whole_of_parts(batch):
        return [(field.name, getattr(batch, field.name)) for field in dataclasses.fields(batch)]
    return []


def parts_of(batch):
    return [part for _, part in named_parts(batch)]


def with_parts(value, change):
    """The same kind of batch, of changed parts. @param change: of a part's name and the part."""
    parts = [change(name, part) for name, part in named_parts(value)]
    if isinstance(value, Mapping):
        make, parts = mapping_of, dict(zip(value.keys(), parts))
    elif isinstance(value, (list, tuple)):
        make = sequence_of
    else:
        make, parts = dataclass_of, {field.name: part for field, part in zip(dataclasses.fields(value), parts)}
    try:
        return make(value, parts)
    except StepError:
        raise
    except Exception as error:
        raise StepError("pieces", f"a {type(value).__name__} cannot be made of other parts ({type(error).__name__}: {error})",
                        "give tuples, lists, dictionaries or dataclasses whose constructor takes their parts") from error


def clone_of(value):
    """The same batch in memory of its own."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if is_array(value):
        return copy.copy(value)
    return with_parts(value, lambda _, part: clone_of(part)) if is_whole_of_parts(value) else value


def sequence_of(value, parts):
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*parts)
    if type(value) is not list and isinstance(value, list):  # its kind may take more than parts to be made
        other = copy.copy(value)
        other[:] = parts
        return other
    return type(value)(parts)


def dataclass_of(value, parts):
    """What the class makes itself after the others is made again."""
    given = {field.name for field in dataclasses.fields(value) if field.init}
    other = dataclasses.replace(value, **{name: part for name, part in parts.items() if name in given})
    if not hasattr(value, "__post_init__"):
        for name in parts.keys() - given:
            object.__setattr__(other, name, parts[name])
    return other


def mapping_of(value, parts):
    """The one that there is keeps its own parts, or this ends with an error."""
    if type(value) is dict:
        return parts
    before = dict(value.items())
    try:
        other = copied(value, before, parts)
    except Exception:  # one that cannot be changed may be made
        other = type(value)(parts)
    damaged = {key: part for key, part in before.items() if value[key] is not part}
    for key, part in damaged.items():
        value[key] = part
    if damaged or any(other[key] is not part for key, part in parts.items()):
        raise StepError("pieces", f"a {type(value).__name__} cannot be made of other parts: its copies share them, or it makes them anew",
                        "give a dict, or a class of which copy.copy() is a mapping of its own")
    return other


def copied(value, before, parts):
    """A copy with other parts: its kind may take more than parts to be made. Where it keeps them may be shared by copies, and they may
    be attributes too."""
    other = copy.copy(value)
    own = getattr(other, "__dict__", {})
    for name, kept in list(own.items()):
        if isinstance(kept, Mapping) and kept is not other and not any(kept is part for part in before.values()):
            own[name] = copy.copy(kept)
    for key, part in parts.items():
        other[key] = part
    for name, kept in list(own.items()):
        key = next((key for key, part in before.items() if kept is part), None)
        if key is not None:
            own[name] = parts[key]
    return other
