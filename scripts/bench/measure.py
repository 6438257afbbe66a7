"""What the benchmark drivers share: programs that take turns, the load of the rest of the machine, ratios."""
import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUNDLED = (ROOT / "bin/with-libtorch").exists()  # in what scripts/gpu/bundle made
PROGRAMS = ROOT / ("bin" if BUNDLED else "build/release")
BENCH = PROGRAMS / "autotrain_bench"
PROGRAM = PROGRAMS / "autotrain"
PEERS_PYTHON = os.environ.get("PEERS_PYTHON", str(ROOT / ".deps/peers/bin/python"))
RESULTS = HERE / "results"
DIVERGED = 76  # exit code of a run
QUIET = 0.08  # a segment in which others took a larger share of the cores is measured again


def instructions():
    """The widest instructions that kernels can use here: what tells one AMD EPYC from the next."""
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        flags = next((line.split() for line in cpuinfo if line.startswith("flags")), [])
    known = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")
    return next((each for each in known if each in flags), platform.machine())


def gpu(device="cuda"):
    """The name of the NVIDIA GPU that `device` means, cuda or cuda:N; None where there is none."""
    number = device.partition(":")[2] or "0"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=" + number],
                                capture_output=True, text=True, timeout=60, check=True)
        return answer.stdout.strip() or None
    return None


def kind(device="cpu"):
    """What tells this machine's results from another's: the GPU's name, or the processor's instructions."""
    name = gpu(device) if device.startswith("cuda") else None
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") if name else instructions()


def machine(device="cpu"):
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        names = [line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")]
    on_gpu = {"gpu": gpu(device)} if device.startswith("cuda") else {}
    return {**on_gpu, "cpu": names[0] if names else platform.machine(), "cores": os.cpu_count(),
            "kernel": platform.release(), "date": time.strftime("%Y-%m-%d")}


def busy_seconds():
    """CPU seconds that the whole machine has spent working."""
    with open("/proc/stat", encoding="utf-8") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    return (sum(ticks[:8]) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """CPU seconds of a process, its children that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return sum(int(fields[i]) for i in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """CPU seconds of this process and of its children that ended."""
    return sum(os.times()[:4])


class Others:
    """What the rest of the machine does from now on. own: a function that gives the CPU seconds so far of what is measured."""

    def __init__(self, own=own_seconds):
        self.own, self.busy, self.own_before, self.start = own, busy_seconds(), own(), time.perf_counter()

    def share(self):
        """Of the cores, that others took until now."""
        wall = time.perf_counter() - self.start
        others = busy_seconds() - self.busy - (self.own() - self.own_before)
        return max(0.0, others) / (wall * os.cpu_count())


class Worker:
    """A program that runs a segment for each line on its standard input and answers with a JSON line."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=ROOT)

    def ask(self, side, seconds):
        """The answer to one line. @raises RuntimeError: with what the program said when it has none."""
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{side} {seconds}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.errors.seek(0)
            said = " ".join(self.errors.read().split())
            raise RuntimeError(f"{side} ended with {code}: {said[-300:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{side}: {answer['error']}")
        return answer

    def segment(self, side, seconds):
        """samples/s of one segment, and the share of the machine that others took meanwhile."""
        others = Others(lambda: cpu_seconds(self.process.pid))
        rate = self.ask(side, seconds)["samples_per_second"]
        return rate, others.share()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.errors.close()


def take_turns(sides, rounds, seconds):
    """sides: name → (worker, what it calls it). name → samples/s of each round; the order is reversed every
    other round, and what others disturbed is measured again."""
    figures = {name: [] for name in sides}
    for worker, word in sides.values():
        worker.segment(word, 0.1)
    for number in range(rounds):
        names = list(sides) if number % 2 == 0 else list(sides)[::-1]
        for name in names:
            worker, word = sides[name]
            for _ in range(3):
                rate, others = worker.segment(word, seconds)
                if others <= QUIET:
                    break
            figures[name].append(rate)
    return figures


def ratio(over, under):
    """Median, least and largest of the ratios of paired rounds."""
    pairs = [a / b for a, b in zip(over, under)]
    return {"median": round(statistics.median(pairs), 3), "min": round(min(pairs), 3), "max": round(max(pairs), 3)}


def text(r):
    return f"{r['median']:.3f} [{r['min']:.3f}, {r['max']:.3f}]"


def save(name, rows, key, device="cpu"):
    """Keeps the figures beside the scripts, in a file for each kind of processor or GPU, with the machine they were
    measured on and the day of each. Rows that an earlier run kept stay, unless a new one has the same values under the
    fields `key`."""
    RESULTS.mkdir(exist_ok=True)
    path, here = RESULTS / f"{name}.{kind(device)}.json", machine(device)
    former = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"machine": {}, "rows": []}
    new = {tuple(row[field] for field in key) for row in rows}
    same_kind = all(former["machine"].get(part) == here.get(part) for part in ("cpu", "gpu"))
    rows = [{**row, "date": here["date"]} for row in rows]
    stay = [{"date": former["machine"]["date"], **row} for row in former["rows"] if same_kind and tuple(row[field] for field in key) not in new]
    path.write_text(json.dumps({"machine": here, "rows": stay + rows}, indent=1) + "\n", encoding="utf-8")
    print(f"kept in {path}", file=sys.stderr)


def measure_cells(name, key, cells, header, measure, columns, asked=None):
    """The main loop of a driver: measures each cell of the command line (or `asked`, of one with options), by default `cells`,
    prints a row of a table for it, and keeps all rows so far. `measure` makes a cell's row, `columns` what is printed of it."""
    need_programs()
    rows = []
    print(f"| {' | '.join(header)} |\n|{' --- |' * len(header)}")
    for cell in (sys.argv[1:] if asked is None else asked) or cells:
        rows.append(measure(cell))
        print(f"| {' | '.join([cell, *columns(rows[-1])])} |", flush=True)
        save(name, rows, key)


def middle(rates):
    return f"{sorted(rates)[len(rates) // 2]:.0f}"


def options_of(settings):
    """The words --set KEY=VALUE for settings KEY=VALUE."""
    return [word for setting in settings for word in ("--set", setting)]


def final_figure(recipe, figure, settings=()):
    """What a figure is after a whole run of a recipe, a file or its content; None where it is not finite or the run diverged."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(recipe, dict):
            content, recipe = recipe, Path(folder, "recipe.yaml")
            recipe.write_text(json.dumps(content), encoding="utf-8")
        run = Path(folder, "run")
        out = subprocess.run([PROGRAM, "--config", recipe, *options_of(settings), "--output", run, "--quiet"],
                             capture_output=True, text=True, cwd=ROOT)
        if out.returncode == DIVERGED:
            return None
        if out.returncode != 0:
            sys.exit(f"a run of {recipe.name} ended with {out.returncode}: {out.stderr}")
        return json.loads((run / "summary.json").read_text(encoding="utf-8"))["final"][figure]


def need_programs():
    if not BENCH.exists():
        sys.exit("build first: cmake --preset release -DAUTOTRAIN_BUILD_BENCHMARKS=ON && cmake --build build/release")
