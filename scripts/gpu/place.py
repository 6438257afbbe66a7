"""Where a campaign runs, in the repository or in what scripts/gpu/bundle made, and what it finds there."""
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

BENCH_SCRIPTS = Path(__file__).resolve().parent.parent / "bench"
sys.path.insert(0, str(BENCH_SCRIPTS))  # the measuring scripts are modules of ours
from measure import BUNDLED, PROGRAMS, ROOT

LAUNCHER = ROOT / "bin/with-libtorch"
IN_FOLDERS = {} if BUNDLED else {"autotrain_tests": "tests/autotrain_tests"}
RECIPES = ROOT / "recipes"


class Failed(Exception):
    """A cell has no figures; the text says why."""


def program(name):
    """The words that start one of our programs. @raises Failed: it is not there."""
    path = PROGRAMS / IN_FOLDERS.get(name, name)
    if not path.exists():
        raise Failed(f"{name} is not built: there is no {path}")
    return [str(LAUNCHER), str(path)] if BUNDLED else [str(path)]


@functools.cache
def python():
    """The Python that the peers' scripts run in."""
    if BUNDLED:
        return os.environ.get("AUTOTRAIN_PYTHON", "python3")
    named = os.environ.get("PEERS_PYTHON")
    places = [ROOT / ".deps/peers/bin/python", ROOT / ".deps/python/bin/python"]
    return named or next((str(place) for place in places if place.exists()), "python3")


@functools.cache
def lacks(module):
    """Whether the peers' Python has no such module; nothing is imported."""
    search = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python(), "-c", search], cwd=BENCH_SCRIPTS, check=False).returncode != 0


def need(*modules):
    """@raises Failed: the peers' Python lacks one of the modules."""
    for module in modules:
        if lacks(module):
            raise Failed(f"{python()} has no {module}")


def peer(script, *modules):
    """The words that start a peer's script. @raises Failed: its Python lacks one of the modules."""
    need(*modules)
    return [python(), str(BENCH_SCRIPTS / "peers" / script)]


def script(name, *modules):
    """The words that start a script beside this file in the peers' Python. @raises Failed: it lacks one of the modules."""
    need(*modules)
    return [python(), str(ROOT / "scripts/gpu" / name)]


def environment(scratch):
    """Of the programs: peers find Fashion-MNIST in the bundle, and leave their files in `scratch`."""
    here = {"OUT": str(scratch)}
    if BUNDLED:
        here["FMNIST_DIR"] = os.environ.get("FMNIST_DIR", str(ROOT / "data/fashion-mnist"))
    return {**os.environ, **here}


@functools.cache
def commit():
    if BUNDLED:
        return (ROOT / "VERSION").read_text(encoding="utf-8").split()[1]
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+changes", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def text_of(recipe):
    """A recipe's text with that of the files it extends."""
    text = recipe.read_text(encoding="utf-8")
    extends = re.search(r"^extends:\s*(.+)$", text, re.MULTILINE)
    names = re.findall(r"[^\s,\[\]]+", extends[1]) if extends else []
    return text + "".join(text_of(recipe.parent / name) for name in names)


def data_settings(recipe):
    """Keys by which a recipe of Debian's licences finds them in the bundle; Fashion-MNIST follows FMNIST_DIR."""
    text = text_of(recipe) if BUNDLED else ""
    if "/usr/share/common-licenses" not in text:
        return []
    parts = re.findall(r"^  (train|validation):", text, re.MULTILINE)
    return [f'data.{part}.files=["{ROOT}/data/common-licenses/*"]' for part in parts]
