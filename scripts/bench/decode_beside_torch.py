#!/usr/bin/env python3
"""Generates by a trained run with this program and with a loop in PyTorch over the same weights, in turns.

    .deps/python/bin/python scripts/bench/decode_beside_torch.py build/release/autotrain RUN --heads 8 [--kv-heads 8]
        [--batches 1,8] [--prompt 32] [--generate 128] [--turns 3] [--threads 2]

The run is of model transformer with rotary positions and tied weights, over bytes. The loop has a cache that is allocated once, too, and is
what a person would write: torch.nn.functional, inference_mode, no compilation. Prints tokens a second of both (prompts included), and
whether they made the same tokens.
"""
import argparse
import json
import statistics
import struct
import subprocess
import time
from pathlib import Path

import torch
import torch.nn.functional as F


def read_weights(run):
    newest = max((run / "checkpoints").glob("update-*"), key=lambda p: int(p.name.split("-")[1]))
    content = (newest / "model.safetensors").read_bytes()
    length, = struct.unpack("<Q", content[:8])
    weights = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        weights[name] = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.float32).view(entry["shape"])
    return weights


def rotate(x, positions):
    half = x.shape[-1] // 2
    angles = positions.float()[:, None] * 10000 ** (-torch.arange(half) / half)
    a, b, cosines, sines = x[..., :half], x[..., half:], angles.cos(), angles.sin()
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)


class Model:
    def __init__(self, weights, heads, kv_heads):
        self.w, self.heads, self.kv_heads = weights, heads, kv_heads
        self.layers = sum(name.endswith(".qkv.weight") for name in weights)
        self.width = weights["token.weight"].shape[1]

    def norm(self, x, name):
        return F.layer_norm(x, (self.width,), self.w[name + ".weight"], self.w[name + ".bias"])

    def linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def attend(self, x, name, cache, at):
        n, length, size = x.shape[0], x.shape[1], self.width // self.heads
        joined = self.linear(x, name + ".qkv").view(n, length, -1, size).transpose(1, 2)
        q, k, v = joined.split([self.heads, self.kv_heads, self.kv_heads], 1)
        positions = torch.arange(at, at + length)
        cache[0][:, :, at:at + length] = rotate(k, positions)
        cache[1][:, :, at:at + length] = v
        keys, values = (part[:, :, :at + length] for part in cache)
        y = F.scaled_dot_product_attention(rotate(q, positions), keys, values, is_causal=length > 1,
                                           enable_gqa=self.heads != self.kv_heads)
        return self.linear(y.transpose(1, 2).reshape(n, length, self.width), name + ".projection")

    def logits(self, tokens, caches, at):
        x = self.w["token.weight"][tokens]
        for layer, cache in enumerate(caches):
            name = f"block{layer}"
            x = x + self.attend(self.norm(x, name + ".ln1"), name, cache, at)
            x = x + self.linear(F.gelu(self.linear(self.norm(x, name + ".ln2"), name + ".expand")), name + ".contract")
        return F.linear(self.norm(x[:, -1], "ln"), self.w["token.weight"])

    @torch.inference_mode()
    def generate(self, prompts, count):
        n, length = prompts.shape
        shape = (n, self.kv_heads, length + count, self.width // self.heads)
        caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(self.layers)]
        made = [self.logits(prompts, caches, 0).argmax(-1)]
        for at in range(length, length + count - 1):
            made.append(self.logits(made[-1][:, None], caches, at).argmax(-1))
        return torch.stack(made, 1).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("run", type=Path)
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    model = Model(read_weights(o.run), o.heads, o.kv_heads or o.heads)
    text = Path("/usr/share/common-licenses/GPL-3").read_bytes()
    text = bytes(c for c in text if 32 <= c < 127)
    for batch in map(int, o.batches.split(",")):
        prompts = [text[i * 977:i * 977 + o.prompt].decode() for i in range(batch)]
        tokens = torch.tensor([list(p.encode()) for p in prompts])
        model.generate(tokens, 4)
        ours, theirs = [], []
        for _ in range(o.turns):
            command = [o.binary, "predict", "--run", o.run, "--json", "--generate", o.generate, "--batch", batch,
                       "--set", f"execution.threads={o.threads}"]
            command += [word for p in prompts for word in ("--prompt", p)]
            made = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True).stdout)
            ours.append(made["tokens_per_second"])
            start = time.perf_counter()
            beside = model.generate(tokens, o.generate)
            theirs.append(batch * o.generate / (time.perf_counter() - start))
        same = sum(a["tokens"] == b for a, b in zip(made["texts"], beside))
        a, b = statistics.median(ours), statistics.median(theirs)
        ratios = sorted(own / other for own, other in zip(ours, theirs))
        print(f"batch {batch}: {a:.0f} tokens/s, PyTorch {b:.0f} tokens/s, ratio {statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]; "
              f"{same} of {batch} texts are the same", flush=True)


if __name__ == "__main__":
    main()
