"""Whether a batch may be cut: what of a module makes samples depend on each other."""

from collections import namedtuple

import torch

from .errors import StepError
from .memory import device_of
from .pieces import cut, samples_of
from .state import Snapshot
from .tensors import as_list, modules_of, parameters_of
from .trial import takes_weight

Verdict = namedtuple("Verdict", "exact difference module kind text")
ROUNDING = 1e-4   # of a gradient in float32, summed in another order
OUTPUTS = 1e-3    # farther apart than this, a module's outputs differ by more than rounding


class Calm:
    """Dropout draws by the batch's shape; without it, nothing else of the module changes."""

    def __init__(self, modules):
        parts = [part for module in modules for part in module.modules()]
        self.layers = [part for part in parts if isinstance(part, torch.nn.modules.dropout._DropoutNd)]
        # Recurrent layers and attention have its probability as a number.
        self.numbers = [(part, part.dropout) for part in parts if isinstance(getattr(part, "dropout", None), float)]

    def __enter__(self):
        for part in self.layers:
            part.eval()  # the snapshot has its mode
        for part, _ in self.numbers:
            part.dropout = 0.0

    def __exit__(self, *_):
        for part, probability in self.numbers:
            part.dropout = probability


class Outputs:
    """What every part of a module returned, in the order in which parts were called."""

    def __init__(self, modules):
        self.modules, self.seen = modules, {}

    def __enter__(self):
        self.hooks = []
        for module in self.modules:
            for name, part in module.named_modules():
                if not list(part.children()):
                    self.hooks.append(part.register_forward_hook(self.keeper(name or "the module", part)))
        return self

    def keeper(self, name, part):
        def keep(_part, _inputs, output):
            if isinstance(output, torch.Tensor):
                self.seen.setdefault((name, type(part).__name__), []).append(output.detach().clone())
        return keep

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()


def gradient(step, batches, modules, snapshot, weighted, other_draws=False):
    """Of all parameters, summed over the batches, and the outputs of parts."""
    snapshot.put_back_values()
    if other_draws:
        torch.manual_seed(torch.initial_seed() + 1)
    parameters = parameters_of(modules, [])
    for parameter in parameters:
        parameter.grad = None
    with Calm(modules), Outputs(modules) as outputs:
        for batch in batches:
            (step(batch, weighted) if weighted is not None else step(batch))
    found = [p.grad.detach().double().flatten() for p in parameters if p.grad is not None and not p.grad.is_sparse]
    if not found:
        raise StepError("step", "made no gradient of any parameter of the model", "call loss.backward() in it")
    return torch.cat(found), outputs.seen


def apart(one, other):
    return ((one - other).norm() / one.norm().clamp_min(1e-30)).item()


def first_difference(whole, halves):
    """The first part whose outputs for the whole batch are not those for its halves."""
    for (name, kind), outputs in whole.items():
        parts = halves.get((name, kind), [])
        if len(outputs) != 1 or len(parts) != 2 or outputs[0].dim() == 0:
            continue
        joined = torch.cat(parts) if parts[0].dim() > 0 else parts[0]
        if joined.shape != outputs[0].shape or apart(outputs[0].double(), joined.double()) > OUTPUTS:
            return name, kind
    return None, None


def split_check(step, make_batch, *, model, samples=8, optimizer=None, keep=()):
    """Compares the gradient of a batch with that of its halves, accumulated, and names the part that mixes samples.

    @param step: forward and backward of a mean loss, `step(batch, weight)`, as for find; `step(batch)` where the loss is a sum.
    @return a Verdict: exact, difference (relative), module, kind, text. All is as it was afterwards."""
    modules = modules_of(model)
    device_of(modules)
    snapshot = Snapshot(modules, as_list(optimizer), keep)
    try:
        batch = make_batch(samples)
        if samples_of(batch) != samples or samples % 2:
            made = samples_of(batch)
            raise StepError("split_check", f"make_batch({samples}) gave {'a batch whose samples cannot be counted' if made is None else f'{made} samples'}",
                            "give an even number, in tensors, arrays, or tuples, lists, dictionaries or dataclasses of them")
        halves = [cut(batch, 0, samples // 2, samples), cut(batch, samples // 2, samples, samples)]
        weighted = takes_weight(step)
        whole, outputs = gradient(step, [batch], modules, snapshot, 1.0 if weighted else None)
        again, _ = gradient(step, [batch], modules, snapshot, 1.0 if weighted else None, other_draws=True)
        parts, of_halves = gradient(step, halves, modules, snapshot, 0.5 if weighted else None)
        difference = apart(whole, parts)
        if not weighted:  # a mean, or a sum: either may be cut
            difference = min(difference, apart(whole, parts / 2))
        return verdict(apart(whole, again), difference, *first_difference(outputs, of_halves), samples)
    finally:
        snapshot.put_back()


def verdict(repeats, difference, name, kind, samples):
    if difference <= ROUNDING:
        return Verdict(True, difference, None, None, f"a batch of {samples} may be cut: its halves add up to the same gradient "
                                                     f"({difference:.1e} apart)")
    if repeats > ROUNDING:
        return Verdict(False, difference, name, kind, f"the same batch gives another gradient each time ({repeats:.1e} apart): the "
                       "step draws random numbers of its own, so a cut changes which ones")
    where = f" First at {name} ({kind})." if name else ""
    why = " Its statistics are those of the micro-batch." if kind and "BatchNorm" in kind else ""
    return Verdict(False, difference, name, kind, f"samples influence each other: the halves of a batch of {samples} add up to a "
                   f"gradient that is {difference:.1e} away from the whole one's.{where}{why}")
