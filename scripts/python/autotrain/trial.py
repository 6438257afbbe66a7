"""The user's step, run as a training would run it, and what it turns out to do."""

import gc
import inspect
import traceback

import torch
from torch import distributed
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import library
from .errors import StepError
from .pieces import axis_of, samples_of
from .tensors import parameters_of, parts_of, replicas_of

RAN, OUT_OF_MEMORY, STOP = 1, 2, 5  # as the library names them
REPEATS = 4                         # small updates that must leave the same behind
NO_LEAK = 1024                      # bytes of each: a loss that is kept as a number's tensor


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


class Step:
    """Updates and evaluations of any size, with the user's own parts."""

    def __init__(self, step, make_batch, *, modules, optimizers, evaluate, worst, scaler, effective):
        self.step, self.make_batch, self.worst = step, make_batch, worst or make_batch
        self.modules, self.optimizers, self.evaluate, self.scaler = modules, optimizers, evaluate, scaler
        self.effective = effective
        self.parameters = parameters_of(modules, self.optimizers)
        self.weighted = takes_weight(step)
        self.steps_itself = False  # the step makes the update

    def batch(self, samples, make):
        batch = make(samples)
        if batch is None:
            raise StepError("make_batch", f"gave nothing for {samples} samples", "have it return the batch")
        made = samples_of(batch)
        if made is not None and made != samples:
            which = "worst" if make is self.worst and make is not self.make_batch else "make_batch"
            axis = axis_of(batch, samples)
            if axis is not None:
                raise StepError(f"{which}({samples})", f"gave {made} samples along the first axis, and axis {axis} is {samples} long",
                                f"where samples lie along axis {axis}, give them first, batch.transpose(0, {axis}), and turn them back in the step")
            raise StepError(f"{which}({samples})", f"gave {made} samples",
                            f"make it give as many as it is asked for; if there are no more, pass most={made}"
                            if made < samples else "make it give as many as it is asked for")
        return batch

    def drop_gradients(self):
        for parameter in self.parameters:
            parameter.grad = None

    def pass_over(self, batch, share):
        return self.step(batch, share) if self.weighted else self.step(batch)

    def update(self, sizes, make, between=lambda: None):
        total = self.effective or sum(sizes)
        for index, samples in enumerate(sizes):
            batch = self.batch(samples, make)
            if index == 0:
                self.drop_gradients()  # those of the update before are there while a batch is made
            self.pass_over(batch, samples / total)
            del batch
            between()
        self.apply()

    def apply(self):
        if self.steps_itself:
            return
        for optimizer in self.optimizers:
            if self.scaler is not None:
                self.scaler.step(optimizer)
            else:
                optimizer.step()
        if self.scaler is not None and self.optimizers:
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


class Habits:
    """What a step does, seen from outside while it runs small batches."""

    def __init__(self, step):
        self.step = step
        self.accumulated, self.stepped = False, False

    def __enter__(self):
        mark = lambda *_: setattr(self, "accumulated", True)
        self.hooks = [parameter.register_post_accumulate_grad_hook(mark)
                      for parameter in self.step.parameters if parameter.requires_grad and parameter.is_leaf]
        self.hooks.append(register_optimizer_step_pre_hook(self.note_step))  # of whatever optimizer
        if distributed.is_available() and distributed.is_initialized():
            self.hooks.append(register_module_forward_pre_hook(self.note_forward))
        return self

    def note_forward(self, module, _):
        if isinstance(module, DistributedDataParallel) and not any(module is given for given in replicas_of(self.step.modules)):
            raise StepError("step", "runs a DistributedDataParallel that was not given, whose passes wait for other ranks",
                            "pass it, not the module within, as model=")

    def note_step(self, optimizer, *_):
        self.stepped = True
        if not any(optimizer is known or optimizer is getattr(known, "optimizer", None) for known in self.step.optimizers):
            raise StepError("step", f"makes updates with a {type(optimizer).__name__} that was not given",
                            "pass it as optimizer=, or all of them as a list")

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()


def check_optimizers(modules, optimizers):
    own = {id(parameter) for module in modules for parameter in module.parameters()}
    for optimizer in optimizers:
        if not hasattr(optimizer, "param_groups"):
            raise StepError("optimizer", f"is a {type(optimizer).__name__}, and no optimizer", "give what makes the update, or a list of them")
        if isinstance(optimizer, torch.optim.LBFGS):
            raise StepError("optimizer", "LBFGS evaluates the loss itself, many times an update, so no step can be accumulated for it",
                            "search with another optimizer, or none: optimizer=None")
        if not any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            raise StepError("optimizer", "none of its parameters is the model's", "make it of model.parameters(), of the model "
                            "that is given here")


def check_trains(parameters):
    if not any(parameter.requires_grad for parameter in parameters):
        raise StepError("model", "none of its parameters trains: requires_grad is False for all of them",
                        "switch on those that your training changes before the search")


def check_backward(step, habits, result):
    if habits.accumulated:
        return
    back = isinstance(result, torch.Tensor) and result.requires_grad
    raise StepError("step", "made no gradient of any parameter of the model",
                    "it returned a loss: call loss.backward() in it, and return nothing" if back else
                    "call loss.backward() in it, of a loss that the model's parameters that train lead to")


class Marked:
    """A gradient that is made large before a second pass: where passes add up, it still is afterwards."""

    def __init__(self, parameters):
        self.parameter = next((p for p in parameters if p.grad is not None and not p.grad.is_sparse and p.grad.numel() > 0), None)
        if self.parameter is not None:
            with torch.no_grad():
                self.mark = min(1024 * (self.parameter.grad.abs().max().item() + 1e-6), 16384.0)
                self.parameter.grad.fill_(self.mark)

    def is_there(self):
        if self.parameter is None:
            return True
        grad = self.parameter.grad
        return grad is not None and grad.abs().max().item() >= self.mark / 2


def check_accumulation(step, habits, marked):
    """After a second pass: gradients must be the sum of both."""
    if step.effective is None:
        return
    if habits.stepped:
        raise StepError("step", "makes the update itself, so micro-batches cannot be accumulated",
                        "leave optimizer.step() and zero_grad() out of it: one pass forward and backward, no more")
    if not marked.is_there():
        raise StepError("step", "drops the gradients of the micro-batch before it", "leave zero_grad() out of it")


def check_leak(step, device, samples):
    """An update of the same size must leave behind what the one before left."""
    left = []
    for _ in range(REPEATS):
        step.update([samples], step.make_batch)
        step.drop_gradients()
        gc.collect()
        left.append(live_bytes(device))
    grown = min(after - before for before, after in zip(left, left[1:]))
    if grown > NO_LEAK:
        raise StepError("step", f"leaves {grown:,} bytes more behind with each update of {samples} sample"
                        f"{'s' if samples > 1 else ''}, so every size runs out of memory in time",
                        "keep numbers, not tensors: loss.item() or loss.detach(), and no list of outputs")


def live_bytes(device):
    """Of the tensors that there are."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return library.answer(library.load().autotrain_allocated())["allocated_bytes"]


def get_to_know(step, device, samples, old):
    """The smallest updates: what an optimizer loads and makes once is there afterwards, and habits are known."""
    with Habits(step) as habits:
        step.drop_gradients()
        result = step.pass_over(step.batch(samples, step.make_batch), 1.0)
        check_backward(step, habits, result)
        del result
        marked = Marked(step.parameters) if step.effective is not None else None
        step.pass_over(step.batch(samples, step.make_batch), 1.0)
        check_accumulation(step, habits, marked)
        step.steps_itself = habits.stepped
        del marked
    step.drop_gradients()
    step.pass_over(step.batch(samples, step.make_batch), 1.0)
    step.apply()
    step.drop_gradients()
    old.aside()
    check_leak(step, device, samples)
    step.drop_gradients()
