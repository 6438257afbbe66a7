"""What may be done about what cannot be traced, for habits and operators that modules are known to have."""

import re

SYMBOL = re.compile(r"\bs\d+\b")  # the tracer's name of the size of the batch


def readable(text):
    """The tracer's words, with the size of the batch by the name n."""
    return SYMBOL.sub("n", text)


# What the error says, where it arose says, or, with a line's end between them, both: what is wrong, and what to do.
_KNOWN = (
    (r"\.numpy\(\)|__array__", "the module computes with NumPy, which no graph holds",
     "Compute with torch's own functions; tables may be made by NumPy in __init__ and kept by register_buffer."),
    (r"view size is not compatible", "the module takes a view by the order in which memory lies, and weights and batches lie in the order of their axes here: {error}",
     "Write x.reshape(…) in the place of x.view(…)."),
    (r"invalid for input of size|is invalid for input", "the module fixes the size of the batch: {error}",
     "Write -1 or x.shape[0] where the batch's size stands, as in x.view(x.shape[0], -1)."),
    (r"no rule registered for|HigherOrderOperator|FlexAttention", "the module calls an operator that takes functions, such as torch.cond, scan or flex_attention, and a graph holds none",
     "Compute both ways and choose by torch.where; write loops as such; attend by scaled_dot_product_attention, with what is added to its scores as attn_mask."),
    (r"INTERNAL ASSERT", "PyTorch fails where it traces an operator for batches of any size: {error}", "Use another operator, or other arguments of it, in its place."),
    (r"unhashable type: .*SymInt", "the module keeps something by the size of its batch, which is any for a graph",
     "Make it for the largest batch and take of it what is needed, table[: x.shape[0]], or make it anew each time."),
    (r"backward through the graph a second time", "the module calls backward() within its forward pass, or keeps what it made in __init__ of its weights",
     "Return the loss, and name it by --loss; make what is made of weights in the forward pass."),
    (r"modified by an inplace operation", "the module changes in place what its backward pass needs as it was, which PyTorch refuses, too: {error}",
     "Leave inplace=True out, and write x = x + … in the place of x += …."),
    (r"derivative for .* is not implemented", "PyTorch has no derivative of an operator that the module learns through: {error}",
     "Use others that have one in its place, x.amin(…) and x.amax(…) of x.aminmax(…); or x.detach() of what is not to learn."),
    (r"ctc_loss", "ctc_loss lays its work out by the values of the lengths, and a graph holds one layout only",
     "There is no such loss in a recipe either: this one is trained in PyTorch."),
    (r"_nested_|NestedTensor", "the module computes with nested tensors, which graphs do not hold: {error}", "Pad them, and mask what is padding."),
    (r"[Ss]parse", "the module computes with sparse tensors, which graphs do not hold: {error}",
     "Keep them dense, as x.to_dense(), or as lists of places and values that index_add and gather take."),
    (r"UnsupportedOperatorException", "PyTorch has no rule by which this operator of its own is traced: {error}",
     "Use others in its place: samples that are made of normal or uniform numbers, and h + (h.round() - h).detach() to round; quantise what was trained."),
    (r"Expected more than 1 value per channel", "the module normalises parts of its batch, of which one may be a single sample: {error}",
     "Normalise the whole batch, which is a micro-batch here: execution.micro_batch says of how many samples."),
    (r"data-dependent.*\n.*\((Batch[Nn]orm|SyncBatchNorm)", "batch normalisation with momentum=None divides by a number that changes from batch to batch",
     "Give it a momentum: BatchNorm2d(…, momentum=0.1)."),
    (r"\bjvp\(|jacfwd\(|hessian\(|forward_ad|linearize\(|two different devices meta", "derivatives in forward mode are traced by PyTorch for one size of the batch only",
     "Take them in reverse mode: torch.func.vjp, torch.func.grad or torch.autograd.grad(…, create_graph=True); torch.func.jacrev(torch.func.grad(f)) in the place of hessian(f)."),
    (r"\blstsq\(", "torch.linalg.lstsq returns residuals whose size depends on values", "Write torch.linalg.pinv(a) @ b in its place."),
    (r"quantile\(", "PyTorch traces no quantile of this kind for batches of any size", "Take it along an axis, x.quantile(q, 1); or sort, and lerp between two of the sorted."),
    (r"\(FractionalMaxPool|fractional_max_pool", "the operator of fractional pooling is traced by PyTorch for one size of the batch only",
     "Use MaxPool or AdaptiveMaxPool in its place."),
)  # fmt: skip


# How a line looks that looks at the values of tensors only to refuse or to report some.
CHECKS_VALUES = r": assert |_assert\(|\braise\b|\bisnan\(|\bisinf\(|\bisfinite\("
REPORTS_VALUES = r"\bprint\(|\blog\w*\.(info|debug|warning)\(|[\"'] % "

CURE_OF_VMAP = ("Write it for the whole batch, outside of torch.vmap, as torch.cat along a later axis; within it torch.stack, torch.nn.functional.pad and "
                "torch.linalg.inv are traced, and cat and solve are not.")  # fmt: skip

# How a line of a forward pass looks that makes one number of the size of a batch, and what to do instead.
_SIZES = (
    (r"(?<!range\()\blen\(", "Write x.shape[0] in the place of len(x), which is a plain number."),
    (r": for |: .*\bfor \w+.* in |\brange\(|\.unbind\(|\.split\(", "Compute all samples at once, or torch.vmap of what is computed of one: a loop over the batch is a graph of so many samples."),
    (r"math\.|\bint\(|\bfloat\(|torch\.tensor\(", "Keep numbers that are made of the batch's size symbolic: x.shape[0] ** 0.5 in the place of math.sqrt, x.new_full(…) of torch.tensor."),
)


# How a line looks that goes one of two ways by the values of tensors, and what to do beside computing both.
_DECISIONS = (
    (r"layer_?drop|drop_layer", "Make the model with layerdrop=0.0 (in transformers also encoder_layerdrop and decoder_layerdrop): which layers are left out is drawn anew in each pass."),
    (r"mask", "Compute both and choose by torch.where; in transformers, leave the mask out where nothing is padded, or make the model with "
              'attn_implementation="eager".'),
)  # fmt: skip


def cure_of_decision(place):
    """What to do where a forward pass goes one of two ways by the values of tensors."""
    cure = "Compute both and choose by torch.where; or decide by an argument of its __init__."
    return next((own for pattern, own in _DECISIONS if re.search(pattern, place)), cure)


def cure_of_size(place):
    """What to do where a forward pass fixes the size of its batch."""
    cure = "Write -1 or x.shape[0] where the batch's size stands, and leave means over samples to the recipe's loss."
    return next((own for pattern, own in _SIZES if re.search(pattern, place)), cure)


def known(error, place):
    """(what is wrong, what to do) of an error's text that arose at a place; None where it is no known kind."""
    for pattern, wrong, cure in _KNOWN:
        if re.search(pattern, f"{error}\n{place}"):
            return wrong.format(error=readable(error)), cure
    return None
