"""Holds traced graphs against the module that they were traced from.

The module is the user's own object, in the state in which it was given: what tracing cannot see, such as tensors that are assigned
to it in passing, shows when both sides learn for some steps."""

import random
from contextlib import contextmanager

import torch

from .errors import ExportError
from .tracing import autocast

# Graphs mostly run eager's very operators and give its bits. Where Python's version of one stands in for it, they may differ by
# rounding: of the largest number among all gradients, say, since those that are zero but for rounding have no scale of their own.
TOLERANCE = 2e-5
# In half precision, whose own rounding is coarse, each tensor may be so many times as far off as eager is from float32.
HALF_MARGIN = 2
HALF_ROUNDING = {"bf16": 2.0**-7, "fp16": 2.0**-10}
STEPS = 3


def copies(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


@contextmanager
def _put_back(module):
    """Leaves the module as it was, whatever is done to it and its tensors."""
    parts = list(module.modules())
    state = [(part, dict(part._buffers), dict(part.__dict__)) for part in parts]
    values = [(tensor, tensor.detach().clone()) for tensor in (*module.parameters(), *module.buffers())]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in values:
                tensor.copy_(value)
        for part, buffers, attributes in state:
            part.__dict__.update(attributes)
            part._buffers.clear()
            part._buffers.update(buffers)


def _step(parameters, gradients):
    """Moves the parameters far enough that predictions change."""
    largest = max((gradient.abs().max().item() for gradient in gradients if gradient is not None and gradient.numel()), default=0.0)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            if gradient is not None and largest > 0:
                parameter.sub_(gradient, alpha=1e-2 / largest)


def _cloned(batch):
    return tuple(tensor.clone() for tensor in batch)


def _learn(batches, learning, run, buffers, evaluate):
    """What a side gives and becomes in some steps: a list of (name, tensors).

    learning  the tensors that each step moves
    run       gives output and gradients of a batch
    buffers   gives them as they are then
    evaluate  gives the outputs in evaluation mode"""
    results = []
    for step, batch in enumerate(batches):
        random.seed(step)  # a graph cannot follow these numbers
        torch.manual_seed(7 + step)  # so that dropout draws the same on both sides
        output, gradients = run(_cloned(batch))
        results.append(("outputs", [output.detach().clone()]))
        if step == 0:
            results.append(("gradients", [None if gradient is None else gradient.clone() for gradient in gradients]))
        _step(learning, gradients)
    results.append(("buffers", [buffer.detach().clone() for buffer in buffers()]))
    with torch.no_grad():
        results.append(("evaluated outputs", [output.clone() for output in evaluate(_cloned(batches[0]))]))
    return results


def _learn_module(subject, batches, cotangent, precision):
    module = subject.original
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]

    def outputs(batch, training):
        subject.set_mode(module, training)
        arguments, keywords = subject.arguments(batch)
        with autocast(precision, subject.device):
            return subject.outputs_of(module(*arguments, **keywords), training)

    def run(batch):
        with torch.enable_grad():
            (output,) = outputs(batch, training=True)
        return output, torch.autograd.grad(output, learning, cotangent.to(output.dtype), allow_unused=True)

    def buffers():
        return [buffer for name, buffer in module.named_buffers() if name in subject.buffers]

    with _put_back(module):
        return _learn(batches, learning, run, buffers, lambda batch: outputs(batch, training=False))


def _learn_graphs(graphs, subject, batches, cotangent):
    parameters, buffers = copies(subject.parameters), copies(subject.buffers)

    def run(batch):
        given, before = _cloned(batch), copies(parameters)
        with torch.no_grad():
            results = graphs["training"](parameters, buffers, given, cotangent)
        if not all(torch.equal(*pair) for pair in zip(given, batch)):
            raise ExportError("the module's forward pass writes to its inputs")
        for name, parameter in parameters.items():
            if not torch.equal(parameter, before[name]):
                raise ExportError(f"the module's forward pass writes to its parameter {name}")
        return results

    learning = [parameters[name] for name in subject.learning]
    return _learn(batches, learning, run, buffers.values, lambda batch: graphs["evaluation"](parameters, buffers, batch, cotangent))


def _far(mine, other):
    if mine.shape != other.shape:
        return float("inf")
    difference = (mine.double() - other.double()).abs().max().item() if mine.numel() else 0.0
    return difference if difference == difference else float("inf")


def _largest(tensors):
    return max((tensor.double().abs().max().item() for tensor in tensors if tensor is not None and tensor.numel()), default=0.0)


def _compare(name, ours, theirs, exact, rounding):
    """How far two lists of tensors are apart, in parts of the largest number. Raises ExportError where that is more than rounding."""
    scale = max(_largest(theirs), 1e-30)
    worst = 0.0
    for place, (mine, other) in enumerate(zip(ours, theirs)):
        if (mine is None) != (other is None):
            raise ExportError(f"the traced graph does not compute what the module does: a parameter has a gradient in one of them only ({name})")
        if mine is None or torch.equal(mine, other):
            continue
        allowed = TOLERANCE * scale
        if exact is not None:
            allowed += HALF_MARGIN * _far(other, exact[place]) + rounding * _largest([other])
        far = _far(mine, other)
        if far > allowed:
            raise ExportError(
                f"the traced graph does not compute what the module does: the {name} differ by {far / scale:.1e} of the largest number\n"
                "A forward pass that branches on values, draws random numbers outside of PyTorch, or keeps tensors in attributes that "
                "are no buffers, cannot be exported."
            )
        worst = max(worst, far / scale)
    return worst


def check(graphs, subject, batches, precision):
    """Lets module and graphs learn on some batches of one size. Returns how far they are apart, in parts of the largest number; raises
    ExportError where that is more than rounding."""
    with torch.no_grad(), autocast(precision, subject.device):
        (output,) = subject.run({**subject.parameters, **copies(subject.buffers)}, batches[0], training=True)
    # As the output lies in memory, since graphs are traced so. A loss is made smaller, as in training.
    cotangent = torch.empty_like(output).copy_(torch.randn(output.shape, generator=torch.Generator().manual_seed(3)))
    if subject.loss is not None:
        cotangent.fill_(1)
    theirs = _learn_module(subject, batches, cotangent, precision)
    ours = _learn_graphs(graphs, subject, batches, cotangent)
    exact = None if precision == "fp32" else _learn_module(subject, batches, cotangent.float(), "fp32")
    worst = 0.0
    for part, (name, tensors) in enumerate(theirs):
        worst = max(worst, _compare(name, ours[part][1], tensors, exact and exact[part][1], HALF_ROUNDING.get(precision, 0.0)))
    return worst
