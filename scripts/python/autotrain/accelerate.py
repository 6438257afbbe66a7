"""In the place of `accelerate.utils.find_executable_batch_size`."""

import functools
import inspect

from . import library
from .checks import whole
from .errors import Error, StepError
from .trial import STOP, forget, meaning


def smaller_divisor(size, effective):
    return next((smaller for smaller in range(min(size, effective) if effective % size else size - 1, 0, -1)
                 if effective % smaller == 0), 0)


def name_of(function):
    return getattr(function, "__name__", type(function).__name__)


def first_parameter(function, starting_batch_size):
    parameters = list(inspect.signature(function).parameters)
    if not parameters:
        raise TypeError(f"{name_of(function)} must take the batch size first: it is called with sizes from {starting_batch_size} on")
    return parameters


def find_executable_batch_size(function=None, starting_batch_size=128, reduce_batch_size_fn=None, *, effective=None, budget=None):
    """Calls the function with ever smaller sizes until memory suffices, as the decorator of the same name does.

    Beyond that: failures of oneDNN, cuDNN and NumPy that mean "no memory" count too, and what a failed call left alive is
    given up before the next one. With `effective` the function takes `(batch_size, window, …)`, sizes divide it and
    batch_size × window is it. With `budget` the process is held to it meanwhile."""
    if function is None:
        return functools.partial(find_executable_batch_size, starting_batch_size=starting_batch_size,
                                 reduce_batch_size_fn=reduce_batch_size_fn, effective=effective, budget=budget)
    effective = whole("effective", effective)
    if effective is not None and reduce_batch_size_fn is not None:
        raise StepError("effective", f"{effective} with reduce_batch_size_fn={reduce_batch_size_fn}", "leave sizes to it, or give none")
    names = first_parameter(function, starting_batch_size)
    if effective is not None and len(names) < 2:
        raise TypeError(f"{name_of(function)} must take `batch_size` and the window: an update is made of {effective} samples")
    given = 1 if effective is None else 2

    def reduced(size):
        if effective is not None:
            return smaller_divisor(size, effective)
        return reduce_batch_size_fn() if reduce_batch_size_fn is not None else int(size * 0.9)

    @functools.wraps(function)
    def decorated(*arguments, **keywords):
        if len(arguments) + given > len(names) and not accepts_more(function):
            raise TypeError(f"{name_of(function)} was called with the batch size: leave it out, {names[0]} is given by the decorator")
        library.load()
        size = starting_batch_size
        if effective is not None and size > 0 and (size > effective or effective % size):
            size = smaller_divisor(size, effective)
        with held_to(budget):
            while size > 0:
                try:
                    return function(size, *([effective // size] if effective is not None else []), *arguments, **keywords)
                except Exception as error:
                    if meaning(error) == STOP or isinstance(error, Error):
                        raise
                    forget(error)
                    give_memory_back()
                size = reduced(size)
        raise RuntimeError("No executable batch size found, reached zero.")
    return decorated


def accepts_more(function):
    return any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(function).parameters.values())


def held_to(budget):
    if budget is None:
        import contextlib
        return contextlib.nullcontext()
    import torch
    from .memory import hold
    return hold(budget, device="cuda" if torch.cuda.is_available() else "cpu")


def give_memory_back():
    import torch
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
