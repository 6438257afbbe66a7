"""What a step changes beside modules and optimizers, and is given for that: whatever tells and takes its state."""

import copy
import random

import torch

from autotrain_export.twister import numpys

from .errors import StepError


class ScalerStages:
    """How far a gradient scaler is with each optimizer in an update that may not have come to its end; its state_dict has
    nothing of it."""

    def __init__(self, scaler):
        self.scaler = scaler
        self.kept = {key: dict(state) for key, state in scaler._per_optimizer_states.items()}

    def put_back(self):
        stages = self.scaler._per_optimizer_states  # another at each scaler.update()
        stages.clear()
        stages.update((key, dict(state)) for key, state in self.kept.items())


def is_generator(value):
    """Whether it draws random numbers from a state of its own."""
    kinds = (torch.Generator, random.Random, *((numpys().Generator, numpys().RandomState) if numpys() else ()))
    return isinstance(value, kinds) and not isinstance(value, random.SystemRandom)


def ways_of(owner):
    """@return its state, and what takes it: of PyTorch's generators, NumPy's new and old ones, Python's, and of anything that has
    `state_dict`: a scaler, a schedule, an average of weights."""
    if isinstance(owner, torch.Generator):
        return owner.get_state(), owner.set_state
    if hasattr(owner, "bit_generator"):
        bits = owner.bit_generator
        return bits.state, lambda kept: setattr(bits, "state", kept)
    for give, take in (("getstate", "setstate"), ("get_state", "set_state"), ("state_dict", "load_state_dict")):
        if hasattr(owner, give) and hasattr(owner, take):
            return getattr(owner, give)(), getattr(owner, take)
    raise StepError("keep", f"{type(owner).__name__} has no state_dict, so what changes of it cannot be put back",
                    "give modules, schedules, scalers or generators")


class StateOf:
    """Of whatever tells and takes it."""

    def __init__(self, owner):
        self.stages = ScalerStages(owner) if hasattr(owner, "_per_optimizer_states") else None
        kept, self.give = ways_of(owner)
        self.kept = copy.deepcopy(kept)

    def put_back(self):
        self.give(copy.deepcopy(self.kept))
        if self.stages is not None:
            self.stages.put_back()


class ScheduleOf(StateOf):
    """A schedule's state, and the learning rates that it has set."""

    def __init__(self, schedule):
        super().__init__(schedule)
        self.rates = [(group, group["lr"]) for group in schedule.optimizer.param_groups]

    def put_back(self):
        super().put_back()
        for group, rate in self.rates:
            group["lr"] = rate
