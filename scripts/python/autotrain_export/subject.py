"""The module that is exported, taken apart into what its graphs are functions of."""

import copy
import inspect
import sys
import types
from dataclasses import dataclass, field

import torch

from .errors import ExportError
from .given import memory_of
from .machine import of_machine
from .places import forward_of


@dataclass
class Subject:
    """A module and its tensors by name. A tensor with several names (tied weights) is there once, under the first. Buffers are those
    of the module's state dictionary; to its graphs the others are constants."""

    module: torch.nn.Module  # a copy, which is traced; its tensors are those of `original`
    original: torch.nn.Module  # the user's own, with which the graphs are compared
    parameters: dict
    buffers: dict
    other_names: dict = field(default_factory=dict)  # name → the name that is in `parameters` or `buffers`
    other_places: set = field(default_factory=set)  # those of `other_names` that are not the same part of the module under another name
    frozen: list = field(default_factory=list)  # names of parts that are in evaluation mode while the module trains
    output: str | None = None  # which part of the module's output is the prediction
    loss: str | None = None  # which part is the loss that the module computes itself; "": all of it
    names: list = field(default_factory=list)  # of the arguments that inputs and targets are
    positional: int | None = None  # how many of them are handed over by their places, the first ones; None: all
    device: torch.device = torch.device("cpu")  # where its tensors lie, and its graphs compute
    stays: set = field(default_factory=set)  # shapes of tensors that require a gradient, and are none of its parameters
    rescues: set = field(default_factory=set)  # places that change what is not finite, which graphs leave out
    beside: set = field(default_factory=set)  # parts of its output that are one number with a gradient, and no prediction
    traced_by: dict = field(default_factory=dict)  # training? → which of the ways to trace was the first that could

    @property
    def learning(self):
        return [name for name, parameter in self.parameters.items() if parameter.requires_grad]

    def set_mode(self, module, training):
        module.train(training)
        for name in self.frozen:
            module.get_submodule(name).eval()

    @property
    def tensors(self):
        return {**self.parameters, **self.buffers}

    def run(self, tensors, batch, training):
        """What the module with these tensors instead of its own gives: see `outputs_of`."""
        self.set_mode(self.module, training)
        self.set_mode(self.original, training)  # of which a function that was put in the place of a forward pass may know
        torch.clear_autocast_cache()  # which holds weights of the pass before, cast, where the caller has an autocast of its own
        arguments, keywords = self.arguments(batch)
        given = {**tensors, **{name: tensors[first] for name, first in self.other_names.items() if name in self.other_places}}
        returned = torch.func.functional_call(self.module, given, arguments, keywords, tie_weights=False)
        return self.outputs_of(returned, training)

    def arguments(self, batch):
        first = len(batch) if self.positional is None else self.positional
        return tuple(batch[:first]), dict(zip(self.names[first:], batch[first:]))

    def outputs_of(self, returned, training):
        """The tensors that graphs return: the prediction; of a module with its loss inside the loss and, in evaluation mode, the
        prediction beside it, if there is one."""
        if self.loss is None:
            if training and self.output is not None:
                self.beside.update(name for name, part in _named_parts(returned) if _is_number_that_learns(part))
            return (self._prediction_of(returned, training),)
        loss = returned if self.loss == "" else self._part(returned, self.loss)
        if isinstance(loss, torch.Tensor) and all(isinstance(size, int) and size == 1 for size in loss.shape):
            loss = loss.reshape(())
        if not isinstance(loss, torch.Tensor) or loss.dim() > 0 or not loss.dtype.is_floating_point:
            mode = "training" if training else "evaluation"
            self._refuse(f"the loss is {_described(loss)} in {mode} mode, not one number",
                         "--loss NAME names the part of the module's output that is the loss, in both modes, beside which --output-part names what it predicts; the losses of single samples are added "
                         "up, or averaged, in the module.")
        if training or self.output is None:
            return (loss,)
        return (loss, self._prediction_of(returned, training))

    def _prediction_of(self, returned, training):
        # Modules with auxiliary heads return these in training only.
        alone = self.output is None or (isinstance(returned, torch.Tensor) and not training)
        prediction = returned if alone else self._part(returned, self.output)
        if not isinstance(prediction, torch.Tensor):
            self._refuse(f"the module returns {_described(prediction)}, not a tensor", "--output-part names the part that is the prediction.")
        if not prediction.dtype.is_floating_point:
            mode = "training" if training else "evaluation"
            self._refuse(f"the module returns {prediction.dtype} in {mode} mode, which has no gradient", "Return logits or values, real ones, in both modes.")
        return prediction

    def _part(self, output, name):
        try:
            return _part(output, name)
        except (KeyError, IndexError, ValueError, AttributeError):
            self._refuse(f"the module's output has no part {name}: it is {_described(output)}", "--output-part and --loss name its parts, or count them from 0.")

    def _refuse(self, wrong, cure):
        refuse(self.original, ".", wrong, cure)


def _described(value):
    if isinstance(value, dict):
        return "a dictionary of " + ", ".join(map(str, value))
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"a {type(value).__name__} of " + ", ".join(value._fields)
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"


def _named_parts(output):
    """(key, attribute or position, part) of each."""
    if isinstance(output, dict):
        return [(str(key), part) for key, part in output.items()]
    if isinstance(output, (list, tuple)):
        return [*zip(getattr(output, "_fields", map(str, range(len(output)))), output)]
    return list(getattr(output, "__dict__", {}).items())


def _is_number_that_learns(part):
    return isinstance(part, torch.Tensor) and part.dim() == 0 and part.requires_grad and not is_of_single_numbers(part)


def is_of_single_numbers(tensor):
    """Whether it is a parameter of one number, or made of such alone: a temperature, and no loss."""
    nodes, seen = [tensor.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable") and node.variable.numel() != 1:
            return False
        nodes.extend(before for before, _ in node.next_functions)
    return True


def _part(output, name):
    """A part by its key, attribute or position, or by several with points between them."""
    if isinstance(output, dict) and name in output:
        return output[name]
    name, _, rest = name.partition(".")
    if isinstance(output, dict):
        part = output[name]
    elif hasattr(output, "_fields") and name in output._fields:
        part = getattr(output, name)
    else:
        part = output[int(name)] if isinstance(output, (list, tuple)) else getattr(output, name)
    return _part(part, rest) if rest else part


def _argument_names(module, examples):
    """The names of the arguments that the examples are: their own, or those that come next in the signature of the forward pass."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    declared = inspect.signature(module.forward).parameters.values()
    known = [parameter.name for parameter in declared if parameter.kind in kinds]
    takes_any = any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in declared)
    given = [example.name for example in examples.all if example.name]
    for name in given:
        if given.count(name) > 1:
            raise ExportError(f"--example {name}=…: stands twice")
        if name not in known and not takes_any:
            raise ExportError(f"--example {name}=…: the module's forward pass has no such argument; it has {', '.join(known)}")
    rest = [name for name in known if name not in given]
    names = [example.name or (rest.pop(0) if rest else f"input {place + 1}") for place, example in enumerate(examples.inputs)]
    if examples.targets is not None:
        names.append(examples.targets.name or _name_of_targets(inspect.signature(module.forward).parameters, rest) or f"input {len(names) + 1}")
    return names


TARGETS = ("labels", "label", "targets", "target", "y")  # as forward passes call them


def _name_of_targets(declared, rest):
    """Among the names of the arguments that are left: the next, or, where that may be left out, the one that is called as targets are."""
    called_so = [name for name in TARGETS if name in rest]
    needed = [name for name in rest[:1] if declared[name].default is inspect.Parameter.empty]
    return next(iter((*needed, *called_so, *rest)), None)


def _positional(module, names, examples):
    """How many of the inputs are handed over by their places, the others by their names: all, where nobody named any and none is to be
    named, as targets are behind an argument that is left out; else those whose arguments have no name to a caller."""
    declared = inspect.signature(module.forward).parameters
    kinds = [declared[name].kind if name in declared else None for name in names]
    first = list(declared)[: len(names)]
    leaves_out = names != first and all(name in declared for name in names)
    if not any(example.name for example in examples.all) and inspect.Parameter.KEYWORD_ONLY not in kinds and not leaves_out:
        return len(names)
    return max((place + 1 for place, kind in enumerate(kinds) if kind == inspect.Parameter.POSITIONAL_ONLY and names[: place + 1] == first[: place + 1]), default=0)


def take_apart(module, examples, output=None, loss=None):
    """What a module is made of. Parts that are in evaluation mode in a module that is not, as frozen batch normalisation is, stay in
    it."""
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    if not isinstance(module, torch.nn.Module):
        raise ExportError(f"a {type(module).__name__} was given, and no module\nGive a torch.nn.Module whose forward pass does what is to be trained.")
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            refuse(module, name, f"{'part ' + name if name else 'the module'} is a TorchScript module, which cannot be traced",
                    "Export it as it was written in Python; or script all of it: model: {name: torchscript}.")
        if isinstance(part, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            refuse(module, name, f"{'part ' + name if name else 'the module'} is a {type(part).__name__}, which spreads batches itself",
                   f"Export what it wraps, {'.'.join(filter(None, ('net', name, 'module')))}: here ranks share batches.")
    _check_quantisers(module)
    _check_parameters(module)
    device = torch.device(examples.device)
    original = module if all(_lies_as_read(tensor, device) for tensor in (*module.parameters(), *module.buffers())) else _as_read(module, device)
    traced = _copied(original)
    frozen = [name for name, part in module.named_modules() if module.training and not part.training]
    parameters, buffers, other_names, first = {}, {}, {}, {}
    saved = _saved_buffers(traced)
    for name, parameter in traced.named_parameters(remove_duplicate=False):
        _add(name, parameter, parameters, other_names, first)
    for name, buffer in traced.named_buffers(remove_duplicate=False):
        if name in saved:
            _add(name, buffer, buffers, other_names, first)
    names = _argument_names(module, examples)
    return Subject(traced, original, parameters, buffers, other_names, _other_places(traced, {**parameters, **buffers}, other_names), frozen,
                   output, loss, names, _positional(module, names, examples), device)  # fmt: skip


def _lies_as_read(tensor, device):
    """Whether a tensor lies as one does that comes from a file: there, and in the order of its axes."""
    return tensor.device == device and (tensor.layout != torch.strided or tensor.is_contiguous())


def _as_read(module, device):
    """A copy of the module whose tensors lie so."""
    copied = _copied(module, tensors_too=True).to(device)
    for tensor in (*copied.parameters(), *copied.buffers()):
        if not _lies_as_read(tensor, device):
            tensor.data = tensor.data.contiguous()
    return copied


def _copied(module, tensors_too=False):
    """A copy whose tensors are the module's own: what is kept while it is traced stays in the copy."""
    memo = {}
    if not tensors_too:
        kept = [tensor for part in module.modules() for tensor in tensors_in([part._parameters, part._buffers, part.__dict__])]
        memo = {id(tensor): tensor for tensor in kept}
    try:
        copied = copy.deepcopy(module, memo)
    except Exception as error:
        if of_machine(error):
            raise
        raise ExportError(
            f"the module cannot be copied by copy.deepcopy: {type(error).__name__}: {error}\n"
            "Keep what cannot be copied (locks, generators, open files) outside of the module, or give it a __deepcopy__ that returns itself."
        ) from error
    for part in copied.modules():
        for hooks in (part._forward_hooks, part._forward_pre_hooks):
            hooks.update({key: _of_the_copy(hook, memo) for key, hook in hooks.items()})
    return copied


def _of_the_copy(function, memo):
    """A function that was made inside of a module, as hooks are, with the copies of what it was made of: one that keeps what a layer returned
    would keep it in the other module."""
    if not isinstance(function, types.FunctionType) or not function.__closure__:
        return function

    def moved(cell):
        try:
            return types.CellType(memo[id(cell.cell_contents)])
        except (KeyError, ValueError):  # not copied, or empty
            return cell

    cells = tuple(map(moved, function.__closure__))
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def tensors_in(value, depth=4):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple, set)) and depth > 0:
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item, depth - 1)


def _add(name, tensor, tensors, other_names, first):
    if id(tensor) in first:
        other_names[name] = first[id(tensor)]
    else:
        first[id(tensor)] = name
        tensors[name] = tensor


def _other_places(module, tensors, other_names):
    def place(name):
        part, _, attribute = name.rpartition(".")
        return id(module.get_submodule(part)), attribute

    taken, others = {place(name) for name in tensors}, set()
    for name in other_names:
        if place(name) not in taken:
            taken.add(place(name))
            others.add(name)
    return others


def _saved_buffers(module):
    """Names of the buffers that a state dictionary has, whatever the module makes of its own."""
    names = set()
    for prefix, part in module.named_modules(remove_duplicate=False):
        left_out = part._non_persistent_buffers_set
        names.update(f"{prefix}.{name}" if prefix else name for name in part._buffers if name not in left_out)
    return names


def refuse(module, name, wrong, cure):
    """Says where the forward pass is written of the part that a tensor, or a part, belongs to."""
    place = forward_of(module, name)
    raise ExportError(f"{wrong}{':' if place else ''}" + (f"\n  {place}" if place else "") + f"\n{cure}")


def refuse_written(subject, name):
    cure = ("Make it a buffer, or write to a copy; a module that sets its parameters by its first batch is run once where it is made; an average of "
            "weights is a recipe's section average.")  # fmt: skip
    by = "forward pass"
    part = subject.module.get_submodule(name.rpartition(".")[0])
    if getattr(part, "merge_weights", False):
        by, cure = "train() or eval()", "Adapters that are merged so: make them with merge_weights=False; or leave them out, and train others by a recipe's model.lora."
    elif type(part).train is not torch.nn.Module.train:
        by = "forward pass, or its train() or eval(),"
    if getattr(part, "max_norm", None) is not None:
        cure = "An embedding with max_norm scales its weights so: leave max_norm out, or divide what was looked up by its norm."
    refuse(subject.original, name, f"the module's {by} writes to its parameter {name}", cure)


def _check_quantisers(module):
    """Whether they observe and quantise stands in their own buffers, by which their forward passes branch."""
    quantization = sys.modules.get("torch.ao.quantization")  # whoever has such parts has imported it
    for name, part in module.named_modules() if quantization else ():
        if isinstance(part, (quantization.FakeQuantizeBase, quantization.ObserverBase)):
            refuse(module, f"{name}.", f"part {name} ({type(part).__name__}) observes and quantises as its own buffers say, and a graph holds one way only",
                    "Export the module before prepare_qat, and quantise what was trained.")


def _check_parameters(module):
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        _check_given(module, name, tensor)
    learning = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not learning:
        raise ExportError("no parameter of the module requires a gradient\nparameter.requires_grad_(True) of those that are to learn.")
    for name, parameter in learning:
        _check_learning(module, name, parameter)
    _check_memory(module, learning)


def _check_given(module, name, tensor):
    if torch.nn.parameter.is_lazy(tensor):
        refuse(module, name, f"{name} has no shape yet", "Run the module once where it is made: module(torch.zeros(…)) for a batch like the example.")
    if tensor.is_meta:
        refuse(module, name, f"{name} is on the device meta and has no values", "Make the module on the CPU, or module.to_empty(device=\"cpu\") and load its weights.")


def _check_learning(module, name, parameter):
    if parameter.dtype.is_complex:
        refuse(module, name, f"parameter {name} is {str(parameter.dtype).removeprefix('torch.')}, and autotrain trains real numbers",
                "Make it a real one, torch.view_as_real(…), of which the forward pass takes torch.view_as_complex.")
    if parameter.dtype != torch.float32:
        cure = "Half precision is a way to compute here, --precision: export module.float()." if parameter.dtype in (torch.float16, torch.bfloat16) else "Export module.float()."
        refuse(module, name, f"parameter {name} is {parameter.dtype}; autotrain trains float32 parameters", cure)
    if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
        refuse(module, name, f"parameter {name} has a hook, which would not be called",
               "Change its gradient in the forward pass instead, by a torch.autograd.Function; a recipe's optimizer clips, and makes the update.")


def _range_of(tensor):
    """Where in its memory a tensor begins and ends, in bytes."""
    begin = tensor.storage_offset() * tensor.element_size()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + extent * tensor.element_size()


def _overlap(one, other):
    (begin, end), (first, last) = _range_of(one), _range_of(other)
    return memory_of(one) == memory_of(other) and begin < last and first < end


def _check_memory(module, learning):
    """To a model file each tensor is one of its own, or the same under another name. Those that lie in one memory beside each other, as cuDNN
    lays out recurrent weights, are of their own."""
    in_memory = {}
    for name, parameter in learning:
        if memory_of(parameter) is not None:
            in_memory.setdefault(memory_of(parameter), []).append((name, parameter))
    others = [(f"parameters {{}} and {name}", name, parameter) for name, parameter in module.named_parameters()]
    others += [(f"parameter {{}} and buffer {name}", name, buffer) for name, buffer in module.named_buffers()]
    for both, name, tensor in others:
        for owner, parameter in in_memory.get(memory_of(tensor), ()):
            if tensor is not parameter and _overlap(tensor, parameter):
                refuse(module, name, f"{both.format(owner)} share their memory without being one",
                       "Tie them: a.weight = b.weight; or keep a copy, tensor.clone(), or use the parameter itself in the forward pass.")
