"""What a graph writes to in place, and what it reads by where it lies in memory."""

import operator
from itertools import takewhile

import torch

aten = torch.ops.aten


def _is_operator(node):
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def _arguments(node):
    """(argument of the schema, node) of each that is a node, or a list with one in it."""
    for place, argument in enumerate(node.target._schema.arguments):
        value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, torch.fx.Node):
                yield argument, item


def written_to(graph, node):
    """Whether something writes to the memory of what a node gives."""
    same = {node}  # what shares it
    for each in graph.nodes:
        if each.op == "call_function" and each.target is operator.getitem and each.args[0] in same:
            same.add(each)
        elif _is_operator(each):
            shared = [argument for argument, item in _arguments(each) if item in same and argument.alias_info is not None]
            if any(argument.alias_info.is_write for argument in shared):
                return True
            if shared:
                same.add(each)
    return False


def copy_written_inputs(graph_module, first):
    """A module may write to the batch that it is given; the graph does so to a copy of its own.

    first  where inputs and targets begin among the values that are given; after them there is the gradient"""
    graph = graph_module.graph
    given = [node for node in graph.nodes if node.op == "placeholder"]
    for node in given[first:-1]:
        if written_to(graph, node):
            with graph.inserting_after(given[-1]):
                copy = graph.call_function(aten.clone.default, (node,))
            copy.meta = dict(node.meta)
            node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
    graph_module.recompile()


def fix_strides(graph_module, first):
    """Strides that a module gives itself are of memory as it lies while it is traced. Images may lie with their channels last in a run: what
    was contiguous is made so before, and is then that tensor to all that follows.

    first  where inputs and targets begin among the values that are given; those before lie in the order of their axes in any case"""
    graph = graph_module.graph
    own = {*[node for node in graph.nodes if node.op == "placeholder"][:first], *(node for node in graph.nodes if node.op == "get_attr")}
    for node in [node for node in graph.nodes if node.target is aten.as_strided.default]:
        base = node.args[0]
        if base in own or base.target is aten.contiguous.default or not base.meta["val"].is_contiguous():
            continue
        later = {node, *takewhile(lambda each: each is not node, reversed(graph.nodes))}
        with graph.inserting_before(node):
            made = graph.call_function(aten.contiguous.default, (base,))
        made.meta = dict(base.meta)
        base.replace_all_uses_with(made, delete_user_cb=later.__contains__)
    graph_module.recompile()
