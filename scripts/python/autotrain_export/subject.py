"""The module that is exported, taken apart into what its graphs are functions of."""

import copy
from dataclasses import dataclass, field

import torch

from .errors import ExportError


@dataclass
class Subject:
    """A module and its tensors by name. A tensor with several names (tied weights) is there once, under the first. Buffers are those
    of the module's state dictionary; to its graphs the others are constants."""

    module: torch.nn.Module  # a copy, which is traced
    original: torch.nn.Module  # the user's own, with which the graphs are compared
    parameters: dict
    buffers: dict
    other_names: dict = field(default_factory=dict)  # name → the name that is in `parameters` or `buffers`
    frozen: list = field(default_factory=list)  # names of parts that are in evaluation mode while the module trains
    output: str | None = None  # which part of the module's output is the prediction

    @property
    def learning(self):
        return [name for name, parameter in self.parameters.items() if parameter.requires_grad]

    def set_mode(self, module, training):
        module.train(training)
        for name in self.frozen:
            module.get_submodule(name).eval()

    def predict(self, tensors, inputs, training):
        """The prediction of the module with these tensors instead of its own."""
        self.set_mode(self.module, training)
        return self.prediction_of(torch.func.functional_call(self.module, tensors, (inputs,), tie_weights=True))

    def prediction_of(self, output):
        """The part of the module's output that is its prediction."""
        prediction = output if self.output is None else _part(output, self.output)
        if not isinstance(prediction, torch.Tensor):
            raise ExportError(f"the module returns {_described(prediction)}, not a tensor; --output-part names the part that is the prediction")
        if not prediction.dtype.is_floating_point:
            raise ExportError(f"the module returns {prediction.dtype}, which has no gradient; return logits or values")
        return prediction


def _described(value):
    if isinstance(value, dict):
        return "a dictionary of " + ", ".join(map(str, value))
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"


def _part(output, name):
    try:
        if isinstance(output, dict):
            return output[name]
        return output[int(name)] if isinstance(output, (list, tuple)) else getattr(output, name)
    except (KeyError, IndexError, ValueError, AttributeError):
        raise ExportError(f"the module's output has no part {name}: it is {_described(output)}") from None


def take_apart(module, output=None):
    """What a module is made of. Parts that are in evaluation mode in a module that is not, as frozen batch normalisation is, stay in
    it."""
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    _check_parameters(module)
    traced = copy.deepcopy(module).cpu()
    original = module if all(tensor.is_cpu for tensor in (*module.parameters(), *module.buffers())) else copy.deepcopy(module).cpu()
    frozen = [name for name, part in module.named_modules() if module.training and not part.training]
    parameters, buffers, other_names, first = {}, {}, {}, {}
    saved = _saved_buffers(traced)
    for name, parameter in traced.named_parameters(remove_duplicate=False):
        _add(name, parameter, parameters, other_names, first)
    for name, buffer in traced.named_buffers(remove_duplicate=False):
        if name in saved:
            _add(name, buffer, buffers, other_names, first)
    return Subject(traced, original, parameters, buffers, other_names, frozen, output)


def _add(name, tensor, tensors, other_names, first):
    if id(tensor) in first:
        other_names[name] = first[id(tensor)]
    else:
        first[id(tensor)] = name
        tensors[name] = tensor


def _saved_buffers(module):
    """Names of the buffers that a state dictionary has, whatever the module makes of its own."""
    names = set()
    for prefix, part in module.named_modules(remove_duplicate=False):
        left_out = part._non_persistent_buffers_set
        names.update(f"{prefix}.{name}" if prefix else name for name in part._buffers if name not in left_out)
    return names


def _check_parameters(module):
    storages = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            raise ExportError(f"parameter {name} has no shape yet; run the module once")
        if parameter.dtype != torch.float32:
            raise ExportError(f"parameter {name} is {parameter.dtype}; autotrain trains float32 parameters (half precision is a way to compute: --precision)")
        if parameter._backward_hooks:
            raise ExportError(f"parameter {name} has a hook, which would not be called; change its gradient in the forward pass instead")
        other = storages.setdefault(parameter.untyped_storage().data_ptr(), name)
        if other != name:
            raise ExportError(f"parameters {other} and {name} share their memory without being one; tie them: a.weight = b.weight")
    if not storages:
        raise ExportError("no parameter of the module requires a gradient")
