"""Products in half precision by the kernels of float32, and rounded: on processors without instructions for half precision PyTorch's own
are a hundred times slower. Graphs and module both compute so while they are held against each other."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten
HALF = (torch.bfloat16, torch.float16)
PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.mv.default, aten.addmv.default, aten.dot.default,
            aten.convolution.default, aten.convolution_backward.default, aten._scaled_dot_product_flash_attention_for_cpu.default,
            aten._scaled_dot_product_flash_attention_for_cpu_backward.default}  # fmt: skip
KEPT_SINGLE = {aten._scaled_dot_product_flash_attention_for_cpu.default: (1,)}  # results that are float32 in any case
BY_LAYOUT = (aten.convolution.default, aten.convolution_backward.default)  # whose kernels choose how their results lie


class QuickProducts(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function not in PRODUCTS:
            return function(*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        half = next((tensor.dtype for tensor in tensors if tensor.dtype in HALF and tensor.device.type == "cpu"), None)
        if half is None or (function in BY_LAYOUT and not all(tensor.is_contiguous() for tensor in tensors)):
            return function(*args, **kwargs)
        args, kwargs = tree_map(lambda leaf: leaf.float() if isinstance(leaf, torch.Tensor) and leaf.dtype in HALF else leaf, (args, kwargs))
        results = function(*args, **kwargs)
        if isinstance(results, torch.Tensor):
            return results.to(half)
        kept = KEPT_SINGLE.get(function, ())
        return tuple(result if place in kept or result is None else result.to(half) for place, result in enumerate(results))
