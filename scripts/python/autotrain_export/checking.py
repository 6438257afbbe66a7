"""Holds a traced graph against the module that it was traced from."""

import torch

from .errors import ExportError
from .tracing import autocast

# Graphs mostly run eager's very operators and give its bits. Where Python's version of one stands in for it, they may differ by
# rounding: in float32 by so much of the largest number of a tensor,
TOLERANCE = 1e-5
# and in half precision, whose own rounding is coarse, they may be so many times as far from the float32 result as eager is.
HALF_MARGIN = 2


def _seeded(function):
    torch.manual_seed(7)  # so that dropout draws the same
    return function()


def _run_module(subject, inputs, cotangent, precision):
    buffers = _copies(subject.buffers)
    with autocast(precision):
        prediction = subject.predict({**subject.parameters, **buffers}, inputs, training=True)
    learning = [subject.parameters[name] for name in subject.learning]
    gradients = torch.autograd.grad(prediction, learning, cotangent, allow_unused=True)
    return [prediction.detach()], list(gradients), list(buffers.values())


def _run_graph(graph, subject, inputs, cotangent):
    parameters, buffers = _copies(subject.parameters), _copies(subject.buffers)
    with torch.no_grad():
        prediction, gradients = graph(parameters, buffers, inputs, cotangent)
    for name, parameter in parameters.items():
        if not torch.equal(parameter, subject.parameters[name]):
            raise ExportError(f"the module's forward pass writes to its parameter {name}")
    return [prediction], list(gradients), list(buffers.values())


def _difference(ours, theirs):
    """Of two lists of tensors: the largest difference, in parts of the largest number of that tensor."""
    worst = 0.0
    for mine, other in zip(ours, theirs):
        if (mine is None) != (other is None):
            return float("inf")
        if mine is None or mine.numel() == 0 or torch.equal(mine, other):
            continue
        if mine.shape != other.shape:
            return float("inf")
        scale = max(other.double().abs().max().item(), 1e-30)
        difference = (mine.double() - other.double()).abs().max().item() / scale
        worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def _within(ours, theirs, exact):
    """Whether two lists of tensors are equal up to rounding, and how far apart they are.

    exact: what float32 gives, where they are half precision; None: they are float32"""
    difference = _difference(ours, theirs)
    allowed = TOLERANCE if exact is None else HALF_MARGIN * _difference(theirs, exact) + TOLERANCE
    return difference <= allowed, difference


def training_difference(graph, subject, inputs, precision):
    """How far prediction, gradients and buffers after one pass are from the module's own. Raises ExportError where that is too far."""
    with torch.no_grad(), autocast(precision):
        prediction = subject.predict({**subject.parameters, **_copies(subject.buffers)}, inputs, training=True)
    cotangent = torch.randn(prediction.shape, generator=torch.Generator().manual_seed(3)).to(prediction.dtype)
    theirs = _seeded(lambda: _run_module(subject, inputs.clone(), cotangent, precision))
    given = inputs.clone()
    ours = _seeded(lambda: _run_graph(graph, subject, given, cotangent))
    if not torch.equal(given, inputs):
        raise ExportError("the module's forward pass writes to its inputs")
    exact = None if precision == "fp32" else _seeded(lambda: _run_module(subject, inputs.clone(), cotangent.float(), "fp32"))
    return _check_parts(("prediction", "gradients", "buffers"), ours, theirs, exact, precision)


def evaluation_difference(graph, subject, inputs, precision):
    """How far the prediction is from that of the module in evaluation mode. Raises ExportError where that is too far."""

    def run(precision):
        with torch.no_grad(), autocast(precision):
            return [subject.predict({**subject.parameters, **_copies(subject.buffers)}, inputs, training=False)]

    theirs = run(precision)
    with torch.no_grad():
        ours = list(graph(subject.parameters, _copies(subject.buffers), inputs, torch.empty_like(theirs[0])))
    exact = None if precision == "fp32" else [run("fp32")]
    return _check_parts(("evaluated prediction",), [ours], [theirs], exact, precision)


def _check_parts(names, ours, theirs, exact, precision):
    worst = 0.0
    for part, name in enumerate(names):
        sound, difference = _within(ours[part], theirs[part], exact[part] if exact else None)
        if not sound:
            raise ExportError(
                f"the traced graph does not compute what the module does ({precision}): the {name} differ by {difference:.1e} of the "
                "largest number\nA forward pass that branches on values, or draws random numbers outside of PyTorch, cannot be exported."
            )
        worst = max(worst, difference)
    return worst


def _copies(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
