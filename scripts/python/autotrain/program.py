"""The program `autotrain`, as a child of this process."""

import importlib.util
import os
import subprocess
from pathlib import Path

from .errors import DOES_NOT_FIT, DoesNotFit, Error


def places():
    here = Path(__file__).resolve().parent
    named = os.environ.get("AUTOTRAIN_PROGRAM")
    if named:
        return [Path(named)]
    return [here.parent / "autotrain_program" / "bin" / "autotrain",
            here.parents[2] / "build" / "release" / "autotrain"]


def path():
    found = next((place for place in places() if place.is_file()), None)
    if found is None:
        raise Error("autotrain", f"the program is not there (looked at {', '.join(map(str, places()))})",
                    "pip install . from the checkout, or build it: ninja -C build/release autotrain")
    return found


def environment():
    """Where the program finds the libraries of this Python's PyTorch."""
    torch = Path(importlib.util.find_spec("torch").origin).resolve().parent
    folders = [torch / "lib", torch.parent / "nvidia/cu13/lib", *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}


def start(*arguments, **options):
    """A session of its own: an interrupt reaches it once, by way of who started it."""
    return subprocess.Popen([str(path()), *map(str, arguments)], env=environment(), start_new_session=True, **options)


LINES = 12  # of what the program said


def failure(code, said):
    """What the program ended with, as an exception: its error from the beginning, but for frames of C++, or the last that it said."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("frame #")]
    begin = next((place for place, line in enumerate(lines) if line.startswith("error:")), max(0, len(lines) - LINES))
    kind = DoesNotFit if code == DOES_NOT_FIT else Error
    return kind("autotrain", f"ended with {code}:\n" + "\n".join(lines[begin : begin + LINES]))


def call(*arguments):
    """What the program prints. @raise Error when it fails."""
    child = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, complained = child.communicate()
    if child.returncode != 0:
        raise failure(child.returncode, complained)
    return said
