#!/usr/bin/env python3
"""`autotrain doctor`: what it measures of the machine, a planted bottleneck that only sleeping can cause, and the ways
in which it must refuse. No figure is judged but one: sixteen threads that sleep are faster than one."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPE = """
data: {train: {dataset: synthetic, kind: vectors, samples: 10000, delay: 0.002}}
model: {name: mlp, depth: 1, width: 16}
batch: {effective: 32}
stop: {epochs: 1}
execution: {precision: fp32, memory: {budget: 256MiB}, loader: {workers: 1}}
"""


def doctor(binary, *arguments, code=0):
    out = subprocess.run([binary, "doctor", *map(str, arguments)], capture_output=True, text=True, timeout=1200)
    assert out.returncode == code, f"{arguments}: ended with {out.returncode}:\n{out.stderr}"
    return out.stdout if code == 0 else out.stderr


def check_machine(machine):
    assert machine["device"] == "cpu" or machine["device"].startswith("cuda")
    assert machine["processors"] >= machine["cores"] >= 1
    assert machine["copy_bytes_per_second"] > 1e8
    assert machine["flops"]["fp32"] > 1e8


def check_tiny_batches(binary, folder):
    """Batches of 4 whose samples are made many times as fast as they are trained on: loading is not blamed, and what
    four times as many samples cost is tried."""
    recipe = folder / "tiny.yaml"
    recipe.write_text(RECIPE.replace(", delay: 0.002", "").replace("effective: 32", "effective: 4"), encoding="utf-8")
    found = json.loads(doctor(binary, "--config", recipe, "--json", "--seconds", 0.5))["recipe"]
    assert found["cause"] not in ("storage", "decode", "copy"), found
    larger = [cure for cure in found["cures"] if cure["cause"] == "larger_batch"]
    assert larger and larger[0]["set"] == ["batch.effective=16", "execution.micro_batch=16"], found["cures"]


def main():
    binary = sys.argv[1]
    check_machine(json.loads(doctor(binary, "--json"))["machine"])
    links = json.loads(doctor(binary, "--ranks", 2, "--json"))["links"]
    assert [rank["flops"] > 0 for rank in links["ranks"]] == [True, True], links
    assert links["meeting_seconds"] > 0 and links["exact_sums"][-1]["bytes"] == 2**26, links
    assert "verdict" in doctor(binary, "--ranks", 2)
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "slow.yaml")
        recipe.write_text(RECIPE, encoding="utf-8")
        found = json.loads(doctor(binary, "--config", recipe, "--json", "--seconds", 0.5))["recipe"]
        assert found["cause"] == "storage", found
        assert found["loading"]["busy_share"] < 0.5
        assert abs(sum(found["before"]["shares"].values()) - 1) < 1e-6
        best = found["cures"][0]
        assert best["gain"] > 1 and best["cause"] == "storage", best
        assert any(setting.startswith("execution.loader.workers=") for setting in best["set"])
        step = found["step"]
        assert 0 < step["products_share"] + step["slowest_other_share"] <= 1 and step["slowest_other"], step
        assert step["memory_format"] == "contiguous"
        quarter = [cure for cure in found["cures"] if cure["cause"] == "smaller_micro_batch"]
        assert quarter and quarter[0]["set"] == ["execution.micro_batch=8"], found["cures"]
        assert not any(cure["cause"] == "memory_format" for cure in found["cures"]), "there are no images"
        assert "--config" in doctor(binary, "--config", recipe, "--ranks", 2, code=64)
        text = doctor(binary, "--config", recipe, "--seconds", 0.2)
        assert "verdict" in text and "tried (--set)" in text, text
        check_tiny_batches(binary, Path(folder))
        evaluated = "data.validation={dataset: synthetic, kind: vectors, samples: 100, first: 100000}"
        text = doctor(binary, "--config", recipe, "--seconds", 0.2, "--set", evaluated, "--set",
                      "schedule={name: plateau, patience: 2}")
        assert "verdict" in text, "a rate that follows evaluations"
        assert not list(Path(folder).glob("runs*")), "trials leave no files"
        # What would stop a run stops the doctor, with the same words.
        assert "model.widht" in doctor(binary, "--config", recipe, "--set", "model.widht=3", code=78)
        doctor(binary, "--config", recipe, "--set", "execution.memory.budget=4KiB", code=71)
        doctor(binary, "--config", Path(folder, "none.yaml"), code=66)
        doctor(binary, "--seconds", "-1", code=64)
    print("doctor: the machine, a planted bottleneck, tiny batches, four refusals")


if __name__ == "__main__":
    main()
