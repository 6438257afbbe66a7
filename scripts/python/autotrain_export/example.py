"""What a batch of inputs looks like, as people type it: `float32[4,3,224,224]`, or `int64[4,128]<50257` for tokens below a bound."""

import re
from dataclasses import dataclass

import torch

from .errors import ExportError

DTYPES = {"float32": torch.float32, "int64": torch.int64}
_FORM = re.compile(r"(\w+)\[(\d+(?:\s*,\s*\d+)*)\](?:<(\d+))?")


@dataclass(frozen=True)
class Example:
    dtype: torch.dtype
    shape: tuple  # of a batch: samples first
    below: int = 2  # whole numbers are drawn from 0 up to this

    @staticmethod
    def parse(text):
        match = _FORM.fullmatch(text.strip())
        if match is None or match[1] not in DTYPES:
            raise ExportError(f"--example {text}: expected a type ({' or '.join(DTYPES)}) and the shape of a batch, as in float32[4,3,224,224]")
        shape = tuple(int(size) for size in match[2].split(","))
        if min(shape) < 1:
            raise ExportError(f"--example {text}: every size is at least 1")
        if shape[0] < 2:
            raise ExportError(f"--example {text}: the first size is that of the batch; give at least 2, since a batch of one is a case of its own to the tracer")
        if match[1] == "int64" and match[3] is None:
            raise ExportError(f"--example {text}: say below what number the values are, as in int64[4,128]<50257")
        if match[1] != "int64" and match[3] is not None:
            raise ExportError(f"--example {text}: only whole numbers are given a bound")
        return Example(DTYPES[match[1]], shape, int(match[3] or 2))

    def batch(self, samples, seed=0):
        """`samples` random samples: [samples, …]."""
        generator = torch.Generator().manual_seed(seed)
        shape = (samples, *self.shape[1:])
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=generator, dtype=self.dtype)
        return torch.randint(self.below, shape, generator=generator, dtype=self.dtype)
