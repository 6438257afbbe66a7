#!/usr/bin/env python3
"""Runs under limits that the kernel enforces: RLIMIT_DATA, RLIMIT_AS and, where one can be made, a memory cgroup.
Whatever the limit, a run ends by itself with exit code 0 or 71: never killed, never hung, never with a trace. One
exception is not ours to mend: where no address space is left, oneDNN writes a kernel's code to memory that it did not
get, and the process ends with SIGSEGV.

    limits_test.py path/to/autotrain [RUNS [SEED]]
"""
import collections
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

MIB = 1 << 20
CGROUP_ROOT = Path("/sys/fs/cgroup/memory")
DONE, DOES_NOT_FIT = 0, 71

IMAGES = "data: {train: {dataset: synthetic, kind: images, samples: 3000}, " \
         "validation: {dataset: synthetic, kind: images, samples: 333, first: 100000}}\n"
TOKENS = "data: {train: {dataset: synthetic, kind: tokens, classes: 256, samples: 3000}, " \
         "validation: {dataset: synthetic, kind: tokens, classes: 256, samples: 333, first: 100000}}\n"
RECIPES = {
    "mlp": IMAGES + "model: {name: mlp, depth: 4, width: 1024}\n",
    "cnn": IMAGES + "model: {name: cnn}\n",
    "resnet18": IMAGES + "model: {name: resnet18, stem: small}\n",
    "transformer": TOKENS + "model: {name: transformer, layers: 2, width: 128}\n",
}
COMMON = """batch: {effective: %(effective)s, limits: {max_effective: 3000}, lr_rule: none}
stop: {updates: 3}
execution: {precision: %(precision)s, memory: {budget: %(budget)s}, search: {max_seconds: 20, plan_cache: false}}
"""


class Cgroup:
    """A memory cgroup of our own, removed at the end."""

    def __init__(self):
        self.path = CGROUP_ROOT / f"autotrain-test-{os.getpid()}"
        try:
            self.path.mkdir()
        except OSError:
            self.path = None

    def enter(self, limit_bytes):
        """For the child, between fork and exec."""
        (self.path / "memory.limit_in_bytes").write_text(str(limit_bytes))
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        if self.path:
            self.path.rmdir()


def precisions():
    """bf16 is emulated where the processor lacks it, and a step then takes minutes."""
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        flags = cpuinfo.read()
    return ["fp32", "bf16"] if "avx512_bf16" in flags or "amx_bf16" in flags else ["fp32"]


def loads(binary, kind, limit):
    """Whether the program can be loaded under such a limit."""
    return subprocess.run([binary, "--version"], capture_output=True, preexec_fn=lambda: set_limit(kind, limit)).returncode == 0


def least_to_load(binary, kind):
    """The limit below which the program cannot even be loaded: LibTorch maps gigabytes."""
    for step in range(1, 1000):
        limit = step * 64 * MIB
        if loads(binary, kind, limit):
            return limit
    sys.exit("the program does not load")


def just_loads(binary, kind, limit):
    """Within a MiB the least limit under which the program can be loaded. `limit` suffices, and 64 MiB less does not."""
    too_little, enough = limit - 64 * MIB, limit
    while enough - too_little > MIB:
        middle = (too_little + enough) // 2
        too_little, enough = (too_little, middle) if loads(binary, kind, middle) else (middle, enough)
    return enough


def run(command, what, recipe, restrain, codes=(DONE, DOES_NOT_FIT)):
    """The exit code of a command on a recipe, None when it hung, and what went wrong: an empty list if nothing."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "r.yaml").write_text(recipe)
        try:
            result = subprocess.run([*command, "--config", "r.yaml"], cwd=folder, capture_output=True, text=True,
                                    timeout=1200, preexec_fn=restrain, env={**os.environ, "CI": "1"})
        except subprocess.TimeoutExpired:
            return None, [f"{what}: hung\n{recipe}"]
    print(what, "→", result.returncode, result.stderr.splitlines()[0][:150] if result.stderr else "", flush=True)
    if result.returncode not in codes or "terminate called" in result.stderr:
        return result.returncode, [f"{what}: ended with {result.returncode}\n{recipe}{result.stderr[-800:]}"]
    return result.returncode, []


def hardly_more(binary, kind, limit):
    """What went wrong where hardly more is left than loading takes: threads cannot be started, and small allocations
    are refused."""
    failures, least = [], just_loads(binary, kind, limit)
    recipe = RECIPES["mlp"] + COMMON % {"effective": "auto", "precision": "fp32", "budget": "auto"}
    for room in (2, 4, 8, 12, 16, 24, 32, 48):
        failures += run([binary, "plan"], f"{kind}, {room} MiB above what loading takes", recipe,
                        lambda room=room: set_limit(kind, least + room * MIB))[1]
    return failures


def set_limit(kind, limit):
    resource.setrlimit(resource.RLIMIT_DATA if kind == "data" else resource.RLIMIT_AS, (limit, limit))


def main():
    binary = str(Path(sys.argv[1]).resolve())
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    cgroup, least = Cgroup(), {kind: least_to_load(binary, kind) for kind in ("data", "as")}
    kinds = ["data", "as"] + (["cgroup"] if cgroup.path else [])
    if not cgroup.path:
        print("no memory cgroup can be made here: cgroup limits are skipped")
    ends, failures = collections.Counter(), [each for kind in least for each in hardly_more(binary, kind, least[kind])]
    for number in range(runs):
        kind, model = kinds[number % len(kinds)], chance.choice(sorted(RECIPES))
        room = chance.randrange(150, 1500) * MIB
        limit = room + least.get(kind, 150 * MIB)
        recipe = RECIPES[model] + COMMON % {"effective": chance.choice(["auto", "500"]),
                                            "precision": chance.choice(precisions()),
                                            "budget": chance.choice(["auto", "auto", "70%"])}

        def restrain(kind=kind, limit=limit):
            if kind == "cgroup":
                cgroup.enter(limit)
            else:
                set_limit(kind, limit)

        codes = (DONE, DOES_NOT_FIT, -signal.SIGSEGV) if kind == "as" else (DONE, DOES_NOT_FIT)
        code, wrong = run([binary, "--output", "run", "--quiet"], f"{number}: {model} under {kind} {limit >> 20} MiB",
                          recipe, restrain, codes)
        failures += wrong
        if code is not None:
            ends[(kind, code)] += 1
    cgroup.remove()
    for (kind, code), count in sorted(ends.items()):
        print(f"{kind}: {count} runs ended with {code}")
    print("\n".join(failures) or f"{runs} runs, none killed, none hung")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
