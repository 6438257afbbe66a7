"""Writes a PyTorch module as a file that autotrain trains.

    python -m autotrain_export mymodule:make_model --example 'float32[4,3,224,224]' --output m.autotrain

traces make_model()'s forward and backward pass at a batch of four such images, compares the graphs with the module at two sizes of
the batch, and writes them with the module's weights. A recipe then says

    model: {name: exported, file: m.autotrain}

and has its loss, optimizer and data as for any other model."""

import argparse
import ctypes
import importlib
import inspect
import os
import sys
import traceback
import warnings
from contextlib import contextmanager

from .errors import ExportError

PIECE = 1 << 20  # bytes
MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD


def _give_memory_back():
    """Has what tensors held given back to the system at once, where the C library is glibc: kept for later, it is half of a large model's
    peak. Memory that comes from the system so often comes in large pages, if PyTorch has not been loaded yet."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, PIECE)
    except (OSError, AttributeError):
        pass


def _progress(line):
    print(f"autotrain_export: {line} …", file=sys.stderr, flush=True)


@contextmanager
def _running(source, what):
    """Somebody's own code, whose errors are told in a line, with the place where they arose."""
    from .machine import of_machine
    from .places import is_theirs

    try:
        yield
    except SystemExit as end:
        raise ExportError(f"{source}: Python ended ({end}) while {what}: put what a script runs under if __name__ == \"__main__\":") from end
    except Exception as error:
        if isinstance(error, ExportError) or of_machine(error):
            raise
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_theirs(frame.filename)]
        place = f"\n  {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
        raise ExportError(f"{source}: {type(error).__name__} while {what}: {error}{place}") from error


def _needed(function):
    """Names of the arguments that a function does not do without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _named(source):
    name, _, attribute = source.partition(":")
    if not attribute:
        raise ExportError(f"{source}: expected module:name, as in mymodule:make_model")
    sys.path.insert(0, "")
    try:
        with _running(source, "it was imported"):
            return getattr(importlib.import_module(name), attribute)
    except ExportError as error:
        if not isinstance(error.__cause__, (ImportError, AttributeError)):
            raise
        hint = "; name the module without .py" if name.endswith(".py") else ""
        raise ExportError(f"{source}: {error.__cause__}{hint} (looked in {os.getcwd()} and Python's own folders)") from error


def _load(source):
    import torch

    made = _named(source)
    if callable(made) and not isinstance(made, torch.nn.Module):
        if needed := _needed(made):
            raise ExportError(f"{source} takes {', '.join(needed)}: name a function without arguments that returns the module")
        with _running(source, "it was called"):
            made = made()
    if not isinstance(made, torch.nn.Module):
        raise ExportError(f"{source} gives a {type(made).__name__}; expected a torch.nn.Module or a function that returns one")
    return made


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m autotrain_export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="MODULE:NAME", help="a torch.nn.Module, or a function without arguments that returns one")
    parser.add_argument("--example", required=True, action="append", metavar="[NAME=]TYPE[SHAPE]",
                        help="what a batch of inputs looks like: float32[4,3,224,224], or int64[4,128]<50257 for tokens below a bound; the first size is the "
                             "batch's; once for each input of the module, in the order of its arguments or with their names: mask=bool[4,128]")
    parser.add_argument("--output", required=True, metavar="FILE", help="the file to write, m.autotrain say")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16", "fp16"],
                        help="precisions that it may be trained in (default: fp32 bf16)")
    parser.add_argument("--device", default="cpu", metavar="cpu|cuda", help="where the file will compute: it holds the operators that PyTorch runs there (default: cpu)")
    parser.add_argument("--output-part", metavar="NAME", help="which part of the module's output is the prediction: a key, or a position")
    parser.add_argument("--loss", nargs="?", const=True, metavar="NAME",
                        help="the module computes its loss itself: NAME is that part of its output, a key or a position; without one it returns the loss alone. "
                             "The mean over the samples of a batch, or their sum")
    parser.add_argument("--targets", metavar="[NAME=]TYPE[SHAPE]", help="what the targets of a batch look like, which such a module takes after its inputs")
    parser.add_argument("--seed", type=int, default=0, help="of PyTorch's random numbers, set before the module is made (default: 0)")
    parser.add_argument("--check", choices=["short", "long"], default="short",
                        help="how long graphs and module are compared: a few steps of small batches, or three steps of batches as large as the example, "
                             "in every precision (default: short)")
    options = parser.parse_args(arguments)
    _progress(f"loading PyTorch and {options.source}")
    _give_memory_back()
    import torch  # takes seconds, which the line before explains

    from . import export
    from .machine import of_machine, out_of_memory

    warnings.filterwarnings("ignore")
    torch.manual_seed(options.seed)
    try:
        path = export(_load(options.source), options.example, options.output, options.precision, options.output_part,
                      source=options.source, say=print, loss=options.loss, targets=options.targets, device=options.device, long=options.check == "long",
                      progress=_progress)
    except ExportError as error:
        print(f"autotrain_export: {error}", file=sys.stderr)
        return 65
    except (OSError, MemoryError, RuntimeError) as error:
        if not of_machine(error):
            raise
        print(f"autotrain_export: {str(error).strip() or 'memory is used up'}", file=sys.stderr)
        return 71 if out_of_memory(error) else 74
    print(f"{path}: {path.stat().st_size:,} bytes; a recipe names it as model: {{name: exported, file: {path}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
