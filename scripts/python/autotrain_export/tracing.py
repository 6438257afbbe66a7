"""Graphs of the very operators that eager PyTorch runs, forward and backward, for a batch of any size."""

import logging
from contextlib import contextmanager, nullcontext

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from .errors import ExportError

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision):
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def trace_training(subject, example, precision):
    """A graph of (parameters, buffers, inputs, gradient of the prediction) that returns the prediction and the gradient of each
    learning parameter, or None where there is none. Buffers are written in place, as the module does."""

    def joint(parameters, buffers, inputs, cotangent):
        with autocast(precision):
            prediction = subject.predict({**parameters, **buffers}, inputs, training=True)
        if cotangent is None:
            return prediction, ()
        gradients = torch.autograd.grad(prediction, [parameters[name] for name in subject.learning], cotangent, allow_unused=True)
        return prediction.detach(), gradients

    return _trace(subject, example, precision, joint)


def trace_evaluation(subject, example, precision):
    """A graph of (parameters, buffers, inputs) that returns the prediction."""

    def forward(parameters, buffers, inputs, _):
        with autocast(precision), torch.no_grad():
            return (subject.predict({**parameters, **buffers}, inputs, training=False),)

    return _trace(subject, example, precision, forward)


def _unusual_size(subject, example):
    """A size of a batch that no other size is equal to, or a multiple of: a tracer that compares the two would otherwise take them
    for one."""
    sizes = set(example.shape[1:])
    for tensor in (*subject.parameters.values(), *subject.buffers.values()):
        sizes.update(tensor.shape)
    sizes.discard(0)
    primes = (n for n in range(97, 1 << 16) if all(n % k for k in range(2, int(n**0.5) + 1)))
    return next(prime for prime in primes if all(size % prime for size in sizes))


UNBOUNDED = 1 << 31  # what kernels check of any size


class _FixedBatch(Exception):
    """The traced graph holds for one size of the batch only."""


def _trace(subject, example, precision, function):
    """Traces the very operators that eager PyTorch runs, where these can be traced for any size of the batch. Some cannot, products
    of more than two axes among them; Python's versions of such operators, which compute the same up to rounding, can."""
    try:
        return _trace_with(nullcontext, subject, example, function)
    except ExportError:
        raise
    except Exception:
        pass  # what is wrong for both ways is said below
    try:
        return _trace_with(enable_python_dispatcher, subject, example, function)
    except (ExportError, _FixedBatch) as error:
        raise ExportError(str(error)) from None
    except Exception as error:
        raise ExportError(
            f"the module cannot be traced ({precision}): {_first_line(error)}\n"
            "Its forward pass must not depend on the values of tensors, nor on the size of the batch other than through shapes."
        ) from error


@contextmanager
def traceable():
    """Keeps torch.nn's encoder layers from the kernel that runs a whole layer in evaluation, which cannot be traced, and PyTorch's
    tracer from logging errors that are raised, too."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    torch.backends.mha.set_fastpath_enabled(False)
    logger.setLevel(logging.CRITICAL)
    try:
        with torch.backends.mkldnn.flags(enabled=False):  # whose recurrent layers cannot be traced either
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
        logger.setLevel(level)


def _trace_with(dispatcher, subject, example, function):
    # No two sizes are taken for one because they are equal, and only that of the batch may vary.
    fakes = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), allow_non_fake_inputs=True)

    def fake(tensor, first=DimDynamic.STATIC):
        sizes = [first if axis == 0 else DimDynamic.STATIC for axis in range(tensor.dim())]
        return fakes.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    def fake_all(tensors):
        return {name: fake(tensor) for name, tensor in tensors.items()}

    inputs = torch.empty((_unusual_size(subject, example), *example.shape[1:]), dtype=example.dtype)
    with fakes, dispatcher():
        inputs = fake(inputs, DimDynamic.DYNAMIC)
        parameters, buffers = fake_all(subject.parameters), fake_all(subject.buffers)
        # The first run finds the shape of the gradient that is given to the second one.
        with torch.no_grad():
            prediction = function(parameters, fake_all(subject.buffers), inputs, None)[0]
        graph = make_fx(function)(parameters, buffers, inputs, torch.empty_like(prediction))
    _check_range(fakes.shape_env)
    if prediction.dim() == 0 or not isinstance(prediction.shape[0], torch.SymInt) or fakes.shape_env.replacements:
        raise _FixedBatch(
            f"the module's output has the shape {list(prediction.shape)} for inputs of the shape {list(inputs.shape)}: "
            "its forward pass fixes the size of the batch, or mixes the samples into one result"
        )
    return graph


def _check_range(shape_env):
    """Refuses a graph that holds for batches up to some size only. That it holds from some size on is usual: kernels are chosen so."""
    for guard in shape_env.guards:
        bound = shape_env.bound_sympy(next(iter(guard.expr.free_symbols))) if guard.expr.free_symbols else None
        if bound is not None and bound.upper.is_number and bound.upper < UNBOUNDED:
            raise _FixedBatch(f"the module computes something else for batches of more than {bound.upper}: {guard.expr}")


def _first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
