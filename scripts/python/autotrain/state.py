"""What a search changes of a training, as it was: values bit for bit, in the same memory."""

import copy
import signal
import threading
from contextlib import contextmanager

import torch
from autotrain_export.attributes import Attributes, Contents
from autotrain_export.twister import States
from autotrain_export.values import Values

from .errors import StepError
from .tensors import leaves, parameters_of


MOST_DEPTH = 64  # of containers within each other in what an optimizer keeps


@contextmanager
def interrupts_wait():
    """An interrupt that comes meanwhile is raised at the end."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    came = []
    before = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(signal.SIGINT, None)


class Generators:
    """Random numbers of PyTorch on every device, of NumPy and of Python."""

    def __init__(self):
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self.others = States()

    def put_back(self):
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)
        self.others.put_back()


class ModuleState:
    """Which tensors a module has, what else it keeps, and its modes."""

    def __init__(self, module):
        parts = list(module.modules())
        self.attributes = Attributes(part for part in parts if not type(part).__module__.startswith("torch."))  # whose own are its own
        self.modes = [(part, part.training) for part in parts]
        self.parts = [(part, dict(part._parameters), dict(part._buffers), dict(part._modules))
                      for part in parts if not isinstance(part, torch.jit.ScriptModule)]  # of which no part can come or go

    def put_back(self):
        for part, parameters, buffers, modules in self.parts:
            part._modules.clear()
            part._modules.update(modules)
            part._parameters.clear()
            part._parameters.update(parameters)
            part._buffers.clear()
            part._buffers.update(buffers)
        self.attributes.put_back()
        for part, training in self.modes:
            part.training = training


class OptimizerState:
    def __init__(self, optimizer):
        self.contents = Contents((optimizer.param_groups, optimizer.state), depth=MOST_DEPTH)

    def put_back(self):
        self.contents.put_back()


class ScalerStages:
    """How far a gradient scaler is with each optimizer in an update that may not have come to its end; its state_dict has
    nothing of it."""

    def __init__(self, scaler):
        self.stages = scaler._per_optimizer_states
        self.kept = {key: dict(state) for key, state in self.stages.items()}

    def put_back(self):
        self.stages.clear()
        self.stages.update((key, dict(state)) for key, state in self.kept.items())


class StateOf:
    """Of anything that has `state_dict`: a scaler, a schedule, an average of weights; or a random generator."""

    def __init__(self, owner):
        self.owner = owner
        self.stages = ScalerStages(owner) if hasattr(owner, "_per_optimizer_states") else None
        if isinstance(owner, torch.Generator):
            self.kept, self.give = owner.get_state(), owner.set_state
        elif hasattr(owner, "bit_generator"):
            bits = owner.bit_generator
            self.kept, self.give = copy.deepcopy(bits.state), lambda kept: setattr(bits, "state", kept)
        elif hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict"):
            self.kept, self.give = copy.deepcopy(owner.state_dict()), owner.load_state_dict
        else:
            raise StepError("keep", f"{type(owner).__name__} has no state_dict, so what changes of it cannot be put back",
                            "give modules, schedules, scalers or generators")

    def put_back(self):
        self.give(copy.deepcopy(self.kept))
        if self.stages is not None:
            self.stages.put_back()


class Snapshot:
    """A training as it is now: modules, optimizers, gradients, random numbers and what else is given."""

    def __init__(self, modules, optimizers, others=()):
        others = [owner for owner in others if owner is not None]
        optimizers = [*optimizers, *(owner for owner in others if isinstance(owner, torch.optim.Optimizer))]
        parameters = parameters_of(modules, optimizers)
        if any(torch.nn.parameter.is_lazy(parameter) for parameter in parameters):
            raise StepError("model", "some of its parameters have no shape yet", "run one batch through it before the search")
        tensors = [*parameters, *(buffer for module in modules for buffer in module.buffers())]
        for optimizer in optimizers:
            tensors += [*leaves(list(optimizer.state.values())), *leaves(list(optimizer.param_groups))]
        self.values = Values(tensors)
        self.generators = Generators()
        self.modules = [ModuleState(module) for module in modules]
        self.optimizers = [OptimizerState(optimizer) for optimizer in optimizers]
        self.others = [StateOf(owner) for owner in others if not isinstance(owner, torch.optim.Optimizer)]
        self.gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in parameters]

    def put_back_attributes(self):
        """What modules keep beside tensors: a state of other samples may not fit the next ones."""
        for module in self.modules:
            module.attributes.put_back()

    def put_back_values(self):
        """Weights, buffers, attributes and random numbers; what an optimizer made stays."""
        self.put_back_attributes()
        self.values.put_back()
        self.generators.put_back()
        for other in self.others:
            if other.stages is not None:
                other.stages.put_back()

    def put_back_gradients(self):
        for parameter, gradient, required in self.gradients:
            parameter.requires_grad_(required)
            parameter.grad = gradient

    def put_back(self):
        """All of it; what cannot be put back keeps nothing else from it."""
        with interrupts_wait():
            failed = []
            for put_back in (*(part.put_back for part in (*self.modules, *self.optimizers)), self.put_back_values,
                             self.put_back_gradients, *(part.put_back for part in self.others), self.generators.put_back):
                try:
                    put_back()
                except Exception as error:
                    failed.append(error)
            if failed:
                raise failed[0]
