"""Collectives with gradients, by the names of PyTorch's `distributed.nn.functional`."""

from __future__ import annotations

import sys

import numpy as np

from ..autograd import Function
from ..core.apply import apply
from ..core.create.creation import empty
from ..core.tensor import Tensor
from ..device.layout import layout
from ..errors import name_only
from ..ops.op import Op, Plan
from . import collectives
from .calls import ALL_REDUCE
from .collective_op import kind
from .group import ProcessGroup, default_group
from .reduce_op import ReduceOp
from .work import complete

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce_scatter"]
functional = sys.modules[__name__]  # `from numod.distributed.nn import functional`
_INSTEAD = "use all_reduce, all_gather, broadcast or reduce_scatter, which have gradients"
all_to_all, all_to_all_single, gather, reduce, scatter = (
    name_only(f"distributed.nn.functional.{_name}", _INSTEAD)
    for _name in ("all_to_all", "all_to_all_single", "gather", "reduce", "scatter")
)


class _AllReduceSum(Op):
    """The sum over the ranks as a new tensor. Its gradient is the sum of the ranks' gradients."""

    inputs, attributes = ("x",), ("group",)
    gradients = {"x": lambda g, group: sum_over_ranks(g, group)}
    portable = repeatable = False
    upcasts_half = False
    reports = True

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        """The plan for a dense tensor on the CPU."""
        x, group = arguments[0], attributes[0]

        def launch(source: np.ndarray, target: np.ndarray) -> None:
            np.copyto(target[: x.size], source[: x.size])
            call = (group, [], [[target[: x.size], kind(group, x)]], (x,), (ReduceOp.SUM,))
            complete(ALL_REDUCE.begin(*call), group, ALL_REDUCE.name)

        return Plan(layout(x.shape, x.dtype, x.device), launch)


_all_reduce_sum = _AllReduceSum("all_reduce_sum")


def sum_over_ranks(x: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of the ranks' tensors, differentiable to any order."""
    return apply(_all_reduce_sum, (x.cpu().contiguous(),), (group,)).to(x.device)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The combined tensor of all ranks, a new one, with a gradient for sums and averages."""
    group = default_group(group)
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise RuntimeError(f"distributed.nn.functional.all_reduce: {op} has no gradient; use SUM or AVG")
    total = sum_over_ranks(tensor, group)
    return total / group.size() if op is ReduceOp.AVG else total


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor: Tensor, src: int, group: ProcessGroup) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.clone()
        collectives.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple:
        total = sum_over_ranks(g, ctx.group)
        return (total if ctx.group.ranks[ctx.group.group_rank] == ctx.src else total * 0), None, None


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """Rank `src`'s tensor, a new one. The gradient of `src` is the sum of the ranks' gradients, that of others zero."""
    return _Broadcast.apply(tensor, src, default_group(group))


class _AllGather(Function):
    @staticmethod
    def forward(ctx, tensor: Tensor, group: ProcessGroup) -> tuple:
        ctx.group = group
        parts = [empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for _ in group.ranks]
        collectives.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple:
        result = empty(grads[0].shape, dtype=grads[0].dtype, device=grads[0].device)
        collectives.reduce_scatter(result, list(grads), group=ctx.group)
        return result, None


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The ranks' tensors."""
    return _AllGather.apply(tensor, default_group(group))


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, group: ProcessGroup, *tensors: Tensor) -> Tensor:
        ctx.group = group
        result = empty(tensors[0].shape, dtype=tensors[0].dtype, device=tensors[0].device)
        collectives.reduce_scatter(result, list(tensors), group=group)
        return result

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple:
        parts = [empty(g.shape, dtype=g.dtype, device=g.device) for _ in ctx.group.ranks]
        collectives.all_gather(parts, g, ctx.group)
        return (None, *parts)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """The sum over the ranks of the list's tensor at this rank's position; `output` only gives PyTorch's signature."""
    if op is not ReduceOp.SUM:
        raise RuntimeError(f"distributed.nn.functional.reduce_scatter: {op} has no gradient; use SUM")
    return _ReduceScatter.apply(default_group(group), *input_list)
