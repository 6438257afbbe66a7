"""A module is run before it is traced: what it makes when it is first needed is made now, and what it does that no graph can is seen."""

from contextlib import nullcontext

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from .again import parameters_again
from .checking import copies
from .cures import known
from .draws import Draws
from .errors import ExportError
from .half import QuickProducts
from .machine import of_machine
from .places import place_now, place_of
from .subject import is_of_single_numbers, refuse, refuse_written
from .tracing import autocast, first_line

FEW = 2  # samples show what a module does, and need little of its memory


def few_of(examples):
    return min(examples.samples, FEW)


class _Passes:
    """Forward passes with copies of the parameters, which show what becomes of them."""

    def __init__(self, subject, examples):
        self.subject, self.examples = subject, examples
        self.parameters = parameters_again(subject)
        self.assigned = None

    def outputs(self, samples, training, precision):
        tensors = {**self.parameters, **copies(self.subject.buffers)}
        quick = nullcontext() if precision == "fp32" else QuickProducts()
        with torch.set_grad_enabled(training), autocast(precision, self.subject.device), quick:
            return [output.detach() for output in self.subject.run(tensors, self.examples.batch(samples), training)]

    def of_any_size(self, training, precision):
        """The outputs for a few samples, or for a whole batch: a module that fixes the size of its batch is told so later."""
        try:
            return self.outputs(few_of(self.examples), training, precision)
        except Exception as error:
            if of_machine(error):
                raise
            return self.outputs(self.examples.samples, training, precision)

    def attempt(self, training, precision):
        """What goes wrong here goes wrong again where it is traced, and is told then."""
        try:
            self.of_any_size(training, precision)
        except ExportError:
            raise
        except Exception as error:
            if of_machine(error):
                raise

    def watch(self):
        """Notices parameters that are assigned while the module runs, and where."""

        def noted(part, name, parameter):
            if part._parameters.get(name) is parameter:  # tied again, as it is
                return
            if self.assigned is None and part in parts:
                self.assigned = f"{parts[part]}.{name}".lstrip("."), place_now(self.subject.module)

        parts = {part: name for name, part in self.subject.module.named_modules()}
        return register_module_parameter_registration_hook(noted)

    def check(self):
        if self.assigned is not None and self.assigned[0] in {*self.parameters, *self.subject.other_names}:
            name, place = self.assigned
            raise ExportError(
                f"the module assigns another one to its parameter {name} in its forward pass" + (f":\n  {place}" if place else "") + "\n"
                "Tie parameters in __init__, self.head.weight = self.embedding.weight; weights that are computed are handed to torch.nn.functional's operators."
            )
        for name, own in self.subject.parameters.items():
            copy = self.parameters[name]
            if copy.requires_grad != own.requires_grad:
                refuse(self.subject.original, name, f"the module sets requires_grad of its parameter {name} in its forward pass",
                       "Do so where the module is made, before it is exported.")
            if copy.grad is not None:
                refuse(self.subject.original, name, "the module calls backward() within its forward pass", "Return the loss, and name it by --loss.")
            if not _same_bits(copy, own):
                refuse_written(self.subject, name)
        for name, _ in self.subject.module.named_parameters(remove_duplicate=False):
            if name not in self.subject.parameters and name not in self.subject.other_names:
                refuse(self.subject.original, name, f"the module makes its parameter {name} when it is first run",
                       "Run it once where it is made, module(torch.zeros(…)) for a batch like the example; an optimizer that was made before would lack it, too.")


def _same_bits(one, other):
    return one.shape == other.shape and (one.is_complex() or torch.equal(*(each.detach().reshape(-1).view(torch.uint8) for each in (one, other))))


def run_once(subject, examples, precisions):
    """The outputs for a batch, in evaluation mode, and the names of attributes that hold losses. Tables that are made when they are first
    needed are made in each mode and precision."""
    passes, had = _Passes(subject, examples), _tensors_of(subject.module)
    watching = passes.watch()
    try:
        with Draws(subject.module) as draws:
            outputs = _evaluated(passes)
            for precision in dict.fromkeys(("fp32", *precisions)):
                for training in (False, True) if precision != "fp32" else (True,):
                    passes.attempt(training, precision)
    finally:
        watching.remove()
    draws.check(subject, passes.parameters, examples, few_of(examples))
    passes.check()
    return outputs, _losses_beside(subject, had)


def _evaluated(passes):
    try:
        return passes.of_any_size(False, "fp32")
    except ExportError:
        raise
    except Exception as error:
        if of_machine(error):
            raise
        shapes = " and ".join(f"{each.dtype} {list(each.shape)}" for each in passes.examples.all)
        place = place_of(error, passes.subject.module)
        if "does not require grad and does not have a grad_fn" in str(error):
            raise ExportError(
                "the module differentiates in its forward pass, and is evaluated under torch.no_grad" + (f":\n  {place}" if place else "") + "\n"
                "Put that within torch.enable_grad(), and give what it differentiates by requires_grad_() there; or leave it out where self.training is not set."
            ) from error
        if "view size is not compatible" in str(error):
            wrong, cure = known(first_line(error), "")
            raise ExportError(wrong + (f"\n  {place}" if place else "") + f"\n{cure}") from error
        raise ExportError(
            f"the module does not take a batch like the example, {shapes}: {first_line(error)}" + (f"\n  {place}" if place else "") + "\n"
            "Give each input as the forward pass takes it, tokens as int64[4,128]<50257; it runs under no_grad here, in evaluation mode. One that takes a list or a "
            "dictionary of tensors is put into a module that takes them one by one."
        ) from error


def _tensors_of(module):
    """(part, its name, attribute, tensor) of each that is an attribute."""
    return [(part, name, attribute, value) for name, part in module.named_modules() for attribute, value in vars(part).items() if isinstance(value, torch.Tensor)]


def _losses_beside(subject, had):
    """Names of attributes that hold one number with a gradient after a training pass, as losses beside the main one do. What keeps such
    tensors alive lets go of their graphs.

    had  what was there before: a view of a weight keeps its gradient"""
    before, found = {id(value) for *_, value in had}, []
    for part, name, attribute, value in _tensors_of(subject.module):
        if id(value) not in before and value.grad_fn is not None and value.is_floating_point():
            if value.dim() == 0 and not is_of_single_numbers(value):
                found.append(f"{name}.{attribute}" if name else f"self.{attribute}")
            vars(part)[attribute] = value.detach()
    return found if subject.loss is None else []
