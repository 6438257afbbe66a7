"""The numbers by which a module tells some of its batch's numbers from the others, as a loss does that leaves some of them out."""

import math
from itertools import islice

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOST = 16  # numbers for a tensor of a batch: a module may compare with each of a thousand words
LARGEST = 1 << 53  # number that is exact as a real one

_aten = torch.ops.aten
_EQUALITIES = (_aten.eq, _aten.ne, _aten.isin)
_ORDERS = (_aten.lt, _aten.le, _aten.gt, _aten.ge)
_LOSSES_OF_CLASSES = (_aten.nll_loss_forward, _aten.nll_loss2d_forward)


class Comparisons(TorchDispatchMode):
    """Notes them while a module runs on the batch, or on parts of it."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch
        self.of_tensors = [{} for _ in batch]  # number → whether it alone is told from the others
        self.of_others = {}  # the same, of whole numbers that are made of those of the batch
        self.of_real_others = {}  # numbers with which real ones are compared that are made so

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        compared, numbers = _told_apart(function.overloadpacket, args)
        if numbers and compared.dtype != torch.bool:
            self._note(compared, numbers)
        return function(*args, **(kwargs or {}))

    def of(self, place):
        """Those that a tensor of the batch is compared with, or that what is made of it may be."""
        if self.batch[place].dtype.is_floating_point:
            own = self.of_tensors[place]
            numbers = {**dict.fromkeys([*own, *self.of_real_others], False), **own}
        else:
            numbers = {int(number): alone for number, alone in {**self.of_tensors[place], **self.of_others}.items() if number == int(number)}
        return dict(islice(numbers.items(), MOST))

    def _note(self, compared, numbers):
        own = [found for tensor, found in zip(self.batch, self.of_tensors) if _has_all(tensor, compared)]
        if not own and compared.dtype.is_floating_point:
            self.of_real_others |= dict.fromkeys(numbers, False)
            return
        for found in own or [self.of_others]:
            for number, alone in numbers.items():
                found[number] = found.get(number, False) or alone


def _has_all(tensor, numbers):
    if tensor.dtype == torch.bool or not 0 < numbers.numel() <= tensor.numel():
        return False
    return bool(torch.isin(numbers, tensor.to(numbers.dtype)).all())


def _told_apart(operator, args):
    """A tensor of whose numbers an operator tells some from the others, and which, each with whether it alone is."""
    if operator in _EQUALITIES or operator in _ORDERS:
        compared, others = args[:2]
        if not isinstance(compared, torch.Tensor) or (compared.numel() == 1 and isinstance(others, torch.Tensor)):
            compared, others = others, compared
        numbers = _few_numbers(others, MOST if operator is _aten.isin else 1)
        if operator in _EQUALITIES:
            return compared, dict.fromkeys(numbers, True)
        return compared, {about: False for number in numbers for about in (number, math.ceil(number) - 1, math.floor(number) + 1)}
    if operator in _LOSSES_OF_CLASSES:
        _, targets, weights, _, ignored = args
        return targets, dict.fromkeys((ignored, *_classes_apart(weights)), True)
    if operator is _aten.index and len(args[1]) == 1 and not args[1][0].dtype.is_floating_point:
        return args[1][0], dict.fromkeys(_classes_apart(args[0]), True)
    return None, {}


def _few_numbers(numbers, most):
    """Those of a number, or of a tensor of a few."""
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.flatten().tolist() if numbers.numel() <= most else []
    else:
        numbers = [numbers]
    return [number for number in numbers if abs(number) < LARGEST]


def _classes_apart(weights):
    """Those of the least and of the largest weight, of [classes], if they are not the same for all."""
    if weights is None or weights.dim() != 1 or len(weights) == 0 or weights.min() == weights.max():
        return []
    return [int(weights.argmin()), int(weights.argmax())]
