"""What torch.compile makes for the sizes that a search tries."""

import importlib
import sys
from contextlib import contextmanager

MANY = 1 << 20  # graphs of one function, beyond all that a search tries


@contextmanager
def graphs_of_trials():
    """Each size has a graph of its own, as it has in the training, for one of sizes that vary keeps other activations; and none is left to
    eager mode because others were compiled before it. Graphs of trials are dropped at the end."""
    dynamo = importlib.import_module("torch._dynamo")  # which an optimizer's first update loads, and a step may
    graphs_made = lambda: dynamo.utils.counters["stats"]["unique_graphs"]
    before = graphs_made()
    try:
        with dynamo.config.patch(recompile_limit=MANY, accumulated_recompile_limit=MANY, automatic_dynamic_shapes=False,
                                 enable_compiler_collectives=False):  # ranks compile different sizes
            yield
    finally:
        if graphs_made() != before:
            dynamo.reset()


def drop_recordings():
    """CUDA graphs of a size keep their memory until then."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        trees.reset_cudagraph_trees()
