"""Prints the folder of PyTorch in the environment that pip installs into; fails where there is none."""
import importlib.util
import sys
import sysconfig
from pathlib import Path

# pip hides the environment's packages from what it builds, and leaves sysconfig's paths as they are.
found = importlib.util.find_spec("torch")
folders = [Path(found.origin).parent] if found and found.origin else []
folders += [Path(sysconfig.get_path(kind)) / "torch" for kind in ("platlib", "purelib")]
whole = [folder for folder in folders if (folder / "share/cmake/Torch/TorchConfig.cmake").exists()]
if not whole:
    sys.exit(1)
print(whole[0].as_posix())
