"""Collectives with gradients, by the names of PyTorch's `distributed.nn.functional`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from ..autograd import Function, no_grad
from ..core.apply import apply
from ..core.create.creation import empty, ones_like
from ..core.tensor import Tensor
from ..device.layout import layout
from ..dtypes import bool_
from ..ops.op import Op, Plan
from . import collectives
from .calls import ALL_REDUCE
from .collective_op import kind
from .group import ProcessGroup, default_group
from .reduce_op import ReduceOp
from .work import complete

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip
functional = sys.modules[__name__]  # `from numod.distributed.nn import functional`


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
        is_source = ctx.group.ranks[ctx.group.group_rank] == ctx.src
        return (total if is_source else total.masked_fill(ones_like(total, dtype=bool_), 0)), None, None


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """Rank `src`'s tensor, a new one. The gradient of `src` is the sum of the ranks' gradients, that of others zero."""
    return _Broadcast.apply(tensor, src, default_group(group))


class _AllGather(Function):
    @staticmethod
    def forward(ctx, tensor: Tensor, group: ProcessGroup) -> tuple:
        ctx.group = group
        parts = [_like(tensor) for _ in group.ranks]
        collectives.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple:
        result = _like(grads[0])
        collectives.reduce_scatter(result, list(grads), group=ctx.group)
        return result, None


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The ranks' tensors."""
    return _AllGather.apply(tensor, default_group(group))


def _like(tensor: Tensor) -> Tensor:
    """A dense tensor of its shape, dtype and device, for a collective to write to."""
    return empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _written(outputs: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Write the results to the caller's tensors, which have no gradients."""
    with no_grad():
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, group: ProcessGroup, *tensors: Tensor) -> Tensor:
        ctx.group = group
        result = _like(tensors[0])
        collectives.reduce_scatter(result, list(tensors), group=group)
        return result

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple:
        parts = [_like(g) for _ in ctx.group.ranks]
        collectives.all_gather(parts, g, ctx.group)
        return (None, *parts)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """The sum over the ranks of the list's tensor at this rank's position, which is written to `output` too."""
    if op is not ReduceOp.SUM:
        raise RuntimeError(f"distributed.nn.functional.reduce_scatter: {op} has no gradient; use SUM")
    result = _ReduceScatter.apply(default_group(group), *input_list)
    _written([output], [result])
    return result


class _Reduce(Function):
    @staticmethod
    def forward(ctx, tensor: Tensor, dst: int, group: ProcessGroup) -> Tensor:
        ctx.dst, ctx.group = dst, group
        result = tensor.clone()
        collectives.reduce(result, dst, group=group)
        return result

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple:
        return broadcast(g, ctx.dst, ctx.group), None, None


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The sum of the ranks' tensors on rank `dst`, whose gradient all ranks get. Do not use others' results."""
    if op is not ReduceOp.SUM:
        raise RuntimeError(f"distributed.nn.functional.reduce: {op} has no gradient; use SUM")
    return _Reduce.apply(tensor, dst, default_group(group))


class _Gather(Function):
    @staticmethod
    def forward(ctx, tensor: Tensor, dst: int, group: ProcessGroup) -> tuple:
        ctx.dst, ctx.group = dst, group
        parts = [_like(tensor).zero_() for _ in group.ranks]
        collectives.gather(tensor, parts if group.ranks[group.group_rank] == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple:
        return scatter(grads, ctx.dst, ctx.group), None, None


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The ranks' tensors on rank `dst`, zeros on the others."""
    return _Gather.apply(tensor, dst, default_group(group))


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src: int, group: ProcessGroup, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = _like(tensors[0])
        collectives.scatter(result, list(tensors) if group.ranks[group.group_rank] == src else None, src, group)
        return result

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple:
        return (None, None, *gather(g, ctx.src, ctx.group))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """This rank's tensor of rank `src`'s list. Other ranks give a list of the same shapes."""
    return _Scatter.apply(src, default_group(group), *tensors)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, group: ProcessGroup, shapes: list, *tensors: Tensor) -> tuple:
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        first = tensors[0]
        results = [empty(shape, dtype=first.dtype, device=first.device) for shape in shapes]
        collectives.all_to_all(results, list(tensors), group)
        return tuple(results)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple:
        return (None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads))


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """Send tensor k of the input list to rank k. The received ones are written to the output list too."""
    shapes = [output.shape for output in output_tensor_list]
    results = _AllToAll.apply(default_group(group), shapes, *input_tensor_list)
    _written(output_tensor_list, results)
    return results


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx, tensor: Tensor, shape: tuple, received: list | None, sent: list | None, group: ProcessGroup
    ) -> Tensor:
        ctx.shape, ctx.received, ctx.sent, ctx.group = tensor.shape, received, sent, group
        result = empty(shape, dtype=tensor.dtype, device=tensor.device)
        collectives.all_to_all_single(result, tensor, received, sent, group)
        return result

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple:
        return _AllToAllSingle.apply(g, ctx.shape, ctx.sent, ctx.received, ctx.group), None, None, None, None


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Send part k of the input, by rows, to rank k. The received parts are written to `output` too."""
    result = _AllToAllSingle.apply(input, output.shape, output_split_sizes, input_split_sizes, default_group(group))
    _written([output], [result])
    return result
