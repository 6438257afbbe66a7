"""Runs of several ranks, looked at from outside: their processes, and what they leave in a folder."""
import hashlib
import json
import re
from pathlib import Path


def ranks_of(launcher):
    """Process ids of the ranks that a process started, in the order of ranks."""
    found = {}
    for process in Path("/proc").iterdir():
        try:
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent != launcher:
                continue
            rank = re.search(rb"(?:^|\0)RANK=(\d+)\0", (process / "environ").read_bytes())
        except (OSError, ValueError, IndexError):
            continue
        if rank:
            found[int(rank.group(1))] = int(process.name)
    return [found[rank] for rank in sorted(found)]


def saved_updates(run, where="*"):
    """The updates of which there is a checkpoint, the first rank's or another one's."""
    return sorted(int(path.name.split("-")[1]) for path in run.glob(f"{where}/update-*"))


def rows_of(run):
    """The rows of metrics.jsonl without what tells of clocks and memory."""
    timed = ("rank_seconds", "samples_per_second", "data_wait_fraction", "seconds", "training_seconds", "activity_seconds",
             "peak_bytes")
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{key: value for key, value in row.items() if key not in timed} for row in rows]


def updates_of(run):
    """How many updates the run has noted so far."""
    try:
        return (run / "metrics.jsonl").read_text(encoding="utf-8").count('"kind":"update"')
    except OSError:
        return 0


def digest(run, update):
    """Of the weights in the checkpoint of that update."""
    return hashlib.sha256((run / "checkpoints" / f"update-{update}" / "model.safetensors").read_bytes()).hexdigest()
