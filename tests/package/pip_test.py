#!/usr/bin/env python3
"""Builds the sdist and of it the wheel, and uses the wheel in a fresh environment: the command, a search from Python, a run, a model from Python.

    pip_test.py path/to/project

The environment's PyTorch is that of the Python that runs this, by links: pip sees it installed there. 77 where pip or
PyTorch is missing."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

MODULE = """
import torch

def make():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
"""
# Which micro-batch fits, asked of the package that was installed.
FIND = """
import torch, autotrain
model = torch.nn.Linear(64, 256)
plan = autotrain.find(lambda batch: model(batch).tanh().mean().backward(), lambda n: torch.randn(n, 64), model=model,
                      optimizer=torch.optim.AdamW(model.parameters()), effective=50000, budget="48MiB")
assert plan.confirmed and plan.micro_batch * plan.window >= 50000, plan
print(plan)
"""
# What the environment must not have from here: its own pip, and a package that this test is about.
OWN = ("pip", "setuptools", "autotrain", "__pycache__", "distutils-precedence.pth", "_distutils_hack", "pkg_resources")


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout[-6000:]}\n{result.stderr[-6000:]}")
    return result.stdout


def fresh_environment(folder):
    """@return its Python and its folder of packages."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for package in Path(importlib.util.find_spec("torch").origin).parent.parent.iterdir():
        if not package.name.startswith(OWN) and not (packages / package.name).exists():
            (packages / package.name).symlink_to(package)
    return python, packages


def build(python, project, folder):
    """The sdist, and the wheel that comes of it alone."""
    run(python, "-m", "pip", "install", "build", cwd=folder)
    run(python, "-m", "build", "--sdist", "--outdir", folder, project)
    [sdist] = folder.glob("*.tar.gz")
    run(python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, sdist, cwd=folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def use(python, folder):
    program = python.parent / "autotrain"
    print(run(program, "--version", cwd=folder), end="")
    print(run(python, "-c", FIND, cwd=folder), end="")
    (folder / "mine.py").write_text(MODULE)
    run(python, "-m", "autotrain_export", "mine:make", "--example", "float32[4,3,2,2]", "--output", "m.autotrain", cwd=folder)
    data = {"dataset": "synthetic", "classes": 3, "shape": [3, 2, 2], "samples": 256}
    recipe = {"name": "pip", "data": {"train": data}, "model": {"name": "exported", "file": "m.autotrain"},
              "optimizer": {"name": "sgd", "lr": 0.1}, "batch": {"effective": 32}, "stop": {"updates": 20},
              "execution": {"device": "cpu", "precision": "fp32", "memory": {"budget": "64MiB"}}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    run(program, "--config", "recipe.yaml", "--output", "run", "--quiet", cwd=folder)
    if json.loads((folder / "run" / "summary.json").read_text())["updates"] != 20:
        sys.exit("the run did not make its updates")
    # Its ranks and the search's own process are the program again, with the same libraries.
    run(program, "--config", "recipe.yaml", "--output", "ranks", "--ranks", "2", "--quiet", cwd=folder)


def main():
    project = Path(sys.argv[1]).resolve()
    if importlib.util.find_spec("torch") is None:
        print("no PyTorch in this Python")
        sys.exit(77)
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python, packages = fresh_environment(folder / "environment")
        wheel = build(python, project, folder)
        print(wheel.name)
        if not wheel.name.startswith("autotrain-") or "+torch2.11" not in wheel.name:
            sys.exit("the wheel's name does not say for which PyTorch it is")
        run(python, "-m", "pip", "install", "--no-deps", wheel, cwd=folder)
        use(python, folder)
        # Installed apart from PyTorch, the command finds it all the same.
        apart = folder / "apart"
        run(python, "-m", "pip", "install", "--no-deps", "--target", apart, wheel, cwd=folder)
        run(python, "-m", "pip", "uninstall", "--yes", "autotrain", cwd=folder)
        print(run(python, apart / "bin" / "autotrain", "--version", cwd=folder, env={**os.environ, "PYTHONPATH": str(apart)}), end="")
        for name in packages.glob("torch*"):
            name.unlink()
        bare = subprocess.run([python, apart / "bin" / "autotrain"], capture_output=True, text=True, cwd=folder,
                              env={**os.environ, "PYTHONPATH": str(apart)})
        if bare.returncode != 1 or "pip install torch==2.11.0" not in bare.stderr:
            sys.exit(f"without PyTorch: {bare.returncode} {bare.stderr}")


if __name__ == "__main__":
    main()
