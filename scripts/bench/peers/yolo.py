"""The twin of model `yolo` in PyTorch: docs/detection.md describes the network and names the papers, src/model/yolo.cpp is what it was
written from. Parameters have the same names, so that `load` takes what `autotrain export` writes."""
import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDES, BINS = (8, 16, 32), 16
SIZES = {"p": (8, (1, 1, 1, 1), 1), "n": (16, (1, 2, 2, 1), 1), "s": (32, (1, 2, 2, 1), 1), "m": (48, (2, 4, 4, 2), 2)}


class Conv(nn.Module):
    def __init__(self, inputs, outputs, side, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)
        self.norm = nn.GroupNorm(math.gcd(outputs, 8), outputs)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class Residual(nn.Module):
    def __init__(self, channels, adds):
        super().__init__()
        self.first, self.second, self.adds = Conv(channels, channels, 3), Conv(channels, channels, 3), adds

    def forward(self, x):
        y = self.second(self.first(x))
        return x + y if self.adds else y


class Csp(nn.Module):
    """Half of the channels go through residual blocks, half past them."""

    def __init__(self, inputs, outputs, blocks, adds):
        super().__init__()
        half = outputs // 2
        self.through, self.past = Conv(inputs, half, 1), Conv(inputs, half, 1)
        self.blocks = nn.ModuleList(Residual(half, adds) for _ in range(blocks))
        self.joined = Conv(outputs, outputs, 1)

    def forward(self, x):
        y = self.through(x)
        for block in self.blocks:
            y = block(y)
        return self.joined(torch.cat([y, self.past(x)], 1))


class Pooling(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.before, self.after = Conv(channels, channels // 2, 1), Conv(2 * channels, channels, 1)

    def forward(self, x):
        wider = [self.before(x)]
        for _ in range(3):
            wider.append(F.max_pool2d(wider[-1], 5, 1, 2))
        return self.after(torch.cat(wider, 1))


class Backbone(nn.Module):
    def __init__(self, channels, width, blocks):
        super().__init__()
        self.stem = Conv(channels, width, 3, 2)
        for number, count in enumerate(blocks, 1):
            inputs, outputs = width << (number - 1), width << number
            self.add_module(f"down{number}", Conv(inputs, outputs, 3, 2))
            self.add_module(f"stage{number}", Csp(outputs, outputs, count, adds=True))
        self.pooling = Pooling(width << len(blocks))

    def forward(self, x):
        x = self.stage1(self.down1(self.stem(x)))
        fine = self.stage2(self.down2(x))
        middle = self.stage3(self.down3(fine))
        return fine, middle, self.pooling(self.stage4(self.down4(middle)))


class Neck(nn.Module):
    def __init__(self, fine, middle, coarse, blocks):
        super().__init__()
        self.down_to_middle = Csp(coarse + middle, middle, blocks, adds=False)
        self.down_to_fine = Csp(middle + fine, fine, blocks, adds=False)
        self.fine_step = Conv(fine, fine, 3, 2)
        self.up_to_middle = Csp(fine + middle, middle, blocks, adds=False)
        self.middle_step = Conv(middle, middle, 3, 2)
        self.up_to_coarse = Csp(middle + coarse, coarse, blocks, adds=False)

    def forward(self, fine, middle, coarse):
        down = self.down_to_middle(torch.cat([F.interpolate(coarse, middle.shape[2:]), middle], 1))
        out = self.down_to_fine(torch.cat([F.interpolate(down, fine.shape[2:]), fine], 1))
        back = self.up_to_middle(torch.cat([self.fine_step(out), down], 1))
        return out, back, self.up_to_coarse(torch.cat([self.middle_step(back), coarse], 1))


class Branch(nn.Module):
    def __init__(self, inputs, width, outputs):
        super().__init__()
        self.first, self.second = Conv(inputs, width, 3), Conv(width, width, 3)
        self.output = nn.Conv2d(width, outputs, 1)

    def forward(self, x):
        return self.output(self.second(self.first(x)))


class Head(nn.Module):
    def __init__(self, inputs, width, classes):
        super().__init__()
        self.boxes, self.classes = Branch(inputs, width, 4 * BINS), Branch(inputs, width, classes)
        nn.init.constant_(self.classes.output.bias, math.log(0.01 / 0.99))
        nn.init.zeros_(self.boxes.output.bias)

    def forward(self, x):
        return torch.cat([self.boxes(x), self.classes(x)], 1).flatten(2).transpose(1, 2)


@functools.lru_cache(maxsize=8)
def points_of(height, width, device):
    """[points, 5]: x, y and stride of the middle of each cell of all levels, width and height of the image, in pixels."""
    levels = []
    for stride in STRIDES:
        rows, columns = -(-height // stride), -(-width // stride)
        y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
        place = torch.stack([x * stride, y * stride], 2).view(-1, 2)
        levels.append(torch.cat([place, torch.tensor([[stride, width, height]]).expand(len(place), -1)], 1))
    return torch.cat(levels).to(device, torch.float32)


class Yolo(nn.Module):
    """@return bins and logits [n, points, 4 · BINS + classes] in float32, and the points."""

    def __init__(self, size="n", classes=10, channels=3):
        super().__init__()
        width, blocks, neck_blocks = SIZES[size]
        widths = (4 * width, 8 * width, 16 * width)
        self.backbone, self.neck = Backbone(channels, width, blocks), Neck(*widths, neck_blocks)
        for stride, inputs in zip(STRIDES, widths):
            self.add_module(f"head{stride}", Head(inputs, widths[0], classes))

    def forward(self, x):
        levels = self.neck(*self.backbone(x))
        heads = (self.head8, self.head16, self.head32)
        said = torch.cat([head(level) for head, level in zip(heads, levels)], 1)
        return said.float(), points_of(*x.shape[2:], x.device)

    def load(self, path):
        from safetensors.torch import load_file
        self.load_state_dict(load_file(path))
        return self
