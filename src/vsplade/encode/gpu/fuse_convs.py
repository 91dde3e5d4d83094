"""A network's convolutions with the bias, the sum and the ReLU that follow them, as one cuDNN kernel each.

What comes after a convolution reads and writes its whole result again, several times; on a GPU that takes
about as long as the convolution. The network itself stays as it is: its graph is traced and rewritten.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

_WHOLE = 8
"""Channels come in multiples of this in the kernels for half precision."""


def can_fuse() -> bool:
    return torch.version.hip is None and torch.backends.cudnn.is_available()


def convolve_relu(x: Tensor, weight: Tensor, bias: Tensor, stride: list[int], padding: list[int]) -> Tensor:
    if x.is_cuda:
        return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, [1, 1], 1)
    return functional.relu(functional.conv2d(x, weight, bias, stride, padding))


def convolve_add_relu(
    x: Tensor, weight: Tensor, bias: Tensor, other: Tensor, stride: list[int], padding: list[int]
) -> Tensor:
    if x.is_cuda:
        return torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, stride, padding, [1, 1], 1)
    return functional.relu(functional.conv2d(x, weight, bias, stride, padding) + other)


def fuse(network: nn.Module) -> Any:
    """The same function of the same weights; norms must be folded already."""
    traced = fx.symbolic_trace(network)
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(traced.get_submodule(node.target), nn.Identity):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    for node in list(traced.graph.nodes):
        if node.op == "call_function" and node.target is functional.relu:
            _fuse_relu(traced, node)
    traced.graph.lint()
    traced.recompile()
    return traced


def _fuse_relu(traced: Any, relu: Any) -> None:
    before = relu.args[0]
    other = None
    if before.op == "call_function" and before.target in (operator.add, torch.add) and len(before.users) == 1:
        one, two = before.args
        other, before = (one, two) if _is_plain(traced, two) else (two, one)
    if not _is_plain(traced, before):
        return
    convolution = traced.get_submodule(before.target)
    with traced.graph.inserting_before(relu):
        weight, bias = (traced.graph.get_attr(f"{before.target}.{name}") for name in ("weight", "bias"))
        where = (list(convolution.stride), list(convolution.padding))
        if other is None:
            made = traced.graph.call_function(convolve_relu, (before.args[0], weight, bias, *where))
        else:
            made = traced.graph.call_function(
                convolve_add_relu, (before.args[0], weight, bias, other, *where)
            )
    relu.replace_all_uses_with(made)
    gone = [relu] if other is None else [relu, relu.args[0]]
    for node in (*gone, before):
        traced.graph.erase_node(node)


def _is_plain(traced: Any, node: Any) -> bool:
    """A convolution with a bias whose result goes nowhere else, of a shape that cuDNN has kernels for."""
    if not isinstance(node, fx.Node) or node.op != "call_module" or len(node.users) != 1:
        return False
    module = traced.get_submodule(node.target)
    if not isinstance(module, nn.Conv2d) or module.bias is None or module.groups != 1:
        return False
    return bool(module.in_channels % _WHOLE == 0 and module.out_channels % _WHOLE == 0)
