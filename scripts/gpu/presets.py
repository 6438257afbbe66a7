"""Cells for a quarter of an hour with a GPU, what would fail first before the rest: lists that need no thinking there."""
import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """(stage, pattern of cells' names) in the order in which cells are measured. A pattern that no cell has on this device is
    passed over."""
    sentence: str
    seconds: int  # that all of it may take
    cells: tuple


FACTS = (("facts", "device"), ("facts", "nvidia-smi"))

PRESETS = {
    "first": Preset("what a GPU must do at all: tests, whole runs, bits, four fills", 270, (
        *FACTS,
        ("tests", "README's first command"),
        ("tests", "Cuda*"),
        ("main", "fashion_mnist_cnn:1GiB:*"),
        ("tests", "two runs on one device"),
        ("tests", "run beside a neighbour"),
        ("tests", "transformer killed and resumed"),
        ("tests", "run killed and resumed"),
        ("tests", "transformer verified"),
        ("tests", "alone: *"),
        ("main", "fashion_mnist_cnn:256MiB:*"),  # on a processor
    )),
    "speed": Preset("how fast it is: beside PyTorch, loading, searches, sweeps, doctor", 350, (
        *FACTS,
        ("speed", "mlp:64:bf16"), ("speed", "gpt:64:bf16"), ("speed", "resnet50:256:bf16"), ("speed", "mlp:256:bf16"),
        ("loading", "resnet50: search"),
        ("sweep", "roofline_mlp:bf16:width=1024:cuda_graphs=*"),
        ("loading", "resnet50: synthetic"),
        ("search", "gpt:16384MiB:autotrain"), ("search", "gpt:16384MiB:lightning power"),
        ("search", "gpt:16384MiB:accelerate"),
        ("main", "fashion_mnist_cnn:8GiB:bf16"), ("main", "text_transformer:1GiB:bf16"),
        ("doctor", "a hundred narrow layers"),
        ("loading", "resnet50: JPEG files"),
        ("speed", "gpt:256:bf16"),
    )),
    "long": Preset("what had no room in the other two", 540, (
        *FACTS,
        ("main", "transformer:50%:bf16"), ("main", "resnet50:auto:bf16"), ("main", "fashion_mnist_resnet18:8GiB:bf16"),
        ("exported", "*"),
        ("main", "fashion_mnist_cnn:50%:bf16"), ("main", "fashion_mnist_cnn:auto:bf16"),
        ("main", "text_transformer:*:bf16"), ("main", "fashion_mnist_resnet18:1GiB:*"),
        ("search", "gpt:16384MiB:*"), ("search", "mlp:4096MiB:*"),
        ("doctor", "*"),
        ("sweep", "sweep_resnet50:bf16*"), ("sweep", "roofline_mlp:*"),
        ("main", "*"), ("speed", "*"),
    )),
}


def chosen(preset, stages, setting):
    """(stage, cell) of a preset in its order, each once."""
    cells, found = {}, {}
    for stage, pattern in preset.cells:
        if stage not in cells:
            cells[stage] = stages[stage].cells(setting)
        for cell in cells[stage]:
            if fnmatch.fnmatchcase(cell.name, pattern):
                found.setdefault((stage, cell.name), cell)
    return [(stage, cell) for (stage, _), cell in found.items()]
