"""The memory of this process under a budget: what of it counts, and what it came to."""

import ctypes
import importlib
import json
import operator

import torch

from . import library
from .errors import Error, StepError
from .plan import in_bytes
from .tensors import as_list, carried_bytes


OPEN = []  # what holds this process now, the innermost last


def share_of(budget, left, outer):
    """A budget that is a part of what can be had, where a hold around it leaves so much."""
    if budget == "auto":
        return str(max(1, left))
    if budget.endswith("%"):
        return str(max(1, int(left * float(budget[:-1]) / 100)))
    raise StepError("budget", f"is {budget}, and a hold of {in_bytes(outer.budget_bytes)} around it leaves {in_bytes(left)}",
                    'give less, a part of it, "80%" or "auto", or release the hold before')


class Held:
    """A process that is held to a budget, until it is released: an allocation beyond it raises torch.OutOfMemoryError.

    What was there before is in no budget, except what is carried: it counts as if it had come afterwards. Within another one this one
    has no more than the other leaves."""

    def __init__(self, budget, device, carried_bytes=0):
        self._session, self.device, self.carried_bytes = ctypes.c_void_p(), torch.device(device), carried_bytes
        outer = next((held for held in reversed(OPEN) if held.device == self.device), None)
        left = outer.left_bytes() + carried_bytes if outer is not None else None
        try:
            self._open(budget)
            if left is not None and self.budget_bytes > left:
                self._close()
                self._open(share_of(budget, left, outer))
        except BaseException:
            self._close()
            raise
        OPEN.append(self)

    def _open(self, budget):
        request = json.dumps({"device": str(self.device), "budget": budget, "carried_bytes": self.carried_bytes})
        at_start = library.answer(library.load().autotrain_open(request.encode(), ctypes.byref(self._session)))
        self.budget_bytes, self.budget_source = at_start["budget_bytes"], at_start["budget_source"]

    def _close(self):
        """Whoever is around this one has its limit in force again, which is put there by a sample."""
        if self._session:
            library.load().autotrain_close(self._session)
            self._session = ctypes.c_void_p()
        for held in [held for held in OPEN if held.device == self.device][-1:]:
            held.sample()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def release(self):
        """Lifts the limit. The allocator stays."""
        if self in OPEN:
            OPEN.remove(self)
        self._close()

    def memory(self):
        """Bytes by name, as the budget counts them."""
        return library.answer(library.load().autotrain_memory(self.session))

    def left_bytes(self):
        now = self.memory()
        return max(0, now["budget_bytes"] - now["allocated_bytes"] - now["outside_bytes"])

    @property
    def peak_bytes(self):
        return self.memory()["peak_bytes"]

    @property
    def session(self):
        if not self._session:
            raise Error("memory", "was released", "hold it anew")
        return self._session

    def sample(self):
        """Counts what libraries hold beside tensors now."""
        library.load().autotrain_sample(self.session)

    def begin(self):
        """Gives back what is cached; peaks are counted from now on."""
        library.load().autotrain_begin(self.session)


def text_of_budget(budget):
    """@param budget: a text as in recipes, or bytes."""
    if isinstance(budget, str):
        return budget
    try:
        count = 0 if isinstance(budget, bool) else operator.index(budget)  # of NumPy's whole numbers too
    except TypeError:
        count = 0
    if count > 0:
        return str(count)
    raise StepError("budget", f"is {budget!r}", 'give a text, "512MiB", "80%" or "auto", or bytes')


def bytes_of_budget(text, device, carried):
    """What a budget comes to now. @return a text of bytes."""
    with Held(text, device, carried) as held:
        return str(held.budget_bytes)


def device_of(modules):
    """The one device of all parameters."""
    devices = {parameter.device for module in modules for parameter in module.parameters()}
    if len(devices) != 1:
        what = "the model has no parameters" if not devices else f"the model lies on {', '.join(sorted(map(str, devices)))}"
        raise StepError("model", what, "give the module that is trained, all of it on one device")
    return devices.pop()


def prepare(device, budget):
    """Puts the allocator of the device in place. @raise Error for one whose memory cannot be refused."""
    if device.type == "cpu":
        library.install(budget)
    elif device.type != "cuda":
        raise Error("device", f"memory on {device} cannot be held to a budget: PyTorch has no limit for it that refuses",
                    "search on the CPU or on a CUDA device")


def with_its_number(device):
    """As tensors name their device: the CPU has none, a GPU has."""
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda" or device.index is not None:
        return device
    if not torch.cuda.is_available():
        raise Error("device", "is cuda, and PyTorch finds no GPU that it can use", "hold the CPU's memory, or look why torch.cuda.is_available() is False")
    return torch.device("cuda", torch.cuda.current_device())


def hold(budget, *, device="cpu", model=None, optimizer=None):
    """Holds this process to a budget ("512MiB", "80%", "auto") from now on, as a search does in its trials.

    @param model, optimizer: what is there of them already counts too.
    @return what measures it; to be released, or a context."""
    budget = text_of_budget(budget)
    device = with_its_number(torch.device(device))
    prepare(device, budget)
    importlib.import_module("torch._dynamo")  # which an optimizer's first update loads: code, in nobody's budget
    return Held(budget, device, carried_bytes(device, as_list(model), as_list(optimizer)))
