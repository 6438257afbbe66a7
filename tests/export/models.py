"""Modules that the tests of exporting bring: layers, layouts and habits that PyTorch's users have."""

from typing import Dict, Tuple

import torch
from torch import nn


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5))


def convolutional():
    """Batch normalisation, writing in place, and a pool over whole images."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))  # fmt: skip


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
