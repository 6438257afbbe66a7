"""Modules with habits that a graph has to follow, or has to refuse by name."""

import errno
import itertools
import math
import random
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from types import SimpleNamespace

import numpy
import torch
from torch import nn
from torch.nn import functional as F

CALLS = 0


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(8, 8), nn.Linear(8, 5)

    def body(self, x):
        return self.out(torch.tanh(self.first(x)))


class WritesToItsImages(nn.Module):
    """In place, and so that most batches stay as they are."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3 * 12 * 12, 5)

    def forward(self, images):
        rows = images.view(images.shape[0], -1)
        rows[:, :9] *= 0.5
        images.clamp_(-50, 50)
        return self.out(images.flatten(1))


class WritesToItsTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(24, 8, padding_idx=0), nn.Linear(8, 24)

    def forward(self, tokens):
        tokens[tokens == -1] = 0
        return self.out(self.words(tokens))


class ByName(Base):
    def forward(self, x, /, scale=1, *, mask):
        return self.body(x * mask) * scale


@dataclass
class Heads:
    hidden: torch.Tensor
    named: dict


class NestedOutput(Base):
    def forward(self, x):
        return Heads(x, {"logits": (self.body(x), x)})


class EmptyParameters(Base):
    def __init__(self):
        super().__init__()
        self.less, self.least = nn.Parameter(torch.zeros(0)), nn.Parameter(torch.zeros(0, 3))

    def forward(self, x):
        return self.body(x) + self.less.sum() + self.least.sum()


class LiesOtherwise(nn.Module):
    """A weight whose memory is in another order than its axes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3 * 12 * 12, 5).t())

    def forward(self, images):
        return images.flatten(1) @ self.weight.t().reshape(-1).view(-1, 5)


@lru_cache(maxsize=None)
def table_of(size, dtype, training):
    return torch.linspace(0, 1, size).to(dtype)


class CachesTables(Base):
    """A table for each type and mode, which is made when it is first asked for and then kept by a function."""

    def forward(self, x):
        hidden = self.first(x)
        return self.out(hidden * table_of(8, hidden.dtype, self.training))


class SaysWhatItDoes(Base):
    def forward(self, x):
        self.said = f"{x.mean():.3f} of {x.shape[0]:d}, at most {x.max().item():.2f}"
        return self.body(x)


class CountsForALog(Base):
    def __init__(self):
        super().__init__()
        self.calls, self.seen = 0, []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[1])
        return self.body(x)


class Frozen(OrderedDict):
    """Settings that refuse to be changed in their usual ways, as libraries keep theirs."""

    def update(self, *_, **__):
        raise TypeError("settings stay as they were made")

    def copy(self):
        raise TypeError("settings are not copied")


class KeepsFrozenSettings(Base):
    """One of which is changed by force."""

    def __init__(self):
        super().__init__()
        self.settings, self.counted, self.seen = Frozen([("width", 8), ("depth", 2)]), Frozen([("calls", 0)]), []

    def forward(self, x):
        OrderedDict.__setitem__(self.counted, "calls", self.counted["calls"] + 1)
        self.seen.append(x.shape[1])
        return self.body(x)


class FillsATableLate(Base):
    """In a buffer that its state_dict lacks and in an attribute, when it is first run."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(8), persistent=False)
        self.shifts, self.filled = torch.zeros(8), False

    def forward(self, x):
        if not self.filled:
            self.table.copy_(torch.linspace(0, 1, 8))
            self.shifts.fill_(0.5)
            self.filled = True
        return self.body(x * self.table + self.shifts)


class AveragesBesideItsState(Base):
    """In what a graph does not see: a buffer that its state_dict lacks, an attribute, a list and another view of one memory."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8), persistent=False)
        self.average, self.book = torch.ones(8), [torch.eye(8)]
        self.rows = self.book[0][2:4]

    def forward(self, x):
        if self.training:
            for kept in (self.mean, self.average, *self.book):
                kept.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.body(x - self.mean)


class MeetsALimit(Base):
    """Of the machine, in a forward pass of some number."""

    def __init__(self, error, passes):
        super().__init__()
        self.error, self.passes, self.turns = error, passes, iter(range(1, 1000))

    def __deepcopy__(self, _):
        return self

    def forward(self, x):
        if next(self.turns) >= self.passes:
            raise self.error
        return self.body(x)


class NeverLeavesOut(Base):
    """By a number of Python's and one of NumPy's, with no chance to."""

    def forward(self, x):
        leaves_out = self.training and random.uniform(0, 1) < 0 or numpy.random.rand() >= 1
        return self.out(x) if leaves_out else self.body(x)


class Kind(IntEnum):
    FIRST, SECOND = 0, 1


class KeepsKindsAndTensors(Base):
    """What says how it computes and how far it is, none of which is a number of calls; and fails after
    many calls."""

    def __init__(self):
        super().__init__()
        self.kind, self.ready, self.layers, self.last = Kind.FIRST, False, 0, []

    def forward(self, x):
        self.kind, self.ready = Kind.SECOND, True
        self.last = [*self.last[:1], x.detach()]
        self.layers += 1
        return ([self.body] if self.layers < 9000 else [])[0](x)


def no_memory():
    return MeetsALimit(torch.OutOfMemoryError("no memory"), 2)


def no_space():
    return MeetsALimit(OSError(errno.ENOSPC, "no space"), 2)


class LiesInOneMemory(Base):
    """Weights beside each other, as cuDNN lays out those of recurrent layers."""

    def __init__(self):
        super().__init__()
        memory = torch.cat([parameter.detach().flatten() for parameter in self.parameters()])
        for parameter, part in zip(self.parameters(), memory.split([parameter.numel() for parameter in self.parameters()])):
            parameter.data = part.view(parameter.shape)

    def forward(self, x):
        return self.body(x)


class KeepsALoss(Base):
    def forward(self, x):
        self.beside = self.first(x).square().mean()
        return self.body(x)


class KeepsALossAndAView(KeepsALoss):
    def __init__(self):
        super().__init__()
        self.half = self.first.weight[:5]

    def forward(self, x):
        return super().forward(x) + x @ self.half.t()


class ReturnsALossBeside(Base):
    def forward(self, x):
        return {"logits": self.body(x), "beside": self.first.weight.square().mean()}


class ReturnsItsTemperature(Base):
    """Beside its logits, as models of contrast do, and keeps it."""

    def __init__(self):
        super().__init__()
        self.logarithm = nn.Parameter(torch.ones(()))

    def forward(self, x):
        self.temperature = self.logarithm.exp()
        return {"logits": self.temperature * self.body(x), "temperature": self.temperature, "logarithm": self.logarithm}


class KeepsLayersInAList(Base):
    def __init__(self):
        super().__init__()
        self.more = [nn.Linear(8, 8)]

    def forward(self, x):
        return self.body(self.more[0](x))


class Counts(Base):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return self.body(x) if self.calls < 5000 else -self.body(x)


class CountsForAll(Base):
    def forward(self, x):
        global CALLS
        CALLS += 1
        return self.body(x) if CALLS % 1000 else -self.body(x)


class CountsInAList(CountsForALog):
    def forward(self, x):
        self.seen.append(0)
        return self.body(x) if len(self.seen) < 5000 else -self.body(x)


class SeldomLeavesOut(Base):
    def forward(self, x):
        return self.out(x) if self.training and random.random() < 0.001 else self.body(x)


class SeldomKeeps(Base):
    def forward(self, x):
        return self.body(x) if random.random() < 0.999 else self.out(x)


class SeldomLeavesOutByNumPy(Base):
    def forward(self, x):
        return self.out(x) if self.training and numpy.random.rand() < 0.001 else self.body(x)


class SetsASeed(Base):
    def forward(self, x):
        torch.manual_seed(3)
        return self.body(x) + torch.randn(5)


class ByItsOwnGenerator(Base):
    def forward(self, x):
        return self.body(x) + torch.randn(5, generator=torch.Generator().manual_seed(3))


class OtherForOneSize(Base):
    def forward(self, x):
        return -self.body(x) if x.shape[0] == 32 else self.body(x)


class OtherBetween(Base):
    def forward(self, x):
        return -self.body(x) if 10 < x.shape[0] < 50 else self.body(x)


class CountsInBits(Base):
    def forward(self, x):
        return self.body(x) * (1 + (x.shape[0] & 5))


class Series(nn.Module):
    """Batch normalisation of what lies transposed."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.out = nn.Linear(1, 8), nn.BatchNorm1d(8), nn.Linear(8, 5)

    def forward(self, x):
        channels = self.first(x.unsqueeze(2)).transpose(1, 2)
        return self.out(self.norm(channels).transpose(1, 2)).mean(1)


class LoopsOverSamples(Base):
    def forward(self, x):
        return torch.stack([self.body(x[place]) for place in range(x.shape[0])])


class SamplesSecond(Base):
    def forward(self, x):
        return self.body(x).transpose(0, 1)


class HookAfterAccumulation(Base):
    def __init__(self):
        super().__init__()
        self.first.weight.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.zero_())

    def forward(self, x):
        return self.body(x)


class FrozenShares(Base):
    def __init__(self):
        super().__init__()
        self.before = nn.Parameter(self.first.weight.data, requires_grad=False)

    def forward(self, x):
        return self.body(x) + (x @ self.before)[:, :5]


class BufferShares(FrozenShares):
    def __init__(self):
        super().__init__()
        del self.before
        self.register_buffer("before", self.first.weight.data)


class WritesToAnAttribute(Base):
    def __init__(self):
        super().__init__()
        self.steps = torch.zeros(2)

    def forward(self, x):
        self.steps[0] += 1
        return self.body(x) + 0 * self.steps.sum()


class KeepsStatisticsLate(Base):
    def forward(self, x):
        if not hasattr(self, "mean"):
            self.register_buffer("mean", torch.zeros(8))
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.body(x - self.mean)


class ParameterLate(Base):
    def forward(self, x):
        if not hasattr(self, "shift"):
            self.shift = nn.Parameter(torch.zeros(8))
        return self.body(x + self.shift)


class FreezesLate(Base):
    def forward(self, x):
        self.first.requires_grad_(False)
        return self.body(x)


class WritesToAWeight(Base):
    def forward(self, x):
        self.first.weight.data.clamp_(-0.1, 0.1)
        return self.body(x)


class PrunesLate(Counts):
    def forward(self, x):
        self.calls += 1
        if self.calls > 5000:
            self.first.weight.data.zero_()
        return self.body(x)


class PrunesSeldom(Base):
    def forward(self, x):
        if random.random() < 0.001:
            self.first.weight.data.zero_()
        return self.body(x)


class LearnsNothing(Base):
    @torch.no_grad()
    def forward(self, x):
        return self.body(x)


class GoesBackItself(Base):
    def forward(self, x):
        if self.training:
            self.body(x).sum().backward()
        return self.body(x)


class TiesLate(Base):
    def __init__(self):
        super().__init__()
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        self.second.weight = self.first.weight
        return self.body(self.second(x))


class TiesAgain(Base):
    def __init__(self):
        super().__init__()
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x):
        self.second.weight = self.first.weight
        return self.body(self.second(x))


class Chooses(Base):
    def forward(self, x):
        return torch.cond(x.sum() > 0, self.body, lambda x: -self.body(x), (x,))


def on_meta():
    with torch.device("meta"):
        return nn.Linear(8, 5)


def lazily():
    return nn.Sequential(nn.LazyLinear(5))


class MaskedWhileItTrains(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 8)

    def forward(self, values, mask):
        errors = (self.out(values) - values).square()
        return (errors * mask).sum() / mask.sum() if self.training else errors.mean()


class IgnoresWhileItTrains(nn.Module):
    """Targets of -1, of which evaluation makes no number."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, values, classes):
        return F.cross_entropy(self.out(values), classes, ignore_index=-1 if self.training else -100)


class Computes(Base):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.out(self.function(torch.tanh(self.first(x))))


class ComputesALoss(nn.Module):
    """Of means and variances, of two columns each."""

    def __init__(self, function):
        super().__init__()
        self.out, self.function = nn.Linear(8, 4), function

    def forward(self, values, targets):
        means, scales = self.out(values).chunk(2, 1)
        return self.function(means, scales, targets)


class ReconstructsItsInputs(Base):
    """As PyTorch's example of a variational autoencoder."""

    def __init__(self):
        super().__init__()
        self.back = nn.Linear(5, 8)

    def forward(self, x):
        return F.binary_cross_entropy(self.back(self.body(x)).sigmoid(), x, reduction="sum")


class ChecksItsTargets(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, values, classes):
        assert (classes >= 0).all(), "negative classes"
        return F.cross_entropy(self.out(values), classes)


class JoinsWithinVmap(Base):
    def one(self, x):
        return torch.cat([x[1:], torch.zeros(1)])

    def forward(self, x):
        return self.body(torch.vmap(self.one)(x))


class LearnsThroughAStep(Base):
    def forward(self, x):
        return self.out(torch.heaviside(self.first(x), torch.ones(())))


class TakesLeastSquares(Base):
    def forward(self, x):
        return self.body(x) + torch.linalg.lstsq(self.first(x).unflatten(1, (4, 2)), x[:, :4, None]).solution.sum((1, 2))[:, None]


class TakesHessians(Base):
    def forward(self, x):
        return self.body(torch.vmap(torch.func.hessian(lambda x: self.body(x).sum()))(x).sum(1))


class TakesItsLength(Base):
    def forward(self, x):
        return sum(self.body(x) + x.new_zeros(len(x), 1) for _ in range(2))


class LeavesOutTargets(nn.Module):
    """The mean over those that `kept` leaves, of classes or of numbers."""

    def __init__(self, kept, outputs=300):
        super().__init__()
        self.out, self.kept = nn.Linear(8, outputs), kept

    def forward(self, values, targets):
        outputs = self.out(values)
        if targets.is_floating_point():
            losses = (outputs - targets).square()
        else:
            losses = F.cross_entropy(outputs, torch.where(self.kept(targets), targets, 0), reduction="none")
        kept = self.kept(targets).to(losses.dtype)
        return (losses * kept).sum() / kept.sum()


class IgnoresAClass(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.out, self.options = nn.Linear(8, 300), options

    def forward(self, values, classes):
        return F.cross_entropy(self.out(values), classes, **self.options)


class LeavesOutPadding(Base):
    """Frames of zeros."""

    def forward(self, frames):
        kept = (frames.abs().sum(2) > 0).float()
        return (self.body(frames).square().mean(2) * kept).sum() / kept.sum()


class PredictsTokensButOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(300, 8), nn.Linear(8, 300)

    def forward(self, tokens):
        return F.cross_entropy(self.out(self.words(tokens[:, :-1])).flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=7)


class ContrastsEqualOnes(nn.Module):
    """Samples of one label, of a thousand or more, are to be alike."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, values, labels):
        outputs = self.out(values)
        far = (outputs[:, None] - outputs).square().sum(2)
        return (far * (labels[:, None] == labels)).sum() + outputs.square().sum()


class AttendsToOtherSamples(Base):
    """Takes its samples for the steps of a sequence, as attention does that has batch_first=False."""

    def forward(self, x):
        rows = self.first(x)[None, None]
        return self.out(F.scaled_dot_product_attention(rows, 3 * rows, rows)[0, 0])


class TakesAPair(Base):
    def forward(self, pair):
        return self.body(pair[0]) + F.relu(self.first(pair[1]))[:, :5]


class OtherForOneLargeSize(Base):
    def forward(self, x):
        return -self.body(x) if x.shape[0] == 300 else self.body(x)


class OtherForMultiples(Base):
    def forward(self, x):
        return -self.body(x) if x.shape[0] % 512 == 0 else self.body(x)


class DividesItsSize(Base):
    def forward(self, x):
        windows = x.reshape(-1, 4)
        samples = int(windows.shape[0] / (8 / 4))
        return self.body(windows.view(samples, 8))


class ClipsOnTheWayBack(Base):
    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: gradient.clamp(-4, 4))
        return self.out(hidden)


class OfLengthOne(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient / (gradient.norm() + 1e-8)


class NormalisesOnTheWayBack(Base):
    def forward(self, x):
        return self.out(OfLengthOne.apply(self.first(x)))


class ReversesOnTheWayBack(Base):
    """As adversaries of domains do it: in proportion."""

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: -0.5 * gradient)
        return self.out(hidden)


class SqueezesAll(nn.Module):
    """An axis of one number goes, and with a batch of one sample that of the batch."""

    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

    def forward(self, x):
        return self.out(F.adaptive_avg_pool2d(self.body(x), 1).squeeze())


class NamedAsTheFileDoes(Base):
    def __init__(self, name="constant 0"):
        super().__init__()
        self.name = name
        self.register_parameter(name, nn.Parameter(torch.ones(5)))

    def forward(self, x):
        return self.body(x) + self._parameters[self.name] * torch.tensor([1.0, 2, 3, 4, 5])


class AddsToItsChoice(nn.Module):
    """Neighbours of points, counted through the batch by an offset that is added in place, through a view."""

    def __init__(self):
        super().__init__()
        self.features, self.out = nn.Linear(2, 8), nn.Linear(8, 5)

    def forward(self, x):
        n, points = x.shape[:2]
        nearest = torch.cdist(x, x).topk(8, -1, largest=False)[1]
        flat = nearest.view(n, -1)
        flat += torch.arange(n).view(-1, 1) * points
        return self.out(self.features(x).reshape(n * points, -1)[nearest].amax(2)).mean(1)


class SharesGradients(Base):
    """One gradient of two parameters, and one number for all of another's."""

    def __init__(self):
        super().__init__()
        self.one, self.other, self.summed = (nn.Parameter(torch.zeros(size)) for size in (5, 5, (3, 5)))

    def forward(self, x):
        return self.body(x) + (self.one + self.other) + self.summed.sum(0)


class AddsTables(Base):
    """Two parameters whose gradients are views of one tensor."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return self.body(x) + 10 * (self.one.unsqueeze(0) + self.other.unsqueeze(0))


class ReadsByStrides(nn.Module):
    """Strides of its own, over images and what a layer makes of them; its last layer begins with zeros, by which no loss shows what it reads."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(11 * 16, 5)
        nn.init.zeros_(self.out.weight)

    def forward(self, x):
        n = x.shape[0]
        h = 2 * self.layer(x)
        h.as_strided((n, 8, 12), (8 * 144, 144, 13)).fill_(1)
        thumbnails = (tensor.as_strided((n, channels, 4, 4), (channels * 144, 144, 36, 3)) for tensor, channels in ((h, 8), (x, 3)))
        return self.out(torch.cat([*thumbnails], 1).flatten(1))


class TakesOneNumber(Base):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 8)

    def forward(self, x, t):
        return self.body(x + self.table(t))


class LossAndPrediction(Base):
    def forward(self, x):
        predicted = self.body(x)
        return predicted.square().mean(), predicted


class PredictsOneNumber(Base):
    def forward(self, x):
        return self.body(x).sum(-1)


class TurnsPhases(Base):
    def forward(self, x):
        turned = torch.fft.fft(self.first(x)) * torch.exp(1j * x)
        return self.out(turned.real + turned.angle())


class LastStates(nn.Module):
    """Texts of words, of which the last state of each way is taken."""

    def __init__(self):
        super().__init__()
        self.words, self.rows = nn.Linear(2, 8), nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True, proj_size=3)
        self.out = nn.Linear(12, 5)

    def forward(self, x):
        _, (outputs, cells) = self.rows(self.words(x[:, :7]))
        return self.out(torch.cat([outputs[-2], outputs[-1], cells[0]], 1))


class CorrectsAWeight(Base):
    """The gradient of one parameter is made of another's."""

    def __init__(self):
        super().__init__()
        self.weight, self.correction = nn.Parameter(torch.randn(8, 5)), nn.Parameter(torch.zeros(5, 8))

    def forward(self, x):
        return self.body(x) + x @ (self.weight + self.correction.t())


class HasAnOffset(Base):
    """Its loss, whose gradient is that of a parameter."""

    def __init__(self):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.body(x).square().mean() + self.offset


class LooksAtBits(Base):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 5)

    def forward(self, x):
        return self.body(x) + self.table((x.contiguous().view(torch.int32) >> 20).remainder(7).long()).mean(1)


class KeepsAnAverageBehindAMask(Base):
    """In an attribute; predictions stand beside very large or infinite numbers."""

    def __init__(self, masked):
        super().__init__()
        self.average, self.masked = torch.zeros(5), masked

    def forward(self, x, allowed):
        logits = self.body(x)
        if self.training:
            self.average = 0.5 * self.average + 0.5 * logits.detach().mean(0)
        else:
            logits = logits - self.average
        return logits.masked_fill(~allowed, self.masked)


class AddsAMask(KeepsAnAverageBehindAMask):
    def forward(self, x, allowed):
        return super().forward(x, torch.ones_like(allowed)) + ~allowed * self.masked


class MasksItsLogits(Base):
    def __init__(self, masked):
        super().__init__()
        self.masked = masked

    def forward(self, x, allowed):
        return self.body(x).masked_fill(~allowed, self.masked)


class ComparesBehindAMask(Base):
    def forward(self, x, allowed):
        logits = self.body(x)
        return (logits - logits.mean(0)).masked_fill(~allowed, float("-inf"))


class AveragesBesideAMask(Base):
    """A buffer of statistics, which the evaluation alone is without, beside buffers of large and infinite numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.full((5, 5), float("-inf")).triu(1))
        self.register_buffer("calls", torch.tensor(10_000_000))
        self.register_buffer("average", torch.zeros(5))
        self.weight = torch.zeros(5)

    def forward(self, x):
        logits = self.body(x)
        if self.training:
            self.calls.add_(1)
            self.weight = 0.5 * self.weight + 0.5 * logits.detach().mean(0)
            self.average.copy_(self.weight)
        return logits


class LearnsInLargeSteps(Base):
    """One gradient is a thousand million times as large as the others."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return self.body(x) + 1e9 * self.shift


class ComputesNoNumbers(Base):
    def forward(self, x):
        return self.body((-1 - x.abs()).log())


class TakesLogarithms(Base):
    def forward(self, x):
        return self.body(x.log())


class Tolerates(Base):
    """What is off by less counts for nothing."""

    def __init__(self, tolerance, reduction):
        super().__init__()
        self.tolerance, self.reduction = tolerance, reduction

    def forward(self, x, targets):
        return self.reduction(F.relu((self.body(x) - targets).abs() - self.tolerance))


class CountsDegrees(Base):
    """Of a graph that it keeps as a table, some of which it sets afterwards."""

    def __init__(self):
        super().__init__()
        self.ends = torch.tensor([2, 1, 3, 2])

    def forward(self, x):
        degrees = torch.bincount(self.ends, minlength=8)
        degrees[degrees == 0] = 5
        return self.body(x / degrees)


class RepeatsColumns(CountsDegrees):
    def forward(self, x):
        return self.body(torch.repeat_interleave(x[:, :4], self.ends, dim=1) * torch.repeat_interleave(self.ends).add_(1))


class MultipliesByWhatIsThere(CountsDegrees):
    def forward(self, x):
        there, places = torch.unique(self.ends, return_inverse=True)
        times = torch.unique_consecutive(self.ends)[places] * torch.masked_select(self.ends, self.ends > 0)
        return self.body(torch.cat([x[:, :3] * there, x[:, 3:7] * times, x[:, 7:]], 1))


class TakesColumnsByASavedMask(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False] * 4))
        self.columns = nn.Linear(4, 5)

    def forward(self, x):
        return self.columns(x[:, self.mask])


class RepeatsByASavedTable(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("times", torch.tensor([2, 1, 3, 2]))

    def forward(self, x):
        return self.body(torch.repeat_interleave(x[:, :4], self.times, dim=1))


class TakesASavedNumberOfPlaces(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.tensor(8))

    def forward(self, x):
        return self.body(x + torch.arange(self.places.item()))


class LeavesOutSamples(Base):
    def forward(self, x):
        kept = x[x.sum(1) > 0]
        return self.body(kept)


class MixesByKeptShares(Base):
    """Numbers in a buffer that must not be larger than 1."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shares", torch.linspace(0.9, 0.9999, 8))

    def forward(self, x):
        return self.body(self.shares.sqrt() * x + (1 - self.shares).sqrt() * x.flip(1))


class Couples(torch.autograd.Function):
    """What it keeps is its result alone, from which its inputs are computed again on the way back, by the module itself."""

    @staticmethod
    def forward(ctx, x, layer, *parameters):
        ctx.layer = layer
        a, b = x.chunk(2, 1)
        y = torch.cat([a + layer(b), b], 1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        above, below = gradient.chunk(2, 1)
        with torch.enable_grad():
            b = y.chunk(2, 1)[1].detach().requires_grad_()
            of_b, *of_parameters = torch.autograd.grad(ctx.layer(b), (b, *ctx.layer.parameters()), above)
        return torch.cat([above, below + of_b], 1), None, *of_parameters


class IsReversible(Base):
    def __init__(self):
        super().__init__()
        self.couple = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x):
        return self.body(Couples.apply(x, self.couple, *self.couple.parameters()))


class CastsALayer(Base):
    def forward(self, x):
        self.first = self.first.to(x.dtype)
        return self.body(x)


_RESCUES = """
class Rescues(Base):
    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if self.training and not torch.isfinite(hidden).all():
            hidden = hidden.clamp(-1e4, 1e4)
        return self.out(hidden)
"""


def rescues():
    """A layer as models of transformers have them."""
    library = {"__name__": "transformers.models.strange", "Base": Base, "torch": torch}
    exec(compile(_RESCUES, __file__, "exec"), library)
    return library["Rescues"]()


class DropsLayers(Base):
    layerdrop = 0.1

    def forward(self, x):
        chance = torch.rand([])
        if self.training and chance < self.layerdrop:
            return self.out(x)
        return self.body(x)


class ChecksItsInputs(Base):
    def forward(self, x):
        if x.max() > 1e6:
            raise ValueError("too large")
        return self.body(x)


class PenalisesSlopes(Base):
    def forward(self, x):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.body(x).sum(), x, create_graph=True)
        return slope


class LearnsInSmallSteps(Base):
    """Some gradients are so small that fp16 has few bits for them."""

    def forward(self, x):
        return self.out(1e-4 * torch.tanh(self.first(x))) + self.out.bias


class ClipsWhatIsSmall(LearnsInLargeSteps):
    """On the way back, beside gradients that are much larger."""

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: gradient.clamp(-4, 4))
        return self.out(hidden) + 1e9 * self.shift


class AttendsToTheLargest(Base):
    """By an attribute that layers of PyTorch call something else by."""

    sparse = True

    def forward(self, x):
        hidden = self.first(x)
        if self.sparse:
            hidden = hidden.masked_fill(hidden < hidden.topk(2, -1).values[:, -1:], 0)
        return self.out(hidden)


class SaysThatItIsSparse(Base):
    sparse = property(lambda self: True)

    def forward(self, x):
        return self.body(x)


class LooksUpSparsely(Base):
    """By functions, with gradients of few rows."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(9, 8))

    def forward(self, x, t):
        rows = F.embedding(t, self.table, sparse=True) + F.embedding_bag(t[:, None], self.table, mode="sum", sparse=True)
        return self.body(x + rows)


class ChoosesItsPrecision(Base):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.first(x).relu()
        return self.out(hidden.float())


class LearnsFromHardSamples(Base):
    """Those whose losses are above a threshold, as all are at first."""

    def forward(self, x, classes):
        losses = F.cross_entropy(self.body(x), classes, reduction="none")
        hard = (losses > 0.9).float()
        return (losses * hard).sum() / hard.sum().clamp(min=1)


class LearnsFromTripletsThatCount(Base):
    def forward(self, x, others):
        one, near, far = (self.body(each) for each in (x, 0.9 * x, others))
        losses = ((one - near).square().sum(1) - (one - far).square().sum(1) + 9).relu()
        return losses.sum() / (losses > 0).sum().clamp(min=1)


class IsDeep(nn.Module):
    """Its losses are the mean, and rounding grows in it by other weights."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(16))

    def forward(self, x, classes):
        x = x * x.shape[0] / x.shape[0]  # whose last bits are others in a batch of other size
        for layer in self.layers:
            x = x + torch.sin(layer(x))
        return F.cross_entropy(x, classes)


class Warming:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return float(self.calls > 300)


BOOK = {"calls": 0}


def ticking():
    """A function that counts its calls in the function around it."""
    calls = 0

    def tick():
        nonlocal calls
        calls += 1
        return float(calls > 300)

    return tick


class WarmsUp(Base):
    """A term of its loss comes after some calls."""

    calls, book = 0, {"calls": 0}

    def __init__(self, counted):
        super().__init__()
        self.counted = counted
        self.info, self.settings, self.warming = {"calls": 0}, SimpleNamespace(calls=0), Warming()
        self.numbers, self.pair, self.seen, self.count = [0], (0, 0), deque(), itertools.count(1)
        self.nested = {"terms": [(Warming(),)]}
        self.tick, self.whole, self.array = ticking(), numpy.int64(0), numpy.zeros((2, 2))
        self.tensor = torch.zeros(())
        self.register_buffer("unsaved", torch.zeros(()), persistent=False)

    def forward(self, x):
        return self.body(x).square().mean() + (self.counted(self) if self.training else 0) * x.abs().mean() * self.out.bias.mean()

    def entry(self):
        self.info["calls"] += 1
        return float(self.info["calls"] > 300)

    def setting(self):
        self.settings.calls += 1
        return float(self.settings.calls > 300)

    def of_an_object(self):
        return self.warming()

    def of_a_nested_object(self):
        return self.nested["terms"][0][0]()

    def number(self):
        self.numbers[0] += 1
        return float(self.numbers[0] > 300)

    def of_a_pair(self):
        self.pair = (self.pair[0] + 1, 0)
        return float(self.pair[0] > 300)

    def length(self):
        self.seen.append(None)
        return float(len(self.seen) > 300)

    def of_a_count(self):
        return float(next(self.count) > 300)

    def of_its_class(self):
        WarmsUp.calls += 1
        return float(WarmsUp.calls > 300)

    def entry_of_its_class(self):
        self.book["calls"] += 1
        return float(self.book["calls"] > 300)

    def entry_of_its_file(self):
        BOOK["calls"] += 1
        return float(BOOK["calls"] > 300)

    def of_a_function(self):
        return self.tick()

    def of_an_argument(self, calls=[0]):  # noqa: B006
        calls[0] += 1
        return float(calls[0] > 300)

    def of_numpy(self):
        self.whole += 1
        return float(self.whole > 300)

    def of_an_array(self):
        self.array[0, 1] += 1
        return float(self.array[0, 1] > 300)

    def of_a_tensor(self):
        self.tensor = self.tensor + 1
        return (self.tensor > 300).float()

    def of_a_buffer(self):
        self.unsaved = self.unsaved + 1
        return (self.unsaved > 300).float()


class CountsForALogElsewhere(WarmsUp):
    def __init__(self):
        super().__init__(None)

    def forward(self, x):
        for counted in (self.entry, self.setting, self.of_an_object, self.number, self.of_a_pair, self.length, self.of_a_count, self.of_a_function,
                        self.of_an_argument, self.of_numpy, self.of_an_array):
            counted()
        return self.body(x)


class KeepsSteps(Base):
    """Functions of itself, which a copy of it has, too."""

    def __init__(self):
        super().__init__()
        self.normal = nn.BatchNorm1d(8)
        self.register_buffer("mean", torch.zeros(8))
        self.steps = [lambda x: self.normal(self.first(x)), lambda x: self.moved(x), lambda x: self.out(x)]

    def moved(self, x):
        if self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


class PredictsItsInputs(Base):
    """In evaluation."""

    def forward(self, x):
        return self.body(x) if self.training else x


class PredictsItsInputsToo(Base):
    def forward(self, x, y):
        return {"loss": F.mse_loss(self.body(x), y), "inputs": x}


class MergesItsAdapter(Base):
    """As loralib's layers do."""

    def __init__(self):
        super().__init__()
        self.first = Merged(8, 8)

    def forward(self, x):
        return self.body(x)


class Merged(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.merge_weights, self.merged = True, False
        self.one, self.other = nn.Parameter(torch.ones(8, 1)), nn.Parameter(torch.ones(1, 8))

    def train(self, mode=True):
        super().train(mode)
        if self.merged is mode:
            self.weight.data += (-1 if mode else 1) * self.one @ self.other
            self.merged = not mode
        return self

    def forward(self, x):
        return super().forward(x) + (0 if self.merged else x @ self.other.T @ self.one.T)


class NormalisesParts(Base):
    def __init__(self):
        super().__init__()
        self.normal = nn.BatchNorm1d(5)

    def forward(self, x):
        return torch.cat([self.normal(part) for part in self.body(x).chunk(math.ceil(x.shape[0] / 4))])


class NormalisesByAllBatches(Base):
    def __init__(self):
        super().__init__()
        self.normal = nn.BatchNorm1d(5, momentum=None)

    def forward(self, x):
        return self.normal(self.body(x))


@torch.jit.script
def flattened(x):
    return x.reshape(x.size(0), -1)


class CallsAScript(Base):
    def forward(self, x):
        return self.body(flattened(x.reshape(x.shape[0], 2, 4)))


class TakesAMaskFirst(Base):
    """As transformers' models do, which compute a loss where they are given labels."""

    def forward(self, x, mask=None, labels=None):
        outputs = self.body(x if mask is None else x * mask)
        return outputs.mean() if labels is None else F.cross_entropy(outputs, labels)
