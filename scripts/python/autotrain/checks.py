"""What can be said of arguments before anything is run."""

import math
import operator

import torch

from .errors import StepError
from .tensors import parts_of

MOST = 2 ** 31 - 1       # samples of anything that is counted here
LONG = 1e9               # seconds, as good as no bound


def is_batch_norm(part):
    scripted = getattr(part, "original_name", "")  # of what torch.jit.script makes of it
    return isinstance(part, torch.nn.modules.batchnorm._BatchNorm) or scripted.startswith("BatchNorm")


def smallest_batch(modules):
    """Batch normalisation has no statistics of one sample."""
    return 2 if any(is_batch_norm(part) and part.training for part in parts_of(modules)) else 1


def whole(name, value):
    """@return a whole number of 1 or more, or None."""
    try:
        number = None if value is None else operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or (number is not None and not 1 <= number <= MOST):
        raise StepError(name, f"is {value!r}", f"give a whole number from 1 to {MOST}, or leave it out")
    return number


def count_of(name, value):
    """@return a whole number of 1 or more."""
    if value is None:
        raise StepError(name, "is None", f"give a whole number from 1 to {MOST}")
    return whole(name, value)


def check_halves(samples, modules):
    """That there are two halves, each of which a module takes."""
    least = 2 * smallest_batch(modules)
    if samples % 2 or samples < least:
        why = "has no halves" if samples % 2 else "has halves of one sample, of which batch normalisation has no statistics"
        raise StepError("samples", f"is {samples}, which {why}", f"give an even number of {least} or more")


def number(value):
    """@return it as a float; no number where it is none."""
    try:
        return math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError):
        return math.nan


def band(target):
    """The part of the budget in which the peak is to end."""
    edges = [number(edge) for edge in target] if isinstance(target, (tuple, list)) else []
    if len(edges) != 2 or not 0 < edges[0] < edges[1] <= 1:
        raise StepError("target", f"is {target!r}", "give two parts of the budget in which the peak is to end: (0.8, 0.9)")
    return edges


def seconds(value):
    if not number(value) > 0:
        raise StepError("max_seconds", f"is {value!r}", "give seconds")
    return min(number(value), LONG)


def checked_request(effective, most, multiple_of, cut, target, max_trials, max_seconds):
    """@return what the library is asked, but for what depends on the model. @param effective: of one rank."""
    if cut == "divide" and effective is None:
        raise StepError("cut", "is divide, and there is no effective batch to divide", "give effective=")
    request = {"effective": effective, "most": whole("most", most), "multiple_of": whole("multiple_of", multiple_of) or 1, "cut": cut,
               "target": band(target), "max_probes": whole("max_trials", max_trials) or 12, "max_seconds": seconds(max_seconds)}
    for name in ("effective", "most"):
        if request[name] is not None and request[name] < request["multiple_of"]:
            raise StepError("multiple_of", f"is {multiple_of}, and {name} is {request[name]}: no micro-batch is both",
                            f"give {request[name]} or less")
    return request


def check_divides(options):
    """Options for a loop whose micro-batches are all alike."""
    if options.pop("cut", "divide") != "divide":
        raise StepError("cut", "is given, and this loop's micro-batches are all alike", "leave it out: the micro-batch divides `effective`")


def check_alike(requests):
    """Of all ranks: most may differ, for the smallest size is taken."""
    for rank, request in enumerate(requests):
        for name, value in request.items():
            if name != "most" and value != requests[0][name]:
                raise StepError(name, f"is {value!r} on rank {rank} and {requests[0][name]!r} on rank 0",
                                "call find with the same arguments on all ranks")


def check_modes(where, modules):
    """@param where: the function that is called."""
    if not torch.is_grad_enabled():
        raise StepError(where, "was called where gradients are switched off", "call it outside of no_grad and inference_mode")
    for module in modules:
        if not module.training and any(parameter.requires_grad for parameter in module.parameters()):
            raise StepError("model", "is in evaluation mode, in which it keeps less than in training", "call model.train() first")


def check_least(smallest, **counts):
    for name, value in counts.items():
        if value is not None and value < smallest:
            raise StepError(name, f"is {value}, and batch normalisation has no statistics of one sample", "give 2 or more")
