"""Modules that the tests of exporting bring: layers, layouts and habits that PyTorch's users have."""

import warnings
from typing import Dict, NamedTuple, Tuple

import torch
from torch import nn
from torch.nn.functional import one_hot
from torch.utils.checkpoint import checkpoint


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))


def wide():
    """Weights of more than a mebibyte, whose gradients are handed on one by one: one that stays, one that is used twice, and two biases
    whose gradient is the same one."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.frozen, self.twice, self.last = nn.Linear(3 * 12 * 12, 600), nn.Linear(600, 600), nn.Linear(600, 600), nn.Linear(600, 600)
            self.head, self.shift = nn.Linear(600, 5), nn.Parameter(torch.randn(5))
            self.frozen.weight.requires_grad_(False)

        def forward(self, images):
            middle = torch.tanh(self.frozen(torch.tanh(self.first(images.flatten(1)))))
            return self.head(torch.tanh(self.last(self.twice(torch.tanh(self.twice(middle)))))) + self.shift

    return Wide()


def several_wide():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 600), *(nn.Linear(600, 600) for _ in range(4)), nn.Linear(600, 5))


def convolutional():
    """Batch normalisation, writing in place, and a pool over whole images."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))  # fmt: skip


def deep():
    """Of what its layers keep, most is cheap to have again."""
    layers = [nn.Conv2d(3, 16, 3, padding=1)]
    for _ in range(10):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.GELU(), nn.Tanh()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = convolutional()
        self.body.insert(9, nn.Dropout(0.3))

    def forward(self, images):
        return self.body(images)


class FrozenBody(nn.Module):
    """A body whose parameters and statistics stay, below a head that learns."""

    def __init__(self):
        super().__init__()
        self.body = convolutional()[:9]
        self.head = nn.Linear(16, 5)
        self.body.requires_grad_(False).eval()

    def forward(self, images):
        return self.head(self.body(images))


class Residual(nn.Module):
    """A parameter of its own, a method that chooses by shape, and a residual sum."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(12))
        self.first, self.second, self.out = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12 * 12 * 3, 5)

    def forward(self, images):
        x = images * self.gain
        x = x + torch.nn.functional.silu(self.second(torch.tanh(self.first(x))))
        return self.out(x.flatten(1))


class Tokens(nn.Module):
    """An encoder of torch.nn, tied weights, a frozen table, a buffer that is not saved, a layer that is not used; returns a
    dictionary."""

    def __init__(self, vocabulary=24, length=16, width=32, dropout=0.0):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.position.weight.requires_grad_(False)
        self.register_buffer("places", torch.arange(length), persistent=False)
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True, activation="gelu")
        self.head = nn.Linear(width, vocabulary)
        self.head.weight = self.token.weight
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        hidden = self.layer(self.token(tokens) + self.position(self.places), src_mask=mask)
        return {"hidden": hidden, "logits": self.head(hidden)}


def tokens():
    return Tokens()


def dropping_tokens():
    return Tokens(dropout=0.2)


class Padded(nn.Module):
    """A transformer that classifies texts of different lengths: tokens, and a mask that is true where there are none."""

    def __init__(self, vocabulary=24, length=16, width=32, classes=5, dropout=0.0):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Parameter(torch.randn(length, width) / 8)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True, activation="gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, classes)

    def forward(self, tokens, padding):
        hidden = self.layers(self.token(tokens) + self.place, src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(2).to(hidden.dtype)
        return self.out((hidden * kept).sum(1) / kept.sum(1))


def dropping_padded():
    return Padded(dropout=0.2)


class Conv1D(nn.Module):
    """A layer whose weight is [inputs, outputs], as transformers' GPT-2 has it."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) / 4), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight)


def turned():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 32), Conv1D(32, 32), Conv1D(24, 32), nn.Linear(24, 5))


class OneHot(nn.Linear):
    """Tokens as vectors that are 1 at one place."""

    def forward(self, tokens):
        return super().forward(one_hot(tokens, self.in_features).float())


class PaddedOneHot(Padded):
    def __init__(self):
        super().__init__()
        self.token = OneHot(24, 32)


class OneHotMeans(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(24, 5)

    def forward(self, tokens, padding) -> Dict[str, torch.Tensor]:
        return {"logits": self.out(one_hot(tokens, 24).float().mean(1) + padding.float().mean(1, True))}


class PaddedWithLoss(nn.Module):
    """The same, which computes its loss itself, as models of libraries do: the mean over the samples."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.model = Padded(dropout=dropout)

    def forward(self, tokens, padding, labels):
        logits = self.model(tokens, padding)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def dropping_with_loss():
    return PaddedWithLoss(dropout=0.2)


class Attends(nn.Module):
    """Attention of its own, which TorchScript takes: a dictionary of what it predicts, and of what it attends to."""

    def __init__(self, vocabulary: int = 24, width: int = 32, classes: int = 5, dropout: float = 0.0):
        super().__init__()
        self.token, self.norm = nn.Embedding(vocabulary, width), nn.LayerNorm(width)
        self.mixed, self.drop, self.out = nn.Linear(width, 3 * width), nn.Dropout(dropout), nn.Linear(width, classes)

    def forward(self, tokens, padding) -> Dict[str, torch.Tensor]:
        x = self.token(tokens)
        q, k, v = self.mixed(self.norm(x)).unsqueeze(1).chunk(3, dim=3)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~padding[:, None, None, :])
        x = x + self.drop(attended.squeeze(1))
        return {"hidden": x, "logits": self.out(x.mean(1))}


def dropping_attends():
    return Attends(dropout=0.2)


class AttendsWithLoss(nn.Module):
    """Loss and prediction in a tuple."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.model = Attends(dropout=dropout)

    def forward(self, tokens, padding, labels) -> Tuple[torch.Tensor, torch.Tensor]:
        logits = self.model(tokens, padding)["logits"]
        return nn.functional.cross_entropy(logits, labels, reduction="sum"), logits


class Tolerant(nn.Module):
    """Its loss is the sum of what is off by more than 10."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 1)

    def forward(self, values):
        return torch.relu(self.linear(values).abs() - 10).sum()


class LossAlone(nn.Module):
    """Returns the sum of squared errors of what it makes of its inputs: it needs no targets."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(3 * 12 * 12, 8), nn.Linear(8, 3 * 12 * 12)

    def forward(self, images):
        flat = images.flatten(1)
        return (self.wide(torch.tanh(self.narrow(flat))) - flat).square().mean(1).sum()


class TokenMean(nn.Module):
    """Its loss is the mean over those tokens that are not ignored."""

    def __init__(self, vocabulary=24):
        super().__init__()
        self.token, self.out = nn.Embedding(vocabulary, 8), nn.Linear(8, vocabulary)

    def forward(self, tokens, labels):
        return nn.functional.cross_entropy(self.out(self.token(tokens)).flatten(0, 1), labels.flatten())


class MaskedMean(nn.Module):
    """Its loss is the mean over what its mask leaves."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 8)

    def forward(self, values, mask):
        errors = (self.out(values) - values).square()
        return (errors * mask).sum() / mask.sum()


class WeightedMean(nn.Module):
    """Its loss is divided by the weights of the classes that occur."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 3)

    def forward(self, values, labels):
        return nn.functional.cross_entropy(self.out(values), labels, torch.tensor([1.0, 2.0, 5.0]))


class Segmenter(nn.Module):
    """Biases before batch normalisation, whose gradients are zero but for rounding."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear"),
                                  nn.Conv2d(8, 4, 3, padding=1), nn.BatchNorm2d(4))  # fmt: skip
        self.out = nn.Linear(4, 5)

    def forward(self, images):
        return self.out(self.body(images).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.out = nn.LSTM(36, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, images):
        rows = self.rows(images.transpose(1, 2).flatten(2))[0]
        return self.out(rows[:, -1]).t().contiguous().t()  # lies with its samples last


class KeepsAnAverage(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        y = self.out(x)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        return y - self.mean


class KeepsAWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)
        self.weight = self.out.weight.detach()

    def forward(self, x):
        return self.out(x) + x @ self.weight.t()


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)
        self.out.weight.register_hook(lambda gradient: 3 * gradient)

    def forward(self, x):
        return self.out(x)


class SharesMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Parameter(self.first.weight.data.t())

    def forward(self, x):
        return self.first(x) @ self.second


class AnotherForLargeBatches(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(x) if x.shape[0] < 500 else -self.out(x)


class BranchesOnValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(x) if x.sum() > 0 else -self.out(x)


class FixesTheBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(x).view(4, 2)


class MixesSamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(x).mean()


class RandomOutsideOfPyTorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        import random

        return self.out(x) * random.random()


class ReturnsClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(x).argmax(1)


class HalfParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2).bfloat16()

    def forward(self, x):
        return self.out(x.bfloat16()).float()


class Checkpoints(nn.Module):
    """Residual blocks that compute again for their gradients."""

    def __init__(self, reentrant=False):
        super().__init__()
        self.reentrant, self.out = reentrant, nn.Linear(12 * 12 * 3, 5)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.1), nn.GELU(), nn.Linear(12, 12)) for _ in range(2)])

    def forward(self, images):
        for block in self.blocks:
            images = images + checkpoint(block, images, use_reentrant=self.reentrant)
        return self.out(images.flatten(1))


def checkpoints_reentrantly():
    return Checkpoints(reentrant=True)


class ThreeNames(nn.Module):
    """One table for both sides and the head, as encoders with decoders have it; used transposed, too."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(24, 8)
        self.encoder = nn.ModuleDict({"token": nn.Embedding(24, 8)})
        self.head = nn.Linear(8, 24, bias=False)
        self.encoder["token"].weight = self.head.weight = self.token.weight

    def forward(self, tokens):
        x = self.token(tokens) + self.encoder["token"](tokens.flip(1))
        return self.head(x) + torch.tanh(x) @ self.token.weight.t()


class ListOfWeights(nn.Module):
    """Uses its weights by a list that the module does not know."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.weights = [self.first.weight, self.second.weight]

    def forward(self, x):
        for weight in self.weights:
            x = torch.tanh(x @ weight.t())
        return self.first(x)


class ViewOfAWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 8)
        self.half = self.out.weight[:4]
        self.turned = self.out.weight.t()

    def forward(self, x):
        return self.out(x)[:, :4] + x @ self.half.t() + (x @ self.turned)[:, :4]


class KeepsATableOfWeights(nn.Module):
    """A table that is made of the weights once."""

    def __init__(self):
        super().__init__()
        self.out, self.table = nn.Linear(8, 2), None

    def forward(self, x):
        if self.table is None:
            self.table = self.out.weight.detach().exp()
        return self.out(x) + x @ self.table.t()


class CopiesAWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)
        self.first = self.out.weight.detach().clone()

    def forward(self, x):
        return self.out(x) - x @ self.first.t()


def weight_norm_of_old():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 2))


class SparseTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.token, self.out = nn.EmbeddingBag(24, 8, sparse=True), nn.Embedding(24, 8, sparse=True), nn.Linear(8, 5)

    def forward(self, tokens):
        return self.out(self.bag(tokens) + self.token(tokens).mean(1))


def compiled_part():
    return nn.Sequential(torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU())), nn.Linear(8, 2))


class TargetMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.out = nn.Embedding(24, 16), nn.Linear(16, 24)
        self.transformer = nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True)

    def forward(self, tokens):
        x = self.token(tokens)
        mask = self.transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.transformer(x, x, tgt_mask=mask, src_key_padding_mask=tokens == 0))


class KnownMask(nn.Module):
    """Branches on a table that depends on nothing that is given."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        mask = torch.ones(8, 8).tril()[5].clone()
        mask[2:] = 0
        if bool((mask > 0).all()):
            return self.out(x)
        return self.out(x * mask) * float(mask.sum()) + x[:, mask > 0].sum(1, keepdim=True)


class DropsBetweenLayers(nn.Module):
    def __init__(self, both_ways=False):
        super().__init__()
        size = 16 if both_ways else 8
        self.first = nn.LSTM(8, 8, 2, dropout=0.3, batch_first=True, bidirectional=both_ways)
        self.second = nn.GRU(size, 8, 2, dropout=0.3, bidirectional=both_ways)
        self.out = nn.Linear(size, 5)

    def forward(self, x):
        x = self.first(x)[0]
        return self.out(self.second(x.transpose(0, 1))[0][-1])


def drops_between_layers_both_ways():
    return DropsBetweenLayers(both_ways=True)


class ArithmeticOfSizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        count = torch.sym_max(x.shape[0], 3)
        scale = torch.sym_float(torch.sym_min(x.shape[0], 4)) / torch.sym_sqrt(count * 1.0)
        return self.out(x) * scale


class Heads(NamedTuple):
    logits: torch.Tensor
    more: torch.Tensor


class AuxiliaryHeads(nn.Module):
    """Another head while it trains, as GoogLeNet has."""

    def __init__(self):
        super().__init__()
        self.out, self.more = nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x):
        return Heads(self.out(x), self.more(x)) if self.training else self.out(x)


class RandomLoss(nn.Module):
    """A loss that draws random numbers, evaluated or not, as variational autoencoders do."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 4), nn.Linear(4, 8)

    def forward(self, x):
        z = self.narrow(x)
        return (self.wide(z + torch.randn_like(z)) - x).square().sum()


class BranchesOnANumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        most = x.abs().max().item()
        return self.out(x) if most > 3 else -self.out(x)


class Breaks(nn.Module):
    """Its training, which is tried after its evaluation, raises an exception."""

    def __init__(self):
        super().__init__()
        self.out, self.table = nn.Linear(8, 2), {}

    def forward(self, x):
        return self.table["nothing"] if self.training else self.out(x)


class Pixels(nn.Module):
    """A class for every pixel, where PyTorch has them: second."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))

    def forward(self, images):
        return {"out": self.body(images)}


class TurnsByComplexNumbers(nn.Module):
    """Positions turn pairs of numbers, by a table of complex numbers that is saved or not."""

    def __init__(self, persistent=False):
        super().__init__()
        self.mix, self.out = nn.Linear(8, 8), nn.Linear(8, 5)
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)), persistent=persistent)

    def forward(self, x):
        pairs = torch.view_as_complex(self.mix(x).reshape(-1, 4, 2))
        return self.out(torch.view_as_real(pairs * self.turns).flatten(1))


def saves_complex_numbers():
    return TurnsByComplexNumbers(persistent=True)


class ComplexWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.out = nn.Parameter(torch.randn(8, dtype=torch.complex64)), nn.Linear(8, 5)

    def forward(self, x):
        return self.out((x * self.weight).abs())


class SplitsByFrequency(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter, self.out = nn.Parameter(torch.randn(5, 2)), nn.Linear(8, 5)

    def forward(self, x):
        return self.out(torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(self.filter), n=8))


class PacksSequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x):
        lengths = torch.full((x.shape[0],), 3)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        rows = nn.utils.rnn.pad_packed_sequence(self.rows(packed)[0], batch_first=True)[0]
        return self.out(rows[:, -1])


class PairsOfSamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return self.out(x) @ self.out(x).t()


class TakesANumberOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return self.out(x) / self.out.weight.norm().item()


def scripted_part():
    return nn.Sequential(torch.jit.trace(nn.Linear(8, 8), torch.zeros(2, 8)), nn.Linear(8, 5))


class Pools(nn.Module):
    """Images [n, 3, 12, 12] to classes, through something that a subclass does to [n, 4, 12, 12]."""

    def __init__(self, between=None):
        super().__init__()
        self.first, self.between, self.out = nn.Conv2d(3, 4, 3, padding=1), between, nn.Linear(4, 5)

    def forward(this, x):  # by another name than self
        return this.out(this.between(this.first(x)).mean((2, 3)))


def pools_by_fractions():
    return Pools(nn.FractionalMaxPool2d(2, output_ratio=0.5))


def normalises_without_momentum():
    return Pools(nn.BatchNorm2d(4, momentum=None))


class LooksElsewhere(nn.Module):
    """A spatial transformer: samples its images at places that it computes from them."""

    def __init__(self):
        super().__init__()
        self.where, self.out = nn.Linear(3, 6), nn.Linear(3, 5)

    def forward(self, x):
        places = nn.functional.affine_grid(self.where(x.mean((2, 3))).view(-1, 2, 3), x.size(), align_corners=False)
        return self.out(nn.functional.grid_sample(x, places, align_corners=False).amax((2, 3)))


class LooksElsewhereInSpace(nn.Module):
    def __init__(self):
        super().__init__()
        self.where, self.out = nn.Linear(8, 12), nn.Linear(8, 5)

    def forward(self, x):
        places = nn.functional.affine_grid(self.where(x).view(-1, 3, 4), [x.shape[0], 1, 2, 2, 2], align_corners=True)
        return self.out(nn.functional.grid_sample(x.view(-1, 1, 2, 2, 2), places, align_corners=True).flatten(1))


class ComputesWithNumPy(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return self.out(torch.from_numpy(x.numpy() * 2))


class FixesTheView(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return self.out(x.view(4, 2, 4).flatten(1))


class MultipliesBySparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.turn = nn.Linear(8, 5), torch.eye(8)

    def forward(self, x):
        return self.out(torch.sparse.mm(self.turn.to_sparse(), x.t()).t())


class ScalesItsWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(24, 8, max_norm=1.0), nn.Linear(8, 5)

    def forward(self, tokens):
        return self.out(self.words(tokens).mean(1))


class AlignsByCtc(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 5)

    def forward(self, x, letters):
        rows = self.out(x).log_softmax(2).transpose(0, 1)
        lengths = [torch.full((x.shape[0],), size) for size in (rows.shape[0], letters.shape[1])]
        return nn.functional.ctc_loss(rows, letters + 1, *lengths, reduction="sum")


class ByItsLargest(nn.Module):
    """Takes a number out of its inputs, which a graph computes again each time."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3 * 12 * 12, 5)

    def forward(self, x):
        return self.out(x.flatten(1)) / x.abs().max().item()


class Quantised(nn.Module):
    """Prepared for being quantised: its layers observe, and round as they will."""

    def __init__(self):
        super().__init__()
        import torch.ao.quantization as quantization

        self.body = nn.Linear(8, 5)
        self.qconfig = quantization.get_default_qat_qconfig()
        quantization.prepare_qat(self.train(), inplace=True)

    def forward(self, x):
        return self.body(x) * 2


class Likely(nn.Module):
    """Its distributions look at the values that they are given."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 10)

    def forward(self, x):
        mean, spread = self.out(x).chunk(2, 1)
        return torch.distributions.Normal(mean, spread.exp()).log_prob(x[:, :5])


class Asserts(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        assert not torch.isnan(x).any(), "numbers only"
        return self.out(x)


class KeepsByAHook(nn.Module):
    """What one of its layers returned is kept by a hook, for later in the same pass."""

    def __init__(self):
        super().__init__()
        self.first, self.out, self.kept = nn.Linear(8, 6), nn.Linear(6, 5), {}
        self.first.register_forward_hook(lambda layer, given, returned: self.kept.__setitem__("first", returned))

    def forward(self, x):
        return self.out(torch.relu(self.first(x))) + self.kept["first"].mean(1, keepdim=True)


def spreads_batches():
    return nn.Sequential(nn.DataParallel(nn.Linear(8, 5)))
