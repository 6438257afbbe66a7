"""Whether a batch may be cut: what of a module makes samples depend on each other."""

from collections import namedtuple

import torch

from .checks import check_halves, count_of
from .errors import StepError
from .gradients import Gradients, in_numbers
from .pieces import pieces, samples_of
from .state import Snapshot
from .tensors import as_list, modules_of, parts_of

Verdict = namedtuple("Verdict", "exact difference module kind text")
ROUNDING = 1e-4       # of a gradient in float32, summed in another order
ROUNDING_HALF = 3e-2  # where weights or outputs have 16 bits
OUTPUTS = 1e-3        # farther apart than this, a module's outputs differ by more than rounding
HALF = (torch.bfloat16, torch.float16)


class Calm:
    """Dropout draws by the batch's shape; without it, nothing else of the module changes."""

    def __init__(self, modules):
        parts = [part for part in parts_of(modules) if not isinstance(part, torch.jit.ScriptModule)]  # whose numbers are constants
        self.layers = [part for part in parts if isinstance(part, torch.nn.modules.dropout._DropoutNd)]
        # Recurrent layers and attention have its probability as a number.
        self.numbers = [(part, part.dropout) for part in parts if isinstance(vars(part).get("dropout"), float)]

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
                if not list(part.children()) and not isinstance(part, torch.jit.ScriptModule):  # which takes no hooks
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


def gradient(gradients, batches, modules, snapshot, other_draws=False):
    """Of all parameters, summed over the batches, and the outputs of parts."""
    snapshot.put_back_values()
    if other_draws:
        torch.manual_seed(torch.initial_seed() + 1)
    with Calm(modules), Outputs(modules) as outputs:
        return gradients.of(batches), outputs.seen


def rounding_of(modules, outputs):
    """How far apart two sums of the same are by rounding alone."""
    tensors = [*(parameter for module in modules for parameter in module.parameters()), *(each for seen in outputs.values() for each in seen)]
    return ROUNDING_HALF if any(tensor.dtype in HALF for tensor in tensors) else ROUNDING


def apart(one, other):
    return ((one - other).norm() / one.norm().clamp_min(1e-30)).item()


def first_difference(whole, halves, rounding):
    """The first part whose outputs for the whole batch are not those for its halves, or that only one of them has a use for."""
    for (name, kind), outputs in whole.items():
        parts = halves.get((name, kind), [])
        if not parts:
            return name, kind
        if len(outputs) != 1 or len(parts) != 2 or outputs[0].dim() == 0:
            continue
        alike = len({part.shape[1:] for part in [*parts, *outputs]}) == 1 and sum(map(len, parts)) == len(outputs[0])
        if not alike or apart(in_numbers(outputs[0]), in_numbers(torch.cat(parts))) > max(OUTPUTS, rounding):
            return name, kind
    return None, None


def batch_of(gradients, samples):
    batch = gradients.batch(samples)
    if samples_of(batch, gradients.step.lengths.known()) is None:
        raise StepError("split_check", f"make_batch({samples}) gave a batch whose samples cannot be counted",
                        "give tensors, arrays, or tuples, lists, dictionaries or dataclasses of them")
    return batch


def split_check(step, make_batch, *, model, samples=8, optimizer=None, keep=(), count=None):
    """Compares the gradient of a batch with that of its halves, accumulated, and names the part that mixes samples.

    @param step: forward and backward of a mean loss, `step(batch, weight)`, as for find; `step(batch)` where the loss is a sum.
    @param count: of the targets that a loss is the mean of, as for Plan.pieces.
    @return a Verdict: exact, difference (relative), module, kind, text. All is as it was afterwards."""
    modules, samples = modules_of(model), count_of("samples", samples)
    check_halves(samples, modules)
    snapshot = Snapshot(modules, as_list(optimizer), keep)
    try:
        gradients = Gradients("split_check", step, make_batch, modules, samples, keep)
        if count is not None and not gradients.weighted:
            raise StepError("count", "weighs halves, and the step takes no weight", "write it as step(batch, weight)")
        snapshot.put_back()  # what was tried is no part of what follows
        batch = batch_of(gradients, samples)
        halves = list(pieces(batch, samples // 2, count=count, known=gradients.step.lengths.known()))
        together, outputs = gradient(gradients, [(batch, 1.0)], modules, snapshot)
        again, _ = gradient(gradients, [(batch, 1.0)], modules, snapshot, other_draws=True)
        apiece, of_halves = gradient(gradients, halves, modules, snapshot)
        if not together.any():
            raise StepError("step", "made gradients that are zero everywhere, which show nothing",
                            "give weights, or a make_batch, of which some gradient comes")
        difference = apart(together, apiece)
        if not gradients.weighted:  # a mean, or a sum: either may be cut
            difference = min(difference, apart(together, apiece / 2))
        rounding = rounding_of(modules, outputs)
        part = first_difference(outputs, of_halves, rounding)
        return verdict(rounding, apart(together, again), difference, *part, samples)
    finally:
        snapshot.put_back()


def verdict(rounding, repeats, difference, name, kind, samples):
    if difference <= rounding:
        return Verdict(True, difference, None, None, f"a batch of {samples} may be cut: its halves add up to the same gradient "
                                                     f"({difference:.1e} apart)")
    if repeats > rounding:
        return Verdict(False, difference, name, kind, f"the same batch gives another gradient each time ({repeats:.1e} apart): the "
                       "step draws random numbers of its own, so a cut changes which ones")
    where = f" First at {name} ({kind})." if name else (" No part's outputs are others: where the loss is a mean over something else than "
                                                        "samples, say how many there are: count=.")
    why = " Its statistics are those of the micro-batch." if kind and "BatchNorm" in kind else ""
    return Verdict(False, difference, name, kind, f"samples influence each other: the halves of a batch of {samples} add up to a "
                   f"gradient that is {difference:.1e} away from the whole one's.{where}{why}")
