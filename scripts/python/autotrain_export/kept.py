"""Tensors that wait in a file for being compared: those of a large model are as much memory as its weights."""

import tempfile
import weakref
from dataclasses import dataclass

import torch

LARGE = 1 << 20  # bytes from which a tensor is kept in a file


class _Scratch:
    """A file without a name in a folder, which is closed with the last that holds this."""

    def __init__(self, folder):
        self.file = tempfile.TemporaryFile(dir=folder)
        weakref.finalize(self, self.file.close)


@dataclass(frozen=True)
class Kept:
    """A tensor [shape] of `dtype` at `begin` of a file, which goes with the last of them."""

    scratch: _Scratch
    begin: int
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    def load(self):
        values = torch.empty(self.shape, dtype=self.dtype)
        self.scratch.file.seek(self.begin)
        self.scratch.file.readinto(_bytes(values))
        return values.to(self.device)


class Keeper:
    """Writes what is large to a file without a name in a folder."""

    def __init__(self, folder):
        self.folder, self.scratch, self.end = folder, None, 0

    def keep(self, tensor):
        """A tensor or None itself, or, where it is large, what `loaded` makes it of again."""
        if tensor is None or tensor.nbytes < LARGE:
            return tensor
        self.scratch = self.scratch or _Scratch(self.folder)
        place = Kept(self.scratch, self.end, tensor.shape, tensor.dtype, tensor.device)
        self.scratch.file.seek(self.end)
        self.scratch.file.write(_bytes(tensor.detach().cpu().contiguous()))
        self.end += tensor.nbytes
        return place

    def keep_all(self, tensors):
        """Of a list, which is emptied on the way, so that nothing else holds them."""
        tensors.reverse()
        return [self.keep(tensors.pop()) for _ in range(len(tensors))]


def _bytes(tensor):
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


def loaded(value):
    return value.load() if isinstance(value, Kept) else value
