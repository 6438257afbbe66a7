"""Functions of PyTorch that are traced for one size of the batch only, that look at values, or that forget in a graph to look at them, by
others that compute the same."""

import math
from functools import reduce

import torch
from torch.overrides import TorchFunctionMode

from .half import HALF


def take_along_dim(input, indices, dim=None):
    if dim is None or input.dim() != indices.dim():
        return torch.take_along_dim(input, indices, dim)
    dim %= input.dim()
    sizes = [b if isinstance(a, int) and a == 1 else a for a, b in zip(input.shape, indices.shape)]
    inputs, places = ([*sizes[:dim], tensor.shape[dim], *sizes[dim + 1 :]] for tensor in (input, indices))
    return input.expand(inputs).gather(dim, indices.expand(places))


def multi_dot(tensors):
    return reduce(torch.matmul, tensors)


def chain_matmul(*matrices):
    return multi_dot(matrices)


def kron(input, other):
    axes = max(input.dim(), other.dim())
    shapes = [(1,) * (axes - tensor.dim()) + tuple(tensor.shape) for tensor in (input, other)]
    pairs = [*zip(*shapes)]
    apart = [tensor.reshape([size for pair in pairs for size in ((1, pair[1]) if is_other else (pair[0], 1))]) for is_other, tensor in ((False, input), (True, other))]
    return (apart[0] * apart[1]).reshape([one * other for one, other in pairs])


def gradient(input, *, spacing=1, dim=None, edge_order=1):
    if not isinstance(dim, int) or not isinstance(spacing, (int, float)):
        return torch.gradient(input, spacing=spacing, dim=dim, edge_order=edge_order)

    def part(first, length=1):
        return input.narrow(dim, first % input.shape[dim], length)

    inner = (part(2, input.shape[dim] - 2) - part(0, input.shape[dim] - 2)) / 2
    if edge_order == 1:
        ends = part(1) - part(0), part(-1) - part(-2)
    else:
        ends = (-3 * part(0) + 4 * part(1) - part(2)) / 2, (3 * part(-1) - 4 * part(-2) + part(-3)) / 2
    return (torch.cat([ends[0], inner, ends[1]], dim) / spacing,)


def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Of numbers, of which no one is NaN."""
    if dim is None or interpolation != "linear":
        return torch.quantile(input, q, dim, keepdim, interpolation=interpolation)
    several = isinstance(q, torch.Tensor) and q.dim() > 0
    ordered = input.movedim(dim, -1).sort(-1).values
    last = input.shape[dim] - 1
    if isinstance(q, torch.Tensor):
        rank = q.reshape(-1) * last
        lower = rank.floor()
        low, high = (ordered.index_select(-1, places.long()) for places in (lower, rank.ceil()))
    else:
        rank = q * last
        lower = math.floor(rank)
        low, high = (ordered.narrow(-1, place, 1) for place in (lower, math.ceil(rank)))
    found = low + (high - low) * (rank - lower)
    if several:
        found = found.movedim(-1, 0)
        return found.unsqueeze(dim % input.dim() + 1) if keepdim else found
    return found.movedim(-1, dim) if keepdim else found.squeeze(-1)


def sgn(input):
    return torch.sgn(input) if input.is_complex() else input.sign()


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Whatever the variances are, of which PyTorch refuses those below 0."""
    if not isinstance(var, torch.Tensor):
        return torch.nn.functional.gaussian_nll_loss(input, target, var, full, eps, reduction)
    var = (var.unsqueeze(-1) if var.shape == input.shape[:-1] else var).clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"none": torch.Tensor.clone, "mean": torch.mean, "sum": torch.sum}[reduction](loss)


def _single(tensor):
    """As autocast gives a tensor to a loss: in float32 where it is in half precision."""
    is_half = tensor is not None and tensor.dtype in HALF
    return tensor.float() if is_half and torch.is_autocast_enabled(tensor.device.type) else tensor


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    """Of probabilities by the operators that PyTorch computes it by, which divides the sum by a plain number of samples."""
    if not target.is_floating_point() or input.dim() < 2 or size_average is not None or reduce is not None:
        return torch.nn.functional.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    input, target, weight = map(_single, (input, target, weight))
    classes = input.shape[1]
    logarithms = input.log_softmax(1)
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    losses = logarithms * target
    if weight is not None:
        losses = losses * weight.view(1, classes, *[1] * (input.dim() - 2))
    if reduction == "none":
        return -losses.sum(1)
    return -losses.sum() if reduction == "sum" else -losses.sum() / (input.numel() // classes)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Of classes up to the first -1, behind which PyTorch's own version for traces takes each for class 0.

    input  [n, classes]; target  [n, classes], whole numbers"""
    if input.dim() != 2 or size_average is not None or reduce is not None:
        return torch.nn.functional.multilabel_margin_loss(input, target, size_average, reduce, reduction)
    input = _single(input)
    counts = (target == -1).cumsum(1) == 0
    places = target.where(counts, 0)
    one_of_them = torch.zeros_like(places).scatter_add(1, places, counts.long()) > 0
    margins = (1 - input.gather(1, places).unsqueeze(2) + input.unsqueeze(1)).relu()  # [n, target, class]
    losses = margins.where(counts.unsqueeze(2) & ~one_of_them.unsqueeze(1), 0).sum((1, 2)) / input.shape[1]
    return {"none": torch.Tensor.clone, "mean": torch.mean, "sum": torch.sum}[reduction](losses)


def one_hot(input, num_classes=-1):
    """Of classes, each of which there is: in a graph, PyTorch's own makes zeros of another without a word."""
    if num_classes == -1 or input.dtype != torch.int64:
        return torch.nn.functional.one_hot(input, num_classes)
    classes = torch.zeros((*input.shape, num_classes), dtype=torch.int64, device=input.device)
    return classes.scatter(-1, input.unsqueeze(-1), 1)


_INSTEAD = {
    **{of: function for function in (take_along_dim, quantile, sgn, kron) for of in (getattr(torch, function.__name__), getattr(torch.Tensor, function.__name__))},
    torch.gradient: gradient,
    torch.chain_matmul: chain_matmul,
    torch.linalg.multi_dot: multi_dot,
    torch.nn.functional.cross_entropy: cross_entropy,
    torch.nn.functional.gaussian_nll_loss: gaussian_nll_loss,
    torch.nn.functional.multilabel_margin_loss: multilabel_margin_loss,
    torch.nn.functional.one_hot: one_hot,
}


class Decomposed(TorchFunctionMode):
    """Calls them by whatever name a module has them."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return _INSTEAD.get(function, function)(*args, **(kwargs or {}))
