"""Values that are known while a module is traced, since they depend neither on inputs nor on weights: masks and tables that a forward pass
makes. It may branch on them, and take numbers out of them."""

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from .errors import ExportError

NAMESPACES = ("aten", "prim", "prims", "profiler")
MOST = 1 << 22  # numbers of a tensor whose values are kept
aten = torch.ops.aten
NUMBERS = (aten._local_scalar_dense.default, aten.equal.default)
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index_put.default, aten._index_put_impl_.default)
SIZED_BY_VALUES = (aten.nonzero.default, aten.masked_select.default)


class Known(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.values = WeakIdKeyDictionary()  # a tensor of the trace → its values
        self.spoiled = set()  # memory of values that something unknown was written to

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "namespace", "aten") not in NAMESPACES:
            raise ExportError(
                f"the module calls {function.name()}, an operator of another library, and a file holds PyTorch's own only\n"
                "Compute it by PyTorch's operators: grid_sample takes values at places that move."
            )
        leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if leaf is not None]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        known = self._all_known(function, leaves, tensors)
        if known and function in (*NUMBERS, *SIZED_BY_VALUES):
            return self._computed(function, args, kwargs)
        if function in INDEXED:
            args = (args[0], self._places(args[1]), *args[2:])
        result = function(*args, **kwargs)
        if known and _is_small(result):
            self._keep(result, self._computed(function, args, kwargs))
        elif function._schema.is_mutable:
            self._spoil(tensors)
        return result

    def _all_known(self, function, leaves, tensors):
        if torch.Tag.nondeterministic_seeded in function.tags or any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves):
            return False
        if any(isinstance(leaf, torch.device) and leaf.type != "cpu" for leaf in leaves):
            return False
        if function._schema.is_mutable and not all(isinstance(tensor, FakeTensor) for tensor in tensors):
            return False
        return all(self._value(tensor) is not None for tensor in tensors)

    def _value(self, tensor):
        if not isinstance(tensor, FakeTensor):
            return tensor
        value = self.values.get(tensor)
        return None if value is None or value.untyped_storage()._cdata in self.spoiled else value

    def _computed(self, function, args, kwargs):
        args, kwargs = tree_map(lambda leaf: self._value(leaf) if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs))
        with unset_fake_temporarily(), torch.no_grad():
            return function(*args, **kwargs)

    def _keep(self, result, computed):
        for made, value in zip(tree_flatten(result)[0], tree_flatten(computed)[0]):
            if isinstance(made, FakeTensor) and isinstance(value, torch.Tensor):
                self.values[made] = value

    def _spoil(self, tensors):
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) and tensor in self.values:
                self.spoiled.add(self.values[tensor].untyped_storage()._cdata)

    def _places(self, indices):
        """Masks that are known, as the places where they are true: their number is known, too."""
        places = []
        for index in indices:
            value = None if index is None or index.dtype != torch.bool else self._value(index)
            if value is None:
                places.append(index)
                continue
            with unset_fake_temporarily():
                places.extend(value.nonzero(as_tuple=True))
        return places


def _is_small(result):
    leaves = tree_flatten(result)[0]
    return all(isinstance(leaf, torch.Tensor) and isinstance(leaf.numel(), int) and leaf.numel() <= MOST for leaf in leaves) and leaves != []
