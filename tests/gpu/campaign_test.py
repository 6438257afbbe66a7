#!/usr/bin/env python3
"""Rehearses scripts/gpu/campaign on the CPU: its cells are measured, kept, and not measured again; results
name the GPU; whole runs that are disturbed are told right from wrong; presets fit their time.

    campaign_test.py path/to/project
"""
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(PROJECT / "scripts/gpu"))
import loading_stage
import machine_stages
import place
import speed_stages
import table
import training_stages
from cells import Cell, Ended, Failed, OutOfTime, Setting
from disturbed_runs import fault_beside_neighbour, fault_of_ranks, fault_of_resumed
from presets import PRESETS, chosen
from whole_runs import fault_of_first_command, fault_of_two, fault_of_verify

STAGES = {**machine_stages.STAGES, **training_stages.STAGES, **loading_stage.STAGES, **speed_stages.STAGES}
WHOLE_RUNS = ("README's first command", "two runs on one device", "transformer killed and resumed", "transformer verified")
ON_A_CPU = "fashion_mnist_cnn:256MiB:*"  # a pattern that rehearsals have
NVIDIA_SMI = "#!/bin/sh\necho 'NVIDIA Imaginary 100'\n"


def campaign(output, *words, device="cpu", environment=None):
    command = [sys.executable, PROJECT / "scripts/gpu/campaign", *words, "--device", device, "--quick", "--output", output,
               "--minutes", "20"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1200,
                            env={**os.environ, **(environment or {})})
    assert result.returncode == 0, result.stderr
    return result


def read(output, stage):
    return json.loads((output / f"{stage}.json").read_text(encoding="utf-8"))


def check_stages(output):
    printed = campaign(output, "main", "sweep").stdout
    for stage in ("main", "sweep"):
        found = read(output, stage)
        assert found["rows"] and found["left"] == [], (stage, found["left"])
        for row in found["rows"]:
            assert "error" not in row, row
            assert row["cell"] in printed, (row["cell"], printed)
        if stage == "main":
            assert all(row["right"] for row in found["rows"]), found["rows"]
    before = read(output, "main")["rows"]
    again = campaign(output, "main")
    assert "[main] 0 of" in again.stderr, again.stderr
    assert before == read(output, "main")["rows"]


def check_disturbed_runs(output):
    campaign(output, "tests", "--cells", "run *")
    rows = {row["cell"]: row for row in read(output, "tests")["rows"]}
    assert all((row.get("passed"), row.get("failed")) == (1, 0) for row in rows.values()), rows
    assert rows["run beside a neighbour"]["figures"]["completed"], rows
    assert rows["run killed and resumed"]["figures"]["same_bits"], rows
    assert rows["run of two ranks, one lost"]["figures"]["same_bits"], rows


def check_whole_runs(output):
    """One by one, as a pattern names one cell."""
    for name in WHOLE_RUNS:
        campaign(output, "tests", "--cells", name)
    rows = {row["cell"]: row for row in read(output, "tests")["rows"]}
    for name in WHOLE_RUNS:
        assert (rows[name].get("passed"), rows[name].get("failed")) == (1, 0), rows[name]
    assert rows["two runs on one device"]["figures"]["within_budget"] == [True, True], rows


def setting_of_a_gpu(folder):
    return Setting("cuda", False, folder, folder)


def check_presets(folder):
    """On a GPU every pattern names cells, and the two first presets fit their time; a quarter of an hour holds both."""
    setting = setting_of_a_gpu(folder)
    cells = {name: [cell.name for cell in stage.cells(setting)] for name, stage in STAGES.items()}
    for name, preset in PRESETS.items():
        for stage, pattern in preset.cells:
            assert pattern == ON_A_CPU or fnmatch.filter(cells[stage], pattern), (name, stage, pattern)
    for name, longest in (("first", 270), ("speed", 350)):
        found = chosen(PRESETS[name], STAGES, setting)
        assert PRESETS[name].seconds <= longest, name
        assert len({(stage, cell.name) for stage, cell in found}) == len(found), name
        needed = sum(cell.seconds for _, cell in found if not cell.name.startswith("alone: "))
        assert needed <= longest, (name, needed)
    names = [(stage, cell.name) for stage, cell in chosen(PRESETS["first"], STAGES, setting)]
    assert names[2] == ("tests", "README's first command"), names  # what failed on the first GPU
    assert sum(stage == "main" for stage, _ in names) == 4, names
    assert any(name.startswith("alone: CudaTraining.") for _, name in names), names
    assert all(cell.seconds <= 15 for cell in STAGES["doctor"].cells(setting))


def check_plan(folder):
    """--plan lists a preset's cells in their order, measures nothing and needs no GPU."""
    command = [sys.executable, PROJECT / "scripts/gpu/campaign", "--preset", "speed", "--plan", "--output", folder / "none"]
    printed = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
    assert printed.index("mlp:64:bf16") < printed.index("resnet50: search") < printed.index("a hundred narrow layers"), printed
    assert "in 350 s at most" in printed and not (folder / "none").exists(), printed


PEERS_DEVICES = """
import types, workloads
from workloads import torch
asked = []
torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=1 << 32)
torch.cuda.set_per_process_memory_fraction = lambda fraction, device: asked.append(str(device))
for name in ("cuda", "cuda:1"):
    workloads.set_limit(1 << 30, "data", name)
assert asked == ["cuda:0", "cuda:1"], asked
"""


def check_devices_of_peers():
    """PyTorch's limit on a GPU's memory refuses a device without its number."""
    if place.lacks("torch") or place.lacks("numpy"):
        return
    subprocess.run([place.python(), "-c", PEERS_DEVICES], check=True, cwd=PROJECT / "scripts/bench/peers")


def failure_of(call):
    try:
        call()
    except (Failed, OutOfTime) as failure:
        return failure
    return None


def check_clocks(folder):
    """A cell that hangs on a GPU loses its own time, not the others'; at the end of all time it may be tried again."""
    setting, now = setting_of_a_gpu(folder), time.monotonic()
    setting.deadline = now + 1000
    setting.begin(Cell("quick", dict, 5))
    assert 20 < setting.deadline_of_cell - now < 40
    setting.deadline_of_cell = now
    assert isinstance(failure_of(lambda: setting.wait_until(lambda: False, 60)), Failed)
    setting.deadline, setting.deadline_of_cell = now, now + 1000
    assert isinstance(failure_of(lambda: setting.wait_until(lambda: False, 60)), OutOfTime)
    assert failure_of(lambda: setting.wait_until(lambda: True, 60)) is None


def check_words():
    """What a row's figures make of it, and a run's peak beside its trial's."""
    assert not table.fault_of({"right": True, "same_bits": True})
    assert "same_bits" in table.fault_of({"right": True, "same_bits": False})
    assert table.fault_of({"failed": 1}) == "WRONG"
    assert not table.fault_of({"side": "accelerate", "survived": False})
    probe = {"micro_batch": 8, "peak_bytes": 100, "fits": True}
    plan = {"micro_batch": 8, "search": {"probes": [probe, {**probe, "micro_batch": 9, "peak_bytes": 300},
                                                    {**probe, "peak_bytes": 200, "fits": False}]}}
    assert training_stages.peak_of_trial(plan) == 100
    rows = [{"activity_seconds": {"data_wait": 1.0, "forward": 3.0}}] * 2
    assert loading_stage.waiting(rows) == 0.25 and loading_stage.waiting([]) is None


def check_faults_of_whole_runs():
    completed = {"status": "completed", "final": {"accuracy": 0.9}}
    assert not fault_of_first_command(Ended(0, "", ""), completed)
    assert fault_of_first_command(Ended(71, "", "a budget below what kernels take"), {})
    assert fault_of_first_command(Ended(0, "", ""), {**completed, "final": {"accuracy": 0.1}})
    good, bad = (Ended(0, "", ""), completed), (Ended(71, "", "no memory"), {"status": "failed"})
    assert not fault_of_two([good, good])
    assert "run 2" in fault_of_two([good, bad])
    same = '[{"disturbance": "killed", "result": "same bits", "detail": ""}]'
    assert not fault_of_verify(Ended(0, same, ""))
    assert "killed" in fault_of_verify(Ended(70, same.replace("same bits", "DIFFERENT"), ""))
    assert fault_of_verify(Ended(70, same, ""))


def check_faults():
    """What is a fault of a disturbed run, and what is none."""
    completed = {"status": "completed", "error": None}
    no_memory = {"status": "failed", "error": "out of memory with 4 samples"}
    assert not fault_beside_neighbour(Ended(0, "", ""), completed)
    assert not fault_beside_neighbour(Ended(71, "", ""), no_memory)
    assert fault_beside_neighbour(Ended(0, "", ""), {"status": "interrupted", "error": None})
    assert fault_beside_neighbour(Ended(71, "", ""), {"status": "failed", "error": None})
    assert "broken pipe" in fault_beside_neighbour(Ended(-9, "", "broken pipe"), {})
    assert not fault_of_resumed(Ended(0, "", ""), 10, ("update-40", "a"), ("update-40", "a"))
    assert fault_of_resumed(Ended(0, "", ""), 10, ("update-40", "b"), ("update-40", "a"))
    assert fault_of_resumed(Ended(0, "", ""), 10, ("update-30", "a"), ("update-40", "a"))
    assert fault_of_resumed(Ended(0, "", ""), None, ("update-40", "a"), ("update-40", "a"))
    assert fault_of_resumed(Ended(70, "", ""), 10, ("update-40", "a"), ("update-40", "a"))
    alike = 3 * [("update-40", "a")]
    named = Ended(75, "", "rank 1 on node1 is lost")
    assert not fault_of_ranks(named, Ended(0, "", ""), alike)
    assert fault_of_ranks(named, Ended(0, "", ""), [*alike[:2], ("update-40", "b")])
    assert fault_of_ranks(named, Ended(70, "", ""), alike)
    assert fault_of_ranks(Ended(75, "", "something is lost"), Ended(0, "", ""), alike)
    assert fault_of_ranks(Ended(-9, "", "rank 1 on node1 is lost"), Ended(0, "", ""), alike)


def check_gpu_is_named(folder):
    """Results and table name the GPU that nvidia-smi names, here one that only says so."""
    program = folder / "nvidia-smi"
    program.write_text(NVIDIA_SMI, encoding="utf-8")
    program.chmod(0o755)
    output = folder / "gpu"
    printed = campaign(output, "facts", "--cells", "peers", device="cuda",
                       environment={"PATH": f"{folder}:{os.environ['PATH']}"}).stdout
    assert "# Campaign on NVIDIA Imaginary 100\n" in printed, printed
    found = read(output, "facts")
    assert (found["machine"]["gpu"], found["machine_name"]) == ("NVIDIA Imaginary 100", "nvidia-imaginary-100"), found


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_gpu_is_named(folder)
        check_faults()
        check_faults_of_whole_runs()
        check_words()
        check_clocks(folder)
        check_presets(folder)
        check_plan(folder)
        check_devices_of_peers()
        check_disturbed_runs(folder / "results")
        check_whole_runs(folder / "results")
        check_stages(folder / "results")
    print("campaign: stages rehearsed, no cell measured twice, the GPU named, faults of whole runs seen, presets fit")


if __name__ == "__main__":
    main()
