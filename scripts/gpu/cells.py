"""What the stages of a campaign share: cells, programs with a time limit, results on disk."""
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import place
from place import Failed

KILL_AFTER = 5  # seconds that a program has to end by itself
SHORTEST = 5  # no cell is begun with fewer seconds left
DOES_NOT_FIT = 71  # the exit code of a program that lacks memory
POLL = 0.02  # seconds between two looks at a program


class OutOfTime(Exception):
    """The stage's minutes ended before the cell did."""


@dataclass
class Cell:
    """One row to be, and the function that measures its figures. @raises Failed or OutOfTime"""
    name: str
    measure: Callable[[], dict]
    seconds: float = 10  # that it takes on an H200, seen or thought

    @property
    def longest(self):
        """Seconds after which a GPU is not waited for any more: a cell that hangs leaves the others their time."""
        return 2 * self.seconds + 15


@dataclass
class Stage:
    """A list of cells, and what is printed of a row."""
    sentence: str
    cells: Callable[["Setting"], list[Cell]]
    columns: Callable[[dict], dict[str, str]]


@dataclass
class Ended:
    """What a program said, and its exit code, or minus the signal that killed it; None: it runs on."""
    code: int | None
    output: str
    errors: str


class Program:
    """A program under way, in a process group of its own. @raises Failed: it does not start."""

    def __init__(self, command, environment):
        words = [str(word) for word in command]
        self.output, self.errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        try:
            self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors,
                                          cwd=place.ROOT, env=environment, start_new_session=True)
        except OSError as error:
            raise Failed(f"{words[0]} does not start: {error.strerror}") from error

    def has_ended(self):
        return self.child.poll() is not None

    def so_far(self):
        return Ended(self.child.poll(), text_in(self.output), text_in(self.errors))

    def kill(self):
        """Ends the program with SIGKILL, not what it started. Returns how it ended."""
        self.child.kill()
        self.child.wait()
        return self.so_far()

    def close(self):
        if not self.has_ended():
            stop_group(self.child)
        self.output.close()
        self.errors.close()


@dataclass
class Setting:
    """What a campaign was asked for, with the clocks of the cells under way: of all of them, and of the one."""
    device: str
    quick: bool
    output: Path
    scratch: Path
    compiled: bool = False  # whether PyTorch is timed through torch.compile, too
    deadline: float = 0.0
    deadline_of_cell: float = math.inf

    @property
    def on_gpu(self):
        return self.device.startswith("cuda")

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def begin(self, cell):
        """Starts the clock of one cell. A processor, which rehearses, takes as long as it takes."""
        self.deadline_of_cell = time.monotonic() + cell.longest if self.on_gpu else math.inf

    def folder(self, name):
        """A new folder for what a cell leaves behind."""
        return Path(tempfile.mkdtemp(prefix=name.replace("/", "-").replace(":", "-") + ".", dir=self.scratch))

    def started(self, command, environment=None):
        """A program under way, which is ended when the block is left, whatever the reason."""
        return contextlib.closing(Program(command, {**place.environment(self.scratch), **(environment or {})}))

    def wait_until(self, holds, seconds):
        """@raises Failed: after `seconds`, or at the end of the cell's own. @raises OutOfTime: the others' clock ended before."""
        start = time.monotonic()
        own = min(start + seconds, self.deadline_of_cell)
        end = max(min(own, self.deadline), start + 0.1)
        while not holds():
            if time.monotonic() > end:
                raise OutOfTime() if self.deadline < own else Failed(f"took more than {max(own - start, 0):.0f} s")
            time.sleep(POLL)

    def run(self, command, seconds, environment=None):
        """A program's end. @raises Failed: after `seconds`. @raises OutOfTime: the stage ended before."""
        with self.started(command, environment) as program:
            self.wait_until(program.has_ended, seconds)
            return program.so_far()


def stop_group(child):
    """Ends a program and what it started, which are a process group of their own."""
    for what in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, what)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(KILL_AFTER)
        if not group_lives(child.pid):
            return


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def text_in(file):
    """What is in a file that a program may be writing: its place there is the program's, and stays."""
    descriptor = file.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")


def why(ended):
    """What a program that failed said, on one line."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return f"ended with {ended.code}: {shorten(json.loads(ended.output)['error'])}"
    said = ended.errors.strip() or ended.output.strip()
    raised = re.findall(r"^[\w.]*(?:Error|Exception): .*", said, re.MULTILINE)
    told = said.partition("error: ")[2] or (raised or ["\n".join(said.splitlines()[-3:])])[-1]
    return f"ended with {ended.code}: {shorten(told) or 'it said nothing'}"


def shorten(text, most=300):
    text = " ".join(str(text).split())
    return text if len(text) <= most else text[:most] + "…"


def json_of(ended, last_line=False):
    """What a program printed. @raises Failed: it failed, or printed no JSON."""
    if ended.code != 0:
        raise Failed(why(ended))
    lines = ended.output.strip().splitlines()
    try:
        return json.loads(lines[-1] if last_line and lines else ended.output)
    except ValueError as error:
        raise Failed(f"printed no JSON: {shorten(ended.output, 120) or 'nothing'}") from error


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failed(f"{path.name}: {error}") from error


class Results:
    """The rows of a stage in DIR/<stage>.json, which is whole at any time."""

    def __init__(self, path, header):
        self.path, self.header, self.rows = path, header, {}
        if path.exists():
            self.rows = {row["cell"]: row for row in self.former()["rows"]}

    def former(self):
        former = read_json(self.path)
        for key in ("device", "quick", "machine_name"):
            if former[key] != self.header[key]:
                raise Failed(f"{self.path} has rows with {key} {json.dumps(former[key])}; "
                             f"give another --output, or --fresh to begin anew")
        return former

    def put(self, row):
        self.rows[row["cell"]] = row
        self.write()

    def write(self, left=()):
        content = {**self.header, "left": list(left), "rows": list(self.rows.values())}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(new, self.path)
