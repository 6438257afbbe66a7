#!/usr/bin/env python3
"""Rehearses scripts/gpu/campaign on the CPU: its cells are measured, kept, and not measured again; results
name the GPU; whole runs that are disturbed are told right from wrong.

    campaign_test.py path/to/project
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(PROJECT / "scripts/gpu"))
from cells import Ended
from disturbed_runs import fault_beside_neighbour, fault_of_ranks, fault_of_resumed

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
        check_disturbed_runs(folder / "results")
        check_stages(folder / "results")
    print("campaign: stages rehearsed, no cell measured twice, the GPU named, faults of disturbed runs seen")


if __name__ == "__main__":
    main()
