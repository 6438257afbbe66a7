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
# rounding, in parts of each number, or of the tensor's scale where that is larger.
TOLERANCE = 2e-5
# What is farther apart may be so many times as far as rounding takes the module itself: those that are zero but for rounding, say.
MARGIN = 30
# In half precision, whose own rounding is coarse, that is how far eager is from float32.
HALF_MARGIN = 2
HALF_ROUNDING = {"bf16": 2.0**-7, "fp16": 2.0**-10}
OUTLIER = 1000  # times the small numbers of a tensor: larger ones, as masks put them there, say nothing about the others' rounding
SMALL = 4  # one in so many numbers is a small one
TINY = 1e-30
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
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
    """Numbers that are up to a tenth smaller, so that probabilities stay below 1; where all are one number, as a bias begins, numbers about it."""
    if not tensor.dtype.is_floating_point or tensor.numel() == 0:
        return
    low, high = tensor.detach().aminmax()
    if shift and low == high:
        tensor.add_(torch.randn(tensor.shape, generator=generator).to(tensor), alpha=0.05 * max(high.abs().item(), 0.4))
    else:
        tensor.mul_(torch.empty(tensor.shape).uniform_(0.9, 1, generator=generator).to(tensor))


def _step(parameters, gradients):
    """Moves each of the parameters far enough that predictions change."""
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            largest = _largest(gradient)
            if largest > TINY:
                parameter.sub_(_finite(loaded(gradient)), alpha=1e-2 / largest)


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
        torch.clear_autocast_cache()  # the weights have changed since
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


class _AsTheProgram(torch.fx.Interpreter):
    """Runs a graph as the program does: a change of shape that the trace had as a view is one where the tensor lies so, else a copy. A trace
    knows the layout that a kernel should give; what it gives may lie otherwise, as a batch normalisation of a transposed tensor does."""

    VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)

    def call_function(self, target, args, kwargs):
        return super().call_function(torch.ops.aten.reshape.default if target in self.VIEWS else target, args, kwargs)


class _LettingGo(_AsTheProgram):
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
            return _AsTheProgram(self.graphs["evaluation"]).run(self.parameters, self.buffers, batch, no_cotangent)


def _pieces(tensor):
    return tensor.detach().reshape(-1).split(PIECE)


def _finite(tensor):
    """With 0 in the place of what is infinite or no number."""
    return tensor if tensor.isfinite().all() else tensor.nan_to_num(0, 0, 0)


def _largest(tensor):
    """The largest of its absolute values that are finite; 0 of None."""
    tensor = loaded(tensor)
    return 0.0 if tensor is None or tensor.numel() == 0 else max(abs(end.item()) for end in _finite(tensor.detach()).aminmax())


def scale_of(mine, other):
    """The largest number of `other`, but for those that are very much larger than the small ones of those that differ; 0 where all are 0."""
    if torch.equal(mine, other):
        return _largest(other)
    step = max(1, other.numel() // PIECE)
    mine, other = (tensor.detach().reshape(-1)[::step].double() for tensor in (mine, other))
    sizes = other.abs()
    told = sizes.isfinite() & (sizes > 0)
    if not told.any():
        return 0.0
    differing = sizes[told & (mine != other)]
    small = differing.kthvalue(1 + len(differing) // SMALL).values if len(differing) > 1 else (differing if len(differing) else sizes[told]).min()
    return sizes[told & (sizes <= OUTLIER * small)].max().item()


def far(mine, other, scale, one_sided=float("inf")):
    """How far two tensors are apart, in parts of each number of `other`, or of the scale where that is larger. The same numbers are not, also
    where they are infinite or no numbers.

    one_sided  how far a finite number is from what is none"""
    if mine.shape != other.shape:
        return float("inf")
    worst = 0.0
    for piece, beside in zip(_pieces(mine), _pieces(other)):
        if piece.numel():
            piece, beside = piece.double(), beside.double()
            parts = (piece - beside).abs() / beside.abs().clamp_min(max(scale, TINY))
            parts = parts.where(piece.isfinite() & beside.isfinite(), one_sided)
            worst = max(worst, parts.masked_fill((piece == beside) | (piece.isnan() & beside.isnan()), 0).max().item())
    return worst


def same(ours, theirs):
    """Whether two lists of tensors, or None, have the same numbers."""
    return all(mine is other or (mine is not None and other is not None and torch.equal(loaded(mine), loaded(other))) for mine, other in zip(ours, theirs))


def _compare(name, ours, theirs, passes, precision, where="", names=()):
    """How far two lists of tensors are apart, in parts of the largest number. Raises ExportError where that is more than rounding.

    passes  of each of theirs, what the module gives in two passes that are apart by rounding alone; None: not known
    where  the line of the module's forward pass
    names  of parameters and buffers, where the lists are of them"""
    if same(ours, theirs):
        return 0.0
    for place, (mine, other) in enumerate(zip(ours, theirs)):
        if (mine is None) != (other is None):
            which = f"parameter {names[place]}" if names else f"one of the {name}"
            raise ExportError(
                f"the traced graph does not compute what the module does: {which} has a gradient in {'the module' if mine is None else 'the graph'} only{where}\n"
                "What is computed of parameters is computed in the forward pass, each time, and a parameter is not another one from one pass to the next."
            )
    # No mask puts large numbers into gradients, and those that are zero but for rounding stand in one tensor with others, as biases of attention do.
    in_full = name == "gradients"
    scales = [_largest(other) if in_full or other is None else scale_of(loaded(mine), loaded(other)) for mine, other in zip(ours, theirs)]
    of_all = max(*scales, TINY)
    worst = 0.0
    for place, (mine, other) in enumerate(zip(ours, theirs)):
        if mine is other:
            continue
        mine, other = loaded(mine), loaded(other)
        _check_numbers(name, other, where, names[place] if names else "")
        scale = scales[place] or of_all  # what is 0 has none of its own
        allowed = TOLERANCE if other.dtype.is_floating_point else 0.0
        if precision in HALF_ROUNDING and scales[place] and allowed:
            allowed += HALF_ROUNDING[precision]
        if passes is not None and passes[place][0] is not None:
            one, another = (loaded(each) for each in passes[place])
            allowed += (HALF_MARGIN if precision in HALF_ROUNDING else MARGIN) * far(one, another, scale, one_sided=0.0)
        distance = far(mine, other, scale)
        if distance > allowed:
            raise ExportError(
                f"the traced graph does not compute what the module does: the {name} differ by {distance:.1e} of the largest number"
                f"{f' of {names[place]}' if names else ''}{where}\n"
                "A forward pass that draws random numbers outside of PyTorch, counts its calls, goes on where something raises, or keeps tensors in "
                "attributes that are no buffers (an average, a table made of weights, the state of the batch before), cannot be exported: use torch's "
                "random numbers, and register_buffer."
            )
        worst = max(worst, distance * scale / of_all)
    return worst


def _check_numbers(name, tensor, where, which):
    """Refuses a prediction, a loss or a gradient without any number, which nothing can be held against."""
    if name != "buffers" and tensor.numel() and tensor.isnan().all():
        raise ExportError(
            f"the module computes no numbers (NaN) of random samples, so that nothing shows whether its graph computes the same: all of its {name}"
            f"{f', that of {which}' if which else ''}{where}\n"
            "Inputs are drawn about 0, with both signs, and masks at random; buffers are up to a tenth smaller. Have it compute numbers of any: "
            "log(x.clamp_min(1e-6)) for log(x), and something to attend to where all is masked."
        )


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


def _turn_last_bits(tensor):
    """Makes the last bit of each number another, but of the smallest; twice, and all are what they were."""
    bits = BITS.get(tensor.dtype)
    if bits is not None:
        sizes = tensor.detach().abs()
        turned = (sizes >= torch.finfo(tensor.dtype).tiny) & sizes.isfinite()
        tensor.detach().view(bits).bitwise_xor_(turned.to(bits))


def with_other_bits(tensor):
    tensor = tensor.clone()
    _turn_last_bits(tensor)
    return tensor


@contextmanager
def other_last_bits(parameters):
    for parameter in parameters:
        _turn_last_bits(parameter)
    try:
        yield
    finally:
        for parameter in parameters:
            _turn_last_bits(parameter)


class _Rounding:
    """What rounding does to the module in a step: passes of the same step that are apart by that alone, computed where they are asked for. In half
    precision one of them is in float32; in float32, the last bits of weights, buffers and inputs are others in one."""

    def __init__(self, eager, precision):
        self.eager, self.precision = eager, precision
        self.before = [buffer.detach().clone() for buffer in eager.buffers()]

    def passes(self, run):
        """Of each list of tensors that `run` gives and of the buffers, a pair for each tensor."""
        one = self._pass(run, self.precision)
        if self.precision != "fp32":
            other = self._pass(run, "fp32")
        else:
            with other_last_bits(self.eager.subject.parameters.values()):
                other = self._pass(run, "fp32", with_other_bits)
        return [list(zip(*lists)) for lists in zip(other, one)]

    def _pass(self, run, precision, changed=torch.clone):
        original = self.eager.subject.original
        # Each begins with what the module keeps by now: what it keeps in attributes is no rounding.
        with values_kept(original, original.parameters()), attributes_kept(original):
            _set(self.eager.buffers(), [changed(buffer) for buffer in self.before])
            results = run(precision, changed)
            return [*results, [buffer.detach().clone() for buffer in self.eager.buffers()]]


def _check_proportional(ours, scaled, subject, precision):
    """Refuses gradients that are not so many times as large as that of the output is, since training scales that."""
    # In fp16 small ones lose bits that larger ones keep: they have no scale of their own.
    of_all = max(map(_largest, ours), default=0.0) if precision in SCALES else 0.0
    pairs = ((loaded(other), loaded(one)) for one, other in zip(ours, scaled) if one is not None and one is not other)
    if any(far(other, one, max(scale_of(other, one), of_all)) > TOLERANCE for other, one in pairs):
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
    worst = 0.0

    def compare(names, ours, theirs, run, rounding):
        """Lists of tensors each, and after them the buffers. What is the module's own bit for bit needs no second look."""
        nonlocal worst
        ours, theirs = [*ours, list(traced.buffers.values())], [*theirs, eager.buffers()]
        if all(same(*pair) for pair in zip(ours, theirs)):
            return
        try:
            worst = max(worst, far_apart(names, ours, theirs, [None] * len(ours)))
        except ExportError:
            worst = max(worst, far_apart(names, ours, theirs, rounding.passes(run)))

    def far_apart(names, ours, theirs, passes):
        where, of = _at(subject, "."), {"gradients": subject.learning, "buffers": list(subject.buffers)}
        return max(_compare(*each, precision, where, of.get(each[0], ())) for each in zip((*names, "buffers"), ours, theirs, passes))

    for step, samples in enumerate(trial.steps):
        batch = examples.batch(samples, seed=samples + step)

        def run(precision, changed=torch.clone, step=step, batch=batch):
            output, gradients = eager.train(step, [changed(tensor) for tensor in batch], cotangent_of, precision)
            return [output], gradients

        rounding = _Rounding(eager, precision)
        buffers = copies(traced.buffers) if step == 0 and proportional else {}
        output, gradients = run(precision)
        cotangent = cotangent_of(output[0])
        ours, mine = traced.train(step, batch, cotangent, gradients, folder)
        compare(("outputs", "gradients"), ([ours], mine), (output, gradients), run, rounding)
        if step == 0 and proportional:
            _set(traced.buffers.values(), buffers.values())
            scale = SCALES.get(precision, SCALE)
            _, scaled = traced.train(step, batch, cotangent * scale, mine, folder, scale)
            _check_proportional(mine, scaled, subject, precision)
            del scaled
        del ours, mine, cotangent
        _set(traced.buffers.values(), eager.buffers())
        _step(eager.learning, gradients)
        del output, gradients
    if trial.evaluated:
        batch = examples.batch(trial.evaluated, seed=trial.evaluated)

        def run_evaluation(precision, changed=torch.clone):
            return [eager.evaluate(99, [changed(tensor) for tensor in batch], precision)]

        rounding = _Rounding(eager, precision)
        (theirs,) = run_evaluation(precision)
        compare(["evaluated outputs"], [traced.evaluate(99, batch)], [theirs], run_evaluation, rounding)
    return worst
