#!/usr/bin/env python3
"""`autotrain data`: what it says of whole data, of faults in one of two sets, as text, JSON and a page.

    data_test.py path/to/autotrain
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RECIPE = """\
data:
  train: {dataset: table, file: train.csv, target: price, task: regression}
  validation: {dataset: table, file: validation.csv, target: price, task: regression}
model: {name: mlp}
loss: {name: mean_squared_error}
stop: {epochs: 1}
"""


def data(binary, recipe, *arguments, code=0):
    out = subprocess.run([binary, "data", "--config", recipe, *map(str, arguments)], capture_output=True, text=True,
                         cwd=recipe.parent, timeout=600)
    assert out.returncode == code, (out.returncode, out.stdout, out.stderr)
    return out.stdout


def write_table(path, rows, spoilt=None):
    lines = [f"{i % 7}.5,{i % 3}.25,{10 + i}.75" for i in range(rows)]
    if spoilt is not None:
        lines[spoilt - 2] = "1.5,2.25,cheap"
    path.write_text("\n".join(["rooms,floor,price", *lines]) + "\n", encoding="utf-8")


def main(binary):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = folder / "recipe.yaml"
        recipe.write_text(RECIPE, encoding="utf-8")
        write_table(folder / "train.csv", 60)
        write_table(folder / "validation.csv", 20)

        text = data(binary, recipe)
        assert "training" in text and "60" in text, text
        assert text.splitlines()[-1].startswith("no faults, "), text

        found = json.loads(data(binary, recipe, "--json"))
        assert [each["role"] for each in found["sets"]] == ["training", "validation"], found
        assert found["faults"] == 0, found

        page = folder / "data.html"
        data(binary, recipe, "--page", page)
        assert "training" in page.read_text(encoding="utf-8")

        # A fault in one set hides nothing of the other, and what reads the exit code sees it.
        write_table(folder / "validation.csv", 20, spoilt=12)
        text = data(binary, recipe, code=65)
        assert "validation.csv:12:" in text and "cheap" in text, text
        assert "training" in text and text.splitlines()[-1].startswith("1 fault, "), text

        (folder / "validation.csv").unlink()
        assert "validation.csv" in data(binary, recipe, code=66)

        # Images are drawn as the model gets them.
        recipe.write_text("data: {train: {dataset: synthetic, samples: 64}}\nstop: {epochs: 1}\n", encoding="utf-8")
        data(binary, recipe, "--page", page, "--samples", 5)
        assert '"png":"iVBOR' in page.read_text(encoding="utf-8")
        assert "--samples" in subprocess.run([binary, "data", "--config", recipe, "--samples", "0"], capture_output=True,
                                             text=True).stderr
    print("data: whole data, a fault in one of two sets, a missing file, a page with samples")


if __name__ == "__main__":
    main(sys.argv[1])
