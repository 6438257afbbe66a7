"""A module that is run again, to see whether it computes the same."""

import torch

from .checking import copies
from .machine import of_machine

SEED = 11


def parameters_again(subject):
    """Copies, to which a module may do anything."""
    return {name: torch.nn.Parameter(own.detach().clone(), own.requires_grad) for name, own in subject.parameters.items()}


def outputs_in_both_modes(subject, parameters, examples, samples, begin):
    """With the same random numbers of PyTorch, in training and in evaluation mode; None where it raises.

    parameters  which it has
    begin       is called before each"""
    results = []
    for training in (True, False):
        torch.manual_seed(SEED)
        begin()
        try:
            with torch.no_grad():
                results.append(subject.run({**parameters, **copies(subject.buffers)}, examples.batch(samples), training)[0])
        except Exception as error:
            if of_machine(error):
                raise
            results.append(None)
    return results


def differ(ones, others):
    """Whether outputs are others; one that is missing tells nothing."""
    pairs = [(one, other) for one, other in zip(ones, others) if one is not None and other is not None]
    return any(one.shape != other.shape or not torch.allclose(one, other, rtol=0, atol=0, equal_nan=True) for one, other in pairs)
