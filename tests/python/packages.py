"""Packages that a test wants beside this Python's PyTorch: where they are not installed, in an environment of its own."""
import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path


def run_with(*packages):
    """Goes on where they are there; else runs this script where they are, and ends as it does: with 77 where they cannot be had."""
    if all(map(importlib.util.find_spec, packages)):
        return
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        installed = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True,
                                   text=True, check=True).stdout.strip()
        (Path(installed) / "pytorch.pth").write_text(sysconfig.get_path("purelib") + "\n")
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *packages]).returncode != 0:
            sys.exit(77)
        sys.exit(subprocess.run([python, *sys.argv]).returncode)
