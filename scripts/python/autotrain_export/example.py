"""What a batch looks like, as people type it: `float32[4,3,224,224]`, or `int64[4,128]<50257` for tokens below a bound; with the name
of what the module's forward pass calls it, `mask=bool[4,128]`. Or as they have it: a tensor."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from .errors import ExportError

DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}
_FORM = re.compile(r"(?:([A-Za-z_]\w*)=)?(\w+)\[(\d+(?:\s*,\s*\d+)*)\](?:<(\d+))?")


def _checked(words, shape):
    if not shape or min(shape) < 1:
        raise ExportError(f"{words}: every size is at least 1, and the first is that of the batch")
    if shape[0] < 2:
        raise ExportError(f"{words}: the first size is that of the batch; give at least 2, since a batch of one is a case of its own to the tracer")
    return shape


def _kind(given):
    return "none" if given is None else f"one of type {type(given).__name__}"


@dataclass(frozen=True)
class Example:
    dtype: torch.dtype
    shape: tuple  # of a batch: samples first
    below: int = 2  # whole numbers are drawn from 0 up to this
    name: str | None = None  # of the argument that it is
    above_zero: bool = False  # whether real numbers are drawn from (0, 1], and not about 0

    @staticmethod
    def parse(text, option="--example"):
        match = _FORM.fullmatch(text.strip())
        if match is None or match[2] not in DTYPES:
            raise ExportError(f"{option} {text}: expected a type ({', '.join(DTYPES)}) and the shape of a batch, as in float32[4,3,224,224]")
        shape = _checked(f"{option} {text}", tuple(int(size) for size in match[3].split(",")))
        if match[2] == "int64" and match[4] is None:
            raise ExportError(f"{option} {text}: say below what number the values are, as in int64[4,128]<50257")
        if match[4] is not None and not 0 < int(match[4]) < 1 << 63:
            raise ExportError(f"{option} {text}: the bound is a number from 1 to 2^63 - 1")
        if match[2] != "int64" and match[4] is not None:
            raise ExportError(f"{option} {text}: only whole numbers are given a bound")
        return Example(DTYPES[match[2]], shape, int(match[4] or 2), match[1])

    @staticmethod
    def of(given, option="--example"):
        """Of an Example, its text, or a tensor or array, a batch: of whole numbers, the largest is the last below the bound; real ones are
        drawn from (0, 1] where all of them are in [0, 1]."""
        if isinstance(given, Example):
            return given
        if isinstance(given, str):
            return Example.parse(given, option)
        if not isinstance(given, torch.Tensor) and not hasattr(given, "__array__"):
            raise ExportError(f"{option}: expected a text like float32[4,3,224,224], a tensor or an array, and got {_kind(given)}")
        try:
            tensor = given if isinstance(given, torch.Tensor) else torch.as_tensor(given.__array__())
        except (TypeError, ValueError, RuntimeError) as error:
            raise ExportError(f"{option}: {_kind(given)} makes no tensor: {error}") from None
        if tensor.is_nested or tensor.is_meta or tensor.layout != torch.strided:
            raise ExportError(f"{option}: a tensor that is nested, sparse or meta is no batch of numbers; give it dense")
        words = f"{option}, a tensor {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        if tensor.dtype not in DTYPES.values():
            raise ExportError(f"{words}: inputs are {', '.join(DTYPES)}; give it as one of these")
        shape = _checked(words, tuple(tensor.shape))
        if tensor.dtype.is_floating_point:
            return Example(tensor.dtype, shape, above_zero=bool(0 <= tensor.min() < tensor.max() <= 1))
        if tensor.dtype == torch.bool:
            return Example(tensor.dtype, shape)
        if int(tensor.min()) < 0:
            raise ExportError(f"{words}: has numbers below 0; whole numbers are drawn from 0 up to a bound")
        return Example(tensor.dtype, shape, int(tensor.max()) + 1)

    def batch(self, samples, seed=0):
        """`samples` random samples: [samples, …]."""
        generator = torch.Generator().manual_seed(seed)
        shape = (samples, *self.shape[1:])
        if self.dtype.is_floating_point:
            return 1 - torch.rand(shape, generator=generator, dtype=self.dtype) if self.above_zero else torch.randn(shape, generator=generator, dtype=self.dtype)
        drawn = torch.randint(self.below, shape, generator=generator)
        if self.dtype == torch.bool:
            drawn = drawn.bool()
            if drawn.dim() > 1 and shape[-1] > 1:  # a mask that leaves something, whichever way it is meant
                drawn[..., 0], drawn[..., -1] = False, True
        return drawn


@dataclass(frozen=True)
class Examples:
    """What batches look like: the inputs of a module and, where it computes its loss from them, the targets."""

    inputs: tuple  # of Example, in the order of the module's arguments
    targets: Example | None = None
    device: str = "cpu"  # where batches lie

    @staticmethod
    def parse(inputs, targets=None, device="cpu"):
        """inputs   one example or a list of them, as Example.of takes them, or a dictionary with their names; targets likewise, at most
        one."""
        if isinstance(inputs, Mapping):
            made = tuple(replace(Example.of(each), name=name) for name, each in inputs.items())
        elif isinstance(inputs, Sequence) and not isinstance(inputs, str):
            made = tuple(Example.of(each) for each in inputs)
        else:
            made = (Example.of(inputs),)
        targets = None if targets is None else Example.of(targets, "--targets")
        examples = Examples(made, targets, device)
        if not made:
            raise ExportError("--example: give one for each input of the module")
        if len({each.shape[0] for each in examples.all}) > 1:
            raise ExportError("--example: the first size is the batch's, and must be the same for all: "
                              + ", ".join(str(each.shape[0]) for each in examples.all))
        return examples

    def above_zero(self):
        """As modules take them that compute roots or logarithms, or entropies, of inputs, of targets or of both: each with its name."""
        inputs = tuple(replace(each, above_zero=True) for each in self.inputs)
        found = {"inputs": replace(self, inputs=inputs)}
        if self.targets is not None and self.targets.dtype.is_floating_point:
            targets = replace(self.targets, above_zero=True)
            found |= {"targets": replace(self, targets=targets), "inputs and targets": replace(self, inputs=inputs, targets=targets)}
        return found

    @property
    def all(self):
        return self.inputs if self.targets is None else (*self.inputs, self.targets)

    @property
    def samples(self):
        return self.inputs[0].shape[0]

    def batch(self, samples, seed=0):
        """`samples` random samples: a tensor [samples, …] for each of `all`."""
        return tuple(each.batch(samples, seed + 1000 * place).to(self.device) for place, each in enumerate(self.all))
