#!/usr/bin/env python3
"""Misuses the command line in every way we could think of: the exit code, the message, no stack trace.

    misuse_test.py path/to/autotrain [--show]      --show prints every command with its message
"""
import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

USAGE, BAD_DATA, MISSING, DOES_NOT_FIT, IO, BAD_RECIPE = 64, 65, 66, 71, 74, 78

SMALL = """name: small
data: {train: {dataset: synthetic, kind: vectors, samples: 256}}
model: {name: mlp, depth: 1, width: 8}
batch: {effective: 32}
stop: {updates: 2}
execution: {precision: fp32, memory: {budget: 64MiB}, search: {plan_cache: false}}
"""


def idx(magic, dims, body):
    return struct.pack(">I", magic) + b"".join(struct.pack(">I", d) for d in dims) + body


def mnist(folder, images, labels):
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").write_bytes(images)
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)
    return "data: {train: {dataset: fashion_mnist, root: %s}}\nstop: {updates: 1}\n" % folder


RANKS = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
         "MASTER_PORT": "29500"}


class Misuse:
    def __init__(self, binary, folder, show):
        self.binary, self.folder, self.show = binary, folder, show
        self.failures, self.count = [], 0

    def recipe(self, text, name="r.yaml"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ["--config", str(path)]

    def expect(self, what, code, parts, arguments, environment=None, largest_file=None):
        self.count += 1
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file,) * 2)) if largest_file else None
        result = subprocess.run([self.binary, *arguments], capture_output=True, text=True, errors="replace", timeout=1200,
                                cwd=self.folder, env={**os.environ, "CI": "1", **(environment or {})}, preexec_fn=limit)
        wrong = []
        if result.returncode != code:
            wrong.append(f"exit code {result.returncode}, expected {code}")
        wrong += [f"the message lacks {part!r}" for part in parts if part not in result.stderr]
        for trace in ("frame #", "terminate called", "what():", "Segmentation", "Exception raised"):
            if trace in result.stderr:
                wrong.append(f"the message holds {trace!r}")
        if not result.stderr.lstrip().startswith("error: ") and "\nerror: " not in result.stderr:
            wrong.append("there is no line that starts with 'error: '")
        if "--json" in arguments:
            failure = json.loads(result.stdout)
            if failure["exit_code"] != code or failure["error"] not in result.stderr:
                wrong.append(f"standard output says {failure}")
        if self.show:
            print(f"{self.count:2}. {what} → {result.returncode}\n   " + result.stderr.strip().replace("\n", "\n   "))
        for problem in wrong:
            self.failures.append(f"{what}: {problem}\n    {result.stderr.strip()[:500]}")


def command_lines(m):
    good = m.recipe(SMALL)
    m.expect("no arguments", USAGE, ["neither a command nor a recipe", "autotrain train --config", "--help"], [])
    m.expect("an unknown option", USAGE, ["no option \"--confg\"", "did you mean --config?"], ["--confg", "x.yaml"])
    m.expect("a recipe's key as an option", USAGE, ["--set KEY=VALUE", "stop.epochs"], ["--config", "x.yaml", "--epochs", "3"])
    m.expect("an option of other tools", USAGE, ["batch.effective"], ["train", "--config", "x.yaml", "--batch-size=64"])
    m.expect("an option that is another one here", USAGE, ["the option --output FOLDER"], ["--config", "x.yaml", "--out-dir", "x"])
    m.expect("a key that is like an option", USAGE, ["means is seed"], ["--config", "x.yaml", "--seed", "3"])
    m.expect("a command of other tools", USAGE, ["did you mean autotrain train?"], ["fit", "--config", "x.yaml"])
    m.expect("an empty recipe with --set", BAD_RECIPE, ["is empty"], [*m.recipe("", "empty.yaml"), "--set", "stop.epochs=1"])
    m.expect("an unknown command", USAGE, ["\"trian\"", "did you mean autotrain train?"], ["trian"])
    m.expect("an unknown command with options", USAGE, ["did you mean autotrain predict?"], ["perdict", "--run", "runs/a"])
    m.expect("help for an unknown command", USAGE, ["did you mean autotrain train?"], ["trian", "--help"])
    m.expect("a command like no other", USAGE, ["\"zzz\"", "autotrain --help"], ["zzz"])
    m.expect("an unknown option of a command", USAGE, ["autotrain evaluate", "did you mean --run?"], ["evaluate", "--rnu=runs/a"])
    m.expect("an option of other commands", USAGE, ["--kills", "an option of verify"], ["train", *good, "--kills", "3"])
    m.expect("an option of nobody", USAGE, ["autotrain plan --help"], ["plan", *good, "--zzzzzz"])
    m.expect("a recipe without --config", USAGE, ["autotrain plan --config r.yaml"], ["plan", "r.yaml"])
    m.expect("a recipe alone", USAGE, ["autotrain train --config r.yaml"], ["r.yaml"])
    m.expect("an option's former name", USAGE, ["called --branches now"], ["advise", "--run", "runs/a", "--verify"])
    m.expect("train without a recipe", USAGE, ["names no recipe", "autotrain train --config"], ["train"])
    m.expect("plan without a recipe", USAGE, ["names no recipe", "autotrain plan --config"], ["plan"])
    m.expect("an option before the command", USAGE, ["--json stands before the command plan", "autotrain plan --json"],
             ["--json", "plan"])
    m.expect("--config without a file", USAGE, ["--config"], ["--config"])
    m.expect("a recipe that is not there", MISSING, ["no such file"], ["--config", "nowhere.yaml"])
    m.expect("a folder as recipe", MISSING, ["is a folder"], ["--config", "/tmp"])
    m.expect("--set without =", USAGE, ["has no \"=\""], good + ["--set", "optimizer.lr"])
    m.expect("--set with an empty key", USAGE, ["empty key"], good + ["--set", "optimizer..lr=1"])
    m.expect("--set without a value", USAGE, ["--set \"optimizer.lr=\"", "gives no value", "optimizer.lr=null"],
             good + ["--set", "optimizer.lr="])
    m.expect("--set of a misspelt key before the name of its row", BAD_RECIPE, ["optimizer.momentun", "\"momentum\""],
             good + ["--set", "optimizer.momentun=0.9", "--set", "optimizer.name=sgd"])
    m.expect("config of a bad recipe", BAD_RECIPE, ["optimizer.lrr"], ["config", *good, "--set", "optimizer.lrr=1"])
    m.expect("config --set without a recipe", USAGE, ["--set", "--config"], ["config", "--set", "optimizer.lr=1"])
    m.expect("--set with an unknown key", BAD_RECIPE, ["--set", "\"lr\""], good + ["--set", "optimizer.lrr=1"])
    m.expect("--set with a bad value", BAD_RECIPE, ["--set optimizer.lr=fast", "a number"], good + ["--set", "optimizer.lr=fast"])
    m.expect("--resume without a run", USAGE, ["--output"], good + ["--resume"])
    m.expect("an empty output", USAGE, ["is empty"], good + ["--output", ""])
    m.expect("patience without evaluations", BAD_RECIPE, ["stop.patience"],
             good + ["--set", "stop.patience=2", "--set", "evaluation.every=never"])
    m.expect("a bad recipe, as JSON", BAD_RECIPE, ["optimizer.lrr"], good + ["--json", "--set", "optimizer.lrr=1"])
    for number in ("99999999999999999999", "1.5", "1e3", "0x10", "many"):
        m.expect(f"--kills {number}", USAGE, ["--kills", f'"{number}" is no whole number'], ["verify", *good, "--kills", number])
    m.expect("an unknown option, as JSON", USAGE, ["--confg"], ["--json", "--confg", "x.yaml"])
    m.expect("report without a folder", USAGE, ["FOLDER"], ["report"])
    m.expect("a report of a folder that is not there", MISSING, ["nowhere", "is no folder"], ["report", "nowhere", "--json"])
    m.expect("a report of a folder without a run", MISSING, ["holds nothing to draw"], ["report", "/usr"])
    m.expect("reports together of a folder without a run", MISSING, ["holds no run"], ["report", "/usr", "--together", "t.html"])
    run = m.folder / "drawn"
    run.mkdir()
    (run / "metrics.jsonl").touch()
    m.expect("a report that nobody may write", IO, ["/proc"], ["report", str(run), "--together", "/proc/t.html"])
    m.expect("an output that is a file", IO, ["r.yaml"], good + ["--output", str(m.folder / "r.yaml")])
    m.expect("an output nobody may write", IO, ["/proc"], good + ["--output", "/proc/autotrain/run"])


def numbers(m):
    """What is no finite number is none anywhere: in options, in keys, in variables of the environment."""
    good = m.recipe(SMALL)
    options = [(["advise", *good, "--branches"], "--seconds"), (["advise", *good, "--branches"], "--margin"),
               (["advise", *good, "--branches"], "--factor"), (["doctor", *good], "--seconds"), (["lr", *good], "--factor"),
               (["lr", *good], "--from"), (["lr", *good, "--race"], "--rates"),
               (["predict", "--run", "r", "--output", "p.csv"], "--latency-ms"), (["sweep", *good], "--latency-ms"),
               (["sweep", *good], "--seconds")]
    for arguments, option in options:
        for number in ("nan", "inf", "1e999"):
            code = BAD_RECIPE if arguments[0] == "sweep" else USAGE
            key = {"--latency-ms": "sweep.latency_ms", "--seconds": "sweep.max_seconds"}[option] if code == BAD_RECIPE else option
            m.expect(f"{arguments[0]} {option} {number}", code, [key, f'"{number}"'], [*arguments, option, number])
    m.expect("a target that is no number", USAGE, ["--target", "accuracy=nan"],
             ["compare", good[1], good[1], "--target", "accuracy=nan"])
    for key, value in (("execution.memory.budget", "nan%"), ("execution.memory.budget.cpu", "inf%"),
                       ("execution.loader.prefetch_memory", "nan%"), ("schedule.warmup", "nan%"),
                       ("evaluation.every", "nan epochs"), ("checkpoint.every", "inf minutes"),
                       ("optimizer.lr", "nan"), ("stop.epochs", "inf")):
        m.expect(f"{key} {value}", BAD_RECIPE, [key, value], [*good, "--set", f"{key}={value}"])
    for name, value in (("LRU_CACHE_CAPACITY", "many"), ("LRU_CACHE_CAPACITY", "0"), ("LRU_CACHE_CAPACITY", ""),
                        ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "nan"), ("DNNL_PRIMITIVE_CACHE_CAPACITY", "-1")):
        m.expect(f"{name}={value}", USAGE, [name, f'"{value}"', "unset it"], ["plan", *good], environment={name: value})


def recipes(m):
    cases = [
        ("an empty recipe", "", ["is empty"]),
        ("a recipe without an end", "name: a\n", ["stop.epochs"]),
        ("a misspelt key", SMALL.replace("effective", "efective"), ["r.yaml:4:9", "batch.efective", "\"effective\""]),
        ("a misspelt section", SMALL.replace("batch:", "bach:"), ["r.yaml:4:1", "\"batch\""]),
        ("a key of another model", SMALL.replace("depth: 1", "layers: 1"), ["model.layers", "key of transformer, not of mlp"]),
        ("a wrong type", SMALL.replace("effective: 32", "effective: many"), ["r.yaml:4:20", "an integer"]),
        ("a value out of range", SMALL.replace("depth: 1", "depth: 0"), ["model.depth", "from 1 to 1000"]),
        ("an unknown model", SMALL.replace("mlp", "mpl"), ["model.name", "\"mlp\""]),
        ("an optimizer as PyTorch writes it", SMALL + "optimizer: {name: AdamW}\n", ["r.yaml:7", "did you mean \"adamw\"?"]),
        ("a loss as PyTorch calls it", SMALL + "loss: {name: MSELoss}\n", ["did you mean \"mean_squared_error\"?"]),
        ("a schedule as PyTorch calls it", SMALL + "schedule: {name: OneCycleLR}\n", ["did you mean \"one_cycle\"?"]),
        ("a limit below the batch", SMALL.replace("{effective: 32}", "{effective: 32, limits: {max_effective: 8}}"),
         ["batch.limits.max_effective", "8 is less than batch.effective, 32"]),
        ("a limit below the micro-batch", SMALL.replace("{effective: 32}", "{limits: {max_effective: 8}}")
         .replace("precision: fp32", "precision: fp32, micro_batch: 64"), ["execution.micro_batch", "batch.limits.max_effective"]),
        ("a limit of the search below the micro-batch", SMALL.replace("{effective: 32}", "{effective: 32, limits: {max_micro_batch: 8}}")
         .replace("precision: fp32", "precision: fp32, micro_batch: 32"), ["execution.micro_batch", "batch.limits.max_micro_batch, 8"]),
        ("an unknown precision", SMALL.replace("fp32", "fp23"), ["execution.precision", "\"fp32\""]),
        ("bad YAML", "stop: {updates: 1\nmodel: [\n", ["not valid YAML", "r.yaml:2"]),
        ("patterns without quotes", SMALL + "frozen: [*.weight]\n", ["not valid YAML", "r.yaml:7", "put quotes"]),
        ("a pattern that is an alias without quotes", SMALL + "frozen: [*weight]\n", ["not valid YAML", "r.yaml:7", "put quotes"]),
        ("a tab in YAML", "stop:\n\tupdates: 1\n", ["r.yaml:2"]),
        ("a duplicate key", SMALL + "stop: {updates: 3}\n", ["stands twice", "r.yaml:7:1"]),
        ("two documents", SMALL + "---\n" + SMALL, ["more than one"]),
        ("an alias to itself", "a: &a [*a]\n", ["refers to itself"]),
        ("an alias bomb", "".join(f"a{i}: &a{i} [{', '.join([f'*a{i-1}' if i else 'x'] * 9)}]\n" for i in range(12)), ["more than"]),
        ("nesting without end", "a: " + "[" * 5000, ["r.yaml:1"]),
        ("bytes that are no text", b"\x00\xff\xfe stop: 1", ["r.yaml"]),
        ("a variable that is not set", SMALL.replace("name: small", "name: ${NOT_SET_ANYWHERE}"), ["NOT_SET_ANYWHERE is not set"]),
        ("a file extended that is missing", "extends: none.yaml\n" + SMALL, ["r.yaml:1:10", "none.yaml"]),
        ("extends in a circle", "extends: r.yaml\n" + SMALL, ["goes in a circle", "r.yaml → r.yaml"]),
        ("moving to main memory on a CPU", SMALL.replace("precision: fp32", "device: cpu, offload: true"), ["execution.offload", "nowhere to move to"]),
        ("a band upside down", SMALL.replace("budget: 64MiB", "target: [0.9, 0.8]"), ["is not a band"]),
        ("a budget of nothing", SMALL.replace("64MiB", "0"), ["execution.memory.budget", "2GiB"]),
        ("a GPU that is not there", SMALL.replace("precision: fp32", "device: 'cuda:99'"), ["execution.device"]),
        ("a batch larger than the data", SMALL.replace("effective: 32", "effective: 9999"), ["more than the 256 samples"]),
        ("micro-batch above effective", SMALL.replace("precision: fp32", "micro_batch: 64"), ["more than all 32"]),
        ("images for a transformer", SMALL.replace("model: {name: mlp, depth: 1, width: 8}", "model: {name: transformer}"), ["takes tokens"]),
        ("cosine with time alone", SMALL.replace("{updates: 2}", "{minutes: 1}\nschedule: {name: cosine}"), ["schedule.name", "stop.epochs"]),
        ("patience without validation", SMALL.replace("{updates: 2}", "{updates: 2, patience: 1}"), ["stop.patience"]),
        ("a run shorter than an update", SMALL.replace("{updates: 2}", "{epochs: 0.01}"), ["less than one update"]),
    ]
    for what, text, parts in cases:
        m.expect(what, BAD_RECIPE, parts, m.recipe(text))


def data_files(m):
    images, labels = idx(0x803, [4, 28, 28], b"\1" * 3136), idx(0x801, [4], b"\0\1\2\3")
    cases = [
        ("images cut short", BAD_DATA, ["train-images", "offset"], images[:2000], labels),
        ("labels for images", BAD_DATA, ["offset 0", "2051"], labels, labels),
        ("labels out of range", BAD_DATA, ["offset 11", "label 99"], images, idx(0x801, [4], b"\0\1\2\x63")),
        ("fewer labels than images", BAD_DATA, ["3 labels for 4 images"], images, idx(0x801, [3], b"\0\1\2")),
        ("four billion images", BAD_DATA, ["offset 4", "cannot hold"], idx(0x803, [0xFFFFFFFF, 28, 28], b"\0" * 99), labels),
        ("bytes after the end", BAD_DATA, ["3153 bytes"], gzip.compress(images + b"x"), labels),
        ("an empty file", BAD_DATA, ["inside its header"], b"", labels),
    ]
    for number, (what, code, parts, image_bytes, label_bytes) in enumerate(cases):
        m.expect(what, code, parts, m.recipe(mnist(m.folder / f"data{number}", image_bytes, label_bytes)))
    missing = "data: {train: {dataset: fashion_mnist, root: /nowhere}}\nstop: {updates: 1}\n"
    m.expect("a data folder that is not there", MISSING, ["/nowhere", "dataset-fashion-mnist"], m.recipe(missing))
    text = "data: {train: {dataset: text, files: [/nowhere/*.txt]}}\nmodel: {name: transformer}\nstop: {updates: 1}\n"
    m.expect("a pattern that matches nothing", MISSING, ["matches no file"], m.recipe(text))


def tables(m):
    (m.folder / "train.csv").write_text("a,b,y\n1,red,0.5\n2,blue,1.5\n3,green,2\n4,red,3\n")
    (m.folder / "kinds.csv").write_text("a,b,y\n1,red,no\n2,blue,yes\n3,green,no\n4,red,yes\n")
    (m.folder / "other.csv").write_text("a,y\n1,no\n2,yes\n")
    table = SMALL.replace("{dataset: synthetic, kind: vectors, samples: 256}",
                          "{dataset: table, file: train.csv, target: y}").replace("effective: 32", "effective: 2")
    m.expect("numbers to predict with a loss of classes", BAD_RECIPE, ["the loss is for classes", "mean_squared_error"],
             m.recipe(table))
    validation = table.replace("train.csv", "kinds.csv").replace("target: y}", "target: y}, validation: {dataset: table, file: other.csv, target: y}")
    m.expect("a validation table of other columns", BAD_RECIPE, ["other.csv has no column \"b\""],
             m.recipe(validation))
    m.expect("a column that is not there", BAD_RECIPE, ["no column \"z\""],
             m.recipe(table.replace("target: y", "target: z")))


def disks(m):
    m.expect("a file that grows beyond ulimit -f", IO, ["File too large", "model.safetensors"],
             [*m.recipe(SMALL.replace("width: 8", "width: 256")), "--output", "limited"], largest_file=50_000)
    m.expect("a folder that cannot be made", IO, ["/proc/nope"], [*m.recipe(SMALL), "--output", "/proc/nope"])


def ranks(m):
    m.expect("two ranks of torchrun", USAGE, ["started 2 ranks"], ["sweep", *m.recipe(SMALL)], environment=RANKS)
    m.expect("a rank without a meeting place", USAGE, ["MASTER_ADDR", "torchrun"], m.recipe(SMALL),
             environment={**RANKS, "MASTER_ADDR": ""})
    m.expect("a rank beyond the world", USAGE, ["RANK", "from 0 to 1"], m.recipe(SMALL), environment={**RANKS, "RANK": "2"})
    told = m.folder / "error.json"
    m.expect("a failure under torchrun", BAD_RECIPE, ["cmm"], m.recipe(SMALL.replace("name: mlp", "name: cmm")),
             environment={"TORCHELASTIC_ERROR_FILE": str(told)})
    if "cmm" not in json.loads(told.read_text(encoding="utf-8"))["message"]["message"]:
        m.failures.append("torchrun was not told the error")


def memory(m):
    m.expect("a model that does not fit", DOES_NOT_FIT, ["the data set and the model", "in use then", "model"],
             m.recipe(SMALL.replace("width: 8", "width: 4096").replace("depth: 1", "depth: 4").replace("64MiB", "100MiB")))
    wide = SMALL.replace("kind: vectors", "kind: vectors, shape: [65536]").replace("width: 8", "width: 64")
    m.expect("one sample that does not fit", DOES_NOT_FIT, ["not even 1 sample", "in phase", "largest blocks", "optimizer state"],
             m.recipe(wide.replace("64MiB", "60MiB")))
    m.expect("a typed size that does not fit", DOES_NOT_FIT, ["execution.micro_batch", "fits (measured"],
             m.recipe(wide.replace("64MiB", "120MiB").replace("precision: fp32", "precision: fp32, micro_batch: 200")
                      .replace("effective: 32", "effective: 200")))


def main():
    binary = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        m = Misuse(binary, Path(folder), "--show" in sys.argv)
        for group in (command_lines, numbers, recipes, data_files, tables, disks, ranks, memory):
            group(m)
    print(f"{m.count} misuses, {len(m.failures)} problems")
    print("\n".join(m.failures))
    return 1 if m.failures else 0


if __name__ == "__main__":
    sys.exit(main())
