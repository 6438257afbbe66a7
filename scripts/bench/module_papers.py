"""Modules as papers and tutorials bring them, each small and with random weights: what they do in passing is what an exporter stumbles over.
ZOO has them after those of module_zoo."""

__all__ = ["ZOO"]

import math
from collections import OrderedDict
from dataclasses import dataclass

import torch
from module_zoo import CLASSES, FOLLOWING, LENGTH, MASK, TOKENS, WORDS, ZOO, Case, case
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Of one step of a decoder over all that was encoded."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.weigh = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, query, keys):
        scores = self.weigh(torch.tanh(self.first(query) + self.second(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Seq2Seq(nn.Module):
    """Teacher forcing, which Python's random numbers choose in the tutorial, here always; greedy in evaluation."""

    def __init__(self, width=16):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.encoder, self.decoder = nn.GRU(width, width, batch_first=True), nn.GRU(2 * width, width, batch_first=True)
        self.attention, self.out, self.dropout = Attention(width), nn.Linear(width, WORDS), nn.Dropout(0.0)

    def forward(self, source, target):
        encoded, hidden = self.encoder(self.dropout(self.source(source)))
        word = torch.empty(source.size(0), 1, dtype=torch.long).fill_(0)
        outputs = []
        for place in range(target.size(1)):
            query = hidden.permute(1, 0, 2)
            context, _ = self.attention(query, encoded)
            step, hidden = self.decoder(torch.cat((self.target(word), context), dim=2), hidden)
            outputs.append(self.out(step))
            if self.training:
                word = target[:, place].unsqueeze(1)
            else:
                _, best = outputs[-1].topk(1)
                word = best.squeeze(-1).detach()
        return torch.cat(outputs, dim=1)


@case("paper seq2seq with attention and teacher forcing")
def _():
    return Case(Seq2Seq(), [f"source={TOKENS}", f"target={TOKENS}"], **FOLLOWING)


class Chomp(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, inputs, outputs, dilation):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.conv1 = norm(nn.Conv1d(inputs, outputs, 3, padding=2 * dilation, dilation=dilation))
        self.conv2 = norm(nn.Conv1d(outputs, outputs, 3, padding=2 * dilation, dilation=dilation))
        self.net = nn.Sequential(self.conv1, Chomp(2 * dilation), nn.ReLU(), nn.Dropout(0.0), self.conv2, Chomp(2 * dilation), nn.ReLU(), nn.Dropout(0.0))
        self.downsample = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x):
        return F.relu(self.net(x) + (x if self.downsample is None else self.downsample(x)))


@case("paper temporal convolutions with weight_norm")
def _():
    return Case(nn.Sequential(TemporalBlock(3, 8, 1), TemporalBlock(8, 8, 2), TemporalBlock(8, 16, 4), nn.AdaptiveMaxPool1d(1), nn.Flatten(),
                              nn.Linear(16, CLASSES)), ["float32[4,3,24]"])  # fmt: skip


class Messages(nn.Module):
    """Attention over the edges of a graph that is the same for all samples, by index_add and scatter_reduce."""

    def __init__(self, nodes=8):
        super().__init__()
        edges = [(a, b) for a in range(nodes) for b in range(nodes) if a != b and (a + 2 * b) % 3 == 0]
        self.register_buffer("edges", torch.tensor(edges).t().contiguous())
        self.lift, self.score, self.out = nn.Linear(6, 16), nn.Linear(32, 1), nn.Linear(16, CLASSES)

    def forward(self, x):
        source, target = self.edges
        h = self.lift(x)
        e = F.leaky_relu(self.score(torch.cat([h[:, source], h[:, target]], -1))).squeeze(-1)
        most = torch.full((x.size(0), x.size(1)), -1e9).scatter_reduce(1, target.expand_as(e), e, "amax")
        weight = (e - most[:, target]).exp()
        whole = torch.zeros(x.size(0), x.size(1)).index_add(1, target, weight)
        weight = weight / (whole[:, target] + 1e-9)
        h = torch.zeros_like(h).index_add_(1, target, weight.unsqueeze(-1) * h[:, source])
        return self.out(F.elu(h)).mean(dim=1)


@case("paper graph attention by scatter and index_add")
def _():
    return Case(Messages(), ["float32[4,8,6]"])


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k, self.conv, self.bn, self.fc = k, nn.Conv1d(k, 16, 1), nn.BatchNorm1d(16), nn.Linear(16, k * k)

    def forward(self, x):
        n = x.size()[0]
        x = F.relu(self.bn(self.conv(x)))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 16)
        iden = torch.eye(self.k).flatten().view(1, self.k * self.k).repeat(n, 1)
        return (self.fc(x) + iden).view(-1, self.k, self.k)


class PointNet(nn.Module):
    """Class and transform are returned both."""

    def __init__(self):
        super().__init__()
        self.stn, self.conv, self.bn, self.out = TNet(3), nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.Linear(32, CLASSES)

    def forward(self, x):
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = torch.max(self.bn(self.conv(x)), 2)[0]
        return F.log_softmax(self.out(x), dim=1), trans


@case("paper pointnet")
def _():
    return Case(PointNet(), ["float32[4,3,20]"], {"output_part": "0"})


class Field(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width + 1, 24), nn.Tanh(), nn.Linear(24, width))
        self.calls = 0

    def forward(self, t, y):
        self.calls += 1
        return self.net(torch.cat([y, torch.ones_like(y[:, :1]) * t], 1))


class NeuralODE(nn.Module):
    """Runge and Kutta's fixed steps, and a count of calls as such code has."""

    def __init__(self):
        super().__init__()
        self.field, self.out = Field(6), nn.Linear(6, CLASSES)
        self.times = torch.linspace(0.0, 1.0, 5)

    def forward(self, y):
        for t0, t1 in zip(self.times[:-1], self.times[1:]):
            h = t1 - t0
            k1 = self.field(t0, y)
            k2 = self.field(t0 + h / 2, y + h * k1 / 2)
            k3 = self.field(t0 + h / 2, y + h * k2 / 2)
            k4 = self.field(t1, y + h * k3)
            y = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
        return self.out(y)


@case("paper neural ODE of fixed steps")
def _():
    return Case(NeuralODE(), ["float32[4,6]"])


class WaveNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.start = nn.Conv1d(1, width, 1)
        self.filters = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**i) for i in range(3))
        self.gates = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))
        self.out = nn.Conv1d(width, CLASSES, 1)

    def forward(self, x):
        x, skip = self.start(x), 0
        for i, (filt, gate) in enumerate(zip(self.filters, self.gates)):
            padded = F.pad(x, (2**i, 0))
            z = torch.tanh(filt(padded)) * torch.sigmoid(gate(padded))
            s = self.skips[i](z)
            skip = s + skip
            x = x + s
        return self.out(F.relu(skip))


@case("paper wavenet")
def _():
    return Case(WaveNet(), ["float32[4,1,20]"], targets="classes 20")


def squash(s, dim=-1):
    square = (s**2).sum(dim=dim, keepdim=True)
    return square / (1 + square) * s / torch.sqrt(square + 1e-8)


class Capsules(nn.Module):
    """Routing by agreement, whose loops are detached but for the last."""

    def __init__(self, inputs=18, size=4, outputs=CLASSES, width=6):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.W = nn.Parameter(0.1 * torch.randn(1, outputs, inputs, width, size))
        self.size = size

    def forward(self, x):
        u = squash(F.relu(self.conv(x)).view(x.size(0), -1, self.size))
        u_hat = torch.matmul(self.W, u[:, None, :, :, None]).squeeze(-1)
        temp = u_hat.detach()
        b = torch.zeros(*u_hat.size()[:3], 1)
        for iteration in range(3):
            c = b.softmax(dim=1)
            if iteration < 2:
                b = b + torch.matmul(temp, squash((c * temp).sum(dim=2)).unsqueeze(-1))
        return torch.norm(squash((c * u_hat).sum(dim=2)), dim=-1)


@case("paper capsules")
def _():
    return Case(Capsules(), ["float32[4,1,8,8]"])


class Perceiver(nn.Module):
    def __init__(self, width=16, latents=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, width) * 0.02)
        self.lift = nn.Linear(5, width)
        self.cross, self.own = nn.MultiheadAttention(width, 2, batch_first=True), nn.MultiheadAttention(width, 2, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x, mask):
        h = self.norms[0](self.lift(x))
        z = self.latents.unsqueeze(0).expand(x.shape[0], -1, -1)
        for _ in range(2):
            z = z + self.cross(self.norms[1](z), h, h, key_padding_mask=~mask, need_weights=False)[0]
            z = z + self.own(self.norms[2](z), self.norms[2](z), self.norms[2](z))[0]
        return self.out(z.mean(1))


@case("paper perceiver with a mask")
def _():
    return Case(Perceiver(), ["x=float32[4,10,5]", "mask=bool[4,10]"])


class Experts(nn.Module):
    """The two best of four experts for every token; an auxiliary loss is kept in an attribute, as such code does."""

    def __init__(self, width=16, experts=4, best=2):
        super().__init__()
        self.gate, self.best = nn.Linear(width, experts, bias=False), best
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width)) for _ in range(experts))
        self.aux = None

    def forward(self, x):
        flat = x.view(-1, x.size(-1))
        weights, chosen = torch.topk(F.softmax(self.gate(flat), dim=-1), self.best)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            weight = (weights * (chosen == i)).sum(-1, keepdim=True)
            result = result + weight * expert(flat)
        self.aux = weights.mean()
        return result.view_as(x)


class SparseExperts(Experts):
    """As most write it: each expert computes those tokens that chose it."""

    def forward(self, x):
        flat = x.view(-1, x.size(-1))
        weights, chosen = torch.topk(F.softmax(self.gate(flat), dim=-1), self.best)
        result = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, which = torch.where(chosen == i)
            result[token] += weights[token, which, None] * expert(flat[token])
        return result.view_as(x)


@case("paper experts by masks")
def _():
    return Case(nn.Sequential(nn.Embedding(WORDS, 16), Experts(), nn.Linear(16, WORDS)), [TOKENS], **FOLLOWING)


@case("paper experts by the tokens that chose them")
def _():
    return Case(nn.Sequential(nn.Embedding(WORDS, 16), SparseExperts(), nn.Linear(16, WORDS)), [TOKENS], **FOLLOWING)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)


class RotaryBlock(nn.Module):
    """Llama as its first code has it: rotation by complex numbers, grouped keys, SwiGLU."""

    def __init__(self, width=16, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q, self.kv, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * groups * self.size, bias=False), nn.Linear(width, width, bias=False)
        self.w1, self.w2, self.w3 = nn.Linear(width, 32, bias=False), nn.Linear(32, width, bias=False), nn.Linear(width, 32, bias=False)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        turns = torch.outer(torch.arange(LENGTH), 1.0 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        self.turns = torch.polar(torch.ones_like(turns), turns)

    def turned(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[None, : x.shape[1], None]).flatten(3).type_as(x)

    def forward(self, x):
        n, length, _ = x.shape
        h = self.norm1(x)
        q = self.turned(self.q(h).view(n, length, self.heads, self.size)).transpose(1, 2)
        k, v = self.kv(h).view(n, length, 2, self.groups, self.size).unbind(2)
        k, v = (each.repeat_interleave(self.heads // self.groups, dim=2).transpose(1, 2) for each in (self.turned(k), v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size)
        scores = scores + torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        x = x + self.o((F.softmax(scores.float(), -1).type_as(q) @ v).transpose(1, 2).reshape(n, length, -1))
        h = self.norm2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


@case("paper rotary attention with RMSNorm and SwiGLU")
def _():
    return Case(nn.Sequential(nn.Embedding(WORDS, 16), RotaryBlock(), RotaryBlock(), RMSNorm(16), nn.Linear(16, WORDS)), [TOKENS], **FOLLOWING)


class Alibi(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.words, self.mixed, self.out = heads, nn.Embedding(WORDS, width), nn.Linear(width, 3 * width), nn.Linear(width, WORDS)
        self.slopes = [2 ** (-8 * (i + 1) / heads) for i in range(heads)]

    def forward(self, tokens):
        x = self.words(tokens)
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.mixed(x).chunk(3, -1))
        places = torch.arange(tokens.shape[1])
        bias = -(places[:, None] - places[None]).abs() * torch.tensor(self.slopes).view(-1, 1, 1)
        bias = bias.masked_fill(places[None] > places[:, None], float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))
        return self.out(x + y.transpose(1, 2).flatten(2))


@case("paper ALiBi")
def _():
    return Case(Alibi(), [TOKENS], **FOLLOWING)


class KAN(nn.Module):
    """Layers of splines, by the recursion of Cox and de Boor."""

    def __init__(self, inputs, outputs, grid=5, order=3):
        super().__init__()
        self.order = order
        step = 2 / grid
        self.register_buffer("grid", (torch.arange(-order, grid + order + 1) * step - 1).expand(inputs, -1).contiguous())
        self.base = nn.Parameter(torch.randn(outputs, inputs) * 0.3)
        self.spline = nn.Parameter(torch.randn(outputs, inputs, grid + order) * 0.1)

    def bases(self, x):
        x = x.unsqueeze(-1)
        b = ((x >= self.grid[:, :-1]) & (x < self.grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - self.grid[:, : -(k + 1)]) / (self.grid[:, k:-1] - self.grid[:, : -(k + 1)])
            right = (self.grid[:, k + 1 :] - x) / (self.grid[:, k + 1 :] - self.grid[:, 1:-k])
            b = left * b[:, :, :-1] + right * b[:, :, 1:]
        assert b.size() == (x.size(0), self.base.size(1), self.spline.size(2))
        return b.contiguous()

    def forward(self, x):
        return F.linear(F.silu(x), self.base) + F.linear(self.bases(x).view(x.size(0), -1), self.spline.view(self.spline.size(0), -1))


@case("paper KAN of splines")
def _():
    return Case(nn.Sequential(KAN(6, 8), KAN(8, CLASSES)), ["float32[4,6]"])


class Spectral(nn.Module):
    """A layer of a Fourier neural operator. Its weights are pairs of real numbers."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)

    def forward(self, x):
        n, _, h, w = x.shape
        spectrum = torch.fft.rfft2(x)
        out = torch.zeros(n, x.shape[1], h, w // 2 + 1, dtype=torch.cfloat)
        m = self.modes
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], torch.view_as_complex(self.weight))
        return torch.fft.irfft2(out, s=(h, w))


class ComplexSpectral(Spectral):
    """As the paper's code has it."""

    def __init__(self, width, modes):
        super().__init__(width, modes)
        self.weight = nn.Parameter(torch.view_as_complex(self.weight.detach()))

    def forward(self, x):
        n, _, h, w = x.shape
        m = self.modes
        out = torch.zeros(n, x.shape[1], h, w // 2 + 1, dtype=torch.cfloat)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x)[:, :, :m, :m], self.weight)
        return torch.fft.irfft2(out, s=(h, w))


class FNO(nn.Module):
    def __init__(self, layer=Spectral):
        super().__init__()
        self.lift, self.spectral, self.conv, self.project = nn.Conv2d(3, 8, 1), layer(8, 3), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        n, _, h, w = x.shape
        gridx = torch.linspace(0, 1, h).reshape(1, 1, h, 1).repeat([n, 1, 1, w])
        gridy = torch.linspace(0, 1, w).reshape(1, 1, 1, w).repeat([n, 1, h, 1])
        x = self.lift(torch.cat((x, gridx, gridy), dim=1))
        return self.project(F.gelu(self.spectral(x) + self.conv(x)))


@case("paper fourier neural operator")
def _():
    return Case(FNO(), ["float32[4,1,8,8]"], {}, "mse", "values 1 8 8")


@case("paper fourier neural operator of complex weights")
def _():
    return Case(FNO(ComplexSpectral), ["float32[4,1,8,8]"], {}, "mse", "values 1 8 8")


class Deformable(nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.ops import DeformConv2d

        self.offset, self.mask, self.conv = nn.Conv2d(3, 18, 3, padding=1), nn.Conv2d(3, 9, 3, padding=1), DeformConv2d(3, 8, 3, padding=1)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.conv(x, self.offset(x), torch.sigmoid(self.mask(x)))
        return self.out(F.relu(x).mean((2, 3)))


@case("paper deformable convolution of torchvision")
def _():
    return Case(Deformable(), ["float32[4,3,8,8]"])


class Warped(nn.Module):
    """A spatial transformer, and offsets by grid_sample."""

    def __init__(self):
        super().__init__()
        self.loc, self.conv, self.out = nn.Linear(64, 6), nn.Conv2d(1, 4, 3), nn.Linear(4, CLASSES)
        self.loc.weight.data.mul_(0.1)
        self.loc.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def forward(self, x):
        theta = self.loc(x.flatten(1)).view(-1, 2, 3)
        x = F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)
        return self.out(F.relu(self.conv(x)).amax((2, 3)))


@case("paper spatial transformer")
def _():
    return Case(Warped(), ["float32[4,1,8,8]"])


class ConvLSTM(nn.Module):
    def __init__(self, inputs=1, hidden=6):
        super().__init__()
        self.hidden, self.conv, self.out = hidden, nn.Conv2d(inputs + hidden, 4 * hidden, 3, padding=1), nn.Conv2d(hidden, 1, 1)

    def init_hidden(self, n, size):
        return (torch.zeros(n, self.hidden, *size, device=self.conv.weight.device), torch.zeros(n, self.hidden, *size, device=self.conv.weight.device))

    def forward(self, x):
        n, t, _, h, w = x.size()
        state, cell = self.init_hidden(n, (h, w))
        outputs = []
        for time in range(t):
            i, f, o, g = torch.split(self.conv(torch.cat([x[:, time], state], dim=1)), self.hidden, dim=1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(self.out(state))
        return torch.stack(outputs, dim=1)


@case("paper convolutional LSTM")
def _():
    return Case(ConvLSTM(), ["float32[4,4,1,8,8]"], {}, "mse", "values 4 1 8 8")


class Quantizer(nn.Module):
    """VQ-VAE: the nearest of a book of codes, straight through, with its two losses."""

    def __init__(self, codes=12, width=4):
        super().__init__()
        self.book = nn.Embedding(codes, width)
        self.book.weight.data.uniform_(-1 / codes, 1 / codes)

    def forward(self, z):
        z = z.permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, z.shape[-1])
        far = flat.pow(2).sum(1, keepdim=True) + self.book.weight.pow(2).sum(1) - 2 * flat @ self.book.weight.t()
        nearest = torch.argmin(far, dim=1).unsqueeze(1)
        hot = torch.zeros(nearest.shape[0], self.book.num_embeddings)
        hot.scatter_(1, nearest, 1)
        quantized = torch.matmul(hot, self.book.weight).view(z.shape)
        loss = F.mse_loss(quantized, z.detach()) + 0.25 * F.mse_loss(quantized.detach(), z)
        quantized = z + (quantized - z).detach()
        return loss, quantized.permute(0, 3, 1, 2).contiguous()


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.quantizer, self.decoder = nn.Conv2d(1, 4, 2, 2), Quantizer(), nn.ConvTranspose2d(4, 1, 2, 2)

    def forward(self, x):
        loss, q = self.quantizer(self.encoder(x))
        back = self.decoder(q)
        return {"loss": loss + F.mse_loss(back, x), "reconstruction": back}


@case("paper VQ-VAE")
def _():
    return Case(VQVAE(), ["float32[4,1,8,8]"], {"loss": "loss"}, "model", "none")


class Mixture(nn.Module):
    """A mixture density network, with its likelihood."""

    def __init__(self, parts=3):
        super().__init__()
        self.body, self.pi, self.mu, self.sigma = nn.Sequential(nn.Linear(4, 16), nn.Tanh()), nn.Linear(16, parts), nn.Linear(16, parts), nn.Linear(16, parts)

    def forward(self, x, y):
        h = self.body(x)
        each = torch.distributions.Normal(self.mu(h), F.softplus(self.sigma(h)) + 1e-3)
        logp = each.log_prob(y.expand_as(self.mu(h))) + F.log_softmax(self.pi(h), -1)
        return -torch.logsumexp(logp, dim=-1).mean()


@case("paper mixture density network")
def _():
    return Case(Mixture(), ["float32[4,4]"], {"loss": True, "targets": "y=float32[4,1]"}, "model", "values 1")


class Contrast(nn.Module):
    """CLIP's two towers with a temperature that is learned: its loss compares the samples of a batch."""

    def __init__(self):
        super().__init__()
        self.image, self.text, self.scale = nn.Linear(12, 8), nn.EmbeddingBag(WORDS, 8), nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, image, text):
        a, b = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
        logits = self.scale.exp() * a @ b.t()
        labels = torch.arange(image.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@case("paper contrast between the samples of a batch")
def _():
    return Case(Contrast(), ["image=float32[4,12]", f"text={TOKENS}"], {"loss": True}, "model", "none")


class Prototypes(nn.Module):
    """Cosines to prototypes by a temperature that is learned."""

    def __init__(self):
        super().__init__()
        self.body, self.prototypes, self.scale = nn.Sequential(nn.Linear(12, 8), nn.ReLU()), nn.Parameter(torch.randn(CLASSES, 8)), nn.Parameter(torch.ones([]) * 2.0)

    def forward(self, x):
        return self.scale.exp().clamp(max=100) * F.normalize(self.body(x), dim=1) @ F.normalize(self.prototypes, dim=1).t()


@case("paper cosine prototypes with a temperature")
def _():
    return Case(Prototypes(), ["float32[4,12]"])


class Triplet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.loss = nn.Sequential(nn.Linear(12, 16), nn.PReLU(), nn.Linear(16, 4)), nn.TripletMarginLoss(margin=1.0)

    def forward(self, anchor, positive, negative):
        return self.loss(self.net(anchor), self.net(positive), self.net(negative))


@case("paper triplet loss")
def _():
    return Case(Triplet(), [f"{name}=float32[4,12]" for name in ("anchor", "positive", "negative")], {"loss": True}, "model", "none")


class CRF(nn.Module):
    """The likelihood of a chain of tags: a scan over time, and gather."""

    def __init__(self, tags=6):
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(WORDS, 8), nn.LSTM(8, 6, bidirectional=True, batch_first=True), nn.Linear(12, tags)
        self.transitions, self.start, self.end = nn.Parameter(torch.randn(tags, tags) * 0.1), nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def forward(self, tokens, tags):
        emissions = self.out(self.lstm(self.words(tokens))[0])
        score = self.start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            score = score + self.transitions[tags[:, t - 1], tags[:, t]] + emissions[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1), dim=1)
        score = score + self.end[tags[:, -1]]
        return (torch.logsumexp(alpha + self.end, 1) - score).mean()


@case("paper CRF over an LSTM")
def _():
    return Case(CRF(), [TOKENS.replace("16", "6")], {"loss": True, "targets": "int64[4,6]<6"}, "model", "classes 6", classes=6)


class MaskedCRF(CRF):
    """As torchcrf masks its steps: where, and no branch."""

    def forward(self, tokens, mask):
        emissions = self.out(self.lstm(self.words(tokens))[0])
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            step = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1), dim=1)
            alpha = torch.where(mask[:, t].unsqueeze(1), step, alpha)
        return alpha + self.end


@case("paper masked scan of a CRF")
def _():
    return Case(MaskedCRF(CLASSES), [f"tokens={TOKENS}", f"mask=bool[4,{LENGTH}]"])


class Critic(nn.Module):
    """spectral_norm of old, in several layers."""

    def __init__(self):
        super().__init__()
        norm = nn.utils.spectral_norm
        self.net = nn.Sequential(norm(nn.Conv2d(1, 4, 4, 2, 1)), nn.LeakyReLU(0.2, inplace=True), norm(nn.Conv2d(4, 8, 4, 2, 1)), nn.LeakyReLU(0.2, inplace=True),
                                 nn.Flatten(), norm(nn.Linear(32, CLASSES)))  # fmt: skip

    def forward(self, x):
        return self.net(x)


@case("paper critic with spectral_norm of old")
def _():
    return Case(Critic(), ["float32[4,1,8,8]"])


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return gradient * (s * (1 + x * (1 - s)))


class Reversal(torch.autograd.Function):
    """A gradient that is not the function's: of domain-adversarial training."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.weight * gradient, None


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        gradient = gradient.clone()
        gradient[x.abs() > 1] = 0
        return gradient


class OwnFunctions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.out = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = Swish.apply(self.first(x))
        x = Reversal.apply(self.second(x), 0.3)
        return self.out(Sign.apply(self.third(x)))


@case("paper own autograd functions")
def _():
    return Case(OwnFunctions(), ["float32[4,12]"])


class Film(nn.Module):
    """Features that another input scales and shifts."""

    def __init__(self):
        super().__init__()
        self.question, self.gru, self.film = nn.Embedding(WORDS, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 16)
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, affine=False), nn.Linear(8, CLASSES)

    def forward(self, image, question):
        _, state = self.gru(self.question(question))
        gamma, beta = self.film(state[-1]).chunk(2, dim=1)
        x = self.norm(self.conv(image))
        x = F.relu((1 + gamma[:, :, None, None]) * x + beta[..., None, None])
        return self.out(F.adaptive_avg_pool2d(x, 1).flatten(1))


@case("paper FiLM")
def _():
    return Case(Film(), ["image=float32[4,3,8,8]", f"question={TOKENS}"])


class Hyper(nn.Module):
    """The weights of a layer by another network, one for each sample, by functional calls."""

    def __init__(self):
        super().__init__()
        self.code, self.make, self.main = nn.Linear(4, 8), nn.Linear(8, 6 * 10 + 10), nn.Linear(10, CLASSES)

    def forward(self, x, context):
        made = self.make(F.relu(self.code(context)))
        weight, bias = made[:, :60].view(-1, 10, 6), made[:, 60:]
        h = torch.einsum("bij,bj->bi", weight, x) + bias
        return self.main(torch.relu(h))


@case("paper hypernetwork")
def _():
    return Case(Hyper(), ["x=float32[4,6]", "context=float32[4,4]"])


class GroupedHyper(nn.Module):
    """Kernels of a convolution for each sample: groups as many as samples."""

    def __init__(self):
        super().__init__()
        self.make, self.out = nn.Linear(3, 4 * 3 * 9), nn.Linear(4, CLASSES)

    def forward(self, x):
        n, c, h, w = x.shape
        kernels = self.make(x.mean((2, 3))).view(n * 4, c, 3, 3)
        y = F.conv2d(x.reshape(1, n * c, h, w), kernels, padding=1, groups=n)
        return self.out(y.view(n, 4, h, w).mean((2, 3)))


@case("paper kernels for each sample by groups")
def _():
    return Case(GroupedHyper(), ["float32[4,3,8,8]"])


class Evoformer(nn.Module):
    """Products of triangles and outer means, by einsum."""

    def __init__(self, width=6):
        super().__init__()
        self.norm, self.a, self.b, self.gate, self.out = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, CLASSES)

    def forward(self, pairs):
        z = self.norm(pairs)
        a, b = torch.sigmoid(self.gate(z)) * self.a(z), self.b(z)
        z = pairs + torch.einsum("bikc,bjkc->bijc", a, b) / pairs.shape[1] ** 0.5
        z = z + torch.einsum("bkic,bkjd,cd->bijc", a, b, self.a.weight)
        return self.out(torch.einsum("bijc->bc", z))


@case("paper triangles by einsum")
def _():
    return Case(Evoformer(), ["float32[4,5,5,6]"])


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.gru, self.out = nn.Embedding(WORDS, 8, padding_idx=0), nn.GRU(8, 8, bidirectional=True, batch_first=True), nn.Linear(16, CLASSES)

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.words(tokens), lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        _, state = self.gru(packed)
        return self.out(torch.cat([state[0], state[1]], 1))


@case("paper bidirectional GRU over packed sequences")
def _():
    return Case(Packed(), [f"tokens={TOKENS}", f"lengths=int64[4]<{LENGTH}"])


class Losses(nn.Module):
    """Label smoothing, focal and dice losses by hand."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, CLASSES, 1)

    def forward(self, x, target):
        logits = self.out(F.relu(self.conv(x)))
        hot = F.one_hot(target, CLASSES).permute(0, 3, 1, 2).float()
        smooth = hot * 0.9 + 0.1 / CLASSES
        logp = F.log_softmax(logits, 1)
        ce = -(smooth * logp).sum(1).mean()
        p = logp.exp()
        focal = -((1 - p) ** 2 * logp * hot).sum(1).mean()
        axes = (2, 3)
        dice = 1 - ((2 * (p * hot).sum(axes) + 1) / ((p + hot).sum(axes) + 1)).mean()
        return ce + focal + dice


@case("paper smoothed, focal and dice losses")
def _():
    return Case(Losses(), ["float32[4,1,6,6]"], {"loss": True, "targets": "int64[4,6,6]<5"}, "model", "classes 6 6")


class BatchDice(Losses):
    """Dice over the whole batch, which is no mean over samples."""

    def forward(self, x, target):
        p = torch.softmax(self.out(F.relu(self.conv(x))), 1)
        hot = F.one_hot(target, CLASSES).permute(0, 3, 1, 2).float()
        return 1 - ((2 * (p * hot).sum((0, 2, 3)) + 1) / ((p + hot).sum((0, 2, 3)) + 1)).mean()


@case("paper dice loss over a batch")
def _():
    return Case(BatchDice(), ["float32[4,1,6,6]"], {"loss": True, "targets": "int64[4,6,6]<5"}, "model", "classes 6 6")


@dataclass
class Outputs:
    logits: torch.Tensor
    features: torch.Tensor = None


class Dictionary(nn.Module):
    """Takes one dictionary of inputs, as HF data collators give them; returns a dataclass."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, CLASSES)

    def forward(self, batch):
        x = self.words(batch["input_ids"])
        mask = batch["attention_mask"].unsqueeze(-1).float()
        x = (x * mask).sum(1) / mask.sum(1).clamp(min=1e-6)
        return Outputs(self.out(x), x)


@case("paper one dictionary of inputs")
def _():
    return Case(Dictionary(), [f"input_ids={TOKENS}", f"attention_mask={MASK}"], {"output_part": "logits"})


class Keywords(Dictionary):
    def forward(self, **batch):
        return super().forward(batch)


@case("paper keywords only, and a dataclass")
def _():
    return Case(Keywords(), [f"input_ids={TOKENS}", f"attention_mask={MASK}"], {"output_part": "logits"})


@case("paper transformers with its loss inside")
def _():
    import transformers

    config = transformers.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return Case(transformers.GPT2LMHeadModel(config), [f"input_ids={TOKENS}"], {"loss": "loss", "targets": f"labels=int64[4,{LENGTH}]<{WORDS}", "output_part": "logits"},
                "model", **FOLLOWING)  # fmt: skip


class Diffusion(nn.Module):
    """DDPM's loss: a time for each sample and noise, tables in buffers, sines of time."""

    def __init__(self, steps=20):
        super().__init__()
        betas = torch.linspace(1e-4, 0.02, steps)
        self.steps = steps
        self.register_buffer("products", torch.cumprod(1 - betas, 0))
        self.time, self.first, self.norm, self.second = nn.Linear(16, 8), nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Conv2d(8, 1, 3, padding=1)

    def embedded(self, t):
        half = 8
        e = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        e = t[:, None] * e[None, :]
        return torch.cat((e.sin(), e.cos()), dim=-1)

    def forward(self, x):
        t = torch.randint(0, self.steps, (x.shape[0],)).long()
        noise = torch.randn_like(x)
        a = self.products[t].view(-1, 1, 1, 1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        h = F.silu(self.norm(self.first(noisy))) + self.time(self.embedded(t))[:, :, None, None]
        return F.mse_loss(self.second(h), noise)


@case("paper diffusion")
def _():
    return Case(Diffusion(), ["float32[4,1,8,8]"], {"loss": True}, "model", "none")


class Averaged(nn.Module):
    """A teacher that follows by a moving average, written to in the forward pass (BYOL, MoCo)."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = nn.Linear(12, 8), nn.Linear(12, 8)
        self.teacher.load_state_dict(self.student.state_dict())
        self.teacher.requires_grad_(False)
        self.predictor = nn.Linear(8, 8)

    def forward(self, x, y):
        with torch.no_grad():
            for mine, theirs in zip(self.student.parameters(), self.teacher.parameters()):
                theirs.data.mul_(0.99).add_(mine.data, alpha=0.01)
            target = self.teacher(y)
        return 2 - 2 * F.cosine_similarity(self.predictor(self.student(x)), target.detach(), dim=-1).mean()


@case("paper teacher by moving average")
def _():
    return Case(Averaged(), ["x=float32[4,12]", "y=float32[4,12]"], {"loss": True}, "model", "none")


class EarlyExit(nn.Module):
    """Layers dropped by Python's random numbers, and by torch's."""

    def __init__(self, python=False):
        super().__init__()
        self.python, self.layers, self.out = python, nn.ModuleList(nn.Linear(12, 12) for _ in range(3)), nn.Linear(12, CLASSES)

    def forward(self, x):
        import random

        for layer in self.layers:
            chance = random.random() if self.python else torch.rand(1)
            if not self.training or chance > 0.3:
                x = x + F.relu(layer(x))
        return self.out(x)


@case("paper layers dropped by torch.rand")
def _():
    return Case(EarlyExit(), ["float32[4,12]"])


@case("paper layers dropped by Python's random")
def _():
    return Case(EarlyExit(True), ["float32[4,12]"])


class Cached(nn.Module):
    """A mask and sines that are made when first needed, and kept."""

    def __init__(self):
        super().__init__()
        self.words, self.attend, self.out = nn.Embedding(WORDS, 16), nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, WORDS)
        self.mask = None

    def forward(self, tokens):
        length = tokens.size(1)
        if self.mask is None or self.mask.size(0) != length:
            self.mask = torch.triu(torch.ones(length, length), 1).bool()
        x = self.words(tokens) * math.sqrt(16)
        return self.out(self.attend(x, x, x, attn_mask=self.mask)[0])


@case("paper a mask kept when first needed")
def _():
    return Case(Cached(), [TOKENS], **FOLLOWING)


class Reversible(nn.Module):
    """gradients of a network with respect to its inputs, in the forward pass: an energy, and its force."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(6, 16), nn.Softplus(), nn.Linear(16, 1))

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            energy = self.energy(x).sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return -force


@case("paper forces by a gradient inside")
def _():
    return Case(Reversible(), ["float32[4,6]"], {}, "mse", "values 6")


class Coupling(nn.Module):
    """RealNVP with its likelihood, by torch.distributions kept in the module."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(3))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("spread", torch.eye(4))

    def forward(self, x):
        logdet = x.new_zeros(x.shape[0])
        for net in self.nets:
            a, b = x.chunk(2, dim=1)
            s, t = net(a).chunk(2, dim=1)
            s = torch.tanh(s)
            x = torch.cat([b * s.exp() + t, a], 1)
            logdet = logdet + s.sum(1)
        base = torch.distributions.MultivariateNormal(self.mean, self.spread)
        return -(base.log_prob(x) + logdet).mean()


@case("paper RealNVP")
def _():
    return Case(Coupling(), ["float32[4,4]"], {"loss": True}, "model", "none")


class StateSpace(nn.Module):
    """S4's diagonal form: complex states by pairs, and a long convolution by FFT."""

    def __init__(self, width=6, states=4):
        super().__init__()
        self.logdt = nn.Parameter(torch.rand(width) - 3)
        self.C = nn.Parameter(torch.view_as_real(torch.randn(width, states, dtype=torch.cfloat)))
        self.loga = nn.Parameter(torch.log(0.5 * torch.ones(width, states)))
        self.imaginary = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1))
        self.lift, self.out = nn.Linear(2, width), nn.Linear(width, CLASSES)

    def forward(self, u):
        length = u.size(1)
        x = self.lift(u).transpose(1, 2)
        a = -torch.exp(self.loga) + 1j * self.imaginary
        dta = a * torch.exp(self.logdt).unsqueeze(-1)
        kernel = dta.unsqueeze(-1) * torch.arange(length)
        c = torch.view_as_complex(self.C) * (torch.exp(dta) - 1.0) / a
        kernel = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(kernel)).real
        y = torch.fft.irfft(torch.fft.rfft(kernel, n=2 * length) * torch.fft.rfft(x, n=2 * length), n=2 * length)[..., :length]
        return self.out(F.gelu(y).mean(-1))


@case("paper state spaces by FFT")
def _():
    return Case(StateSpace(), ["float32[4,16,2]"])


class Recommender(nn.Module):
    """DeepFM: fields with offsets into one table, crosses, an MLP with batch normalisation, a bias of shape [1]."""

    def __init__(self, fields=(10, 7, 5)):
        super().__init__()
        self.offsets = [0, 10, 17]
        self.table, self.linear, self.bias = nn.Embedding(sum(fields), 6), nn.Embedding(sum(fields), 1), nn.Parameter(torch.zeros((1,)))
        self.mlp = nn.Sequential(nn.Linear(18, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 1))

    def forward(self, x):
        x = x + x.new_tensor(self.offsets).unsqueeze(0)
        e = self.table(x)
        crosses = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.linear(x).sum(1) + self.bias + crosses + self.mlp(e.view(-1, 18)))


@case("paper DeepFM")
def _():
    return Case(Recommender(), ["int64[4,3]<5"], {}, "mse", "values 1")


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(OrderedDict(conv=nn.Conv2d(4, 8, 4, 2), act=nn.ReLU(True), flat=nn.Flatten()))
        self.value, self.advantage = nn.Linear(72, 1), nn.Linear(72, CLASSES)

    def forward(self, x):
        x = self.body(x / 255.0)
        a = self.advantage(x)
        return self.value(x) + a - a.mean(dim=1, keepdim=True)


@case("paper dueling network")
def _():
    return Case(Dueling(), ["float32[4,4,8,8]"])
