#!/usr/bin/env python3
"""Rehearses scripts/gpu/campaign on the CPU: its cells are measured, kept, and not measured again; results
name the GPU.

    campaign_test.py path/to/project
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(sys.argv[1]).resolve()

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
        check_stages(folder / "results")
    print("campaign: stages rehearsed, no cell measured twice, the GPU named")


if __name__ == "__main__":
    main()
