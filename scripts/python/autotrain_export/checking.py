"""Holds traced graphs against the module that they were traced from.

The module is the user's own object. It computes with other weights than it was traced with, and both sides learn for some steps: so
shows what tracing cannot see, such as tensors that are assigned to it in passing, or weights that became constants."""

import random
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch

from .attributes import attributes_kept
from .errors import ExportError
from .given import memory_of
from .half import QuickProducts
from .kept import Keeper, loaded
from .places import forward_of
from .subject import refuse_written, tensors_in
from .tracing import autocast
from .twister import States
from .values import Values

# Graphs mostly run eager's very operators and give its bits. Where Python's version of one stands in for it, they may differ by
# rounding: of the largest number among all gradients, say, since those that are zero but for rounding have no scale of their own.
TOLERANCE = 2e-5
# In half precision, whose own rounding is coarse, each tensor may be so many times as far off as eager is from float32.
HALF_MARGIN = 2
HALF_ROUNDING = {"bf16": 2.0**-7, "fp16": 2.0**-10}
PIECE = 1 << 22  # numbers that are compared at once
# By how much more the gradient of an output is once. A power of two changes no other bit of what is proportional to it.
SCALES = {"fp16": 2}
SCALE = 1024


@dataclass(frozen=True)
class Trial:
    """How many samples each step's batch has, and the one that is evaluated at last; 0: none is."""

    steps: tuple
    evaluated: int = 0

    def __str__(self):
        if not self.steps:
            return f"an evaluation of {self.evaluated} sample{'' if self.evaluated == 1 else 's'}"
        sizes = " and ".join(str(size) for size in dict.fromkeys(self.steps))
        return f"{len(self.steps)} step{'s' if len(self.steps) > 1 else ''} of {sizes} sample{'' if sizes == '1' else 's'}"


def copies(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


@contextmanager
def values_kept(module, but):
    """Leaves the tensors in a module's buffers and attributes with the numbers that they have, whatever is done to it.

    but  tensors that somebody else looks after, and with them what shares their memory"""
    others = {memory_of(tensor) for tensor in but}
    found = [*module.buffers(), *(tensor for part in module.modules() for tensor in tensors_in(vars(part)))]
    values = Values(tensor for tensor in found if memory_of(tensor) not in {*others, None})
    try:
        yield
    finally:
        values.put_back()


@contextmanager
def other_weights(subject, put_parameters_back):
    """Gives the module other weights and buffers for a while. The parameters, of which a copy may be as large as all that memory has left,
    are put back by the caller's function."""
    with values_kept(subject.original, subject.original.parameters()), attributes_kept(subject.original):
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
                parameter.sub_(loaded(gradient), alpha=1e-2 / largest)


def _cloned(batch):
    return tuple(tensor.clone() for tensor in batch)


@contextmanager
def own_random_numbers():
    """Random numbers of Python's own and of NumPy go on afterwards as if none had been drawn."""
    before = States()
    random.seed(b"the passes that are traced")
    try:
        yield
    finally:
        before.put_back()


def _begin(step, batch):
    """Both sides draw the same numbers in dropout, of which no two trials have the same; those of Python's own no graph can follow."""
    seed = 7 + step + 1000 * len(batch[0])
    random.seed(seed)
    torch.manual_seed(seed)


def _at(subject, name):
    place = forward_of(subject.original, name)
    return f":\n  {place}" if place else ""


class _Eager:
    """The module: what it gives, and what becomes of its buffers."""

    def __init__(self, subject, precision, folder):
        self.subject, self.precision, self.folder = subject, precision, folder
        own = dict(subject.original.named_parameters(remove_duplicate=False))
        self.learning = [own[name] for name in subject.learning]

    def _outputs(self, batch, training, precision):
        subject = self.subject
        subject.set_mode(subject.original, training)
        arguments, keywords = subject.arguments(_cloned(batch))
        with autocast(precision, subject.device):
            return subject.outputs_of(subject.original(*arguments, **keywords), training)

    def train(self, step, batch, cotangent_of, precision):
        _begin(step, batch)
        with torch.enable_grad():
            (output,) = self._outputs(batch, True, precision)
        gradients = list(torch.autograd.grad(output, self.learning, cotangent_of(output), allow_unused=True))
        return output.detach(), Keeper(self.folder).keep_all(gradients)

    def evaluate(self, step, batch, precision):
        _begin(step, batch)
        with torch.no_grad():
            return self._outputs(batch, False, precision)

    def buffers(self):
        own = dict(self.subject.original.named_buffers(remove_duplicate=False))
        for name, buffer in self.subject.buffers.items():
            if own.get(name) is not buffer and name in own and not torch.equal(own[name], buffer):
                raise ExportError(
                    f"the module assigns another tensor to its buffer {name} in its forward pass, which a graph does not see{_at(self.subject, name)}\n"
                    f"Write to the buffer that it has: self.{name.rpartition('.')[2]}.copy_(…)."
                )
        return [own[name] for name in self.subject.buffers]


class _LettingGo(torch.fx.Interpreter):
    """Runs a graph, and holds each gradient no longer than until it is known to be the other one's, bit for bit.

    scale  what its gradients are divided by"""

    def __init__(self, graph_module, gradients, folder, scale):
        super().__init__(graph_module)
        self.keeper, self.scale = Keeper(folder), scale
        (results,) = (node for node in graph_module.graph.nodes if node.op == "output")
        self.theirs, self.places, self.used_on = gradients, {}, []
        for place, node in enumerate(torch.utils._pytree.tree_leaves(results.args[0], is_leaf=lambda leaf: leaf is None)[1:]):
            if node is not None and node.op == "call_function" and set(node.users) == {results}:
                self.places.setdefault(node, []).append(place)
            elif node is not None:
                self.used_on.append(place)

    def run(self, *given):
        """The output and the gradients; those that others are made of, and what is given, are known when all have been."""
        output, gradients = super().run(*given)
        if self.scale == 1:
            return output, gradients
        return output, [gradient / self.scale if place in self.used_on else gradient for place, gradient in enumerate(gradients)]

    def run_node(self, node):
        value = super().run_node(node)
        places = self.places.get(node, ())
        if places and self.scale != 1:
            value = value / self.scale
        theirs = [self.theirs[place] for place in places]
        if theirs and all(one is not None and torch.equal(value, loaded(one)) for one in theirs):
            return theirs[0]
        return self.keeper.keep(value) if theirs else value


class _Graphs:
    def __init__(self, graphs, subject):
        self.graphs, self.subject = graphs, subject
        self.parameters = {name: parameter.detach() for name, parameter in subject.parameters.items()}  # the module's own memory
        self.buffers = copies(subject.buffers)

    def train(self, step, batch, cotangent, gradients, folder, scale=1):
        """The output and the gradients, which are divided by `scale`."""
        given, before = _cloned(batch), {name: parameter._version for name, parameter in self.parameters.items()}
        _begin(step, batch)
        with torch.no_grad():
            results = _LettingGo(self.graphs["training"], gradients, folder, scale).run(self.parameters, self.buffers, given, cotangent)
        for name, parameter in self.parameters.items():
            if parameter._version != before[name]:
                refuse_written(self.subject, name)
        return results

    def evaluate(self, step, batch):
        _begin(step, batch)
        no_cotangent = torch.empty(())
        with torch.no_grad():
            return self.graphs["evaluation"](self.parameters, self.buffers, batch, no_cotangent)


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
    """The largest of their absolute values."""
    each = (loaded(tensor) for tensor in tensors if tensor is not None)
    ends = [end.double().abs() for tensor in each if tensor.numel() for end in tensor.detach().aminmax()]
    return torch.stack([end.cpu() for end in ends]).max().item() if ends else 0.0


def same(ours, theirs):
    """Whether two lists of tensors, or None, have the same numbers."""
    return all(mine is other or (mine is not None and other is not None and torch.equal(loaded(mine), loaded(other))) for mine, other in zip(ours, theirs))


def apart(tensors, exact):
    """How far each tensor of half precision is from the exact one."""
    return [0.0 if tensor is None or other is None else _far(loaded(tensor), loaded(other)) for tensor, other in zip(tensors, exact)]


def _compare(name, ours, theirs, off, rounding, where="", parameters=()):
    """How far two lists of tensors are apart, in parts of the largest number. Raises ExportError where that is more than rounding.

    where  the line of the module's forward pass
    parameters  names, where the lists are gradients
    off  how far each of theirs is from exact numbers, in half precision; None: not known"""
    if same(ours, theirs):
        return 0.0
    scale = max(_largest(theirs), 1e-30)
    worst = 0.0
    for place, (mine, other) in enumerate(zip(ours, theirs)):
        if (mine is None) != (other is None):
            which = f"parameter {parameters[place]}" if parameters else f"one of the {name}"
            raise ExportError(
                f"the traced graph does not compute what the module does: {which} has a gradient in {'the module' if mine is None else 'the graph'} only{where}\n"
                "What is computed of parameters is computed in the forward pass, each time, and a parameter is not another one from one pass to the next."
            )
        if mine is other:
            continue
        mine, other = loaded(mine), loaded(other)
        if torch.equal(mine, other):
            continue
        allowed = TOLERANCE * scale
        if off is not None:
            allowed += HALF_MARGIN * off[place] + rounding * _largest([other])
        far = _far(mine, other)
        if far > allowed:
            raise ExportError(
                f"the traced graph does not compute what the module does: the {name} differ by {far / scale:.1e} of the largest number{where}\n"
                "A forward pass that draws random numbers outside of PyTorch, counts its calls, goes on where something raises, or keeps tensors in "
                "attributes that are no buffers (an average, a table made of weights, the state of the batch before), cannot be exported: use torch's "
                "random numbers, and register_buffer."
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


class _Exact:
    """What the module gives in float32 for a step in half precision, computed where it is asked for: only rounding needs it."""

    def __init__(self, eager, precision):
        self.eager, self.known = eager, precision != "fp32"
        self.before = [buffer.detach().clone() for buffer in eager.buffers()] if self.known else []

    def none_off(self, theirs):
        """As `off`, were half precision exact: what agrees so agrees the more, and nothing needs to be computed. None where nothing is half."""
        return [[0.0] * len(tensors) if self.known else None for tensors in theirs]

    def off(self, run, theirs):
        """How far each list of tensors of half precision is from what `run` gives exactly, and the buffers are."""
        buffers = self.eager.buffers()
        after = [buffer.detach().clone() for buffer in buffers]
        _set(buffers, self.before)
        exact = run("fp32")
        result = [apart(half, single) for half, single in zip([*theirs, after], [*exact, buffers])]
        _set(buffers, after)
        return result


def _check_proportional(ours, scaled, subject):
    """Refuses gradients that are not so many times as large as that of the output is, since training scales that."""
    far = max((_far(loaded(one), loaded(other)) for one, other in zip(ours, scaled) if one is not None and one is not other), default=0.0)
    if far > TOLERANCE * max(_largest(ours), 1e-30):
        raise ExportError(
            f"the gradients of the module are not proportional to that of its output{_at(subject, '.')}\n"
            "A hook or an autograd function clips, rounds or normalises them on their way. Here gradients are scaled while they are added up, so that others "
            "would come of it: clip by optimizer.clip_norm, and leave such a hook out."
        )


def check(graphs, subject, examples, trial, precision, folder=None, proportional=False):
    """Lets module and graphs learn on the batches of a trial, from the weights that the module has now, which both move. Returns how far
    they are apart, in parts of the largest number; raises ExportError where that is more than rounding.

    folder        where large gradients wait, without a name
    proportional  whether gradients are held against those of a scaled output, too"""
    with nullcontext() if precision == "fp32" else QuickProducts():
        return _check(graphs, subject, examples, trial, precision, folder, proportional)


def _check(graphs, subject, examples, trial, precision, folder, proportional):
    eager, traced, cotangent_of = _Eager(subject, precision, folder), _Graphs(graphs, subject), _cotangents(subject)
    rounding = HALF_ROUNDING.get(precision, 0.0)
    worst = 0.0

    def compare(names, ours, theirs, run, exact):
        """Lists of tensors each, and after them the buffers. What is the module's own bit for bit needs no second look."""
        nonlocal worst
        ours, theirs = [*ours, list(traced.buffers.values())], [*theirs, eager.buffers()]
        if all(same(*pair) for pair in zip(ours, theirs)):
            return
        try:
            worst = max(worst, far_apart(names, ours, theirs, exact.none_off(theirs)))
        except ExportError:
            if not exact.known:
                raise
            worst = max(worst, far_apart(names, ours, theirs, exact.off(run, theirs[:-1])))

    def far_apart(names, ours, theirs, off):
        where = _at(subject, ".")
        learning = subject.learning
        return max(_compare(*each, rounding, where, learning if each[0] == "gradients" else ()) for each in zip((*names, "buffers"), ours, theirs, off))

    for step, samples in enumerate(trial.steps):
        batch = examples.batch(samples, seed=samples + step)

        def run(precision, step=step, batch=batch):
            output, gradients = eager.train(step, batch, cotangent_of, precision)
            return [output], gradients

        exact = _Exact(eager, precision)
        buffers = copies(traced.buffers) if step == 0 and proportional else {}
        output, gradients = run(precision)
        cotangent = cotangent_of(output[0])
        ours, mine = traced.train(step, batch, cotangent, gradients, folder)
        compare(("outputs", "gradients"), ([ours], mine), (output, gradients), run, exact)
        if step == 0 and proportional:
            _set(traced.buffers.values(), buffers.values())
            scale = SCALES.get(precision, SCALE)
            _, scaled = traced.train(step, batch, cotangent * scale, mine, folder, scale)
            _check_proportional(mine, scaled, subject)
            del scaled
        del ours, mine, cotangent
        _set(traced.buffers.values(), eager.buffers())
        _step(eager.learning, gradients)
        del output, gradients
    if trial.evaluated:
        batch = examples.batch(trial.evaluated, seed=trial.evaluated)

        def run_evaluation(precision):
            return [eager.evaluate(99, batch, precision)]

        exact = _Exact(eager, precision)
        (theirs,) = run_evaluation(precision)
        compare(["evaluated outputs"], [traced.evaluate(99, batch)], [theirs], run_evaluation, exact)
    return worst
