"""The search: trials in this process, and afterwards everything is as it was."""

import gc
import json
import socket
import threading
from contextlib import ExitStack, contextmanager

import torch

from . import library
from .checks import check_alike, check_least, check_modes, checked_request, smallest_batch, whole
from .compiled import drop_recordings, graphs_of_trials
from .errors import StepError
from .habits import check_optimizers, check_trains, get_to_know
from .memory import Held, bytes_of_budget, device_of, prepare, text_of_budget
from .plan import Plan
from .ranks import Ranks
from .state import Snapshot
from .tensors import as_list, carried_bytes, modules_of, parameters_of
from .trial import RAN, STOP, OldObjects, Step, forget, meaning

UPDATE, TYPICAL, EVALUATION, END = range(4)  # parts of a trial, as the library names them


class Trials:
    """Runs what the library asks for. The first error that is not about memory ends the search and is kept."""

    def __init__(self, step, snapshot):
        self.step, self.snapshot = step, snapshot
        self.held, self.error, self.part, self.size = None, None, None, 0

    def run(self, part, sizes, count):
        try:
            self.part = part
            self.run_part(part, [sizes[index] for index in range(count)])
            return RAN
        except BaseException as error:
            return self.failed(error)

    def run_part(self, part, sizes):
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

    def explain(self):
        """Says beside an error of the user's own code when it came, once all is as it was."""
        error = self.error
        if self.part != END and isinstance(error, Exception) and not isinstance(error, StepError) and hasattr(error, "add_note"):
            error.add_note(f"autotrain.find was trying a micro-batch of {self.size} samples when your code raised this; "
                           "the model and all else that it was given are as they were before")


def search(trials, request):
    """@raise what a trial raised that is not about memory, as it came."""
    call = library.RUN_STEP(trials.run)
    found = library.answer(library.load().autotrain_find(trials.held.session, json.dumps(request).encode(), call))
    if not found.get("stopped"):
        return found
    raise trials.error or KeyboardInterrupt()  # which came before the trial had begun


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
            check_modes("find", modules)
            check_least(smallest_batch(modules), effective=request["effective"], most=request["most"])
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
            others = [scaler, *as_list(schedulers), *as_list(keep)]
            snapshot = Snapshot(modules, optimizers, others)
            runner = Step(step, make_batch, modules=modules, optimizers=optimizers, evaluate=evaluate, worst=worst, scaler=scaler,
                          effective=request["effective"], others=others)
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
                trials.explain()
            return Plan({**found, "carried_bytes": carried}, minimum, ranks, runner.lengths.known())

        stack.enter_context(ranks.apart())
        return ranks.agree(attempt, request["most"])
