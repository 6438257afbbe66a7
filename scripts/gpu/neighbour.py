#!/usr/bin/env python3
"""Another process that takes memory: waits until a file is there, fills so many bytes of a device's memory, and holds
them until it is ended. Prints "ready" before it waits, and "holding" once it has the memory.

    neighbour.py DEVICE BYTES FILE          DEVICE: cpu, cuda or cuda:N
"""
import signal
import sys
import time
from pathlib import Path

LIFE = 600  # seconds after which it ends by itself, where a campaign was killed


def warm_up(device):
    """Takes what a process needs on a GPU before its first tensor."""
    if device != "cpu":
        import torch
        torch.zeros(1, device=device)


def fill(device, count):
    if device == "cpu":
        return b"1" * count
    import torch
    held = torch.ones(count, dtype=torch.uint8, device=device)
    torch.cuda.synchronize(device)
    return held


def main():
    device, count, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    signal.alarm(LIFE)
    warm_up(device)
    print("ready", flush=True)
    while not file.exists():
        time.sleep(0.01)
    held = fill(device, count)
    print("holding", flush=True)
    signal.pause()
    del held


if __name__ == "__main__":
    main()
