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


def autocast(precision, device):
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def trace_training(subject, examples, precision):
    """A graph of (parameters, buffers, batch, gradient of the output) that returns the output, a prediction or the loss, and the
    gradient of each learning parameter, or None where there is none. Buffers are written in place, as the module does."""

    def joint(parameters, buffers, batch, cotangent):
        with autocast(precision, subject.device):
            (output,) = subject.run({**parameters, **buffers}, batch, training=True)
        if cotangent is None:
            return (output,)
        gradients = torch.autograd.grad(output, [parameters[name] for name in subject.learning], cotangent, allow_unused=True)
        return output.detach(), gradients

    return _trace(subject, examples, precision, joint)


def trace_evaluation(subject, examples, precision):
    """A graph of (parameters, buffers, batch) that returns the prediction; of a module with its loss inside, the loss and, if there is
    one, the prediction."""

    def forward(parameters, buffers, batch, _):
        with autocast(precision, subject.device), torch.no_grad():
            return subject.run({**parameters, **buffers}, batch, training=False)

    return _trace(subject, examples, precision, forward)


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


def _trace(subject, examples, precision, function):
    """Traces the very operators that eager PyTorch runs, where these can be traced for any size of the batch. Some cannot, products
    of more than two axes among them; Python's versions of such operators, which compute the same up to rounding, can."""
    try:
        return _trace_with(nullcontext, subject, examples, function)
    except ExportError:
        raise
    except Exception:
        pass  # what is wrong for both ways is said below
    try:
        return _trace_with(enable_python_dispatcher, subject, examples, function)
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


def _trace_with(dispatcher, subject, examples, function):
    # No two sizes are taken for one because they are equal, and only that of the batch may vary.
    fakes = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False), allow_non_fake_inputs=True)

    def fake(tensor, first=DimDynamic.STATIC):
        sizes = [first if axis == 0 else DimDynamic.STATIC for axis in range(tensor.dim())]
        return fakes.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    def fake_all(tensors):
        return {name: fake(tensor) for name, tensor in tensors.items()}

    example = examples.inputs[0]
    inputs = torch.empty((_unusual_size(subject, examples), *example.shape[1:]), dtype=example.dtype, device=subject.device)
    with fakes, dispatcher():
        inputs = fake(inputs, DimDynamic.DYNAMIC)
        # The others have as many samples: the very same size.
        more = (torch.empty((inputs.shape[0], *other.shape[1:]), dtype=other.dtype, device=subject.device) for other in examples.all[1:])
        batch = (inputs, *more)
        parameters, buffers = fake_all(subject.parameters), fake_all(subject.buffers)
        # The first run finds the shape of the gradient that is given to the second one.
        with torch.no_grad():
            outputs = function(parameters, fake_all(subject.buffers), batch, None)
        graph = make_fx(function)(parameters, buffers, batch, torch.empty_like(outputs[0]))
    _check_range(fakes.shape_env)
    for prediction in outputs if subject.loss is None else outputs[1:]:
        if prediction.dim() == 0 or not isinstance(prediction.shape[0], torch.SymInt):
            _fail_fixed(prediction, inputs)
    if fakes.shape_env.replacements:
        _fail_fixed(outputs[-1], inputs)
    return graph


def _fail_fixed(output, inputs):
    raise _FixedBatch(
        f"the module's output has the shape {list(output.shape)} for inputs of the shape {list(inputs.shape)}: "
        "its forward pass fixes the size of the batch, or mixes the samples into one result"
    )


def _check_range(shape_env):
    """Refuses a graph that holds for batches up to some size only. That it holds from some size on is usual: kernels are chosen so."""
    for guard in shape_env.guards:
        bound = shape_env.bound_sympy(next(iter(guard.expr.free_symbols))) if guard.expr.free_symbols else None
        if bound is not None and bound.upper.is_number and bound.upper < UNBOUNDED:
            raise _FixedBatch(f"the module computes something else for batches of more than {bound.upper}: {guard.expr}")


def _first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
