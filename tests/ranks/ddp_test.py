#!/usr/bin/env python3
"""Two ranks of ours beside two of PyTorch's DistributedDataParallel: the same samples, initial weights, optimizer and loss
give the same losses over 50 updates. Skipped (77) where Python has no torch.

    ddp_test.py path/to/autotrain
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

try:
    import torch
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)

SAMPLES, EFFECTIVE, UPDATES, RANKS = 1600, 64, 50, 2
RECIPE = f"""seed: 3
data:
  train: {{dataset: npy, inputs: inputs.npy, targets: classes.npy}}
  shuffle: false
model: {{name: mlp, depth: 2, width: 32}}
optimizer: {{name: adamw, lr: 0.003, reference_batch: {EFFECTIVE}, weight_decay: 0.01, clip_norm: 1.0}}
schedule: {{name: constant}}
batch: {{effective: {EFFECTIVE}}}
execution: {{precision: fp32, threads: 1, micro_batch: 12, telemetry: 0, memory: {{budget: 64MiB}}}}
report: {{html: false, csv: false, tensorboard: false}}
"""


def network(tensors):
    """The same layers with the tensors of a checkpoint, which stand there under our names, sorted as layers are."""
    names = sorted({name.rsplit(".", 1)[0] for name in tensors}, key=lambda name: (tensors[name + ".weight"].shape[0] == 10, name))
    layers = [torch.nn.Flatten()]
    for name in names:
        weight = torch.from_numpy(tensors[name + ".weight"].copy())
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(torch.from_numpy(tensors[name + ".bias"].copy()))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def work(folder):
    """One rank of PyTorch's."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    net = network(load_file(folder / "start.safetensors"))
    model = torch.nn.parallel.DistributedDataParallel(net)
    decayed = [p for p in net.parameters() if p.dim() >= 2]
    rest = [p for p in net.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=0.003)
    inputs, classes = (torch.from_numpy(numpy.load(folder / name)) for name in ("inputs.npy", "classes.npy"))
    losses = []
    for update in range(UPDATES):
        first = update * EFFECTIVE % SAMPLES
        own = slice(first + rank, first + EFFECTIVE, world)
        loss = torch.nn.functional.cross_entropy(model(inputs[own]), classes[own])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        whole = loss.detach().clone()
        torch.distributed.all_reduce(whole)
        losses.append(whole.item() / world)
    if rank == 0:
        (folder / "losses.json").write_text(json.dumps(losses), encoding="utf-8")
    torch.distributed.destroy_process_group()
    # gloo's threads may still hold tensors of Python's, and freeing one while the interpreter ends aborts the process.
    os._exit(0)


def python_ranks(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, "-X", "faulthandler", __file__, "work", folder],
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "CUDA_VISIBLE_DEVICES": ""})
             for rank in range(RANKS)]
    codes = [rank.wait(timeout=600) for rank in ranks]
    if any(codes):
        sys.exit(f"PyTorch's ranks ended with {codes}")
    return json.loads((folder / "losses.json").read_text(encoding="utf-8"))


def train(binary, folder, output, *more):
    done = subprocess.run([binary, "--config", folder / "recipe.yaml", "--output", folder / output, "--quiet", "--ranks",
                           str(RANKS), *more], cwd=folder, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "CI": "1", "CUDA_VISIBLE_DEVICES": ""}, check=False)
    if done.returncode != 0:
        sys.exit(f"our ranks ended with {done.returncode}: {done.stderr}")
    return folder / output


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dice = numpy.random.default_rng(5)
        classes = numpy.arange(SAMPLES) % 10
        inputs = dice.standard_normal((SAMPLES, 20)) + 0.3 * classes[:, None] * dice.standard_normal(20)
        numpy.save(folder / "inputs.npy", inputs.astype(numpy.float32))
        numpy.save(folder / "classes.npy", classes)
        (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
        # An update at a rate too small to move a float32 leaves the initial weights in a checkpoint.
        start = train(Path(sys.argv[1]).resolve(), folder, "start", "--set", "stop.updates=1", "--set", "optimizer.lr=1e-30")
        (start / "checkpoints/update-1/model.safetensors").rename(folder / "start.safetensors")
        run = train(Path(sys.argv[1]).resolve(), folder, "run", "--set", f"stop.updates={UPDATES}")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        ours = [row["loss"] for row in rows if row["kind"] == "update"]
        theirs = python_ranks(folder)
        worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
        print(f"{len(ours)} updates, loss {theirs[0]:.4f} to {theirs[-1]:.4f}, largest relative difference {worst:.2e}")
        if len(ours) != UPDATES or worst > 1e-5 or theirs[-1] > 0.9 * theirs[0]:
            sys.exit("the losses differ")


if __name__ == "__main__":
    work(Path(sys.argv[2])) if sys.argv[1] == "work" else main()
