import os
import re
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from .attributes import attributes_kept
from .checking import Trial, check, other_weights, own_random_numbers, values_kept
from .counting import Numbers, check_counts
from .document import constants_of, write_graph
from .errors import ExportError
from .example import Examples
from .habits import plainly
from .machine import of_machine
from .once import few_of, run_once
from .places import forward_of, place_of
from .reduction import depends_on_others, reduction_of
from .subject import refuse, take_apart
from .tracing import PRECISIONS, first_line, trace_evaluation, trace_training
from .writing import TYPES, ModelFile

FORMAT = 2


def export(module, example, output, precisions=("fp32", "bf16"), output_part=None, source="", say=lambda line: None,
           loss=None, targets=None, device="cpu", long=False, progress=lambda line: None):
    """Writes `module` with its weights to the file `output`, as `model: {name: exported, file: …}` of a recipe reads it.

    module       maps inputs, tensors [n, …], to predictions, [n, …]; it need not be in training mode
    example      what a batch of inputs looks like: an Example, its text, or a batch itself, a tensor; a list of them, or a dictionary
                 with the names of arguments, where the module takes several
    precisions   those that it may be trained in; autocast's casts are part of the graphs
    output_part  which part of the module's output is the prediction, where that is a dictionary or a tuple
    loss         which part of it is the loss of the batch, one number, that the module computes itself: a key, a position, or True
                 where it returns the loss alone. Its samples' mean or sum
    targets      what the targets look like that it computes its loss from: as an example; None where it needs none
    device       where the file will compute, which must be at hand: operators are those that PyTorch runs there. A GPU is "cuda"
    say          is told what was checked, line by line
    long         whether the check takes batches as large as the example, more steps, and every precision at every size
    progress     is told what begins

    Returns the path. Raises ExportError when the module cannot be traced or its graphs do not compute what it does; nothing is
    written then. What is the machine's, memory that is used up or a full disk, is raised as it came."""
    loss, output_part = _name(loss, "--loss"), _name(output_part, "--output-part")
    if targets is not None and loss is None:
        raise ExportError("--targets: the module takes targets to compute its loss; --loss says what of its output that is")
    examples = Examples.parse(example, targets, _with_index(device))
    if not precisions:
        raise ExportError(f"--precision: name at least one of {', '.join(PRECISIONS)}")
    for precision in precisions:
        if precision not in PRECISIONS:
            raise ExportError(f"--precision {precision}: expected {', '.join(PRECISIONS)}")
    if not isinstance(output, (str, os.PathLike)):
        raise ExportError(f"--output {output}: expected the name of a file")
    if not str(output) or Path(output).is_dir():
        raise ExportError(f"--output {output}: expected the name of a file" + (", and this is a folder" if str(output) else ""))
    if not Path(output).resolve().parent.is_dir():
        raise ExportError(f"{output}: its folder does not exist")
    if torch.is_inference_mode_enabled():
        raise ExportError("tensors that are made in inference mode have no gradients: export the module outside of torch.inference_mode()")
    with torch.enable_grad(), _no_autocast():
        return _export(take_apart(module, examples, output_part, loss), examples, Path(output), precisions, source, say, loss, long, progress)


@contextmanager
def _no_autocast():
    """The caller's autocast is off. Where it is none, there is no other around those of single passes, which forget the weights that they
    have cast when the outermost of them is left."""
    with ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _name(part, option):
    """Of a part of an output: a key or a position as text, "" for all of it; None for none."""
    if part is None or part is False:
        return None
    if part is True and option == "--loss":
        return ""
    if not isinstance(part, (str, int)) or part is True:
        raise ExportError(f"{option} {part}: expected a key or a position")
    return str(part)


def _export(subject, examples, output, precisions, source, say, loss, long, progress):
    for name, tensor in {**subject.parameters, **subject.buffers}.items():
        if tensor.is_inference():
            refuse(subject.original, name, f"{name} was made in inference mode, so it has no gradient", "Make the module outside of torch.inference_mode().")
    with plainly(subject.module, subject.original), _left_as_it_was(subject):
        # A function that the module keeps may be of the user's own object, and write to its buffers.
        with _refusing(subject), values_kept(subject.module, subject.parameters.values()):
            progress("running the module once")
            numbers = Numbers(subject.module)
            examples, outputs, beside = _run_once(subject, examples, precisions, say)
            check_counts(subject, examples, few_of(examples), numbers)
            reduction, unusable = (None, []) if loss is None else reduction_of(subject, examples)
            mixes = loss is None and depends_on_others(subject, examples, outputs[0])
            with plainly(subject.module, tracing=True):
                traced = {precision: _trace(subject, examples, precision, progress) for precision in precisions}
        document, tensors = _document(subject, examples, traced)
        if unusable:
            document["targets"]["unusable"] = unusable
        document |= {"smallest_batch": 2, "source": source}
        document |= {"classes": _most_classes(outputs[0])} if loss is None else {"loss": reduction}
        progress(f"writing {sum(tensor.nbytes for tensor in tensors.values()):,} bytes of weights")
        file = ModelFile(output, tensors, document)
        try:
            with _refusing(subject), other_weights(subject, lambda: file.put_back(subject.parameters)):
                document["smallest_batch"] = _check(subject, examples, traced, output.resolve().parent, say, long, progress)
            file.finish()
        finally:
            file.remove()
    if mixes:
        say("a prediction depends on what else is in its batch, in evaluation, too: cut into micro-batches, or with other neighbours, the module "
            "computes something else")
    if subject.stays:
        say(f"tensors of {', '.join(sorted(subject.stays))} require a gradient, and stay as they are, since they are none of the module's parameters: "
            "keep layers in nn.ModuleList, and single weights in nn.ParameterList")
    for place in sorted(subject.rescues):
        say(f"what is done about numbers that are not finite is left out, and an update with such gradients is skipped:\n  {place}")
    for name in beside:
        say(f"the module keeps a number with a gradient in {name}, as losses beside the main one are kept: a recipe's loss is without it; return all of the loss, and name it by --loss")
    for name in sorted(subject.beside):
        say(f"the module returns a number with a gradient as {name}, as losses beside the main one are returned: a recipe's loss is without it; return all of the loss, and name it by --loss")
    if reduction is not None:
        of_sums = "; a run learns from their mean, whose gradient is the sum's divided by the samples of an update" if reduction == "sum" else ""
        say(f"the loss of a batch is the {reduction} of its samples' losses: it may be cut into micro-batches{of_sums}")
    for value in unusable:
        say(f"targets of {value}, which the loss ignores, end a run: with them it is not the {reduction} over samples")
    return output


REFUSES_NUMBERS = r"between 0 and 1|\[0, ?1\]|negative|positive|AssertionError"  # how an error sounds that numbers below 0 or above 1 cause


def _run_once(subject, examples, precisions, say):
    """What run_once returns, and the examples, of which the module makes numbers if it can."""
    results, refused = _run_or_refused(subject, examples, precisions)
    if refused is None and _are_numbers(results):
        return examples, *results
    if refused is not None and not re.search(REFUSES_NUMBERS, str(refused)):
        raise refused
    for what, above in examples.above_zero().items():
        again, _ = _run_or_refused(subject, above, precisions)
        if again is not None and _are_numbers(again):
            say(f"of other {what} the module makes no numbers: it is held against its graph by {what} from 0 to 1")
            return above, *again
    if refused is not None:
        raise refused
    return examples, *results


def _run_or_refused(subject, examples, precisions):
    try:
        return run_once(subject, examples, precisions), None
    except ExportError as error:
        return None, error


def _are_numbers(results):
    return not any(output.isnan().any() for output in results[0])


@contextmanager
def _left_as_it_was(subject):
    """The module but for its parameters and saved buffers, of which there are copies, and all generators of random numbers."""
    devices = [subject.device] if subject.device.type == "cuda" else []
    with values_kept(subject.module, subject.tensors.values()), attributes_kept(subject.original), own_random_numbers(), torch.random.fork_rng(devices):
        yield


@contextmanager
def _refusing(subject):
    """Whatever goes wrong in somebody's module is a refusal that says where; what is the machine's is no fault of it."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        if of_machine(error):
            raise
        place = place_of(error, subject.original) or place_of(error, subject.module)
        place = place or forward_of(subject.original, ".")
        raise ExportError(
            f"the module cannot be exported: {first_line(error)}" + (f"\n  {place}" if place else "") + "\n"
            "The same forward pass must run in training and in evaluation mode, for batches of any size, and more than once."
        ) from error


def _with_index(device):
    """The device by its full name, as tensors give theirs."""
    try:
        device = torch.device(device)
    except RuntimeError:
        raise ExportError(f"--device {device}: expected cpu or cuda") from None
    if device.type not in ("cpu", "cuda"):
        raise ExportError(f"--device {device}: expected cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ExportError("--device cuda: there is no GPU here; a file for GPUs is made where there is one")
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


def _trace(subject, examples, precision, progress):
    progress(f"tracing in {precision}")
    return {"training": trace_training(subject, examples, precision), "evaluation": trace_evaluation(subject, examples, precision)}


def _few(subject, examples):
    """Batch normalisation over two numbers would let roundings grow."""
    return min(examples.samples, 4) if any("running_" in name for name in subject.buffers) else few_of(examples)


def _trials(samples, few, smallest, first, long):
    """What graphs are tried with beside a single sample: every size of the batch that the module takes, for the first precision."""
    if long:
        return Trial((samples,) * 3, samples), Trial((samples + 3,) * 3, samples + 3)
    if smallest == 1:
        return (Trial((few,), 1),) if first else ()
    more = (Trial((few + 1,) * 2, few),) if first else ()
    return Trial((few,), few + 1), *more


def _check(subject, examples, traced, folder, say, long, progress):
    """Compares graphs and module at several sizes of the batch, with room for gradients in the folder; returns the smallest size that the graphs are right for."""
    smallest, few = 1, _few(subject, examples)
    what = "predictions" if subject.loss is None else "losses"
    for place, (precision, graphs) in enumerate(traced.items()):
        trials = []

        def held_against(trial, proportional=False, graphs=graphs, precision=precision, trials=trials):
            progress(f"checking {precision}: {trial}")
            trials.append(trial)
            return check(graphs, subject, examples, trial, precision, folder, proportional)

        def takes_one(first=place == 0, held_against=held_against, trials=trials):
            """How far a single sample's step is off, and an evaluation of a few; None where a single one is not for the module."""
            try:
                return held_against(Trial((1,), few), proportional=first)
            except Exception as error:  # batch normalisation refuses it, and so do others
                if of_machine(error):
                    raise
                trials.pop()
                return None

        worst = 0.0
        if smallest == 1 or long:
            alone = takes_one()
            smallest, worst = (2, worst) if alone is None else (smallest, alone)
        for number, trial in enumerate(_trials(examples.samples, few, smallest, place == 0, long)):
            worst = max(worst, held_against(trial, proportional=place == number == 0 and smallest > 1))
        if smallest > 1 and place == 0:
            with _evaluating_one(subject):
                worst = max(worst, held_against(Trial((), 1)))
        agree = "are the module's own, bit for bit" if worst == 0 else f"differ from the module's own by {worst:.1e} of the largest number"
        sizes = " and ".join(str(size) for size in sorted({size for trial in trials for size in trial.steps}))
        count = sum(len(trial.steps) for trial in trials)
        say(f"{precision}: {what}, gradients and buffers over {count} step{'s' if count > 1 else ''} of {sizes} sample{'' if sizes == '1' else 's'}, from other weights, {agree}")
    if smallest > 1:
        say("a batch of one sample is not trained on: the module refuses it, or its graph computes something else")
    return smallest


@contextmanager
def _evaluating_one(subject):
    """Some batch of an evaluation, and of a prediction, may have one sample."""
    try:
        yield
    except Exception as error:
        if of_machine(error):
            raise
        place = place_of(error, subject.original)
        place = place if " (in " in place else forward_of(subject.original, ".")  # the graph has no lines of its own
        raise ExportError(
            f"the module does not evaluate a batch of one sample as it does larger ones: {first_line(error)}" + (f"\n  {place}" if place else "") + "\n"
            "x.squeeze() without an axis takes away that of such a batch, too: write x.flatten(1), or x.squeeze(-1)."
        ) from error


def _most_classes(prediction):
    """How many classes a prediction [n, …] may be of, which has them last or, as PyTorch has those of pixels, second."""
    return 1 if prediction.dim() < 2 else max(prediction.shape[-1], prediction.shape[1] if prediction.dim() > 2 else 0)


def _described(example):
    return {"dtype": str(example.dtype).removeprefix("torch."), "shape": list(example.shape[1:])}


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


def _check_types(subject, constants):
    for name, tensor in [*subject.tensors.items(), *(("a tensor that the forward pass makes", constant) for constant in constants)]:
        if tensor.dtype in TYPES:
            continue
        kind = "buffer " if name in subject.buffers else "parameter " if name in subject.parameters else ""
        cure = ("Keep it as pairs of real numbers, torch.view_as_real(…), and make it complex in the forward pass; or register_buffer(…, persistent=False)."
                if tensor.is_complex() else f"Keep it as one of {', '.join(str(each).removeprefix('torch.') for each in TYPES)}.")  # fmt: skip
        refuse(subject.original, name, f"{kind}{name} is {str(tensor.dtype).removeprefix('torch.')}, which no model file holds", cure)


def _check_names(subject):
    for name in subject.tensors:
        if name == "__metadata__" or re.fullmatch(r"constant \d+", name):
            refuse(subject.original, name, f"the module has a parameter or a buffer named {name!r}, which the file uses itself", "Give it another name.")


def _document(subject, examples, traced):
    _check_names(subject)
    constants = []
    for graphs in traced.values():
        for graph in graphs.values():
            constants_of(graph, constants)
    given = len(subject.parameters) + len(subject.buffers)
    tensors = {**subject.tensors, **{f"constant {number}": tensor.detach() for number, tensor in enumerate(constants)}}
    _check_types(subject, constants)
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
