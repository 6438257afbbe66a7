"""What a step turns out to do, seen from outside while it runs small batches."""

import gc
import inspect
from types import SimpleNamespace

import torch
from torch import distributed
from torch.amp.grad_scaler import OptState
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import library
from .errors import StepError
from .tensors import layers_of, replicas_of

REPEATS = 4      # small updates that must leave the same behind
NO_LEAK = 1024   # bytes of each: a loss that is kept as a number's tensor
WATCHED = 5      # passes that are to add up: some count to two or four by hand
ONE_PASS = "leave optimizer.step() and zero_grad() out of it: one pass forward and backward, no more"
MAKES_UPDATE = ("makes the update itself, so micro-batches cannot be accumulated", ONE_PASS)


class Habits:
    """Watches a step. @param only_passes: it is asked for gradients alone, and no optimizer is known."""

    def __init__(self, step, only_passes=False):
        self.step, self.only_passes = step, only_passes
        self.accumulated = False
        self.stepped = set()  # ids of optimizers, those within others too

    def __enter__(self):
        mark = lambda *_: setattr(self, "accumulated", True)
        self.hooks = [parameter.register_post_accumulate_grad_hook(mark)
                      for parameter in self.step.parameters if parameter.requires_grad and parameter.is_leaf]
        self.hooks.append(register_optimizer_step_pre_hook(self.note_step))  # of whatever optimizer
        if distributed.is_available() and distributed.is_initialized():
            self.hooks.append(register_module_forward_pre_hook(self.note_forward))
        self.versions = [parameter._version for parameter in self.step.parameters]
        self.note_scaler(self.step.scaler)
        return self

    def note_scaler(self, scaler):
        """A scaler that leaves an update out calls no optimizer."""
        if scaler is not None and "step" not in getattr(scaler, "__dict__", {"step": None}):
            make_update = scaler.step
            scaler.step = lambda optimizer, *given, **named: (self.stepped.add(id(optimizer)), make_update(optimizer, *given, **named))[1]
            self.hooks.append(SimpleNamespace(remove=lambda: vars(scaler).pop("step")))

    def note_forward(self, module, _):
        if isinstance(module, DistributedDataParallel) and not any(module is given for given in replicas_of(self.step.modules)):
            raise StepError("step", "runs a DistributedDataParallel that was not given, whose passes wait for other ranks",
                            "pass it, not the module within, as model=")

    def note_step(self, optimizer, *_):
        self.stepped.add(id(optimizer))
        if self.only_passes:
            raise StepError("step", f"makes updates with a {type(optimizer).__name__}", ONE_PASS)
        check_closure("step", optimizer)
        if not any(optimizer is layer for known in self.step.optimizers for layer in layers_of(known)):
            raise StepError("step", f"makes updates with a {type(optimizer).__name__} that was not given",
                            "pass it as optimizer=, or all of them as a list")

    def changed_weights(self):
        """Whether every weight that has a gradient was changed: some steps keep one layer's weights normal, or in bounds."""
        changed = [parameter._version != before for parameter, before in zip(self.step.parameters, self.versions)
                   if parameter.grad is not None]
        return bool(changed) and all(changed)

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()


def check_closure(where, optimizer):
    """Of optimizers that run the step themselves."""
    try:
        given = inspect.signature(optimizer.step).parameters.values()
    except (TypeError, ValueError):
        given = ()
    if isinstance(optimizer, torch.optim.LBFGS) or any(p.name == "closure" and p.default is p.empty for p in given):
        raise StepError(where, f"{type(optimizer).__name__} evaluates the loss itself, many times an update, so no step can be accumulated "
                        "for it", "search with another optimizer, or with none: a step that is one pass forward and backward, and optimizer=None")


def check_optimizers(modules, optimizers):
    own = {id(parameter) for module in modules for parameter in module.parameters()}
    for optimizer in optimizers:
        if not hasattr(optimizer, "param_groups"):
            raise StepError("optimizer", f"is a {type(optimizer).__name__}, and no optimizer", "give what makes the update, or a list of them")
        check_closure("optimizer", optimizer)
        if not any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            raise StepError("optimizer", "none of its parameters is the model's", "make it of model.parameters(), of the model "
                            "that is given here")


def check_trains(parameters):
    if not any(parameter.requires_grad for parameter in parameters):
        raise StepError("model", "none of its parameters trains: requires_grad is False for all of them",
                        "switch on those that your training changes before the search")


def check_backward(step, habits, result):
    if habits.accumulated or any(parameter.grad is not None for parameter in step.parameters):  # by torch.autograd.grad, too
        return
    back = isinstance(result, torch.Tensor) and result.requires_grad
    raise StepError("step", "made no gradient of any parameter of the model",
                    "it returned a loss: call loss.backward() in it, and return nothing" if back else
                    "call loss.backward() in it, of a loss that the model's parameters that train lead to")


class Marked:
    """A gradient that is made large before a second pass: where passes add up, it still is afterwards. One that is no number tells
    nothing, as of a loss that a scaler has made too large."""

    def __init__(self, parameters):
        self.parameter = next((p for p in parameters if p.grad is not None and not p.grad.is_sparse and p.grad.numel() > 0
                               and p.grad.isfinite().all()), None)
        if self.parameter is not None:
            grad = self.parameter.grad
            with torch.no_grad():
                self.mark = min(1024 * (grad.abs().max().item() + 1e-6), torch.finfo(grad.dtype).max / 4)
                grad.fill_(self.mark)

    def is_there(self):
        if self.parameter is None:
            return True
        grad = self.parameter.grad
        return grad is not None and not grad.abs().max().item() < self.mark / 2


def refuse_update(step):
    """@return what watches a pass: one that is to be accumulated may make no update, at its hundredth call either."""
    own = set(map(id, step.parameters))

    def refuse(optimizer, *_):
        if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            raise StepError("step", *MAKES_UPDATE)
    return lambda: register_optimizer_step_pre_hook(refuse)


def check_one_pass(habits):
    """After a pass whose gradients others are added to."""
    if habits.stepped:
        raise StepError("step", *MAKES_UPDATE)
    stages = getattr(habits.step.scaler, "_per_optimizer_states", {})
    if any(state["stage"] is OptState.UNSCALED for state in stages.values()):
        raise StepError("step", "unscales gradients, so micro-batches cannot be accumulated",
                        "leave scaler.unscale_() out of it, and clip gradients after the last micro-batch")


def check_accumulation(habits, marked):
    """After another pass: gradients must be the sum of both."""
    check_one_pass(habits)
    if not marked.is_there():
        raise StepError("step", "drops the gradients of the micro-batch before it",
                        "leave zero_grad() out of it, and clip gradients after the last micro-batch")
    if habits.changed_weights():
        raise StepError("step", "changes the weights itself, so micro-batches cannot be accumulated",
                        "leave the update out of it: one pass forward and backward, no more")


def pass_again(step, samples):
    """A second pass: a scaler that is not known was not told of another update."""
    try:
        step.pass_over(step.batch(samples, step.make_batch), 1.0)
    except RuntimeError as error:
        if step.scaler is None and "since the last update()" in str(error):
            raise StepError("step", "uses a gradient scaler that was not given", "pass it as scaler=, or leave what it does after "
                            "the last micro-batch out of the step") from error
        raise


def watch(step, samples, only_passes=False):
    """A few small passes. @return ids of the optimizers with which the step makes updates itself."""
    with Habits(step, only_passes) as habits:
        step.begin_update()
        result = step.pass_over(step.batch(samples, step.make_batch), 1.0)
        check_backward(step, habits, result)
        del result
        if step.effective is None:
            step.begin_update()
            pass_again(step, samples)
        else:
            check_one_pass(habits)
            for _ in range(WATCHED - 1):
                marked = Marked(step.parameters)
                pass_again(step, samples)
                check_accumulation(habits, marked)
            step.watched = refuse_update(step)
    step.begin_update()
    return habits.stepped


def check_scaler(scaler):
    if scaler is not None and getattr(scaler, "_enabled", False) and getattr(scaler, "_scale", scaler) is None:
        raise StepError("scaler", "is not used by the step", "call scaler.scale(loss).backward() in it, or leave scaler= out")


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
    step.stepped = watch(step, samples)
    step.pass_over(step.batch(samples, step.make_batch), 1.0)
    if not step.stepped or step.left():
        check_scaler(step.scaler)
    step.apply()
    step.drop_gradients()
    old.aside()
    check_leak(step, device, samples)
    step.drop_gradients()
