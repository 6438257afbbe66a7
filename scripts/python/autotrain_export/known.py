"""Values that are known while a module is traced, since they depend neither on inputs nor on weights: masks and tables that a forward pass
makes. It may branch on them, and take numbers out of them."""

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from .errors import ExportError
from .given import memory_of

NAMESPACES = ("aten", "prim", "prims", "profiler")
MOST = 1 << 22  # numbers of a tensor whose values are kept
aten = torch.ops.aten
NUMBERS = (aten._local_scalar_dense.default, aten.equal.default)
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index_put.default, aten._index_put_impl_.default)
MADE_HERE = (aten.lift_fresh.default, aten.lift_fresh_copy.default)  # of what torch.tensor(…) has made


class _Memories:
    """Memory by its address, which nobody else is given as long as this is kept; what is in it may be given back."""

    def __init__(self):
        self.storages = {}

    def add(self, tensor):
        memory = memory_of(tensor)
        if memory is not None and memory not in self.storages:
            self.storages[memory] = StorageWeakRef(tensor.untyped_storage())

    def __contains__(self, tensor):
        return memory_of(tensor) in self.storages


class Known(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.values = WeakIdKeyDictionary()  # a tensor of the trace → its values
        self.spoiled = _Memories()  # of values that something unknown was written to
        self.of_module = _Memories()  # of tensors that the module keeps, and that are no parameter or buffer

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "namespace", "aten") not in NAMESPACES:
            raise ExportError(
                f"the module calls {function.name()}, an operator of another library, and a file holds PyTorch's own only\n"
                "Compute it by PyTorch's own, of which it is made; a layer that was quantised is exported as it was before that."
            )
        leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if leaf is not None]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        _check_generators(leaves)
        self._check_written(function, args, kwargs, tensors)
        known = self._all_known(function, leaves, tensors)
        if known and function in NUMBERS:
            return self._computed(function, args, kwargs)
        if known and torch.Tag.dynamic_output_shape in function.tags and function not in INDEXED:
            return tree_map(self._constant, self._computed(function, args, kwargs))
        if function in INDEXED:
            args = (args[0], self._places(args[1]), *args[2:])
        result = function(*args, **kwargs)
        if known and _is_small(result):
            self._keep(result, self._computed(function, args, kwargs))
        elif function._schema.is_mutable:
            self._spoil(tensors)
        return result

    def _check_written(self, function, args, kwargs, tensors):
        """What the module keeps outside of its buffers is constant to a graph."""
        if function not in MADE_HERE:
            for tensor in tensors:
                if not isinstance(tensor, FakeTensor):
                    self.of_module.add(tensor)
        for tensor in _written(function, args, kwargs):
            value = self._value(tensor)
            if value is not None and value in self.of_module:
                raise ExportError(
                    "the module writes to a tensor that it keeps in an attribute, or in a buffer that its state_dict lacks, and a graph does not see what it keeps so\n"
                    "Make it a buffer in __init__, self.register_buffer(…), whose changes a model file keeps; or write to a copy, table.clone()."
                )

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
        return None if value is None or value in self.spoiled else value

    def _computed(self, function, args, kwargs):
        args, kwargs = tree_map(lambda leaf: self._value(leaf) if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs))
        with unset_fake_temporarily(), torch.no_grad():
            return function(*args, **kwargs)

    def _constant(self, value):
        """A tensor of the trace that has values which are known, as torch.tensor(…) makes one."""
        made = aten.lift_fresh.default(value)
        self.values[made] = value
        return made

    def _keep(self, result, computed):
        for made, value in zip(tree_flatten(result)[0], tree_flatten(computed)[0]):
            if isinstance(made, FakeTensor) and isinstance(value, torch.Tensor):
                self.values[made] = value

    def _spoil(self, tensors):
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) and tensor in self.values:
                self.spoiled.add(self.values[tensor])

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


def _check_generators(leaves):
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise ExportError(
            "the module draws from a generator of its own, which no graph holds\n"
            "Leave generator= out: a run has a seed of its own. Numbers that are to be the same each time are made in __init__ and kept by register_buffer."
        )


def _written(function, args, kwargs):
    """The tensors that an operator writes to."""
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from (leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor))


def _is_small(result):
    leaves = tree_flatten(result)[0]
    return all(isinstance(leaf, torch.Tensor) and isinstance(leaf.numel(), int) and leaf.numel() <= MOST for leaf in leaves) and leaves != []
