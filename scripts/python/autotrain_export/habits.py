"""What modules do that says how to compute, and not what: it is left out while they are traced, and while graphs are held against them."""

import logging
import sys
from contextlib import ExitStack, contextmanager

import torch
import torch._decomp.decompositions as decompositions
import torch._dynamo
import torch.utils.checkpoint
from torch._subclasses.fake_tensor import FakeTensor

from .errors import ExportError

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
TENSORS_OF_STATE = {"lstm": 2}


@contextmanager
def put(holder, name, value):
    """holder.name is `value` for a while."""
    missing = object()
    before = holder.__dict__.get(name, missing)
    setattr(holder, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(holder, name)
        else:
            setattr(holder, name, before)


class _NoCheckpoint:
    """Stands for the checkpoint that computes again, reentrantly."""

    @staticmethod
    def apply(function, _, *arguments):
        return function(*arguments)


def _no_checkpoint(function, *arguments, **keywords):
    """Stands for the checkpoint that computes again by hooks: the caller runs the function between two steps of this."""
    yield


def _not_by_values(mask, is_causal=None, size=None):
    """Whether an attention mask is a causal one is a matter of speed: the mask is used as it is."""
    return is_causal is True


def _one_layer_lstm(inputs, state, weights, has_biases, reverse=False):
    """PyTorch's own decomposition of a layer, but for its last states, which have the batch as their first axis whatever its size is.

    inputs  [time, n, features]; state  the first h and c, [n, …] each. Returns outputs [time, n, …] and the last h and c."""
    biases = weights[2:4] if has_biases else (None, None)
    projection = weights[-1] if len(weights) in (3, 5) else None
    h, c = (each.unsqueeze(0) for each in state)
    outputs = []
    steps = torch.nn.functional.linear(inputs, weights[0], biases[0])
    for step in steps.flip(0) if reverse else steps:
        h, c = decompositions.lstm_cell(step, h, c, weights[1], biases[1], projection, chunk_dim=2)
        outputs.append(h)
    return torch.cat(outputs[::-1] if reverse else outputs, 0), (h.squeeze(0), c.squeeze(0))


def _recurrent(name, apart):
    """torch.nn's recurrent layers by operators that can be traced, which oneDNN's are not.

    apart  whether several layers are run one by one, with what is dropped between them drawn as they draw it: traced as one, they would
           draw other numbers"""
    whole = getattr(torch._C._VariableFunctions, name)

    def run(inputs, *rest):
        with torch.backends.mkldnn.flags(enabled=False):
            packed = len(rest) != 8 or isinstance(rest[2], (list, tuple))
            if packed or not apart:
                return whole(inputs, *rest)
            state, weights, biases, layers, dropout, training, both_ways, batch_first = rest
            if layers < 2 or dropout == 0 or not training:
                return whole(inputs, *rest)
            return by_layer(inputs, state, weights, biases, layers, dropout, both_ways, batch_first)

    def by_layer(inputs, state, weights, biases, layers, dropout, both_ways, batch_first):
        several = TENSORS_OF_STATE.get(name, 1) > 1
        ways = 2 if both_ways else 1
        each = len(weights) // layers
        ends = []
        outputs = inputs.transpose(0, 1) if batch_first else inputs
        for layer in range(layers):
            here = slice(layer * ways, (layer + 1) * ways)
            first = tuple(part[here] for part in state) if several else state[here]
            outputs, *end = whole(outputs, first, list(weights[layer * each : (layer + 1) * each]), biases, 1, 0.0, True, both_ways, False)
            ends.append(end)
            if layer + 1 < layers:
                kept = torch.empty_like(outputs).bernoulli_(1 - dropout)
                outputs = outputs * kept.div_(1 - dropout if dropout < 1 else 1)
        if batch_first:
            outputs = outputs.transpose(0, 1)
        return (outputs, *(torch.cat(parts) for parts in zip(*ends)))

    return run


def _numbers_about_zero(theta, steps, align_corners):
    """Places along one side of an image, as PyTorch's kernel of affine_grid makes them."""
    if steps <= 1:
        return theta.new_zeros(1)
    places = torch.linspace(-1, 1, steps, dtype=theta.dtype, device=theta.device)
    return places if align_corners else places * (steps - 1) / steps


def _affine_grid(theta, size, align_corners):
    """torch.affine_grid_generator by the operators that its kernel is made of, for batches of any size."""
    ways = len(size) - 2
    base = theta.new_ones((size[0], *size[2:], ways + 1))
    for way, steps in enumerate(reversed(size[2:])):
        base[..., way] = _numbers_about_zero(theta, steps, align_corners).view(*([-1] + [1] * way))
    flat = base.view(base.shape[0], -1, ways + 1).bmm(theta.transpose(1, 2))
    return flat.view(*base.shape[:-1], ways)


def _in_a_text(value, _):
    """What is printed or logged has no value while it is traced; sizes have a name."""
    return str(value) if isinstance(value, torch.SymInt) else f"<{type(value).__name__}>"


def _packing(*_):
    raise ExportError(
        "the module packs sequences, whose layout depends on their lengths, and a graph holds one layout only:\n"
        "Run the layer over the padded batch, and take the last step of each sequence by its length (gather), or mask what is padding."
    )


def _as_written(function, *arguments, call=torch.jit.ScriptFunction.__call__, **keywords):
    """A scripted function as it was written in Python, where its sizes stay symbols."""
    return getattr(function, "_torchdynamo_inline", lambda *given, **named: call(function, *given, **named))(*arguments, **keywords)


@contextmanager
def _without_fast_path():
    """Keeps torch.nn's encoder layers from the kernel that runs a whole layer in evaluation, which cannot be traced."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


@contextmanager
def _quiet():
    """PyTorch's tracer logs errors that are raised, too."""
    loggers = [logging.getLogger(name) for name in ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """Sparse gradients are the same numbers, laid out in a way that no optimizer here takes."""
    return torch._C._VariableFunctions.embedding(weight, indices, padding_idx, scale_grad_by_freq, False)


def _embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, *rest, **keywords):
    return torch._C._VariableFunctions.embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, False, *rest, **keywords)


def _configurations(modules):
    """What transformers' models are made by: each once."""
    found = {id(part.config): part.config for module in modules for part in module.modules() if hasattr(part, "config")}
    return list(found.values())


def _apply_if_it_changes(self, convert, *arguments, apply=torch.nn.Module._apply, **keywords):
    """Module.to and the like for tensors that are what they are to become: traced parameters cannot be put in the place of others."""
    tensors = [*self.parameters(), *self.buffers()]
    with torch.no_grad():
        same = all(convert(tensor) is tensor for tensor in tensors)
    return self if same else apply(self, convert, *arguments, **keywords)


@contextmanager
def plainly(*modules, tracing=False):
    """Modules compute eagerly, operator by operator, and once: nothing is compiled, fused, checkpointed or chosen by values."""
    with ExitStack() as stack:
        stack.enter_context(_without_fast_path())
        stack.enter_context(_quiet())
        stack.enter_context(put(torch, "embedding", _embedding))
        stack.enter_context(put(torch, "embedding_bag", _embedding_bag))
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(torch._dynamo.config.patch(error_on_nested_fx_trace=False))
        for configuration in _configurations(modules):
            # Its kernel has no rule for the shapes of float32; by batches of products the experts compute the same.
            if getattr(configuration, "_experts_implementation_internal", None) == "grouped_mm":
                stack.enter_context(put(configuration, "_experts_implementation_internal", "batched_mm"))
        stack.enter_context(put(torch.utils.checkpoint, "CheckpointFunction", _NoCheckpoint))
        stack.enter_context(put(torch.utils.checkpoint, "_checkpoint_without_reentrant_generator", _no_checkpoint))
        # Distributions look at the values that they are given, which no graph can: only to refuse some.
        stack.enter_context(put(torch.distributions.Distribution, "_validate_args", False))
        stack.enter_context(put(torch.nn.modules.transformer, "_detect_is_causal_mask", _not_by_values))
        if tracing:
            # Some of its functions keep what they gave by their arguments, sizes among them, unless something is traced.
            if utilities := sys.modules.get("transformers.pytorch_utils"):
                stack.enter_context(put(utilities, "is_torchdynamo_compiling", lambda: True))
            stack.enter_context(put(torch.nn.Module, "_apply", _apply_if_it_changes))
            stack.enter_context(put(torch._VF, "_pack_padded_sequence", _packing))
            stack.enter_context(put(torch.jit.ScriptFunction, "__call__", _as_written))
            stack.enter_context(put(torch, "affine_grid_generator", _affine_grid))
            for kind in (FakeTensor, torch.SymFloat, torch.SymInt):
                stack.enter_context(put(kind, "__format__", _in_a_text))
        stack.enter_context(put(decompositions, "one_layer_lstm", _one_layer_lstm))
        for name in RECURRENT:
            stack.enter_context(put(torch._VF, name, _recurrent(name, tracing)))
        yield
