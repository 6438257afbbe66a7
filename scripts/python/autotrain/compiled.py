"""What torch.compile makes for the sizes that a search tries."""

import sys
from contextlib import contextmanager

MANY = 1 << 20  # graphs of one function, beyond all that a search tries


def graphs_made():
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0


@contextmanager
def graphs_of_trials():
    """No size is left to eager mode because others were compiled before it: it would have another peak, and the function would stay in
    eager mode for good. Graphs that trials made are dropped at the end, or the training would go on with those of sizes that vary."""
    if "torch._dynamo" not in sys.modules:
        yield  # nothing is compiled by a program that has not loaded the compiler
        return
    import torch._dynamo
    before = graphs_made()
    try:
        with torch._dynamo.config.patch(recompile_limit=MANY, accumulated_recompile_limit=MANY):
            yield
    finally:
        if graphs_made() != before:
            torch._dynamo.reset()
