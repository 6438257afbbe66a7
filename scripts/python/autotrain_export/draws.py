"""Random numbers that a module draws outside of PyTorch, or from seeds that it sets: no graph can draw them again."""

import inspect
import pickle
import random
import re

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .again import differ, outputs_in_both_modes
from .attributes import attributes_kept
from .errors import ExportError
from .places import forward_of, is_theirs
from .twister import States, numpys, put, words_again

SEED = 0x5EED5EED  # one that nobody sets
NUMPY, PYTHON, SEEDS, OWN = "NumPy's random numbers", "Python's random numbers", "a seed that it sets itself", "a generator of its own"
_WORDS = {NUMPY: r"\brandom\w*[.(]", PYTHON: r"\brandom\w*[.(]", SEEDS: r"seed\w*\(", OWN: r"\b(rng|random|gen)\w*\."}  # in the line that draws


def _generators(module):
    """Those of Python and NumPy that parts of a module keep."""
    kinds = (random.Random, *((numpys().Generator, numpys().RandomState) if numpys() else ()))
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, kinds)]


def _states(own):
    state = numpys() and numpys().get_state()
    return {PYTHON: random.getstate(), NUMPY: None if state is None else (state[1].tobytes(), *state[2:]), SEEDS: torch.initial_seed(),
            OWN: [pickle.dumps(each) for each in own]}  # fmt: skip


class Draws:
    """Notices which part of a module draws so, as long as it is entered."""

    def __init__(self, module):
        self.module, self.own, self.stack, self.found = module, _generators(module), [], {}

    def __enter__(self):
        self.before = States()
        torch.manual_seed(SEED)
        self.hooks = [register_module_forward_pre_hook(self._begin), register_module_forward_hook(self._end)]
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()
        self.before.put_back()

    def _begin(self, part, _):
        self.stack.append((part, _states(self.own)))

    def _end(self, part, _, __):
        while self.stack:
            begun, before = self.stack.pop()
            if begun is part:  # others have raised
                break
        else:
            return
        now = _states(self.own)
        for what in now:
            if now[what] != before[what]:
                self.found.setdefault(what, part)  # the innermost ends first

    def check(self, subject, parameters, examples, samples):
        """Refuses what is drawn so, if it matters: libraries draw by Python's numbers whether a layer is left out, with no chance to be, and
        another thread may draw."""
        for what, part in self.found.items():
            if what in (SEEDS, OWN) or _matters(what, subject, parameters, examples, samples):
                self._refuse(what, part)

    def _refuse(self, what, part):
        place = _line_with(part, _WORDS[what]) or _place(self.module, part)
        cure = "Draw by PyTorch and without a seed: torch.rand(()) is a number, and x + (torch.rand(()) > p) * layer(x) leaves a layer out; a run has a seed of its own."
        if getattr(getattr(part, "config", None), "apply_spec_augment", False):
            cure = "Make the model with apply_spec_augment=False: what it masks at random is drawn so, and inputs may be masked by the data instead."
        raise ExportError(
            f"the module draws by {what}, which a graph cannot draw again{':' if place else ''}" + (f"\n  {place}" if place else "") + f"\n{cure}"
        )


def _matters(what, subject, parameters, examples, samples):
    """Whether the module computes something else by other numbers of Python's or NumPy's."""
    generators = {PYTHON: random, NUMPY: numpys()}
    states = words_again()

    def outputs(words):
        def begin():
            for name, generator in generators.items():
                if generator is not None:
                    put(words if name == what else states[0], generator)

        with attributes_kept(subject.module):
            return outputs_in_both_modes(subject, parameters, examples, samples, begin)

    first = outputs(states[0])
    return any(differ(first, outputs(words)) for words in states[1:])


def _name(module, part):
    return next((name for name, one in module.named_modules() if one is part), "")


def _line_with(part, pattern):
    """The first line of a part's forward pass that looks so, if there is one."""
    forward = inspect.unwrap(type(part).forward)
    code = getattr(forward, "__code__", None)
    if code is None or not is_theirs(code.co_filename):
        return ""
    try:
        lines, first = inspect.getsourcelines(forward)
    except OSError:
        return ""
    for number, line in enumerate(lines, first):
        if re.search(pattern, line.partition("#")[0]):
            return f"{code.co_filename}:{number}: {line.strip()} (in {type(part).__name__})"
    return ""


def _place(module, part):
    name = _name(module, part)
    return forward_of(module, f"{name}." if name else ".")
