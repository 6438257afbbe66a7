"""The search: trials in this process, and afterwards everything is as it was."""

import gc
import json
import operator
import socket
import threading
from contextlib import ExitStack, contextmanager

import torch

from . import library
from .compiled import drop_recordings, graphs_of_trials
from .errors import StepError
from .memory import Held, bytes_of_budget, device_of, prepare, text_of_budget
from .plan import Plan
from .ranks import Ranks
from .state import Snapshot
from .tensors import as_list, carried_bytes, modules_of, parameters_of, parts_of
from .trial import RAN, STOP, OldObjects, Step, check_optimizers, check_trains, forget, get_to_know, meaning

UPDATE, TYPICAL, EVALUATION, END = range(4)  # parts of a trial, as the library names them


def is_batch_norm(part):
    scripted = getattr(part, "original_name", "")  # of what torch.jit.script makes of it
    return isinstance(part, torch.nn.modules.batchnorm._BatchNorm) or scripted.startswith("BatchNorm")


def smallest_batch(modules):
    """Batch normalisation has no statistics of one sample."""
    return 2 if any(is_batch_norm(part) and part.training for part in parts_of(modules)) else 1


class Trials:
    """Runs what the library asks for. The first error that is not about memory ends the search and is kept."""

    def __init__(self, step, snapshot):
        self.step, self.snapshot = step, snapshot
        self.held, self.error, self.size = None, None, 0

    def run(self, part, sizes, count):
        try:
            self.part(part, [sizes[index] for index in range(count)])
            return RAN
        except BaseException as error:
            return self.failed(error)

    def part(self, part, sizes):
        step = self.step
        if part == END:
            step.drop_gradients()
            self.snapshot.put_back_values()
            drop_recordings()
            gc.collect()
            return
        self.size = sizes[0]
        if part == EVALUATION:
            step.evaluation(sizes[0])
        else:
            step.update(sizes, step.worst if part == UPDATE else step.make_batch, self.held.sample)

    def failed(self, error):
        what = meaning(error)
        if what == STOP:
            self.error = error
        else:
            forget(error)
        return what


def search(trials, request):
    """@raise what a trial raised that is not about memory, as it came."""
    call = library.RUN_STEP(trials.run)
    found = library.answer(library.load().autotrain_find(trials.held.session, json.dumps(request).encode(), call))
    if not found.get("stopped"):
        return found
    error = trials.error or KeyboardInterrupt()  # which came before the trial had begun
    if isinstance(error, Exception) and not isinstance(error, StepError) and hasattr(error, "add_note"):
        error.add_note(f"autotrain.find was trying a micro-batch of {trials.size} samples when your code raised this; "
                       "the model and all else that it was given are as they were before")
    raise error


def whole(name, value):
    """@return a whole number of 1 or more, or None."""
    try:
        number = None if value is None else operator.index(value)
    except TypeError:
        number = 0
    if number is not None and number < 1:
        raise StepError(name, f"is {value!r}", "give a whole number of 1 or more, or leave it out")
    return number


def checked_request(effective, most, multiple_of, cut, target, max_trials, max_seconds):
    """@return what the library is asked, but for what depends on the model."""
    check_search(target, max_seconds, cut, effective)
    return {"effective": effective, "most": whole("most", most), "multiple_of": whole("multiple_of", multiple_of) or 1, "cut": cut,
            "target": list(target), "max_probes": whole("max_trials", max_trials) or 12, "max_seconds": max_seconds}


def check_alike(requests):
    """Of all ranks: most may differ, for the smallest size is taken."""
    for rank, request in enumerate(requests):
        for name, value in request.items():
            if name != "most" and value != requests[0][name]:
                raise StepError(name, f"is {value!r} on rank {rank} and {requests[0][name]!r} on rank 0",
                                "call find with the same arguments on all ranks")


def check_search(target, max_seconds, cut, effective):
    if len(target) != 2 or not 0 < target[0] < target[1] <= 1:
        raise StepError("target", f"is {target!r}", "give two parts of the budget in which the peak is to end: (0.8, 0.9)")
    if not max_seconds > 0:
        raise StepError("max_seconds", f"is {max_seconds!r}", "give seconds")
    if cut == "divide" and effective is None:
        raise StepError("cut", "is divide, and there is no effective batch to divide", "give effective=")


def check_modes(modules, smallest, effective, most):
    if not torch.is_grad_enabled():
        raise StepError("find", "was called where gradients are switched off", "call it outside of no_grad and inference_mode")
    for module in modules:
        if not module.training:
            raise StepError("model", "is in evaluation mode, in which it keeps less than in training", "call model.train() first")
    for name, value in (("effective", effective), ("most", most)):
        if value is not None and value < smallest:
            raise StepError(name, f"is {value}, and batch normalisation has no statistics of one sample", "give 2 or more")


ONE_AT_A_TIME = threading.Lock()  # they would share the limit, the peak and the weights


@contextmanager
def alone():
    if not ONE_AT_A_TIME.acquire(blocking=False):
        raise StepError("find", "is under way in this process already", "search one thing after the other")
    try:
        yield
    finally:
        ONE_AT_A_TIME.release()


def find(step, make_batch, *, model, optimizer=None, effective=None, budget="80%", evaluate=None, worst=None, scaler=None,
         schedulers=(), keep=(), most=None, multiple_of=1, cut="auto", target=(0.8, 0.9), max_trials=12, max_seconds=120):
    """Finds the micro-batch that fills the budget, and how many make an update of `effective` samples.

    @param step: forward and backward of one micro-batch, `step(batch)` or `step(batch, weight)`; gradients add up.
    @param make_batch: `make_batch(n)` gives n samples, where the model is.
    @param model: the module that is trained, or a list of them. @param optimizer: makes the update after the step; or a list.
    @param effective: samples of an update, of all ranks together where the model is a DistributedDataParallel; None: an update
    is one micro-batch.
    @param budget: "512MiB", "80%" of what is free, "auto": all of it. Weights and optimizer state are in it.
    @param evaluate: `evaluate(batch)`, as your evaluation does it; run in evaluation mode.
    @param worst: as make_batch, of the costliest samples, where they differ.
    @param scaler, schedulers, keep: what else your step changes; anything with state_dict, or a random generator.
    @param cut: "even", "full" with a rest, "divide" where micro-batch × window must be `effective`; "auto": even where
    that stays in the band.
    @return a Plan. @raise DoesNotFit; StepError; whatever your own code raises. Everything is as it was, whatever comes."""
    modules, optimizers = modules_of(model), as_list(optimizer)
    ranks = Ranks(modules)
    with ExitStack() as stack:
        def checked():
            """What can be said before the first trial. @return the request, the device and the budget."""
            request = checked_request(ranks.share(whole("effective", effective)), most, multiple_of, cut, target, max_trials, max_seconds)
            request.update(costs_differ=worst is not None, evaluates=evaluate is not None)
            check_modes(modules, smallest_batch(modules), request["effective"], request["most"])
            check_optimizers(modules, optimizers)
            check_trains(parameters_of(modules, optimizers))
            ranks.check(modules, optimizers)
            device, text = device_of(modules), text_of_budget(budget)
            stack.enter_context(alone())
            prepare(device, text)
            return request, device, text

        (request, device, text), told = ranks.together(checked, lambda known: (socket.gethostname(), known[0]))
        check_alike([asked for _, asked in told])
        text = ranks.budget(text, device, [host for host, _ in told])
        if ranks.count > 1:  # before one of them makes a trial, which takes of what is free
            text, _ = ranks.together(lambda: bytes_of_budget(text, device, carried_bytes(device, modules, optimizers)), len)
        minimum = min(smallest_batch(modules), request["effective"] or 2, request["most"] or 2)

        def attempt(most):
            """A search of this rank, after which everything is as it was."""
            snapshot = Snapshot(modules, optimizers, [scaler, *as_list(schedulers), *as_list(keep)])
            runner = Step(step, make_batch, modules=modules, optimizers=optimizers, evaluate=evaluate, worst=worst, scaler=scaler,
                          effective=request["effective"])
            trials = Trials(runner, snapshot)
            try:
                with OldObjects() as old, graphs_of_trials():
                    get_to_know(runner, device, minimum, old)
                    snapshot.put_back_attributes()
                    carried = carried_bytes(device, modules, optimizers)
                    gradients = sum(p.nbytes for p in runner.parameters if p.requires_grad)
                    with Held(text, device, carried) as trials.held:
                        found = search(trials, {**request, "most": most, "minimum": minimum, "floor_bytes": carried + gradients})
            finally:
                snapshot.put_back()
            return Plan({**found, "carried_bytes": carried}, minimum, ranks)

        stack.enter_context(ranks.apart())
        return ranks.agree(attempt, request["most"])
