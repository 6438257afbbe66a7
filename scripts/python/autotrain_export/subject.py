"""The module that is exported, taken apart into what its graphs are functions of."""

import copy
from dataclasses import dataclass, field

import torch

from .errors import ExportError


@dataclass
class Subject:
    """A module and its tensors by name. A tensor with several names (tied weights) is there once, under the first. Buffers are those
    of the module's state dictionary; to its graphs the others are constants."""

    module: torch.nn.Module
    parameters: dict
    buffers: dict
    other_names: dict = field(default_factory=dict)  # name → the name that is in `parameters` or `buffers`
    frozen: list = field(default_factory=list)  # parts that are in evaluation mode while the module trains
    output: str | None = None  # which part of the module's output is the prediction

    @property
    def learning(self):
        return [name for name, parameter in self.parameters.items() if parameter.requires_grad]

    def predict(self, tensors, inputs, training):
        """The prediction of the module with these tensors instead of its own."""
        self.module.train(training)
        for part in self.frozen:
            part.eval()
        prediction = torch.func.functional_call(self.module, tensors, (inputs,), tie_weights=True)
        if self.output is not None:
            prediction = _part(prediction, self.output)
        if not isinstance(prediction, torch.Tensor):
            parts = ", ".join(prediction) if isinstance(prediction, dict) else f"0 to {len(prediction) - 1}" if isinstance(prediction, (list, tuple)) else ""
            raise ExportError(f"the module returns a {type(prediction).__name__}, not a tensor" + (f"; name one of its parts with --output-part: {parts}" if parts else ""))
        if not prediction.dtype.is_floating_point:
            raise ExportError(f"the module returns {prediction.dtype}, which has no gradient; return logits or values")
        return prediction


def _part(prediction, name):
    try:
        if isinstance(prediction, dict):
            return prediction[name]
        return prediction[int(name)] if isinstance(prediction, (list, tuple)) else getattr(prediction, name)
    except (KeyError, IndexError, ValueError, AttributeError):
        known = ", ".join(prediction) if isinstance(prediction, dict) else "another"
        raise ExportError(f"the module's output has no part {name}; it has {known}") from None


def take_apart(module, output=None):
    """A copy of the module, on the CPU, and its tensors. Parts that are in evaluation mode in a module that is not, as frozen batch
    normalisation is, stay in it."""
    module = copy.deepcopy(module).cpu()
    frozen = [part for part in module.modules() if module.training and not part.training]
    parameters, buffers, other_names, first = {}, {}, {}, {}
    state = set(module.state_dict())
    for kind, tensors in (
        (parameters, module.named_parameters(remove_duplicate=False)),
        (buffers, module.named_buffers(remove_duplicate=False)),
    ):
        for name, tensor in tensors:
            if name not in state:
                continue
            if id(tensor) in first:
                other_names[name] = first[id(tensor)]
                continue
            first[id(tensor)] = name
            kind[name] = tensor
    for name, parameter in parameters.items():
        if parameter.requires_grad and parameter.dtype != torch.float32:
            raise ExportError(f"parameter {name} is {parameter.dtype}; autotrain trains float32 parameters (half precision is a way to compute: --precision)")
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise ExportError("no parameter of the module requires a gradient")
    return Subject(module, parameters, buffers, other_names, frozen, output)
