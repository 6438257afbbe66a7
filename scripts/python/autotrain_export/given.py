"""Puts the tensors that graphs are functions of in the place of the module's own, however a forward pass comes by these."""

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from .errors import ExportError


def memory_of(tensor):
    """What tensors that share memory have in common, or None where a tensor has none."""
    try:
        return tensor.untyped_storage()._cdata if tensor.layout == torch.strided and tensor.numel() else None
    except (RuntimeError, NotImplementedError):
        return None


class Given(TorchFunctionMode):
    """A parameter that is kept in a list, has a further name, or is used once more while gradients are computed, is the parameter; so is a
    view of one, with what gradient it has.

    own    the module's own tensors by name
    given  those that stand for them, by the same names"""

    def __init__(self, own, given):
        super().__init__()
        self.by_identity = {id(tensor): given[name] for name, tensor in own.items()}
        self.by_memory = {memory_of(tensor): (name, tensor, given[name]) for name, tensor in own.items() if memory_of(tensor) is not None}
        self.own = own  # identities are those of living objects

    def __torch_function__(self, function, types, args=(), kwargs=None):
        args, kwargs = tree_map(self._in_place_of, (args, kwargs or {}))
        return self._differentiate(args, kwargs) if function is torch.autograd.grad else function(*args, **kwargs)

    def _differentiate(self, args, kwargs):
        """torch.autograd.grad within this mode, which PyTorch leaves for the call: an autograd function may call modules in its backward
        pass."""
        looks_for_modes = torch.autograd.has_torch_function

        def not_this_time(_):
            torch.autograd.has_torch_function = looks_for_modes
            return False

        torch.autograd.has_torch_function = not_this_time
        try:
            with self:
                return torch.autograd.grad(*args, **kwargs)
        finally:
            torch.autograd.has_torch_function = looks_for_modes

    def _in_place_of(self, value):
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        known = self.by_identity.get(id(value))
        if known is not None:
            return known
        shared = self.by_memory.get(memory_of(value))
        return value if shared is None else self._view(value, *shared)

    @staticmethod
    def _view(value, name, own, given):
        if value.dtype != own.dtype or not own.is_contiguous() or own.storage_offset() != 0:
            raise ExportError(f"the module keeps another view of the memory of {name}; make it where it is used, in the forward pass")
        base = given if value.requires_grad else given.detach()
        return base.as_strided(value.shape, value.stride(), value.storage_offset())


def same_tensor(constant, own):
    """The name among the module's own tensors of one that a constant is, shares memory with, or has the values of; or None. Constants of
    one number, or of equal ones, have nobody's values."""
    memory = memory_of(constant)
    for name, tensor in own.items():
        if constant is tensor or (memory is not None and memory == memory_of(tensor)):
            return name
    if constant.numel() < 2 or bool((constant == constant.reshape(-1)[0]).all()):
        return None
    for name, tensor in own.items():
        alike = constant.dtype == tensor.dtype and constant.numel() == tensor.numel() and constant.device == tensor.device
        if alike and torch.equal(constant.reshape(-1), tensor.detach().reshape(-1)):
            return name
    return None
