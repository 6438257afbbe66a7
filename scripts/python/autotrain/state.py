"""What a search changes of a training, as it was: values bit for bit, in the same memory."""

import signal
import sys
import threading
from contextlib import contextmanager

import torch
from autotrain_export.attributes import Attributes, Contents
from autotrain_export.twister import States
from autotrain_export.values import Values, call_all, storage_of

from .errors import StepError
from .others import StateOf, is_generator
from .tensors import all_in, kept_by, layers_of, leaves, own_of, parameters_of, parts_of, state_of


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


# What keeps its own account of passes, in C++ or of compiled code, which follows no attribute.
BY_THEMSELVES = ("torch.nn.parallel.", "torch.distributed.", "torch.jit.", "torch._")


def parts_with_attributes(modules):
    """Those whose attributes are all that they keep: their own, and what hooks, pruning and norms of weights keep at PyTorch's."""
    return [part for part in parts_of(modules) if not type(part).__module__.startswith(BY_THEMSELVES)]


def kept_in_attributes(modules, optimizers=()):
    """What modules and optimizers keep there, with what is in collections."""
    parts = [vars(part) for part in parts_with_attributes(modules)]
    layers = [own_of(layer) for optimizer in optimizers for layer in layers_of(optimizer)]
    return all_in(value for owner in [*parts, *layers] for value in owner.values())


def with_hidden(modules, optimizers):
    """They, and the modules that they keep in lists and the like: a teacher that is to be in no state_dict."""
    modules = list(modules)
    known = {id(part) for part in parts_of(modules)}
    while True:
        hidden = [each for each in kept_in_attributes(modules, optimizers)
                  if isinstance(each, torch.nn.Module) and id(each) not in known and can_be_kept(each)]
        if not hidden:
            return modules
        modules += {id(each): each for each in hidden}.values()
        known.update(id(part) for part in parts_of(hidden))


class ModuleState:
    """Which tensors a module has, what else it keeps, and its modes."""

    def __init__(self, module):
        parts = list(module.modules())
        self.attributes = Attributes(parts_with_attributes([module]))
        self.contents = Contents(kept_in_attributes([module]), depth=1)
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
        self.put_back_attributes()
        for part, training in self.modes:
            part.training = training

    def put_back_attributes(self):
        self.attributes.put_back()
        self.contents.put_back()


class OptimizerState:
    """What an optimizer keeps for each weight, and in attributes of its own, as one within another does."""

    def __init__(self, optimizer):
        layers = layers_of(optimizer)
        self.attributes = Attributes(layer for layer in layers if own_of(layer))
        kept = [each for layer in layers for each in (getattr(layer, "param_groups", []), state_of(layer), *own_of(layer).values())]
        self.contents = Contents(all_in(kept), depth=1)

    def put_back(self):
        self.attributes.put_back()
        self.contents.put_back()


class Arrays:
    """The numbers of NumPy's arrays, where somebody has NumPy."""

    def __init__(self, owners):
        numpy = sys.modules.get("numpy")
        found = leaves(owners, numpy.ndarray) if numpy else ()
        self.kept = [(array, array.copy()) for array in found if array.flags.writeable]

    def put_back(self):
        for array, kept in self.kept:
            array[...] = kept


def check_memory(tensors):
    """Of some kinds nobody sees where their numbers lie: they are made of other tensors, as quantized weights are."""
    for tensor in tensors:
        try:
            storage = storage_of(tensor)
            if storage is not None:
                storage.data_ptr()
        except RuntimeError as error:
            raise StepError("model", f"has a {type(tensor).__name__}, whose numbers lie in tensors within it, so they could neither be counted "
                            "nor put back", "search with plain tensors, before weights are quantized or wrapped") from error


def can_be_kept(module):
    """Whether its tensors are of kinds that have a shape, and a place that is seen."""
    tensors = [*module.parameters(), *module.buffers(), *leaves([vars(part) for part in module.modules()])]
    if any(map(torch.nn.parameter.is_lazy, tensors)):
        return False
    try:
        check_memory(tensors)
    except StepError:
        return False
    return True


class Snapshot:
    """A training as it is now: modules, optimizers, gradients, random numbers and what else is given."""

    def __init__(self, modules, optimizers, others=()):
        others = [owner for owner in others if owner is not None]
        optimizers = [*optimizers, *(owner for owner in others if isinstance(owner, torch.optim.Optimizer))]
        modules = with_hidden([*modules, *(owner for owner in others if isinstance(owner, torch.nn.Module))], optimizers)
        others = [owner for owner in others if not isinstance(owner, (torch.optim.Optimizer, torch.nn.Module))]
        others += filter(is_generator, kept_in_attributes(modules, optimizers))
        parameters = parameters_of(modules, optimizers)
        buffers = [buffer for module in modules for buffer in module.buffers()]
        if any(torch.nn.parameter.is_lazy(tensor) for tensor in (*parameters, *buffers)):
            raise StepError("model", "some of its parameters or buffers have no shape yet", "run one batch through it before the search")
        owners = [vars(part) for part in parts_with_attributes(modules)]
        for optimizer in optimizers:
            owners += [optimizer.param_groups, *kept_by(optimizer)]
        tensors = [*parameters, *buffers, *leaves(owners)]
        check_memory(tensors)
        self.values = Values(tensors)
        self.arrays = Arrays(owners)
        self.generators = Generators()
        self.modules = [ModuleState(module) for module in modules]
        self.optimizers = [OptimizerState(optimizer) for optimizer in optimizers]
        self.others = [StateOf(owner) for owner in others]
        self.gradients = [(parameter, parameter.grad, parameter.requires_grad) for parameter in parameters]

    def put_back_attributes(self):
        """What modules keep beside tensors: a state of other samples may not fit the next ones."""
        for module in self.modules:
            module.put_back_attributes()

    def put_back_values(self):
        """Weights, buffers, attributes and random numbers; what an optimizer made stays."""
        self.put_back_attributes()
        self.values.put_back()
        self.arrays.put_back()
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
            call_all([*(part.put_back for part in (*self.modules, *self.optimizers)), self.put_back_values,
                      self.put_back_gradients, *(part.put_back for part in self.others), self.generators.put_back])
