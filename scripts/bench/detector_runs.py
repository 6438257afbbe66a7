"""What detector.py is made of: sets of boxes cut from the made one, recipes, runs that stand still between segments, runs under a limit."""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import HERE, PEERS_PYTHON, PROGRAM, ROOT, Others, cpu_seconds

THREADS = len(os.sched_getaffinity(0))  # taskset -c 0 makes it one, for checks on a busy machine
PAGE = os.sysconf("SC_PAGE_SIZE")


def ask(command, what, **more):
    """What a program prints as JSON in its last line, or as a whole. Ends where it fails, with what it said."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{what} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
    said = done.stdout.strip()
    return json.loads(said if said.startswith("{\n") else said.splitlines()[-1])


def peer(script, *words):
    return ask([PEERS_PYTHON, HERE / "peers" / script, *words], script)


def autotrain(*words):
    """The answer to a command with --json."""
    return ask([PROGRAM, *words, "--json", "--quiet"], f"autotrain {words[0]}", cwd=ROOT)


def made_set(folder, given, count, validation):
    """The set that was given, or one that is made in the folder."""
    if given:
        return Path(given).resolve()
    print(f"making {count} canvases", file=sys.stderr)
    subprocess.run([PEERS_PYTHON, ROOT / "scripts/make_fashion_boxes.py", folder / "made", "--train", str(count), "--validation", str(validation)],
                   check=True)
    return folder / "made"


def boxes_of_crowd(seed, count=600):
    """Lines of so many small boxes anywhere."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        width, height = (draw.uniform(0.03, 0.12) for _ in range(2))
        x, y = draw.uniform(width / 2, 1 - width / 2), draw.uniform(height / 2, 1 - height / 2)
        lines.append(f"{draw.randrange(10)} {x:.6f} {y:.6f} {width:.6f} {height:.6f}\n")
    return "".join(lines)


def part_of(source, folder, train, validation, most_boxes=None, crowded_every=None):
    """A smaller set: the first images of each part; labels with so many boxes at most; every so many images with a crowd of 600."""
    for part, count in (("train", train), ("val", validation)):
        images, labels = folder / "images" / part, folder / "labels" / part
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        files = sorted((source / "images" / part).glob("*.png"))[:count]
        if len(files) < count:
            sys.exit(f"{source} has {len(files)} images in {part}, and {count} are needed: make it larger, or leave --data out")
        for number, file in enumerate(files):
            shutil.copyfile(file, images / file.name)
            lines = (source / "labels" / part / f"{file.stem}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
            crowd = crowded_every and number % crowded_every == crowded_every // 2
            (labels / f"{file.stem}.txt").write_text(boxes_of_crowd(number) if crowd else "".join(lines[:most_boxes]), encoding="utf-8")
    shutil.copyfile(source / "data.yaml", folder / "data.yaml")
    return folder


def recipe(folder, name, boxes, **more):
    """A file of a recipe over a set; `more` are its sections. Kept plans would say what another run found."""
    def part(split):
        return {"dataset": "yolo", "file": str(boxes / "data.yaml"), "split": split, "size": [160, 160]}
    content = {"name": name, "seed": 1, "data": {"train": part("train"), "validation": part("val")}, "loss": {"name": "yolo"},
               "report": {"html": False, "csv": False, "tensorboard": False},
               "execution": {"precision": "fp32", "threads": THREADS, "search": {"plan_cache": False}}}
    for key, value in more.items():
        content[key] = {**content.get(key, {}), **value} if isinstance(value, dict) else value
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


class PausedRun:
    """A run of autotrain that is stopped by a signal between segments, and read by the rows that it writes for its updates."""

    def __init__(self, recipe_file, output):
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([PROGRAM, "train", "--config", recipe_file, "--output", output, "--quiet"], cwd=ROOT,
                                        stdout=subprocess.DEVNULL, stderr=self.errors)
        self.file, self.rows, self.read, self.rest = Path(output) / "metrics.jsonl", [], 0, ""
        self.wait_for(2)
        self.process.send_signal(signal.SIGSTOP)

    def wait_for(self, rows, until=0.0):
        """Until there are so many rows, and the clock is past `until`."""
        while len(self.rows) < rows or time.perf_counter() < until:
            if self.process.poll() is not None:
                self.errors.seek(0)
                raise RuntimeError(f"autotrain train ended with {self.process.returncode}: {self.errors.read()[-500:]}")
            time.sleep(0.02)
            self.take_rows()

    def take_rows(self):
        if not self.file.exists():
            return
        with open(self.file, encoding="utf-8") as file:
            file.seek(self.read)
            *whole, self.rest = (text := file.read()).split("\n")
            self.read += len(text) - len(self.rest)
        rows = [json.loads(line) for line in whole if line]
        self.rows += [row for row in rows if row["kind"] == "update"]

    def segment(self, _, seconds):
        """samples/s from the row on after that in whose time the run stood still, which is the longest; the share that others took. Rows are
        written some at a time, so that those of the segment before may come first."""
        self.take_rows()
        before, others = len(self.rows), Others(lambda: cpu_seconds(self.process.pid))
        self.process.send_signal(signal.SIGCONT)
        self.wait_for(before + 2)
        self.wait_for(before + 5, time.perf_counter() + seconds)
        self.process.send_signal(signal.SIGSTOP)
        share = others.share()
        seconds_of = [row["training_seconds"] for row in self.rows]
        stood = max(range(max(before, 1), len(self.rows) - 2), key=lambda at: seconds_of[at] - seconds_of[at - 1])
        first, last = self.rows[stood + 1], self.rows[-1]
        rate = (last["samples"] - first["samples"]) / (last["training_seconds"] - first["training_seconds"])
        return rate, share

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Predictions:
    """A prediction of all files by a run, in a process for each segment; what it says of its speed leaves its start out."""

    def __init__(self, run, weights, files, batch, folder):
        self.words = ["predict", "--run", run, "--weights", weights, "--data", files, "--batch", batch, "--score", "0.001",
                      "--output", folder / "boxes.csv", "--overwrite"]

    def segment(self, *_):
        others = Others()
        rate = autotrain(*self.words)["samples_per_second"]
        return rate, others.share()


def under_limit(command, limit=None):
    """Runs a program under RLIMIT_DATA, in bytes. @return its exit code, what it said on standard error, and the peak of what the limit
    counts, as read every two milliseconds."""
    def bound():
        if limit:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
    peak = 0
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=bound)
        while process.poll() is None:
            try:
                peak = max(peak, int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[5]) * PAGE)
            except (OSError, IndexError):
                pass
            time.sleep(0.002)
        errors.seek(0)
        return process.returncode, errors.read().strip(), peak
