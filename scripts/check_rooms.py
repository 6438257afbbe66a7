#!/usr/bin/env python3
"""Checks that rooms include only themselves and rooms below: `scripts/check_rooms.py [ROOT]`.

Reads the real #include lines of src/ and include/. Prints every violation and exits 1, or prints one line
and exits 0. Also checks what only one room may name: CUDA only in device (and .cu files), YAML only in
recipe, spdlog only in base/log.cpp, JSON as text only from base/json.h, argv only in cli, printing only in
base/log, report and cli. And that nothing reads or writes by a locale, which the program that embeds this one may
set: streams are base/without_locale.h's, numbers go through base/text.h or std::to_chars and std::from_chars.
"""
import re
import sys
from pathlib import Path

LEVELS = {
    "base": 0,
    "device": 1, "recipe": 1, "checkpoint": 1, "report": 1,
    "comm": 2, "data": 2, "model": 2, "optim": 2,
    "step": 3,
    "plan": 4,
    "python": 5, "state": 5,
    "setup": 6,
    "loop": 7,
    "trainer": 8,
    "measure": 9,
    "study": 10,
    "advise": 11, "compare": 11, "compress": 11, "doctor": 11, "examine": 11, "lr": 11, "predict": 11, "sweep": 11, "verify": 11,
    "cli": 12,
}

# Which room a public header belongs to.
PUBLIC = {
    "amounts.h": "base", "batch.h": "base", "named_tensor.h": "base", "error.h": "base", "figures.h": "base", "log.h": "base",
    "memory.h": "device", "random.h": "device", "checkpoint.h": "model",
    "torch_optimizer.h": "model", "update_info.h": "base", "two_passes.h": "step",
    "recipe.h": "recipe",
    "report.h": "report",
    "data.h": "data",
    "metrics.h": "model", "operator_kind.h": "model", "task.h": "model",
    "operator_counts.h": "measure",
    "sweep.h": "sweep", "sweep_result.h": "sweep",
    "plan.h": "plan",
    "rank_group.h": "comm",
    "registry.h": "setup", "program.h": "cli",
    "trainer.h": "state",  # its types are what the four rooms of a run share
}

# (pattern in the code, who may hold it, what it is)
ONLY = [
    (re.compile(r"#include <(cuda|c10/cuda|ATen/cuda/|nvml)"), lambda f, r: r == "device" or f.suffix == ".cu", "CUDA"),
    (re.compile(r"#include <yaml-cpp/"), lambda f, r: r == "recipe", "YAML"),
    (re.compile(r"#include <spdlog/"), lambda f, r: f.name == "log.cpp", "spdlog"),
    (re.compile(r"#include <torch/csrc/distributed"), lambda f, r: r == "comm", "c10d"),
    (re.compile(r"\.dump\("), lambda f, r: f.name == "json.h",
     "writing JSON by anything but words_of_json, which takes bytes that are no UTF-8,"),
    (re.compile(r"\bargv\b"), lambda f, r: r == "cli", "argv"),
    (re.compile(r"std::(cout|cerr)|\bf?printf\(|\bputs\(|\bfputs\("), lambda f, r: r in ("cli", "report"), "printing"),
    (re.compile(r"(?<!WithoutLocale<)std::([io]?stringstream|[io]?fstream)\b"), lambda f, r: False, "a stream with a locale"),
    (re.compile(r"std::sto(i|u?ll?|f|l?d)\b|\bstrto\w+\(|\bato(i|ll?|f)\(|\bv?s?scanf\(|printf\([^;]*%[-+ #0-9.*']*[aefgAEFG']"),
     lambda f, r: False, "a number with a locale"),
    (re.compile(r"\b(is(al(num|pha)|digit|space|upper|lower|punct|print|xdigit)|to(upper|lower))\(|std::put_time|strftime"),
     lambda f, r: False, "a locale's idea of letters or of time"),
    (re.compile(r"\A(?![\s\S]*\bCLocaleScope )[\s\S]*::(fnmatch|glob|strcoll|scandir)\("), lambda f, r: False,
     "what sorts or matches by a locale, without a CLocaleScope,"),
]

INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.M)


def room_of_include(name):
    if name.startswith("autotrain/"):
        return PUBLIC.get(name.removeprefix("autotrain/"))
    return name.split("/")[0]


def room_of_file(root, path):
    relative = path.relative_to(root)
    if relative.parts[0] == "include":
        return PUBLIC.get(relative.name)
    return relative.parts[1]


def violations(root):
    files = sorted(p for top in ("src", "include") for p in (root / top).rglob("*") if p.suffix in (".h", ".cpp", ".cu"))
    for path in files:
        room, text, name = room_of_file(root, path), path.read_text(), path.relative_to(root)
        if room not in LEVELS:
            yield f"{name}: belongs to no known room ({room}); name it in scripts/check_rooms.py"
            continue
        for include in INCLUDE.findall(text):
            other = room_of_include(include)
            if other not in LEVELS:
                yield f"{name}: includes {include}, which belongs to no known room"
            elif other != room and LEVELS[other] >= LEVELS[room]:
                yield f"{name}: {room} (level {LEVELS[room]}) includes {include} of {other} (level {LEVELS[other]})"
        code = re.sub(r"//.*", "", text)
        for pattern, allowed, what in ONLY:
            if pattern.search(code) and not allowed(path, room):
                yield f"{name}: {what} does not belong in {room}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    found = list(violations(root))
    print("\n".join(found) if found else "rooms: every include points down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
