#!/usr/bin/env python3
"""Rehearses scripts/gpu/campaign on the CPU: its cells are measured, kept, and not measured again.

    campaign_test.py path/to/project
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(sys.argv[1]).resolve()


def campaign(output, *stages):
    command = [sys.executable, PROJECT / "scripts/gpu/campaign", *stages, "--device", "cpu", "--quick", "--output", output,
               "--minutes", "20"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1200)
    assert result.returncode == 0, result.stderr
    return result


def main():
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "results")
        printed = campaign(output, "main", "sweep").stdout
        for stage in ("main", "sweep"):
            found = json.loads((output / f"{stage}.json").read_text(encoding="utf-8"))
            assert found["rows"] and found["left"] == [], (stage, found["left"])
            for row in found["rows"]:
                assert "error" not in row, row
                assert row["cell"] in printed, (row["cell"], printed)
            if stage == "main":
                assert all(row["right"] for row in found["rows"]), found["rows"]
        before = (output / "main.json").read_text(encoding="utf-8")
        again = campaign(output, "main")
        assert "[main] 0 of" in again.stderr, again.stderr
        assert json.loads(before)["rows"] == json.loads((output / "main.json").read_text(encoding="utf-8"))["rows"]
    print("campaign: two stages rehearsed, and no cell measured twice")


if __name__ == "__main__":
    main()
