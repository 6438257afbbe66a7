import json
import os
import zlib
from pathlib import Path

import torch
from safetensors.torch import save_file

from .checking import STEPS, check, copies
from .document import constants_of, write_graph
from .errors import ExportError
from .example import Examples
from .reduction import reduction_of
from .subject import take_apart
from .tracing import PRECISIONS, trace_evaluation, trace_training, traceable

FORMAT = 2


def export(module, example, output, precisions=("fp32", "bf16"), output_part=None, source="", say=lambda line: None,
           loss=None, targets=None, device="cpu"):
    """Writes `module` with its weights to the file `output`, as `model: {name: exported, file: …}` of a recipe reads it.

    module       maps inputs, tensors [n, …], to predictions, [n, …]; it need not be in training mode
    example      what a batch of inputs looks like: an Example, or its text; a list of them where the module takes several
    precisions   those that it may be trained in; autocast's casts are part of the graphs
    output_part  which part of the module's output is the prediction, where that is a dictionary or a tuple
    loss         which part of it is the loss of the batch, one number, that the module computes itself: a key, a position, or True
                 where it returns the loss alone. Its samples' mean or sum
    targets      what the targets look like that it computes its loss from: an Example, or its text; None where it needs none
    device       where the file will compute, which must be at hand: operators are those that PyTorch runs there. A GPU is "cuda"
    say          is told what was checked, line by line

    Returns the path. Raises ExportError when the module cannot be traced or its graphs do not compute what it does; nothing is
    written then."""
    if targets is not None and loss is None:
        raise ExportError("--targets: the module takes targets to compute its loss; --loss says what of its output that is")
    examples = Examples.parse(example, targets, _with_index(device))
    if not precisions:
        raise ExportError(f"--precision: name at least one of {', '.join(PRECISIONS)}")
    for precision in precisions:
        if precision not in PRECISIONS:
            raise ExportError(f"--precision {precision}: expected {', '.join(PRECISIONS)}")
    if not Path(output).resolve().parent.is_dir():
        raise ExportError(f"{output}: its folder does not exist")
    subject = take_apart(module, examples, output_part, "" if loss is True else loss)
    with traceable(), torch.random.fork_rng(devices=[subject.device] if subject.device.type == "cuda" else []):
        outputs = _run_once(subject, examples)
        reduction, unusable = (None, []) if loss is None else reduction_of(subject, examples)
        traced = {precision: _trace(subject, examples, precision) for precision in precisions}
        smallest = _check(subject, examples, traced, say)
    if reduction is not None:
        say(f"the loss of a batch is the {reduction} of its samples' losses: it may be cut into micro-batches")
    for value in unusable:
        say(f"targets of {value}, which the loss ignores, end a run: with them it is not the {reduction} over samples")
    document, tensors = _document(subject, examples, traced)
    if unusable:
        document["targets"]["unusable"] = unusable
    document |= {"smallest_batch": smallest, "source": source}
    document |= {"classes": outputs[0].shape[-1]} if loss is None else {"loss": reduction}
    return _write(Path(output), document, tensors)


def _with_index(device):
    """The device by its full name, as tensors give theirs."""
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise ExportError(f"--device {device}: expected cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ExportError("--device cuda: there is no GPU here; a file for GPUs is made where there is one")
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


def _run_once(subject, examples):
    """The outputs for a batch. Modules that make tables when they first need them make them now, and not while they are traced."""
    tensors = copies({**subject.parameters, **subject.buffers})
    try:
        with torch.no_grad():
            return subject.run(tensors, examples.batch(examples.samples), training=False)
    except ExportError:
        raise
    except Exception as error:
        shapes = " and ".join(f"{each.dtype} {list(each.shape)}" for each in examples.all)
        raise ExportError(f"the module does not take a batch like the example, {shapes}: {error}") from error


def _trace(subject, examples, precision):
    return {"training": trace_training(subject, examples, precision), "evaluation": trace_evaluation(subject, examples, precision)}


def _batches(examples, samples):
    return [examples.batch(samples, seed=samples + step) for step in range(STEPS)]


def _check(subject, examples, traced, say):
    """Compares graphs and module at two sizes of the batch; returns the smallest size that the graphs are right for."""
    smallest = 1
    sizes = (examples.samples, examples.samples + 3)
    what = "predictions" if subject.loss is None else "losses"
    for precision, graphs in traced.items():
        worst = max(check(graphs, subject, _batches(examples, samples), precision) for samples in sizes)
        agree = "are the module's own, bit for bit" if worst == 0 else f"differ from the module's own by {worst:.1e} of the largest number"
        say(f"{precision}: {what}, gradients and buffers over {STEPS} steps at batches of {sizes[0]} and {sizes[1]} {agree}")
        if not _takes_one(subject, examples, graphs, precision):
            smallest = 2
    if smallest > 1:
        say("a batch of one sample is not trained on: the module refuses it, or its graph computes something else")
    return smallest


def _described(example):
    return {"dtype": str(example.dtype).removeprefix("torch."), "shape": list(example.shape[1:])}


def _takes_one(subject, examples, graphs, precision):
    try:
        check(graphs, subject, _batches(examples, 1), precision)
        return True
    except Exception:  # batch normalisation refuses it, and so do others
        return False


def _module_types(subject):
    """What kind of module each part is that has parameters, by which autotrain decides what is decayed: its class, or what that is made
    from where its own name does not tell that it normalises."""
    types = {}
    for name in subject.parameters:
        path = name.rpartition(".")[0]
        if not path:
            continue
        part = type(subject.module.get_submodule(path))
        of_torch = [each.__name__ for each in part.__mro__ if each.__module__.startswith("torch.nn.modules") and each is not torch.nn.Module]
        types[path] = part.__name__ if "norm" in part.__name__.lower() or not of_torch else of_torch[0]
    return types


def _document(subject, examples, traced):
    constants = []
    for graphs in traced.values():
        for graph in graphs.values():
            constants_of(graph, constants)
    given = len(subject.parameters) + len(subject.buffers)
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in {**subject.parameters, **subject.buffers}.items()}
    tensors |= {f"constant {number}": tensor.detach().cpu().contiguous().clone() for number, tensor in enumerate(constants)}
    document = {
        "format": FORMAT,
        "torch": torch.__version__,
        "device": subject.device.type,
        "inputs": [{"name": name, **_described(each)} for name, each in zip(subject.names, examples.inputs)],
        **({} if examples.targets is None else {"targets": _described(examples.targets)}),
        "parameters": [{"name": name, "learns": parameter.requires_grad} for name, parameter in subject.parameters.items()],
        "buffers": list(subject.buffers),
        "constants": len(constants),
        "other_names": subject.other_names,
        "module_types": _module_types(subject),
        "graphs": {
            precision: {mode: write_graph(graph, given, constants, mode == "training", subject.loss is not None) for mode, graph in graphs.items()}
            for precision, graphs in traced.items()
        },
    }
    return document, tensors


def _umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _write(path, document, tensors):
    # Each tensor's bytes have a checksum of their own, and so has the document, in which these stand.
    document["crc32"] = {name: zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().tobytes()) for name, tensor in tensors.items()}
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    partial = path.with_name(path.name + ".part")
    save_file(tensors, partial, metadata={"autotrain_model": text, "autotrain_model_crc32": str(zlib.crc32(text.encode()))})
    partial.chmod(0o666 & ~_umask())
    partial.replace(path)
    return path
