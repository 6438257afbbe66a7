"""What the tests of the Python package start from: its place, models, and states that can be compared."""
import logging
import os
import random
import sys
from pathlib import Path

PROJECT = Path(sys.argv[2]).resolve()
os.environ["AUTOTRAIN_LIBRARY"] = str(Path(sys.argv[1]).resolve())
sys.path.insert(0, str(PROJECT / "scripts" / "python"))

import numpy  # noqa: E402
import torch  # noqa: E402

import autotrain  # noqa: E402

torch.set_num_threads(1)
logging.disable(logging.WARNING)
WIDTH, BUDGET, EFFECTIVE = 256, "48MiB", 20_000


def mlp(width=WIDTH, depth=1, normal=False):
    """Most of its memory are activations that cost little to compute, so that searches of it are short."""
    torch.manual_seed(0)
    parts = [torch.nn.Linear(32, width), *(torch.nn.Sigmoid() for _ in range(6))]
    for _ in range(depth):
        parts += [torch.nn.Linear(width, width), *([torch.nn.BatchNorm1d(width)] if normal else []), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 4))


def images_and_classes(samples):
    return torch.randn(samples, 32), torch.randint(0, 4, (samples,))


def step_of(model):
    def step(batch, weight=1.0):
        inputs, targets = batch
        (torch.nn.functional.cross_entropy(model(inputs), targets) * weight).backward()
    return step


def searched(model=None, optimizer=None, step=None, make_batch=images_and_classes, **options):
    model = model or mlp()
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    options = {"effective": EFFECTIVE, "budget": BUDGET, **options}
    return autotrain.find(step or step_of(model), make_batch, model=model, optimizer=optimizer, **options)


def everything(model, optimizer=None):
    """All that a search must leave as it was, with where it lies."""
    tensors = dict(model.state_dict(keep_vars=True))
    tensors.update({f"{name}.grad": p.grad for name, p in model.named_parameters() if p.grad is not None})
    plain = {"modes": [part.training for part in model.modules()], "torch": torch.get_rng_state().tolist(),
             "numpy": str(numpy.random.get_state()), "python": random.getstate(),
             "required": [p.requires_grad for p in model.parameters()]}
    if optimizer is not None:
        for index, (_, state) in enumerate(sorted(optimizer.state.items(), key=lambda item: id(item[0]))):
            tensors.update({f"state {index} {key}": v for key, v in state.items() if isinstance(v, torch.Tensor)})
            plain[f"state {index}"] = {key: v for key, v in state.items() if not isinstance(v, torch.Tensor)}
        plain["groups"] = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    return {name: (t.data_ptr(), id(t) if name.endswith(".grad") else 0, t.detach().clone()) for name, t in tensors.items()}, plain


def bits_of(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()  # NumPy knows no bfloat16


def assert_same(test, before, after):
    test.assertEqual(before[0].keys(), after[0].keys())
    for name, (place, identity, value) in before[0].items():
        place_now, identity_now, now = after[0][name]
        test.assertEqual((place, identity), (place_now, identity_now), f"{name} lies elsewhere")
        test.assertTrue(value.dtype == now.dtype and bits_of(value) == bits_of(now), f"{name} changed")
    test.assertEqual(before[1], after[1])
