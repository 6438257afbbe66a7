"""A run of the program, started from Python on a module and arrays."""

import fcntl
import filecmp
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from . import program, recipes
from .data import example_of, section_of, write
from .errors import Error, StepError
from .exports import exported, network_of
from .run import Run, eager

MODEL = "model.autotrain"


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
        except KeyboardInterrupt as interrupt:
            child.send_signal(signal.SIGINT)
            child.wait()
            if hasattr(interrupt, "add_note"):  # from Python 3.11 on
                interrupt.add_note(f"to go on: autotrain.train(…, output={str(folder)!r}, resume=True)")
            raise
    if shown:
        print(file=sys.stderr)


def holds_a_run(folder):
    return any((folder / name).exists() for name in ("recipe.yaml", "metrics.jsonl"))


def free_folder(name):
    """Made here, so that nobody else takes it."""
    for number in itertools.count(1):
        folder = (Path("runs") / f"{name}-{number}").resolve()
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            pass


@contextmanager
def held(folder):
    """Nobody else trains there meanwhile: the program that is given the descriptor holds the folder too, should this process be killed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Error(str(folder), "is being trained in by another process", "wait for its end, or give another output=") from error
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def run_folder(output, name, resume):
    """The folder of a run and its descriptor. It is made where it is not there, and taken away again where it stays empty."""
    if output is None and resume:
        raise StepError("resume", "does not say which run to go on with", "add output= with the run's folder")
    folder = free_folder(name) if output is None else Path(output).resolve()
    was_there = output is not None and folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(str(folder), f"cannot be made: {error.strerror}", "give the path of a folder, or of none yet, as output=") from error
    try:
        with held(folder) as descriptor:
            if holds_a_run(folder) and not resume:
                raise Error(str(folder), "holds a run already", "give another output=, or resume=True to go on with it")
            yield folder, descriptor
    finally:
        if not was_there:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def link(file, place):
    """A second name for the file, or a copy where it lies on another disk."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def write_given(folder, place, module, samples, example, precisions):
    """Writes arrays and the exported module into the folder. @return what a recipe says of them, where they lie in another place."""
    inputs = {name: write(name, data, folder) for name, data in samples.items()}
    link(exported(module, example or example_of(inputs["train"]), precisions, folder.parent), folder / MODEL)
    data = {name: section_of(name, arrays, place) for name, arrays in inputs.items()}
    return {"data": data, "model": {"name": "exported", "file": str(place / MODEL)}}


def alike(file, other):
    """Weights of modules may differ: those of a run that is resumed are in its checkpoint."""
    return network_of(file) == network_of(other) if file.name == MODEL else filecmp.cmp(file, other, shallow=False)


def check_same(made, place):
    """@raise StepError where a run that is resumed was begun with something else."""
    for file in sorted(made.iterdir()):
        there = place / file.name
        if there.exists() and not alike(file, there):
            raise StepError("module" if file.name == MODEL else file.stem, f"is not what the run in {place.parent} was begun with",
                            "give what it was begun with, or another output=")


@contextmanager
def placed(made, place):
    """Moves what was written to where the run reads it, unless it is there, of a run that is resumed. It stays for a later resume where a
    run began."""
    if holds_a_run(place.parent):
        check_same(made, place)
    else:
        shutil.rmtree(place, ignore_errors=True)  # of one that was killed before it began
    place.mkdir(exist_ok=True)
    try:
        for file in made.iterdir():
            if not (place / file.name).exists():
                file.rename(place / file.name)
        yield
    finally:
        if not holds_a_run(place.parent):
            shutil.rmtree(place)


def run_program(arguments, output, descriptor, show, scratch):
    """@param descriptor: of the output. @return the program's exit code, and what it said."""
    with open(scratch / "said", "w+") as said:
        child = program.start("train", *arguments, "--output", output, "--quiet", stdout=said, stderr=said, pass_fds=[descriptor])
        try:
            follow(child, output, show)
        finally:  # whoever waited for it is gone
            if child.poll() is None:
                child.terminate()
                child.wait()
        said.seek(0)
        return child.returncode, said.read()


def loss_of(recipe):
    """The name of its loss, its own or of the files that it extends; None where the program cannot tell, which says why when it runs."""
    section = recipe.get("loss")
    own = section.get("name") if isinstance(section, dict) else section
    if own is not None or not recipe["extends"]:
        return own
    with tempfile.TemporaryDirectory() as folder:
        try:
            keys = program.call("config", "--config", recipes.write(recipe, {}, "run", Path(folder)))
        except Error:
            return None
    found = re.search(r"^loss:\n  name: (.*)", keys, re.MULTILINE)
    return found and found[1]


def check_loss(recipe):
    """@raise StepError for a loss inside the module, which is exported without it."""
    if loss_of(recipe) == "model":
        raise StepError("loss", "is the module's own in the recipe, and train exports what the module predicts",
                        "name a loss of the recipe's; or export the module with --loss, and have a recipe name the file (docs/exported_models.md)")


def train(recipe, module, *, train, validation=None, output=None, resume=False, example=None, precisions=("fp32", "bf16"), show=None):
    """Trains the module by a recipe, in a process of its own, and returns the Run; `run.load_into(module)` takes the weights.

    @param recipe: a dictionary, or the path of a file, of loss, optimizer, batch, stop, …; model and data are those given here.
    @param train, validation: (inputs, targets) as arrays or tensors, or a Dataset of such pairs.
    @param output: the run folder; None: runs/NAME-1 or the next that is free, NAME being the recipe's or its file's.
    @param resume: goes on from the newest checkpoint in the output, with the same arguments; where there is none, begins.
    @param example: of a batch, as the exporter takes it; None: what the inputs look like. @param show: a line of progress; None: on a
    terminal or in a notebook."""
    show = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
    asked, module = recipes.read(recipe), eager(module)
    check_loss(asked)
    samples = {"train": train} if validation is None else {"train": train, "validation": validation}
    name = recipes.name_of(recipe, module)
    with run_folder(output, name, resume) as (output, descriptor), tempfile.TemporaryDirectory(prefix=".given-", dir=output) as scratch:
        scratch, place = Path(scratch), output / "given"
        made = scratch / "given"
        made.mkdir()
        config = recipes.write(asked, write_given(made, place, module, samples, example, precisions), name, scratch)
        with placed(made, place):
            code, said = run_program(["--config", config, *(["--resume"] if resume else [])], output, descriptor, show, scratch)
            if code != 0:
                raise program.failure(code, recipes.with_places(said, config))
        for file in place.glob("*.npy"):
            file.unlink()
    return Run(output)
