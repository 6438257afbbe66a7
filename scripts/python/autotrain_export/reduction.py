"""What the loss of a batch is of the losses of its samples, for modules that compute it themselves, and whether samples are predicted each
by itself.

An update that is cut into micro-batches adds up their losses. That is the loss of the whole only if each batch weighs as much as it has
samples: if the loss is the mean over samples, or their sum. A mean over what counts of them, such as targets that are not ignored, is
neither."""

import math
from itertools import count, islice

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .again import parameters_again
from .checking import copies, far, other_last_bits, scale_of, with_other_bits
from .comparisons import Comparisons
from .errors import ExportError
from .machine import of_machine
from .places import forward_of

PARTS = (2, 5)  # of different size
TOLERANCE = 1e-4  # of the loss: float32 adds up in another order
DEFAULT = -100  # of what PyTorch's losses ignore: it says nothing of a module
IGNORED = (DEFAULT, -1)  # targets of these values count for nothing by custom
SCALES = (10, 100, 1000, 0.1, 0.01)  # of what is drawn, where its losses are 0
FACTORS = (10, 0.1, None, None)  # of weights; None: another one for each tensor, up to SPREAD and down to 1 / SPREAD
MORE_FACTORS = (3, 30, 0.3, None, None, None, None)  # for modules of up to SMALL numbers that learn
SMALL = 1 << 22
SPREAD = 10
MARGIN = 100  # times what rounding does to losses says nothing


def reduction_of(subject, examples):
    """"mean" or "sum", and those targets that count for nothing by custom and must not occur, since the loss is neither with them. Raises
    ExportError where it is neither without them, or where the losses do not tell."""
    possible, unusable = _left_of({"mean", "sum"}, _cases(subject, examples), subject)
    possible, _ = _left_of(possible, _cases_of_other_weights(subject, examples, unusable), subject)
    if len(possible) > 1:  # a tolerance may be larger, or smaller, than what is drawn
        possible, _ = _left_of(possible, _scaled_cases(subject, examples), subject)
    if len(possible) > 1:
        place = forward_of(subject.original, ".")
        raise ExportError(
            "the loss of random samples is 0, or no number, which does not tell the mean over samples from their sum, and so it is where their numbers are "
            f"{', '.join(f'{scale:g}' for scale in SCALES)} times as large" + (f":\n  {place}\n" if place else ".\n") +
            "Inputs and targets are drawn about 0, as large as 1. Export the module with such a tolerance, or with such weights, that some of them have "
            "a loss; or leave the loss to the recipe."
        )
    return possible.pop(), unusable


def _left_of(possible, cases, subject):
    """Which of the reductions the losses of cases leave possible, and the targets with which it is neither. Losses of 0 leave both."""
    unusable = []
    for losses, what, ignored in cases:
        left = possible & _reductions(*losses)
        if left or ignored is None:
            possible = left
        else:
            unusable = [*dict.fromkeys((*unusable, ignored))]
        if not possible:
            place = forward_of(subject.original, ".")
            raise ExportError(
                f"the loss of a batch of {sum(PARTS)} samples is neither their mean nor their sum: it is {losses[0]:.6g}, and those of its parts of "
                f"{PARTS[0]} and {PARTS[1]} are {losses[1]:.6g} and {losses[2]:.6g} ({what})"
                + (f":\n  {place}\n" if place else ".\n") +
                "Cut into micro-batches, such a batch would learn something else. Return the mean over the samples, or their sum; a mean over what is not "
                "ignored or masked, or above a threshold, or by class weights, weighs batches by that, and a loss that compares samples with each other, as those of contrast do, is "
                "of a whole batch. Or leave the loss to the recipe, which knows these weights: loss: {name: cross_entropy}."
            )
    return possible, unusable


def _losses_or_none(subject, batch, may_fail, training, parameters=None):
    """None where the module does not know such numbers, or its loss of them is no number."""
    try:
        losses = _losses(subject, batch, training, parameters or subject.parameters)
    except Exception as error:
        if may_fail and not of_machine(error):
            return None
        raise
    return losses if all(math.isfinite(loss) for loss in losses) else None


def _cases(subject, examples):
    """Losses of a batch and its parts, what is special about it, and the number that it has more of among its targets, if a run may end where
    it meets that, or None."""
    batch = examples.batch(sum(PARTS), seed=11)
    with Comparisons(batch) as comparisons:
        cases = [*_of_batch(subject, batch, "random samples", may_fail=False)]
    yield from cases
    for special, what, ignored, by_custom in _special_batches(examples, batch, comparisons):
        yield from _of_batch(subject, special, what, ignored, only_evaluated=by_custom)
    yield from _of_batch(subject, _with_more_zeros(batch), "with more of 0 everywhere")
    yield from _of_batch(subject, _with_few_numbers(batch, examples, comparisons), "samples that have numbers in common")


def _of_batch(subject, batch, what, ignored=None, may_fail=True, only_evaluated=False):
    """Cases of a batch in both modes, or in training mode if its loss in evaluation mode is no number."""
    losses = _losses_or_none(subject, batch, may_fail, training=False)
    if losses is not None:
        yield losses, what, ignored
    if _trains_alike(subject) and not (only_evaluated and losses is not None):
        losses = _losses_or_none(subject, batch, True, training=True)
        if losses is not None:
            yield losses, f"{what}, in training mode", ignored


def _scaled_cases(subject, examples):
    """As `_cases`, of larger and smaller numbers, as far as the module takes them."""
    for scale in SCALES:
        batch = tuple(tensor * scale if tensor.dtype.is_floating_point else tensor for tensor in examples.batch(sum(PARTS), seed=11))
        yield from _of_batch(subject, batch, f"random samples, {scale:g} times as large")


def _random_batch(examples, number, unusable):
    """One of several, whose targets have none of the unusable."""
    batch = examples.batch(sum(PARTS), seed=11 + number)
    if any(bool((batch[-1] == value).any()) for value in unusable):
        return examples.batch(sum(PARTS), seed=11)  # whose loss was the mean, or the sum
    return batch


def _cases_of_other_weights(subject, examples, unusable):
    """Cases of random samples by other weights, since what is left out by the values of losses may leave out nothing at first, as each sample is
    a hard one of a module that has learned nothing. Where they tell otherwise, and rounding alone makes losses as different, they tell nothing."""
    learning = sum(subject.parameters[name].numel() for name in subject.learning)
    for number, factor in enumerate((*FACTORS, *(MORE_FACTORS if learning <= SMALL else ()))):
        batch = _random_batch(examples, number, unusable)
        weights = _other_weights(subject, factor, torch.Generator().manual_seed(number))
        for training in (False, True) if _trains_alike(subject) else (False,):
            losses = _losses_or_none(subject, batch, True, training, weights)
            if losses is None or (not _reductions(*losses) and _is_rounding(subject, batch, training, weights, losses)):
                continue
            yield losses, f"random samples, from other weights{', in training mode' if training else ''}", None
        del weights


def _other_weights(subject, factor, generator):
    """Copies of the parameters, of which those that learn are `factor` times as large."""
    parameters = parameters_again(subject)
    with torch.no_grad():
        for name in subject.learning:
            parameters[name].mul_(factor or SPREAD ** (2 * torch.rand((), generator=generator).item() - 1))
    return parameters


def _is_rounding(subject, batch, training, parameters, losses):
    """Whether losses are as far from each reduction as the last bits of weights and inputs take them."""
    with other_last_bits(parameters.values()):
        others = _losses_or_none(subject, tuple(map(with_other_bits, batch)), True, training, parameters)
    if others is None:
        return True
    a, b = PARTS
    whole, first, second = losses
    off = min(abs(whole - (a * first + b * second) / (a + b)), abs(whole - (first + second)))
    return off <= MARGIN * max(abs(one - other) for one, other in zip(losses, others))


def _trains_alike(subject):
    """Whether losses in training mode are of single samples, and not by statistics of a micro-batch."""
    return not any("running_" in name for name in subject.buffers)


def _special_batches(examples, batch, comparisons):
    """The first sample has more of a number that may be left out than the others: what is special, its targets' number if a run may end where
    it meets that, and whether it is by custom that such a number is left out."""
    for place, example in enumerate(examples.all):
        is_targets = place == len(examples.inputs)
        what = "the targets" if is_targets else f"input {place + 1}"
        compared = comparisons.of(place)
        for number, may_end in _numbers_left_out(example, is_targets, examples.device, compared).items():
            yield _with_number(batch, place, number), f"with more of {number:g} among {what}", int(number) if may_end else None, number not in compared


def _numbers_left_out(example, is_targets, device, compared):
    """Those that a loss may leave out, and whether a run may end where it meets one: where the example says that there are none, and the
    others that are left out are known."""
    if example.dtype == torch.bool:
        return {0: False, 1: False}
    real = example.dtype.is_floating_point
    numbers = {0: False} if real else {0: False, example.below - 1: False}
    if is_targets and not real and device == "cpu":  # kernels of a GPU that meet no class end all that follows
        numbers |= dict.fromkeys(IGNORED, True)
    for number, alone in compared.items():
        if is_targets or real or 0 <= number < example.below or (number != DEFAULT and device == "cpu"):
            numbers.setdefault(number, is_targets and (not real or (alone and number == int(number))))
    return numbers


def _with_number(batch, place, number):
    """Half of the numbers of the first sample, or its only one, are this one."""
    changed = batch[place].clone()
    flat = changed[0].view(-1)
    flat[: max(1, flat.numel() // 2)] = number
    return (*batch[:place], changed, *batch[place + 1 :])


def _with_more_zeros(batch):
    for place in range(len(batch)):
        batch = _with_number(batch, place, 0)
    return batch


def _with_few_numbers(batch, examples, comparisons):
    """Whole numbers, and targets, are drawn from two that are not compared with others."""
    generator = torch.Generator().manual_seed(12)
    batch = [*batch]
    for place, example in enumerate(examples.all):
        real = example.dtype.is_floating_point
        if example.dtype == torch.bool or (real and place < len(examples.inputs)):
            continue
        two = [*islice((number for number in (count() if real else range(example.below)) if number not in comparisons.of(place)), 2)]
        if len(two) == 2:
            drawn = torch.randint(2, batch[place].shape, generator=generator)
            batch[place] = torch.tensor(two, dtype=example.dtype)[drawn].to(examples.device)
    return tuple(batch)


def _generators():
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]


class _StandStill(TorchDispatchMode):
    """Random numbers are one number each, since those of a batch and of its parts would be others. Operators that could draw some, as attention
    could drop some of its weights, and draw none are left alone."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        may_draw = torch.Tag.nondeterministic_seeded in function.tags
        before = _generators() if may_draw else []
        result = function(*args, **(kwargs or {}))
        if all(map(torch.equal, before, _generators() if may_draw else [])):
            return result
        if function.name().startswith("aten::randperm"):
            return result.copy_(torch.arange(len(result)))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                tensor.fill_(0.5 if tensor.dtype.is_floating_point else 1)
        return result


def _losses(subject, batch, training, parameters):
    """Of the batch, and of its parts."""

    def loss(first, end):
        tensors = {**parameters, **copies(subject.buffers)}
        with torch.no_grad(), _StandStill():
            return subject.run(tensors, [tensor[first:end].clone() for tensor in batch], training)[0].item()

    return loss(0, sum(PARTS)), loss(0, PARTS[0]), loss(PARTS[0], sum(PARTS))


def depends_on_others(subject, examples, both):
    """Whether a sample is predicted otherwise beside another one than alone, in evaluation mode and with every random number the same.

    both  the prediction of the first two samples"""

    def predicted(batch):
        with torch.no_grad(), _StandStill():
            return subject.run({**subject.parameters, **copies(subject.buffers)}, [tensor.clone() for tensor in batch], training=False)[0]

    batch = examples.batch(2)

    def is_other(both):
        each = torch.cat([predicted([tensor[place : place + 1] for tensor in batch]) for place in range(2)])
        return both.shape == each.shape and far(both, each, scale_of(both, each)) > 10 * TOLERANCE

    try:
        return is_other(both) and is_other(predicted(batch))  # the first may have drawn random numbers
    except Exception as error:  # a batch of one may be refused, and one result for all is: the check and the tracer tell
        if of_machine(error):
            raise
        return False


def _reductions(whole, first, second):
    a, b = PARTS
    scale = TOLERANCE * (abs(whole) + abs(first) + abs(second))
    found = set()
    if abs(whole - (a * first + b * second) / (a + b)) <= scale:
        found.add("mean")
    if abs(whole - (first + second)) <= scale:
        found.add("sum")
    return found
