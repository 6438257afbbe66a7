"""Cells of the stage tests that disturb whole runs: another process takes memory, a kill with a resume after it, a rank lost."""
import contextlib
import hashlib
import os
import re
import shutil
import signal
from pathlib import Path

import place
from cells import DOES_NOT_FIT, Cell, Failed, read_json, shorten, why
from measure import options_of

# Each sample takes time, so that a run lasts on any device: some 60 ms an update at least.
RECIPE = """
name: disturbed
data:
  train: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 4096, delay: 0.0002}
  validation: {dataset: synthetic, kind: images, shape: [1, 12, 12], samples: 512, first: 100000}
model: {name: cnn, width: 8, hidden: 32, dropout: 0.3}
batch: {effective: 256}
evaluation: {every: 20 updates}
checkpoint: {every: 10 updates, keep: 2}
execution:
  precision: fp32
  deterministic: true
  memory: {budget: 1GiB}
  loader: {workers: 1, preload: off}
  search: {plan_cache: false}
report: {html: false, csv: false, tensorboard: false}
"""
# recipes/gpu/transformer.yaml made small, for what attention's backward pass may do to bits.
TRANSFORMER = f"""
extends: {place.RECIPES / "gpu/transformer.yaml"}
name: small_transformer
data:
  train: {{dataset: synthetic, kind: tokens, shape: [128], classes: 512, samples: 4096, delay: 0.0005}}
  validation: {{dataset: synthetic, kind: tokens, shape: [128], classes: 512, samples: 64, first: 1000000}}
model: {{name: transformer, layers: 2, width: 128, heads: 2, dropout: 0.1}}
batch: {{effective: 64}}
evaluation: {{every: 20 updates}}
checkpoint: {{every: 10 updates, keep: 2}}
execution:
  precision: bf16
  deterministic: true
  memory: {{budget: 2GiB}}
  loader: {{workers: 1, preload: off}}
  search: {{plan_cache: false}}
report: {{html: false, csv: false, tensorboard: false}}
"""
UPDATES, QUICK_UPDATES = 200, 40
UPDATES_TO_RESUME = 60
INTERRUPTED = 75  # the exit code of a run that can go on
KILLED_AFTER = 15  # updates: one checkpoint is there, and something is lost
TYPED = ("execution.micro_batch=128",)  # two make an update
TYPED_OF_TRANSFORMER = ("execution.micro_batch=32",)
# On a processor, which rehearses: it takes minutes for what a GPU does in seconds.
TINY_TRANSFORMER = ("data.train.shape=[16]", "data.validation.shape=[16]", "model.layers=1", "model.width=16", "batch.effective=16",
                    "execution.precision=fp32")
OF_TWO_LANES = (*TYPED, "execution.lanes=2", "execution.threads=1")  # the same bits on one rank and two
NEIGHBOUR_BYTES, NEIGHBOUR_BYTES_ON_CPU = 10 << 30, 64 << 20


def run_command(setting, output, settings=(), device=None, content=RECIPE):
    """The words that train a recipe of this content into the folder `output`, beside which it writes the recipe."""
    recipe = output.parent / "disturbed.yaml"
    recipe.write_text(content, encoding="utf-8")
    updates = QUICK_UPDATES if setting.quick else UPDATES
    settings = [f"execution.device={device or setting.device}", f"stop.updates={updates}", *settings]
    return [*place.program("autotrain"), "--config", recipe, "--output", output, *options_of(settings)]


def updates_in(output):
    """How many updates a run has written down so far."""
    metrics = output / "metrics.jsonl"
    return metrics.read_text(encoding="utf-8").count('"kind":"update"') if metrics.exists() else 0


def tail(ended):
    """The end of a program's log, on one line."""
    return shorten(" | ".join(ended.errors.strip().splitlines()[-6:]), 1000) or "it said nothing"


def row_of(figures, fault):
    """A row as a suite of one test has it. `fault`: what was wrong; empty: nothing."""
    return {"passed": int(not fault), "failed": int(bool(fault)), "skipped": 0,
            "failures": {"run": fault} if fault else {}, "figures": figures}


def neighbour_bytes(setting):
    return NEIGHBOUR_BYTES if setting.on_gpu else NEIGHBOUR_BYTES_ON_CPU


def neighbour_command(setting, file):
    if setting.on_gpu and place.lacks("torch"):
        raise Failed(f"{place.python()} has no torch")
    script = place.ROOT / "scripts/gpu/neighbour.py"
    return [place.python(), script, setting.device, neighbour_bytes(setting), file]


def said(program, word):
    return word in program.so_far().output.split()


def train_beside_neighbour(setting, output):
    """How a run ended, and how many updates it had when another process took memory, once there was a plan.
    @raises Failed: the two were not there together."""
    with setting.started(neighbour_command(setting, output / "plan.json")) as neighbour:
        setting.wait_until(lambda: neighbour.has_ended() or said(neighbour, "ready"), 120)
        with setting.started(run_command(setting, output)) as run:
            setting.wait_until(lambda: run.has_ended() or neighbour.has_ended() or said(neighbour, "holding"), 120)
            before = updates_in(output)
            if not neighbour.has_ended() and not said(neighbour, "holding"):
                raise Failed(f"before its neighbour had memory, the run {why(run.so_far())}")
            setting.wait_until(lambda: run.has_ended() or neighbour.has_ended(), 240)
            if neighbour.has_ended():
                raise Failed(f"the neighbour {why(neighbour.so_far())}")
            return run.so_far(), before


def fault_beside_neighbour(ended, summary):
    """Empty where the run came to its end, or said that memory ran out."""
    out_of_memory = ended.code == DOES_NOT_FIT and "memory" in (summary.get("error") or "")
    completed = ended.code == 0 and summary.get("status") == "completed"
    return "" if completed or out_of_memory else f"ended with {ended.code}: {tail(ended)}"


def within_budget(output, summary):
    """Whether the run's peak is within its budget, which a neighbour's memory is no part of; None: it had no end."""
    if "peak_bytes" not in summary:
        return None
    return summary["peak_bytes"] <= read_json(output / "plan.json")["budget_bytes"]


def beside_neighbour(setting, folder):
    output = folder / "run"
    ended, before = train_beside_neighbour(setting, output)
    summary = read_json(output / "summary.json") if (output / "summary.json").exists() else {}
    figures = {"exit_code": ended.code, "completed": summary.get("status") == "completed",
               "updates": summary.get("updates"), "neighbour_bytes": neighbour_bytes(setting),
               "neighbour_came_after": before,
               "oom_recoveries": summary.get("oom_recoveries"), "peak_bytes": summary.get("peak_bytes"),
               "within_budget": within_budget(output, summary),
               "error": summary.get("error") and shorten(summary["error"])}
    return row_of(figures, fault_beside_neighbour(ended, summary))


def checkpoints(output):
    """A run's checkpoints by the number of their update, the newest last."""
    return sorted(output.glob("checkpoints/update-*"), key=lambda path: int(path.name.split("-")[1]))


def past_a_checkpoint(run, output):
    return run.has_ended() or checkpoints(output) and updates_in(output) >= KILLED_AFTER


def train_and_kill(setting, output, command):
    """Kills a run that has a checkpoint and is past it. @raises Failed: it ended before."""
    with setting.started(command) as run:
        setting.wait_until(lambda: past_a_checkpoint(run, output), 240)
        ended = run.kill()
    if ended.code != -signal.SIGKILL:
        raise Failed(f"the run was not there to be killed: {why(ended)}")


def last_model(output):
    """The last checkpoint's name, and the sum of its model's bytes."""
    last = checkpoints(output)[-1]
    return last.name, hashlib.sha256((last / "model.safetensors").read_bytes()).hexdigest()


def fault_of_resumed(ended, resumed_at, mine, undisturbed):
    if ended.code != 0:
        return f"resumed, it {why(ended)}"
    if not resumed_at:
        return f"it began anew: {tail(ended)}"
    return "" if mine == undisturbed else f"the model of {mine[0]} is not the undisturbed run's of {undisturbed[0]}"


def killed_and_resumed(setting, folder, content=RECIPE, typed=TYPED):
    settings = (*typed, f"stop.updates={QUICK_UPDATES if setting.quick else UPDATES_TO_RESUME}")
    straight, killed = (run_command(setting, folder / name, settings, content=content)
                        for name in ("undisturbed", "killed"))
    ended = setting.run(straight, 240)
    if ended.code != 0:
        raise Failed(f"the undisturbed run {why(ended)}")
    train_and_kill(setting, folder / "killed", killed)
    killed_after = updates_in(folder / "killed")
    ended = setting.run([*killed, "--resume"], 240)
    found = re.search(r"resumed at update (\d+)", ended.errors)
    mine, undisturbed = last_model(folder / "killed"), last_model(folder / "undisturbed")
    figures = {"exit_code": ended.code, "killed_after": killed_after, "resumed_at": found and int(found[1]),
               "last": mine[0], "same_bits": mine == undisturbed, "sha256": mine[1]}
    return row_of(figures, fault_of_resumed(ended, found, mine, undisturbed))


def transformer_killed_and_resumed(setting, folder):
    typed = TYPED_OF_TRANSFORMER if setting.on_gpu else (*TINY_TRANSFORMER, "execution.micro_batch=8")
    return killed_and_resumed(setting, folder, TRANSFORMER, typed)


def gpus(setting):
    """How many GPUs this machine shows."""
    ended = setting.run(["nvidia-smi", "-L"], 60)
    return len(re.findall(r"^GPU \d", ended.output, re.MULTILINE)) if ended.code == 0 else 0


def process_of_rank(launcher, rank):
    """The process that is this rank of the ranks that process `launcher` started. @raises Failed: none is."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher and f"RANK={rank}".encode() in (process / "environ").read_bytes().split(b"\0"):
                return int(process.name)
    raise Failed(f"process {launcher} has no rank {rank}")


def train_and_lose_a_rank(setting, output, command):
    """Kills the second rank of a run that has a checkpoint and is past it. Returns how the run ended."""
    with setting.started(command) as run:
        setting.wait_until(lambda: past_a_checkpoint(run, output), 240)
        os.kill(process_of_rank(run.child.pid, 1), signal.SIGKILL)
        setting.wait_until(run.has_ended, 120)
        return run.so_far()


def fault_of_ranks(lost, ended, models):
    """`models`: of one rank, of two, and of two of which one was lost, gone on with by one."""
    if lost.code != INTERRUPTED or "rank 1" not in lost.errors:
        return f"when rank 1 was killed, the run ended with {lost.code}: {tail(lost)}"
    if ended.code != 0:
        return f"resumed by one rank, it {why(ended)}"
    return "" if models[0] == models[1] == models[2] else f"the models differ: {', '.join(sha[:8] for _, sha in models)}"


def two_ranks(setting, folder):
    device = "cuda" if setting.on_gpu else setting.device  # each rank takes a GPU of its own
    if setting.on_gpu and gpus(setting) < 2:
        return {"passed": 0, "failed": 0, "skipped": 1, "failures": {},
                "figures": {"skipped": "NCCL takes one rank for each GPU, and there is one GPU"}}
    one, two, lost = (folder / name for name in ("one", "two", "lost"))
    for output, ranks in ((one, 1), (two, 2)):
        straight = setting.run([*run_command(setting, output, OF_TWO_LANES, device), "--ranks", ranks], 240)
        if straight.code != 0:
            raise Failed(f"the run of {ranks} ranks {why(straight)}")
    command = run_command(setting, lost, OF_TWO_LANES, device)
    after_loss = train_and_lose_a_rank(setting, lost, [*command, "--ranks", 2])
    ended = setting.run([*command, "--resume"], 240)
    models = [last_model(output) for output in (one, two, lost)]
    summary = read_json(two / "summary.json")
    figures = {"exit_code": after_loss.code, "same_bits": models[0] == models[1] == models[2],
               "samples_per_second": summary["samples_per_second"],
               "communication": summary["activity_seconds"].get("communication"), "sha256": models[0][1]}
    return row_of(figures, fault_of_ranks(after_loss, ended, models))


def cell(setting, name, measure, seconds):
    def measured():
        folder = setting.folder(name)
        try:
            return measure(setting, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return Cell(name, measured, seconds)


def cells(setting):
    return [cell(setting, "run beside a neighbour", beside_neighbour, 18),
            cell(setting, "run killed and resumed", killed_and_resumed, 20),
            cell(setting, "transformer killed and resumed", transformer_killed_and_resumed, 22),
            cell(setting, "run of two ranks, one lost", two_ranks, 3)]
