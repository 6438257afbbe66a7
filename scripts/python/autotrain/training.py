"""A run of the program, started from Python on a module and arrays."""

import signal
import sys
import tempfile
import time
from pathlib import Path

from . import program, recipes
from .data import example_of, write
from .errors import Error
from .exports import exported
from .run import Run, eager


def progress_of(folder):
    """A line about the last update that was made."""
    try:
        row = Run(folder).rows("update")[-1]
    except (Error, IndexError, OSError, ValueError):
        return None
    loss = "not finite" if row["loss"] is None else f"{row['loss']:.4f}"
    return f"update {row['update']} · epoch {row['epoch']:.2f} · loss {loss} · {row['samples_per_second']:.0f} samples/s"


def follow(child, folder, show):
    """Waits for the program. An interrupt is handed on: it ends after the update that it is at, with a checkpoint."""
    shown = None
    while child.poll() is None:
        try:
            line = progress_of(folder) if show else None
            if line and line != shown:
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
                shown = line
            time.sleep(0.2)
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
    if shown:
        print(file=sys.stderr)


def free_folder(name):
    number = 1
    while (Path("runs") / f"{name}-{number}").exists():
        number += 1
    return Path("runs") / f"{name}-{number}"


def train(recipe, module, *, train, validation=None, output=None, example=None, precisions=("fp32", "bf16"), show=None):
    """Trains the module by a recipe, in a process of its own, and returns the Run; `run.load_into(module)` takes the weights.

    @param recipe: a dictionary, or the path of a file, of loss, optimizer, batch, stop, …; model and data are those given here.
    @param train, validation: (inputs, targets) as arrays or tensors, or a Dataset of such pairs.
    @param output: the run folder; None: runs/NAME-1 or the next that is free, NAME being the recipe's or its file's. @param example: of a batch, as the exporter
    takes it; None: what the inputs look like. @param show: a line of progress; None: on a terminal or in a notebook."""
    show = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
    asked, module = recipes.read(recipe), eager(module)
    with tempfile.TemporaryDirectory(prefix="autotrain-") as scratch:
        folder = Path(scratch)
        data = {}
        data["train"], inputs = write("train", train, folder)
        if validation is not None:
            data["validation"], _ = write("validation", validation, folder)
        file = exported(module, example or example_of(inputs), precisions, scratch)
        name = recipes.name_of(recipe, module)
        output = Path(output) if output is not None else free_folder(name)
        config = recipes.write(asked, {"data": data, "model": {"name": "exported", "file": str(file)}}, name, folder)
        with open(folder / "said", "w+") as said:
            child = program.start("train", "--config", config, "--output", output, "--quiet", stdout=said, stderr=said)
            try:
                follow(child, output, show)
            finally:  # its data are gone with the folder
                if child.poll() is None:
                    child.terminate()
                    child.wait()
            said.seek(0)
            if child.returncode != 0:
                raise program.failure(child.returncode, recipes.with_places(said.read(), config))
    return Run(output)
