"""torch.utils.data.DataLoader in turns with another program: reads lines "WORKERS SECONDS" from standard input and
answers each with one JSON line. python loader_turns.py --kind fashion --root FOLDER --batch 256"""
import argparse
import gzip
import json
import sys
import time
from pathlib import Path

import numpy
import torch
import torchvision
from torchvision.transforms import v2


class Fashion(torch.utils.data.Dataset):
    def __init__(self, root):
        pixels = gzip.decompress(Path(root, "train-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress(Path(root, "train-labels-idx1-ubyte.gz").read_bytes())[8:]
        self.images = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(-1, 1, 28, 28)
        self.labels = torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()
        self.change = v2.Compose([v2.RandomCrop(28, padding=2), v2.RandomHorizontalFlip(),
                                  v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.286], [0.353])])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.change(self.images[i]), self.labels[i]


def image_folder(root):
    change = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor(),
                         v2.ToDtype(torch.float32, scale=True),
                         v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    return torchvision.datasets.ImageFolder(root, change)


class Tokens(torch.utils.data.Dataset):
    def __init__(self, path, context=256):
        self.tokens, self.context = numpy.memmap(path, numpy.uint16, "r"), context

    def __len__(self):
        return (len(self.tokens) - self.context - 1) // self.context + 1

    def __getitem__(self, i):
        window = torch.from_numpy(self.tokens[i * self.context:(i + 1) * self.context + 1].astype(numpy.int64))
        return window[:-1], window[1:]


def table(path):
    values = torch.from_numpy(numpy.loadtxt(path, delimiter=",", skiprows=1, dtype=numpy.float32))
    inputs = values[:, :-1]
    return torch.utils.data.TensorDataset((inputs - inputs.mean(0)) / inputs.std(0), values[:, -1].long())


KINDS = {"fashion": Fashion, "images": image_folder, "tokens": Tokens, "table": table}
parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=KINDS, required=True)
parser.add_argument("--root", required=True)
parser.add_argument("--batch", type=int, default=256)
args = parser.parse_args()
torch.set_num_threads(1)
data = KINDS[args.kind](args.root)
running = {}  # iterators that go on from segment to segment: starting worker processes is not timed


def batches(workers):
    loader = torch.utils.data.DataLoader(data, args.batch, shuffle=True, num_workers=workers, drop_last=True,
                                         persistent_workers=workers > 0)
    while True:
        yield from loader


for line in sys.stdin:
    workers, seconds = line.split()
    source = running.setdefault(workers, batches(int(workers)))
    next(source)
    samples, start = 0, time.perf_counter()
    while time.perf_counter() - start < float(seconds):
        samples += len(next(source)[1])
    print(json.dumps({"side": workers, "samples_per_second": samples / (time.perf_counter() - start)}), flush=True)
