"""Graphs of the very operators that eager PyTorch runs, forward and backward, for a batch of any size."""

import gc
import re
from contextlib import contextmanager, nullcontext

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext, free_unbacked_symbols

from .attributes import attributes_kept
from .cures import CHECKS_VALUES, CURE_OF_VMAP, REPORTS_VALUES, cure_of_decision, cure_of_size, known, readable
from .decomposed import Decomposed
from .errors import ExportError
from .finite import Finite
from .given import Given, same_tensor
from .known import Known
from .machine import of_machine
from .places import BACKWARD, asked_by_module, forward_of, goes_back, operator_of, place_now, place_of, within_vmap
from .written import copy_written_inputs, fix_strides

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision, device):
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def trace_training(subject, examples, precision):
    """A graph of (parameters, buffers, batch, gradient of the output) that returns the output, a prediction or the loss, and the
    gradient of each learning parameter, or None where there is none. Buffers are written in place, as the module does."""

    def joint(parameters, buffers, batch, cotangent):
        tensors = {**parameters, **buffers}
        with Given(subject.tensors, tensors), Decomposed(), Finite(subject):
            with autocast(precision, subject.device):
                (output,) = subject.run(tensors, batch, training=True)
            _check_learns(subject, output, parameters)
            cotangent = _shaped_as(output, cotangent)
            gradients = torch.autograd.grad(output, [parameters[name] for name in subject.learning], cotangent, allow_unused=True)
        return output.detach(), gradients

    return _trace(subject, examples, precision, joint, training=True)


def _check_learns(subject, output, parameters):
    at = forward_of(subject.original, ".")
    at = f":\n  {at}" if at else ""
    frozen = [name for name in subject.learning if not parameters[name].requires_grad]
    if frozen:
        raise ExportError(f"the module sets requires_grad of its parameter {frozen[0]} in its forward pass{at}\nDo so where the module is made, before it is exported.")
    if not output.requires_grad:
        raise ExportError(
            f"nothing that learns leads to what the module returns, in training mode{at}\n"
            "Leave torch.no_grad and detach() out of what is to learn, and return what the parameters that learn compute: no inputs, rounded numbers or classes. "
            "A module that calls backward() itself returns its loss instead: --loss."
        )


def _shaped_as(output, cotangent):
    """What stands for the gradient of the output, whose shape is known only here: it takes the place of `cotangent` in the graph."""
    like = torch.empty_like(output)
    return cotangent.new_empty_strided(like.shape, like.stride(), dtype=like.dtype)


def _join_cotangent(graph_module):
    """Makes of the input that `_shaped_as` was given the one that it returned."""
    graph = graph_module.graph
    given = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for node in list(given.users):
        given.meta = node.meta
        node.replace_all_uses_with(given)
        graph.erase_node(node)
    graph_module.recompile()


def trace_evaluation(subject, examples, precision):
    """A graph of (parameters, buffers, batch) that returns the prediction; of a module with its loss inside, the loss and, if there is
    one, the prediction."""

    def forward(parameters, buffers, batch, _):
        tensors = {**parameters, **buffers}
        with Given(subject.tensors, tensors), Decomposed(), Finite(subject), autocast(precision, subject.device), torch.no_grad():
            return subject.run(tensors, batch, training=False)

    return _trace(subject, examples, precision, forward, training=False)


def _unusual_size(subject, examples):
    """A size of a batch that no other size is equal to, or a multiple of: a tracer that compares the two would otherwise take them
    for one."""
    sizes = {size for example in examples.all for size in example.shape[1:]}
    for tensor in (*subject.parameters.values(), *subject.buffers.values()):
        sizes.update(tensor.shape)
    sizes.discard(0)
    primes = (n for n in range(97, 1 << 16) if all(n % k for k in range(2, int(n**0.5) + 1)))
    return next(prime for prime in primes if all(size % prime for size in sizes))


UNBOUNDED = 1 << 31  # what kernels check of any size


class _FixedBatch(Exception):
    """The traced graph holds for one size of the batch only."""

    def __init__(self, text, for_good=False):
        super().__init__(text)
        self.for_good = for_good  # whether no other way to trace may help


class _Shapes(ShapeEnv):
    """Notes where in the module a size was compared with something, and which of the comparisons are the module's own: others choose
    kernels.

    at_once  whether tracing ends where the size of the batch becomes fixed, since there is another way to try"""

    def __init__(self, module, at_once):
        super().__init__(duck_shape=False)
        self.module, self.at_once, self.fixed_at, self.compared_at = module, at_once, "", {}
        self.fixed_in_vmap = False
        self.own = set()
        self.taken_at = {}  # a size that depends on values → where it arises

    def create_unbacked_symint(self, *arguments, **keywords):
        size = super().create_unbacked_symint(*arguments, **keywords)
        self.taken_at[size.node.expr] = place_now(self.module)
        return size

    def _set_replacement(self, symbol, expression, message):
        if symbol in self.taken_at:
            raise _FixedBatch(_sized_by_values(self.taken_at[symbol]), for_good=True)
        if not self.fixed_at:
            self.fixed_at, self.fixed_in_vmap = place_now(self.module), within_vmap()
        if asked_by_module():
            raise _FixedBatch("the module makes a number of the size of its batch, which fixes that, and a graph is for batches of any size:\n"
                              f"  {self.fixed_at}\n{cure_of_size(self.fixed_at)}", for_good=True)  # fmt: skip
        super()._set_replacement(symbol, expression, message)
        if self.at_once:
            raise _FixedBatch(f"{symbol} is {expression}")

    def _log_guard(self, prefix, guard, forcing_spec):
        self.compared_at.setdefault(str(guard), place_now(self.module))
        if asked_by_module():
            self.own.add(str(guard))
        super()._log_guard(prefix, guard, forcing_spec)


DISPATCHERS = (nullcontext, enable_python_dispatcher)


def _trace(subject, examples, precision, function, training):
    """Traces the very operators that eager PyTorch runs, where these can be traced for any size of the batch. Some cannot, products
    of more than two axes among them; Python's versions of such operators, which compute the same up to rounding, can. What one precision
    needs, the others need, too."""
    errors = []
    for place in range(subject.traced_by.get(training, 0), len(DISPATCHERS)):
        dispatcher = DISPATCHERS[place]
        try:
            with _no_collection(), attributes_kept(subject.module):
                graph = _trace_with(dispatcher, subject, examples, function, training)
            _check_constants(graph, subject)
            subject.traced_by[training] = place
            return graph
        except (ExportError, _FixedBatch) as error:
            if isinstance(error, ExportError):
                raise ExportError(_with_place(str(error), place_of(error, subject.module))) from None
            if dispatcher is enable_python_dispatcher or error.for_good:
                raise ExportError(str(error)) from None
        except Exception as error:
            if of_machine(error):
                raise
            errors.append(error)
    raise ExportError(_why(errors[-1], precision, subject.module)) from errors[-1]


@contextmanager
def _no_collection():
    """Tracing makes so many small objects that looking for those that nobody holds takes a third of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _with_place(text, place):
    """A sentence with where that is, before what may be done."""
    first, _, rest = text.partition("\n")
    return "\n".join(line for line in (first, f"  {place}" if place else "", rest) if line)


def _why(error, precision, module):
    """What a module does that cannot be traced, where, and what to do instead."""
    place = place_of(error, module)
    if not place:
        written = forward_of(module, ".")
        behind = f"{BACKWARD}{operator_of(error)}" if goes_back(error) else ""
        place = "\n  ".join(filter(None, (behind, written)))
    at = f"\n  {place}" if place else ""
    kind, text = type(error).__name__, str(error).strip()
    habit = known(first_line(error), place)
    if habit is not None:
        return f"{habit[0]} ({precision}):{at}\n{habit[1]}"
    if kind in ("GuardOnDataDependentSymNode", "DataDependentOutputException", "UserError") or "Could not guard on data-dependent" in text:
        if re.search(CHECKS_VALUES, place):
            return f"the module asserts something about the values of tensors ({precision}), which a graph does not see:{at}\nLeave the check out of what is exported."
        if re.search(REPORTS_VALUES, place):
            return f"the module reports values of tensors ({precision}), which a graph has none of:{at}\nLeave that out of what is exported, or write it as f\"{{value:.3f}}\"."
        if ".tolist()" in place:
            return _takes_numbers(precision, at)
        return f"the module decides by the values of its inputs or weights ({precision}), and a graph holds one way only:{at}\n{cure_of_decision(place)}"
    if kind == "PendingUnbackedSymbolNotFound":
        return _takes_numbers(precision, at)
    if kind == "DynamicOutputShapeException":
        return _sized_by_values(place)
    return (
        f"the module cannot be traced ({precision}): {readable(first_line(error))}{at}\n"
        "Its forward pass must not depend on the values of tensors, nor on the size of the batch other than through shapes, and must be made of "
        "PyTorch's own operators."
    )


def _sized_by_values(place):
    at = f":\n  {place}" if place else "."
    return (
        f"the module makes a tensor whose size depends on values, as nonzero, x[mask], unique, bincount, repeat_interleave and item() do{at}\n"
        "Keep the size: multiply by the mask, or use torch.where or masked_fill. The values of a table that stays as it is are known where it is kept by "
        "register_buffer(…, persistent=False), or as plain numbers."
    )


def _takes_numbers(precision, at):
    return (
        f"the module takes numbers or sizes out of the values of tensors ({precision}), as item(), tolist(), nonzero and x[mask] do:{at}\n"
        "Compute with the tensor itself; keep sizes: multiply by the mask, or use torch.where."
    )


def _check_constants(graph_module, subject):
    """A constant that is a weight would keep its first value, and have no gradient."""
    for node in graph_module.graph.nodes:
        constant = getattr(graph_module, node.target) if node.op == "get_attr" else None
        if not isinstance(constant, torch.Tensor):
            continue
        if constant.requires_grad:
            subject.stays.add(str(list(constant.shape)))
        name = same_tensor(constant, subject.tensors)
        if name is not None:
            place = forward_of(subject.original, name)
            raise ExportError(
                f"the module computes with {name}, or with a copy of its values, without that being its parameter or buffer there: the graph would keep "
                "the first values for good" + (f":\n  {place}" if place else ".") + "\nUse the module's own attribute in its forward pass; register a copy that is to stay as it is "
                "by register_buffer."
            )


def _trace_with(dispatcher, subject, examples, function, training):
    # No two sizes are taken for one because they are equal, and only that of the batch may vary.
    shapes = _Shapes(subject.module, at_once=dispatcher is nullcontext)
    fakes = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    fakes.cache_enabled = False  # with sizes that are symbols, looking up what a result is takes longer than working it out

    def fake(tensor, first=DimDynamic.STATIC):
        sizes = [first if axis == 0 else DimDynamic.STATIC for axis in range(tensor.dim())]
        return fakes.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    def fake_all(tensors):
        return {name: fake(tensor) for name, tensor in tensors.items()}

    outputs = []

    def noting_outputs(*arguments):
        results = function(*arguments)
        outputs.extend(results[:1] if training else results)
        return results

    example = examples.inputs[0]
    inputs = torch.empty((_unusual_size(subject, examples), *example.shape[1:]), dtype=example.dtype, device=subject.device)
    with fakes, dispatcher(), Known():
        inputs = fake(inputs, DimDynamic.DYNAMIC)
        # The others have as many samples: the very same size.
        more = (torch.empty((inputs.shape[0], *other.shape[1:]), dtype=other.dtype, device=subject.device) for other in examples.all[1:])
        batch = (inputs, *more)
        parameters, buffers = fake_all(subject.parameters), fake_all(subject.buffers)
        graph = make_fx(noting_outputs, _error_on_data_dependent_ops=False)(parameters, buffers, batch, torch.empty((), device=subject.device))
    if training:
        _join_cotangent(graph)
    copy_written_inputs(graph, len(parameters) + len(buffers))
    fix_strides(graph, len(parameters) + len(buffers))
    if shapes.replacements:
        _fail_fixed(outputs[-1], inputs, shapes)
    _check_range(shapes)
    for prediction in outputs if subject.loss is None else outputs[1:]:
        # A prediction whose other sizes vary with the batch, such as x @ x.t(), is of pairs of its samples.
        for size in free_unbacked_symbols(prediction):
            raise _FixedBatch(_sized_by_values(shapes.taken_at.get(size, "")), for_good=True)
        if prediction.dim() == 0 or [isinstance(size, torch.SymInt) for size in prediction.shape] != [True] + [False] * (prediction.dim() - 1):
            _fail_fixed(prediction, inputs, shapes)
    return graph


def _fail_fixed(output, inputs, shapes):
    written = forward_of(shapes.module, ".")
    place = shapes.fixed_at or written
    if place.startswith(BACKWARD) and written:
        place += f"\n  {written}"
    at = f"\n  {place}" if place else ""
    _fail_divided((guard.expr for guard in shapes.guards), at)
    _fail_turned(output, at)
    habit = known("", shapes.fixed_at)
    if habit is not None:
        raise _FixedBatch(f"{habit[0]}:{at}\n{habit[1]}")
    if shapes.fixed_in_vmap:
        raise _FixedBatch(f"PyTorch traces an operator within torch.vmap for one size of the batch only:{at}\n{CURE_OF_VMAP}")
    if shapes.fixed_at.startswith(BACKWARD):
        raise _FixedBatch(f"PyTorch traces an operator of the module for one size of the batch only:{at}\nUse another one in its place.")
    raise _FixedBatch(
        f"the module's output has the shape {readable(str(list(output.shape)))} for inputs of the shape {readable(str(list(inputs.shape)))}: "
        f"its forward pass fixes the size of the batch, or mixes the samples into one result{at}\n{cure_of_size(place)}"
    )


def _fail_divided(expressions, at):
    """A quotient of sizes is a real number, and what is made of it a whole number that fixes them."""
    if any("TruncToInt(" in str(expression) for expression in expressions):
        raise _FixedBatch(f"the module makes a whole number of the size of its batch by int(a / b), which fixes that{':' if at else '.'}{at}\nWrite a // b in its place, or -1 where the size stands.")


def _fail_turned(output, at):
    """Samples that lie along another axis than the first."""
    axes = [axis for axis, size in enumerate(output.shape) if isinstance(size, torch.SymInt)]
    if len(axes) == 1 and axes[0] > 0:
        raise _FixedBatch(
            f"the module's output has its samples along axis {axes[0]}: its shape is {readable(str(list(output.shape)))}{at}\n"
            f"Return them first: y.movedim({axes[0]}, 0)."
        )


def _check_range(shapes):
    """Refuses a graph that holds for batches up to some size only. That it holds from some size on is usual: kernels are chosen so."""
    for guard in shapes.guards:
        bound = shapes.bound_sympy(next(iter(guard.expr.free_symbols))) if guard.expr.free_symbols else None
        if bound is not None and bound.upper.is_number and bound.upper < UNBOUNDED:
            _fail_compared(f"more than {bound.upper}", guard.expr, shapes)
        others = _sizes_against(guard.expr) if str(guard.expr) in shapes.own else []
        if others:
            between = ", " if others != list(range(others[0], others[-1] + 1)) else " to "
            _fail_compared(str(others[0]) if len(others) == 1 else f"{others[0]}{between}{others[-1] if between == ' to ' else others[1]}", guard.expr, shapes)


COMPARED = 3  # up to this size graphs are held against the module
MOST_COMPARED = 256  # all sizes up to it, and those about multiples of numbers that the module has
MULTIPLES = 4


def _sizes_against(expression):
    """The sizes of a batch, beyond those that are tried, for which a comparison that was true is false."""
    (symbol,) = expression.free_symbols if len(expression.free_symbols) == 1 else (None,)
    numbers = {abs(int(number)) for number in expression.atoms(sympy.Integer)}
    sizes = {times * number + more for number in numbers for times in range(1, MULTIPLES + 1) for more in {0, 1, -1, *numbers}}
    sizes = sorted(size for size in sizes | {*range(MOST_COMPARED)} if COMPARED < size < UNBOUNDED) if symbol is not None else ()
    return [size for size in sizes if expression.subs(symbol, size) == False]  # noqa: E712, one of sympy's own


def _fail_compared(sizes, expression, shapes):
    place = shapes.compared_at.get(str(expression), "")
    _fail_divided([expression], f"\n  {place}" if place else "")
    raise _FixedBatch(
        f"the module computes something else for batches of {sizes}: {readable(str(expression))}" + (f"\n  {place}" if place else "") + "\n"
        "Have it compute the same for batches of any size; what depends on the size of a batch is cut into micro-batches of others here."
    )


def first_line(error):
    """What an exception is, and the first line of what it says."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
