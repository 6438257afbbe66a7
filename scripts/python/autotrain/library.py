"""The library that has the search, the allocator and the meter, by its C interface."""

import ctypes
import functools
import json
import logging
import os
from pathlib import Path

from .errors import Error, raise_for

PYTORCH = "2.11"  # that the library is linked against
NAME = "libautotrain_python.so"
RUN_STEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]


def places():
    """Where the library may be: named, installed beside this file, built in a source tree."""
    here = Path(__file__).resolve().parent
    named = os.environ.get("AUTOTRAIN_LIBRARY")
    if named:
        return [Path(named)]
    return [here / NAME, here.parents[2] / "build" / "release" / NAME]


def path():
    found = next((place for place in places() if place.is_file()), None)
    if found is None:
        looked = ", ".join(map(str, places()))
        raise Error(NAME, f"is not there (looked at {looked})",
                    "pip install . in a PyTorch environment, or build it: ninja -C build/release autotrain_python")
    return found


@LOG
def log_record(level, room, text):
    try:
        logging.getLogger("autotrain").log(LEVELS[level], "[%s] %s", room.decode(), text.decode(errors="replace"))
    except Exception:  # nothing may leave for C++
        pass


@functools.cache
def load():
    """The library itself, once a process; PyTorch's libraries are those that it finds loaded."""
    import torch
    if torch.__version__.split("+")[0].rsplit(".", 1)[0] != PYTORCH:
        raise Error("PyTorch", f"is {torch.__version__}, and the library was linked against {PYTORCH}",
                    f"pip install torch=={PYTORCH}.0")
    try:
        library = ctypes.CDLL(str(path()))
    except OSError as error:
        raise Error(NAME, f"cannot be loaded: {error}", "build it against this PyTorch: pip install . in its environment") from error
    text, session = ctypes.c_void_p, ctypes.c_void_p
    for name, result, arguments in (
            ("version", ctypes.c_char_p, []), ("free", None, [text]), ("log_to", None, [LOG]),
            ("install", text, [ctypes.c_char_p]), ("allocated", text, []), ("classify", ctypes.c_int, [ctypes.c_char_p]),
            ("open", text, [ctypes.c_char_p, ctypes.POINTER(session)]), ("memory", text, [session]),
            ("sample", None, [session]), ("begin", None, [session]), ("close", None, [session]),
            ("noise_scale", text, [ctypes.c_char_p]),
            ("find", text, [session, ctypes.c_char_p, RUN_STEP])):
        function = getattr(library, f"autotrain_{name}")
        function.restype, function.argtypes = result, arguments
    library.autotrain_log_to(log_record)
    return library


def answer(pointer):
    """What a call returned, as an object. @raise what it says went wrong."""
    text = ctypes.cast(pointer, ctypes.c_char_p).value.decode()
    load().autotrain_free(pointer)
    return raise_for(json.loads(text))


@functools.cache
def install(budget):
    """Tensors in main memory come from the caching allocator from now on."""
    answer(load().autotrain_install(budget.encode()))


def classify(text):
    return load().autotrain_classify(text.encode(errors="replace"))
