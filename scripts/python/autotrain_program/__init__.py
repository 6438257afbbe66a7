"""The command `autotrain` of a Python environment: the program that was built for its PyTorch."""
import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "bin" / "autotrain"


def libraries():
    """The folders of the environment's libraries, where PyTorch is not installed beside this package."""
    torch = importlib.util.find_spec("torch")
    if torch is None or not torch.origin:
        sys.exit("autotrain: this Python has no PyTorch\n  try: pip install torch==2.11.0")
    packages = Path(torch.origin).resolve().parent.parent
    return [] if packages == HERE.parent else [packages / "torch/lib", packages / "nvidia/cu13/lib"]


def main():
    """Becomes the program, with the arguments of this process."""
    folders = [*map(str, libraries()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    if folders:
        os.environ["LD_LIBRARY_PATH"] = ":".join(folders)
    os.execv(PROGRAM, ["autotrain", *sys.argv[1:]])
