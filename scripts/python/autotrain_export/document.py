"""A traced graph as plain JSON: what autotrain's interpreter reads.

A graph has numbered values. The first are given: parameters, buffers, constants, the inputs, the targets of a module with its loss
inside and, for training, the gradient of the output, in this order. Each node is an operator with its arguments in the order of its schema and the numbers of the
values that it makes; null stands for a result that nobody uses."""

import math
import operator

import torch

from .errors import ExportError

# Arithmetic on sizes, by the names that the interpreter knows.
SIZE_OPERATORS = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    operator.truediv: "truediv",
    operator.neg: "neg",
    operator.pow: "pow",
    operator.abs: "abs",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
    operator.and_: "and",
    operator.or_: "or",
    torch.sym_not: "not",
    torch.sym_max: "max",
    torch.sym_min: "min",
    torch.sym_int: "int",
    torch.sym_float: "float",
    torch.sym_ite: "ite",
    torch._sym_sqrt: "sqrt",
    math.trunc: "int",
    math.floor: "floor",
    math.ceil: "ceil",
    round: "round",
}
# Checks of shapes and types that were true when the graph was traced.
CHECKS = ("aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::sym_constrain_range", "aten::sym_constrain_range_for_size")


class _Writer:
    def __init__(self):
        self.values = {}  # node → its reference, or its list of references
        self.count = 0
        self.given = 0  # how many of the values no node makes
        self.nodes = []

    def value(self):
        self.count += 1
        return self.count - 1

    def reference(self, node):
        reference = self.values[node]
        if isinstance(reference, list):
            raise ExportError(f"the graph hands on all results of {node.target} as one list, which autotrain does not read")
        return reference

    def encode(self, argument):
        if isinstance(argument, torch.fx.Node):
            return {"v": self.reference(argument)}
        if isinstance(argument, (list, tuple)):
            return [self.encode(item) for item in argument]
        if argument is None or isinstance(argument, (bool, int, str)):
            return argument
        if isinstance(argument, float):
            return argument if math.isfinite(argument) else {"float": str(argument)}
        if isinstance(argument, complex):
            return {"complex": [self.encode(argument.real), self.encode(argument.imag)]}
        if isinstance(argument, torch.dtype):
            return {"dtype": str(argument).removeprefix("torch.")}
        if isinstance(argument, torch.memory_format):
            return {"memory_format": str(argument).removeprefix("torch.")}
        if isinstance(argument, torch.layout):
            return {"layout": str(argument).removeprefix("torch.")}
        if isinstance(argument, torch.device):
            return {"device": "run"}
        raise ExportError(f"the graph has an argument of type {type(argument).__name__}, which autotrain does not read")

    def arguments(self, node):
        encoded = []
        for position, argument in enumerate(node.target._schema.arguments):
            if position < len(node.args):
                encoded.append(self.encode(node.args[position]))
            elif argument.name in node.kwargs:
                encoded.append(self.encode(node.kwargs[argument.name]))
            else:
                encoded.append({"default": True})
        return encoded

    def call(self, node, used):
        schema = node.target._schema
        if schema.name in CHECKS:
            return
        if node.target is torch.ops.aten.detach.default:
            self.values[node] = self.reference(node.args[0])
            return
        parts = _parts(node)
        if parts is None:
            self.values[node] = self.value()
            results = [self.values[node]]
        else:
            self.values[node] = [self.value() if part in used else None for part in range(parts)]
            results = self.values[node]
        self.nodes.append({"op": schema.name, "overload": schema.overload_name, "args": self.arguments(node), "out": results})

    def make_complex(self, node):
        pairs, self.values[node] = self.values[node], self.value()
        self.nodes.append({"op": "aten::view_as_complex", "overload": "", "args": [{"v": pairs}], "out": [self.values[node]]})

    def made(self, value):
        """A value that a node makes: a copy of one that is given."""
        if value >= self.given:
            return value
        self.nodes.append({"op": "aten::clone", "overload": "", "args": [{"v": value}, {"default": True}], "out": [self.value()]})
        return self.count - 1

    def size_operator(self, node):
        arguments = [self.encode(argument) for argument in node.args]
        self.values[node] = self.value()
        self.nodes.append({"op": SIZE_OPERATORS[node.target], "args": arguments, "out": [self.values[node]]})


def _parts(node):
    """How many results a node returns, where it does not return a single tensor or number."""
    returns = node.target._schema.returns
    if len(returns) == 1 and "[]" not in str(returns[0].type) and "List" not in str(returns[0].type):
        return None
    value = node.meta.get("val")
    return len(value) if isinstance(value, (list, tuple)) else len(returns)


def _is_needed(node):
    """Whether a node does something although nobody uses its result: it writes, or draws random numbers."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags


def _drop_unneeded(graph):
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users and not _is_needed(node):
            graph.erase_node(node)


def _number_among(constants, tensor):
    for number, known in enumerate(constants):
        if known is tensor or (known.dtype == tensor.dtype and known.shape == tensor.shape and torch.equal(known, tensor)):
            return number
    constants.append(tensor)
    return len(constants) - 1


def _as_real(tensor):
    """A constant as the file has it: complex numbers as pairs."""
    return torch.view_as_real(tensor.detach().resolve_conj()).contiguous() if tensor.is_complex() else tensor


def constants_of(graph_module, constants):
    """The numbers among `constants` of the tensors that a graph holds, by name; adds those that are new."""
    nodes = (node for node in graph_module.graph.nodes if node.op == "get_attr")
    return {node.target: _number_among(constants, _as_real(getattr(graph_module, node.target))) for node in nodes}


def write_graph(graph_module, given, constants, training, loss):
    """The JSON of one graph.

    given      how many values are given before the constants: parameters and buffers
    constants  those of the whole file
    training   whether the gradient of the output is given, too
    loss       whether the output is a loss, and not a prediction"""
    numbers = constants_of(graph_module, constants)
    writer = _Writer()
    graph = graph_module.graph
    _drop_unneeded(graph)
    graph_module.recompile()  # what raised and was caught is in it no more
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for node in placeholders[:given]:
        writer.values[node] = writer.value()
    first_constant = writer.count
    writer.count += len(constants)
    for node in placeholders[given:] if training else placeholders[given:-1]:
        writer.values[node] = writer.value()
    writer.given = writer.count
    results = None
    for node in graph.nodes:
        if node.op == "get_attr":
            writer.values[node] = first_constant + numbers[node.target]
            if getattr(graph_module, node.target).is_complex():
                writer.make_complex(node)
        elif node.op == "output":
            results = torch.utils._pytree.tree_leaves(node.args[0], is_leaf=lambda leaf: leaf is None)
        elif node.op == "call_function":
            _write_call(writer, node)
    numbers = [None if result is None else writer.reference(result) for result in results]
    outputs = {"loss" if loss else "prediction": writer.made(numbers[0])}
    if not training and len(numbers) > 1:
        outputs["prediction"] = writer.made(numbers[1])
    return {"nodes": writer.nodes, **outputs, "gradients": numbers[1:] if training else []}


def _write_call(writer, node):
    if node.target is operator.getitem:
        parts = writer.values[node.args[0]]
        writer.values[node] = parts[node.args[1]]
    elif isinstance(node.target, torch._ops.OpOverload):
        used = {user.args[1] for user in node.users if user.target is operator.getitem}
        writer.call(node, used)
    elif node.target in SIZE_OPERATORS:
        writer.size_operator(node)
    else:
        name = getattr(node.target, "__name__", str(node.target))
        raise ExportError(f"the graph computes {name} of sizes, which autotrain does not run; write it with + - * // % and comparisons, or "
                          "give what comes of it as a number that is the same for every batch")
