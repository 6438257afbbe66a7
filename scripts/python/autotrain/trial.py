"""The user's step, run as a training would run it."""

import gc
import inspect
import traceback
from contextlib import nullcontext

import torch

from . import library
from .errors import StepError
from .lengths import Lengths
from .others import ScheduleOf
from .pieces import counted, is_list_of
from .tensors import layers_of, parameters_of, parts_of

RAN, OUT_OF_MEMORY, STOP = 1, 2, 5  # as the library names them


def takes_weight(step):
    """Whether a step wants the piece's weight beside it."""
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if any(p.kind == p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise StepError("step", "has arguments that can be given by name alone", "write it as step(batch) or step(batch, weight)")
    return len(needed) >= 2


def meaning(error):
    """What an exception means for the size that was tried."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return OUT_OF_MEMORY
    return library.classify(str(error)) if isinstance(error, RuntimeError) else STOP


def forget(error):
    """Frames of a traceback keep the tensors of the step alive."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__, error = None, error.__context__
    gc.collect()


class OldObjects:
    """Keeps what is there already out of collections, each of which would go through all of it: a third of a second where
    PyTorch's compiler is loaded. A program that does so itself is left to it."""

    def __init__(self):
        self.free = gc.get_freeze_count() == 0

    def aside(self):
        gc.collect()
        if self.free:
            gc.freeze()

    def __enter__(self):
        self.aside()
        return self

    def __exit__(self, *_):
        if self.free:
            gc.unfreeze()


def left_out(scaler, optimizer):
    """Whether a scaler left an update out, because its gradients are not finite."""
    found = getattr(scaler, "_found_inf_per_device", None)
    return found is not None and any(each.item() for each in found(optimizer).values())


def update_by_nothing(optimizer):
    """An update that is left out takes no memory, and makes no state; a later one does."""
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.zero_()
    optimizer.step()


class Step:
    """Updates and evaluations of any size, with the user's own parts."""

    def __init__(self, step, make_batch, *, modules, optimizers, evaluate, worst, scaler, effective, others=()):
        self.step, self.make_batch, self.worst = step, make_batch, worst or make_batch
        self.modules, self.optimizers, self.evaluate, self.scaler = modules, optimizers, evaluate, scaler
        self.effective = effective
        self.schedules = [ScheduleOf(owner) for owner in others if isinstance(owner, torch.optim.lr_scheduler.LRScheduler)]
        self.parameters = parameters_of(modules, self.optimizers)
        self.weighted = takes_weight(step)
        self.stepped = set()  # ids of the optimizers with which the step makes updates itself
        self.watched = nullcontext  # what watches each pass
        self.lengths = Lengths()

    def batch(self, samples, make):
        batch = make(samples)
        if batch is None:
            raise StepError("make_batch", f"gave nothing for {samples} samples", "have it return the batch")
        known = self.lengths.known()
        made, by = counted(batch, known)
        self.lengths.note(batch, samples)
        if made is not None and made != samples and not is_list_of(batch, samples):
            which = "worst" if make is self.worst and make is not self.make_batch else "make_batch"
            if not any(known.values()):
                made, by = self.counted_by_two_sizes(batch, samples, make, which)
            if made != samples:
                more = f"; if there are no more, pass most={made}" if made < samples else ""
                raise StepError(f"{which}({samples})", f"gave {made} samples, counted by {by}", f"make it give as many as it is asked for{more}")
        return batch

    def counted_by_two_sizes(self, batch, samples, make, which):
        """Of a batch that comes first, and does not begin with what has an entry a sample: another size shows what does."""
        if len(self.lengths.sizes) == 1:
            self.lengths.note(make(samples + 1), samples + 1)
        axis = self.lengths.axis_of(batch)
        if axis:
            raise StepError(f"{which}({samples})", f"gave {counted(batch)[0]} samples along the first axis, and axis {axis} is {samples} long",
                            f"where samples lie along axis {axis}, give them first, batch.transpose(0, {axis}), and turn them back in the step")
        return counted(batch, self.lengths.known())

    def drop_gradients(self):
        for parameter in self.parameters:
            parameter.grad = None

    def begin_update(self):
        """Without gradients, with a scaler that is with none of them, and schedules as they were, which may have an end."""
        self.drop_gradients()
        getattr(self.scaler, "_per_optimizer_states", {}).clear()
        for schedule in self.schedules:
            schedule.put_back()

    def pass_over(self, batch, share):
        with self.watched():
            return self.step(batch, share) if self.weighted else self.step(batch)

    def update(self, sizes, make, between=lambda: None):
        total = self.effective or sum(sizes)
        for index, samples in enumerate(sizes):
            batch = self.batch(samples, make)
            if index == 0:
                self.begin_update()  # those of the update before are there while a batch is made
            self.pass_over(batch, samples / total)
            del batch
            between()
        self.apply()

    def left(self):
        """Optimizers that the step leaves to the loop around it."""
        return [optimizer for optimizer in self.optimizers if not any(id(layer) in self.stepped for layer in layers_of(optimizer))]

    def apply(self):
        optimizers = self.left()
        for optimizer in optimizers:
            if self.scaler is None:
                optimizer.step()
                continue
            self.scaler.step(optimizer)
            if left_out(self.scaler, optimizer):
                update_by_nothing(optimizer)
        if self.scaler is not None and optimizers:
            self.scaler.update()

    def evaluation(self, samples):
        modes = [(part, part.training) for part in parts_of(self.modules)]
        try:
            for module in self.modules:
                module.eval()
            self.evaluate(self.batch(samples, self.worst))
        finally:
            for part, training in modes:
                part.training = training
