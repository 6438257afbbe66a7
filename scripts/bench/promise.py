#!/usr/bin/env python3
"""Whether a plan keeps its promise: on models of all kinds, under limits of all kinds, the search's size, how full it
is, and whether 200 updates and an evaluation then run inside the budget without a recovery. In the caller's process,
as in research code: the search's leftovers count. Limits are MiB above the idle process: RLIMIT_DATA, RLIMIT_AS
(ulimit -v), a memory cgroup where one can be made, or a typed budget.

    scripts/bench/promise.py [lstm:typed:48 gpt:data:512 …]      "effective" in front: with 20000 samples an update
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import BENCH, need_programs, save

SMALL = ("residual", "lstm", "padded", "wide")
CELLS = [f"effective:{model}:typed:48" for model in SMALL]
CELLS += [f"{model}:{limit}:{budget}" for limit in ("data", "as", "cgroup", "typed")
          for model, budget in (("mlp", 512), ("cnn", 256), ("lstm", 128), ("gpt", 512), ("resnet", 512))]
CGROUPS = Path("/sys/fs/cgroup")
IDLE_MIB = 150  # what a cgroup counts of the idle process: about


class Cgroup:
    """A memory cgroup of our own, version 2 or 1; path is None where none can be made."""

    def __init__(self, mib):
        second = (CGROUPS / "cgroup.controllers").exists()
        parent, key = (CGROUPS, "memory.max") if second else (CGROUPS / "memory", "memory.limit_in_bytes")
        self.path = parent / f"autotrain-bench-{os.getpid()}"
        try:
            self.path.mkdir()
            (self.path / key).write_text(str((mib + IDLE_MIB) << 20), encoding="ascii")
        except OSError:
            self.remove()
            self.path = None

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def remove(self):
        if self.path and self.path.exists():
            self.path.rmdir()


def run(model, limit, budget, effective, updates):
    command = [str(BENCH), "search_step", "--workload", model, "--budget-mib", str(budget), "--updates", str(updates),
               "--max-val", "60000", "--limit", "outer" if limit == "cgroup" else limit]
    if effective:
        command += ["--effective", "20000"]
    group = Cgroup(budget) if limit == "cgroup" else None
    if group and not group.path:
        return None
    with tempfile.TemporaryFile("w+") as errors:
        out = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True,
                             preexec_fn=group.enter if group else None)
        errors.seek(0)
        said = errors.read().strip()
    if group:
        group.remove()
    lines = out.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else {"error": f"ended with {out.returncode}: {said[-160:]}"}


def row_of(cell, updates=200):
    effective = cell.startswith("effective:")
    model, limit, budget = cell.removeprefix("effective:").split(":")
    result = run(model, limit, int(budget), effective, 20 if effective else updates)
    if result is None:
        return None
    return {"cell": cell, **{key: result[key] for key in ("trials", "wall_s", "chosen", "capacity", "capacity_fill",
                                                          "budget_auto_mib", "reason", "survival", "error")
                             if key in result}}


def show(row):
    if "error" in row:
        print(f"| {row['cell']} | - | | | | {row['error'].splitlines()[0][:110]} | |", flush=True)
        return
    alive = row["survival"]
    print(f"| {row['cell']} | {row['chosen']} | {row['capacity']} | {row['trials']} | {row['capacity_fill']:.2f} of "
          f"{row['budget_auto_mib']} MiB | {row['reason']} | {alive['fill']:.2f}, "
          f"{alive['recoveries'] or 'no'} recoveries{'' if alive['ok'] else ', DIED'} |", flush=True)


def main():
    need_programs()
    rows = []
    print("| model, limit, MiB | micro-batch | capacity | trials | fill | reason | peak of the run |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for cell in sys.argv[1:] or CELLS:
        row = row_of(cell)
        if row is None:
            print(f"| {cell} | no memory cgroup can be made here | | | | | |")
            continue
        rows.append(row)
        show(row)
        save("promise", rows, ("cell",))
    trials = [row["trials"] for row in rows if "trials" in row]
    if trials:
        print(f"{len(rows)} cells, {sum(trials) / len(trials):.1f} trials on average")


if __name__ == "__main__":
    main()
