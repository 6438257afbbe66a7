"""Gradients of a step's single batches, each as one vector."""

import torch

from .checks import check_modes, smallest_batch
from .errors import StepError
from .habits import check_trains, watch
from .memory import device_of
from .parts import clone_of
from .trial import Step


def in_numbers(tensor):
    """All its numbers, those of a complex one one by one: [numbers] of float64."""
    tensor = tensor.detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).flatten().double()


class Gradients:
    """@param where: the function that is called; what it finds wrong with the step is what find would. The caller has a snapshot."""

    def __init__(self, where, step, make_batch, modules, samples, others=()):
        check_modes(where, modules)
        device_of(modules)
        self.step = Step(step, make_batch, modules=modules, optimizers=[], evaluate=None, worst=None, scaler=None, effective=samples,
                         others=others)
        self.weighted = self.step.weighted
        check_trains(self.step.parameters)
        watch(self.step, min(samples, smallest_batch(modules)), only_passes=True)

    def batch(self, samples):
        return self.step.batch(samples, self.step.make_batch)

    def of(self, batches):
        """The sum of what they make. @param batches: with the weight of each; a step may change its batch in place."""
        self.step.begin_update()
        for batch, weight in batches:
            self.step.pass_over(clone_of(batch), weight)
        return self.vector()

    def vector(self):
        """Parts that a batch has no use for have a gradient of zero."""
        parameters = self.step.parameters
        if all(p.grad is None for p in parameters):
            raise StepError("step", "made no gradient of any parameter of the model", "call loss.backward() in it")
        found = torch.cat([in_numbers(torch.zeros_like(p) if p.grad is None else p.grad.to_dense()) for p in parameters])
        if not found.isfinite().all():
            raise StepError("step", "made gradients that are not finite", "look at the loss; at a lower precision, scale it")
        return found
