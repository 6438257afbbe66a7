"""What may be done about what cannot be traced, for habits and operators that modules are known to have."""

import re

SYMBOL = re.compile(r"\bs\d+\b")  # the tracer's name of the size of the batch


def readable(text):
    """The tracer's words, with the size of the batch by the name n."""
    return SYMBOL.sub("n", text)


# What the error says, where it arose says, or either: what is wrong, and what to do.
_KNOWN = (
    (r"\.numpy\(\)|__array__", "the module computes with NumPy, which no graph holds",
     "Compute with torch's own functions; tables may be made by NumPy in __init__ and kept by register_buffer."),
    (r"invalid for input of size|is invalid for input", "the module fixes the size of the batch: {error}",
     "Write -1 or x.shape[0] where the batch's size stands, as in x.view(x.shape[0], -1)."),
    (r"ctc_loss", "ctc_loss lays its work out by the values of the lengths, and a graph holds one layout only",
     "There is no such loss in a recipe either: this one is trained in PyTorch."),
    (r"[Ss]parse", "the module computes with sparse tensors, which graphs do not hold: {error}",
     "Keep them dense, as x.to_dense(), or as lists of places and values that index_add and gather take."),
    (r"\(Batch[Nn]orm|\(SyncBatchNorm", "batch normalisation with momentum=None divides by a number that changes from batch to batch",
     "Give it a momentum: BatchNorm2d(…, momentum=0.1)."),
    (r"\(FractionalMaxPool|fractional_max_pool", "the operator of fractional pooling is traced by PyTorch for one size of the batch only",
     "Use MaxPool or AdaptiveMaxPool in its place."),
)  # fmt: skip


def known(error, place):
    """(what is wrong, what to do) of an error's text that arose at a place; None where it is no known kind."""
    for pattern, wrong, cure in _KNOWN:
        if re.search(pattern, error) or re.search(pattern, place):
            return wrong.format(error=readable(error)), cure
    return None
