"""Holds traced graphs against the module that they were traced from.

The module is the user's own object. It computes with other weights than it was traced with, and both sides learn for some steps: so
shows what tracing cannot see, such as tensors that are assigned to it in passing, or weights that became constants."""

import random
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from .errors import ExportError
from .tracing import autocast

# Graphs mostly run eager's very operators and give its bits. Where Python's version of one stands in for it, they may differ by
# rounding: of the largest number among all gradients, say, since those that are zero but for rounding have no scale of their own.
TOLERANCE = 2e-5
# In half precision, whose own rounding is coarse, each tensor may be so many times as far off as eager is from float32.
HALF_MARGIN = 2
HALF_ROUNDING = {"bf16": 2.0**-7, "fp16": 2.0**-10}
PIECE = 1 << 22  # numbers that are compared at once


@dataclass(frozen=True)
class Trial:
    """Batches of `samples`, one for each step."""

    samples: int
    steps: int

    def batches(self, examples):
        return [examples.batch(self.samples, seed=self.samples + step) for step in range(self.steps)]


def copies(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


@contextmanager
def _put_back(module):
    """Leaves the module's attributes and buffers as they were, whatever is done to it."""
    parts = list(module.modules())
    state = [(part, dict(part._buffers), dict(part.__dict__)) for part in parts]
    values = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in values:
                buffer.copy_(value)
        for part, buffers, attributes in state:
            part.__dict__.update(attributes)
            part._buffers.clear()
            part._buffers.update(buffers)


@contextmanager
def other_weights(subject, put_parameters_back):
    """Gives the module other weights and buffers for a while. The parameters, of which a copy may be as large as all that memory has left,
    are put back by the caller's function."""
    with _put_back(subject.original):
        try:
            with torch.no_grad():
                generator = torch.Generator().manual_seed(17)
                for parameter in subject.parameters.values():
                    _nudge(parameter, generator, shift=parameter.requires_grad)
                for buffer in subject.buffers.values():
                    _nudge(buffer, generator, shift=False)
            yield
        finally:
            put_parameters_back()


def _nudge(tensor, generator, shift):
    """Other numbers of the same signs; where all are one number, as a bias begins, numbers about it."""
    if not tensor.dtype.is_floating_point or tensor.numel() == 0:
        return
    low, high = tensor.detach().aminmax()
    if shift and low == high:
        tensor.add_(torch.randn(tensor.shape, generator=generator).to(tensor), alpha=0.05 * max(high.abs().item(), 0.4))
    else:
        tensor.mul_(torch.empty(tensor.shape).uniform_(0.9, 1.1, generator=generator).to(tensor))


def _step(parameters, gradients):
    """Moves the parameters far enough that predictions change."""
    largest = _largest(gradients)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            if gradient is not None and largest > 0:
                parameter.sub_(gradient, alpha=1e-2 / largest)


def _cloned(batch):
    return tuple(tensor.clone() for tensor in batch)


def _begin(step):
    random.seed(step)  # a graph cannot follow these numbers
    torch.manual_seed(7 + step)  # so that dropout draws the same on both sides


class _Eager:
    """The module: what it gives, and what becomes of its buffers."""

    def __init__(self, subject, precision):
        self.subject, self.precision = subject, precision
        own = dict(subject.original.named_parameters(remove_duplicate=False))
        self.learning = [own[name] for name in subject.learning]

    def _outputs(self, batch, training, precision):
        subject = self.subject
        subject.set_mode(subject.original, training)
        arguments, keywords = subject.arguments(_cloned(batch))
        with autocast(precision, subject.device):
            return subject.outputs_of(subject.original(*arguments, **keywords), training)

    def train(self, step, batch, cotangent_of, precision):
        _begin(step)
        with torch.enable_grad():
            (output,) = self._outputs(batch, True, precision)
        gradients = torch.autograd.grad(output, self.learning, cotangent_of(output), allow_unused=True)
        return output.detach(), [None if gradient is None else gradient.detach() for gradient in gradients]

    def evaluate(self, step, batch, precision):
        _begin(step)
        with torch.no_grad():
            return self._outputs(batch, False, precision)

    def buffers(self):
        own = dict(self.subject.original.named_buffers(remove_duplicate=False))
        return [own[name] for name in self.subject.buffers]


class _Graphs:
    def __init__(self, graphs, subject):
        self.graphs, self.subject = graphs, subject
        self.parameters = {name: parameter.detach() for name, parameter in subject.parameters.items()}  # the module's own memory
        self.buffers = copies(subject.buffers)

    def train(self, step, batch, cotangent):
        given, before = _cloned(batch), {name: parameter._version for name, parameter in self.parameters.items()}
        _begin(step)
        with torch.no_grad():
            results = self.graphs["training"](self.parameters, self.buffers, given, cotangent)
        if not all(torch.equal(*pair) for pair in zip(given, batch)):
            raise ExportError("the module's forward pass writes to its inputs; clone them first")
        for name, parameter in self.parameters.items():
            if parameter._version != before[name]:
                raise ExportError(f"the module's forward pass writes to its parameter {name}; make it a buffer, or write to a copy")
        return results

    def evaluate(self, step, batch, cotangent):
        _begin(step)
        with torch.no_grad():
            return self.graphs["evaluation"](self.parameters, self.buffers, batch, cotangent)


def _pieces(tensor):
    return tensor.detach().reshape(-1).split(PIECE)


def _far(mine, other):
    if mine.shape != other.shape:
        return float("inf")
    worst = 0.0
    for piece, beside in zip(_pieces(mine), _pieces(other)):
        if piece.numel():
            difference = (piece.double() - beside.double()).abs().max().item()
            worst = max(worst, difference if difference == difference else float("inf"))
    return worst


def _largest(tensors):
    return max((piece.double().abs().max().item() for tensor in tensors if tensor is not None and tensor.numel() for piece in _pieces(tensor)), default=0.0)


def apart(tensors, exact):
    """How far each tensor of half precision is from the exact one."""
    return [0.0 if tensor is None or other is None else _far(tensor, other) for tensor, other in zip(tensors, exact)]


def _compare(name, ours, theirs, off, rounding):
    """How far two lists of tensors are apart, in parts of the largest number. Raises ExportError where that is more than rounding.

    off  how far each of theirs is from exact numbers, in half precision; None: not known"""
    scale = max(_largest(theirs), 1e-30)
    worst = 0.0
    for place, (mine, other) in enumerate(zip(ours, theirs)):
        if (mine is None) != (other is None):
            raise ExportError(f"the traced graph does not compute what the module does: a parameter has a gradient in one of them only ({name})")
        if mine is None or torch.equal(mine, other):
            continue
        allowed = TOLERANCE * scale
        if off is not None:
            allowed += HALF_MARGIN * off[place] + rounding * _largest([other])
        far = _far(mine, other)
        if far > allowed:
            raise ExportError(
                f"the traced graph does not compute what the module does: the {name} differ by {far / scale:.1e} of the largest number\n"
                "A forward pass that draws random numbers outside of PyTorch, counts its calls, or keeps tensors in attributes that are no "
                "buffers (an average, a table made of weights), cannot be exported: use torch's random numbers, and register_buffer."
            )
        worst = max(worst, far / scale)
    return worst


def _set(tensors, values):
    with torch.no_grad():
        for tensor, value in zip(tensors, values):
            tensor.copy_(value)


def _cotangents(subject):
    """The gradient of an output: random numbers that lie in memory as it does, since graphs are traced so; of a loss 1."""

    def of(output):
        if subject.loss is not None:
            return torch.ones_like(output)
        return torch.empty_like(output).copy_(torch.randn(output.shape, generator=torch.Generator().manual_seed(3)))

    return of


def check(graphs, subject, batches, precision):
    """Lets module and graphs learn on some batches of one size, from the weights that the module has now, which both move. Returns how far
    they are apart, in parts of the largest number; raises ExportError where that is more than rounding."""
    eager, traced, cotangent_of = _Eager(subject, precision), _Graphs(graphs, subject), _cotangents(subject)
    rounding = HALF_ROUNDING.get(precision)
    worst = 0.0

    def compare(name, ours, theirs, off):
        nonlocal worst
        worst = max(worst, _compare(name, ours, theirs, off, rounding or 0.0))

    def exactly(run):
        """What the module gives in float32, its buffers put back."""
        if rounding is None:
            return None
        before = [buffer.detach().clone() for buffer in eager.buffers()]
        result = run("fp32")
        after = [buffer.detach().clone() for buffer in eager.buffers()]
        _set(eager.buffers(), before)
        return (*result, after)

    for step, batch in enumerate(batches):
        exact = exactly(lambda precision: eager.train(step, batch, cotangent_of, precision))
        output, gradients = eager.train(step, batch, cotangent_of, precision)
        off = [None] * 3 if exact is None else [apart([output], [exact[0]]), apart(gradients, exact[1]), apart(eager.buffers(), exact[2])]
        del exact
        ours, mine = traced.train(step, batch, cotangent_of(output))
        compare("outputs", [ours], [output], off[0])
        compare("gradients", mine, gradients, off[1])
        del ours, mine
        compare("buffers", list(traced.buffers.values()), eager.buffers(), off[2])
        _set(traced.buffers.values(), eager.buffers())
        _step(eager.learning, gradients)
        del gradients
    exact = exactly(lambda precision: eager.evaluate(99, batches[0], precision))
    theirs = eager.evaluate(99, batches[0], precision)
    compare("evaluated outputs", traced.evaluate(99, batches[0], cotangent_of(output)), theirs, None if exact is None else apart(theirs, exact))
    return worst
