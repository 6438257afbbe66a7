#!/usr/bin/env python3
"""Two ranks on two hosts, which are network namespaces joined by a cable: the cable is cut, and the store's server frozen
or killed, in the middle of training. Skipped (77) where no namespaces can be made.

    hosts_test.py path/to/autotrain
"""
import json
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from hosts import ADDRESSES, Hosts, leave_if_there_can_be_none
from runs import digest, updates_of

BINARY = Path(sys.argv[1]).resolve()
INTERRUPTED, UPDATES = 75, 150
RECIPE = """data:
  train: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 2000}
  validation: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 300, first: 100000}
model: {name: cnn, width: 8, hidden: 32, dropout: 0.3}
batch: {effective: 250}
stop: {updates: %d}
evaluation: {every: 40 updates}
checkpoint: {every: 10 updates, keep: 2}
execution: {precision: fp32, threads: 1, micro_batch: 25, telemetry: 0, memory: {budget: 128MiB}}
report: {html: false, csv: false, tensorboard: false}
""" % UPDATES


def start_rank(hosts, rank, folder, output):
    environment = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                   "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29511"}
    command = [BINARY, "--config", folder / "recipe.yaml", "--output", folder / output, "--resume", "--quiet"]
    return hosts.start(rank, command, folder / f"log-{rank}", environment)


def logs(folder):
    return "\n".join((folder / f"log-{rank}").read_text(encoding="utf-8") for rank in range(2))


def train(hosts, folder, output):
    ranks = [start_rank(hosts, rank, folder, output) for rank in range(2)]
    codes = [rank.wait(timeout=600) for rank in ranks]
    if codes != [0, 0]:
        sys.exit(f"{output}: ended with {codes}\n{logs(folder)}")


def disturb(hosts, folder, event):
    """One run that `event` befalls: what each rank ended with, and after how many seconds the last one that could."""
    ranks = [start_rank(hosts, rank, folder, event) for rank in range(2)]
    end = time.monotonic() + 300
    while updates_of(folder / event) < 25:
        if time.monotonic() > end or any(rank.poll() is not None for rank in ranks):
            sys.exit(f"{event}: no updates\n{logs(folder)}")
        time.sleep(0.02)
    start = time.monotonic()
    if event == "cable":
        hosts.cable("down")
    else:  # rank 0 serves the store
        ranks[0].send_signal(signal.SIGSTOP if event == "frozen" else signal.SIGKILL)
    left = ranks if event == "cable" else ranks[1:]
    for rank in left:
        rank.wait(timeout=300)
    seconds = time.monotonic() - start
    if event != "cable":
        ranks[0].kill()
        ranks[0].wait()
    hosts.cable("up")
    return [rank.returncode for rank in left], seconds


def main():
    with tempfile.TemporaryDirectory() as name, Hosts() as hosts:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
        train(hosts, folder, "straight")
        hosts_of_run = json.loads((folder / "straight" / "plan.json").read_text(encoding="utf-8"))["world_size"]
        if hosts_of_run != 2:
            sys.exit("the two hosts did not train together")
        for event in ("cable", "killed", "frozen"):
            codes, seconds = disturb(hosts, folder, event)
            said = logs(folder)
            print(f"{event}: ended with {codes} after {seconds:.1f} s", flush=True)
            if set(codes) != {INTERRUPTED}:
                sys.exit(f"{event}: ended with {codes}\n{said}")
            if not re.search(r"lost rank \d|store that ranks meet at", said):
                sys.exit(f"{event}: nobody says what was lost\n{said}")
            train(hosts, folder, event)
            if digest(folder / event, UPDATES) != digest(folder / "straight", UPDATES):
                sys.exit(f"{event}: went on to other bytes")


if __name__ == "__main__":
    leave_if_there_can_be_none()
    main()
