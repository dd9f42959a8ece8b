"""The collectives of tensors: `all_reduce`, `broadcast`, `all_gather` and the others, by PyTorch's names.

All ranks of the group call the same one in the same order. Dense CPU tensors are read and written in place; others are
copied. With async_op=True a call returns a `Work`, whose `wait` completes it; before that, use none of its tensors.
A rank outside the group gets a warning and None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from math import prod

from ..autograd import no_grad
from ..core.create.creation import empty
from ..core.shape.joining import cat
from ..core.tensor import Tensor
from .arguments import check_parts, check_same_dtype, check_tensor, check_tensors, member_group, root_of, sizes
from .calls import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BARRIER, BROADCAST, GATHER, REDUCE, REDUCE_SCATTER, SCATTER
from .collective_op import remember, repeat, run
from .group import ProcessGroup
from .init_arguments import checked_timeout
from .reduce_op import ReduceOp, checked
from .work import Work

SUM, AVG = ReduceOp.SUM, ReduceOp.AVG


def all_reduce(
    tensor: Tensor, op: ReduceOp = SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all ranks in place: each rank has the result."""
    if not async_op and repeat(tensor, op, group):
        return None
    check_tensor(tensor, "tensor")
    checked(op, tensor.dtype, "all_reduce")
    if (group := member_group(group, "all_reduce")) is None:
        return None
    average = _averaging(op, tensor, group)
    if average is None:
        remember(tensor, op, group)
    return run(ALL_REDUCE, (), (tensor,), group, (op,), async_op, average)


def _averaging(op: ReduceOp, tensor: Tensor, group: ProcessGroup) -> Callable[[], object] | None:
    """A function that divides a sum by the number of ranks, for ReduceOp.AVG. Integers are rounded towards zero."""
    if op is not AVG or tensor.dtype.kind == "b":
        return None
    return lambda: tensor.div_(group.size(), rounding_mode=None if tensor.dtype.differentiable else "trunc")


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all ranks: rank `dst` has the result."""
    check_tensor(tensor, "tensor")
    checked(op, tensor.dtype, "reduce")
    if (group := member_group(group, "reduce")) is None:
        return None
    root = root_of(group, dst, group_dst, "reduce", None)
    finish = _averaging(op, tensor, group) if group.group_rank == root else None
    return run(REDUCE, (), (tensor,), group, (op, root), async_op, finish)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of rank `src` to all ranks."""
    check_tensor(tensor, "tensor")
    if (group := member_group(group, "broadcast")) is None:
        return None
    return run(BROADCAST, (), (tensor,), group, (root_of(group, src, group_src, "broadcast", None),), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the ranks' tensors in one: concatenated along the first dimension, or stacked, by the output's shape."""
    check_tensor(output_tensor, "output_tensor")
    check_tensor(input_tensor, "input_tensor")
    check_same_dtype(output_tensor, input_tensor)
    if (group := member_group(group, "all_gather_into_tensor")) is None:
        return None
    if output_tensor.numel() != group.size() * input_tensor.numel():
        raise RuntimeError(
            f"all_gather_into_tensor: expected an output of {group.size()} x {input_tensor.numel()} elements, got "
            f"{output_tensor.numel()}"
        )
    return run(ALL_GATHER, (input_tensor,), (output_tensor,), group, (), async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Gather the ranks' tensors, of equal shapes, in the list."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    if (group := member_group(group, "all_gather")) is None:
        return None
    check_parts(tensor_list, tensor, group.size(), "all_gather")
    whole = _whole(tensor, group.size())
    return run(ALL_GATHER, (tensor,), (whole,), group, (), async_op, _dealer(whole, tensor_list))


def _whole(tensor: Tensor, count: int) -> Tensor:
    """Memory of `count` tensors like this one, on the CPU, which MPI writes to."""
    return empty((count, *tensor.shape), dtype=tensor.dtype)


def _dealer(whole: Tensor, tensors: Sequence[Tensor]) -> Callable[[], None]:
    """A function that copies the rows of `whole` to the tensors."""

    def deal() -> None:
        for tensor, part in zip(tensors, whole.unbind()):
            tensor.copy_(part)

    return deal


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of the tensors one after the other, (n,)."""
    with no_grad():
        return cat([tensor.reshape(-1) for tensor in tensors])


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the ranks' inputs, and give each rank its part of the result, by equal parts of the elements."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_same_dtype(output, input)
    checked(op, input.dtype, "reduce_scatter_tensor")
    if (group := member_group(group, "reduce_scatter_tensor")) is None:
        return None
    if input.numel() != group.size() * output.numel():
        raise RuntimeError(
            f"reduce_scatter_tensor: expected an input of {group.size()} x {output.numel()} elements, got "
            f"{input.numel()}"
        )
    return run(REDUCE_SCATTER, (input,), (output,), group, (op,), async_op, _averaging(op, output, group))


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp = SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the ranks' lists, and give each rank the result of its position."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    checked(op, output.dtype, "reduce_scatter")
    if (group := member_group(group, "reduce_scatter")) is None:
        return None
    check_parts(input_list, output, group.size(), "reduce_scatter")
    averaging = _averaging(op, output, group)
    return run(REDUCE_SCATTER, (_joined(input_list),), (output,), group, (op,), async_op, averaging)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Gather the ranks' tensors, of equal shapes, in the list of rank `dst`; other ranks give no list."""
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
    if (group := member_group(group, "gather")) is None:
        return None
    root = root_of(group, dst, group_dst, "gather")
    _check_list(gather_list, group.group_rank == root, "gather_list", "destination")
    if group.group_rank != root:
        return run(GATHER, (tensor,), (), group, (root,), async_op)
    check_parts(gather_list, tensor, group.size(), "gather")
    whole = _whole(tensor, group.size())
    return run(GATHER, (tensor,), (whole,), group, (root,), async_op, _dealer(whole, gather_list))


def _check_list(tensors: list | None, is_root: bool, name: str, role: str) -> None:
    if is_root and not tensors:
        raise ValueError(f"Argument ``{name}`` must be specified on {role} rank.")
    if tensors and not is_root:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{role} ranks.")


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each rank one tensor, of equal shapes, of the list of rank `src`; other ranks give no list."""
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
    if (group := member_group(group, "scatter")) is None:
        return None
    root = root_of(group, src, group_src, "scatter")
    _check_list(scatter_list, group.group_rank == root, "scatter_list", "source")
    if group.group_rank != root:
        return run(SCATTER, (), (tensor,), group, (root,), async_op)
    check_parts(scatter_list, tensor, group.size(), "scatter")
    return run(SCATTER, (_joined(scatter_list),), (tensor,), group, (root,), async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send part k of the input, by rows, to rank k, and receive the ranks' parts in the output."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_same_dtype(output, input)
    if (group := member_group(group, "all_to_all_single")) is None:
        return None
    counts = []
    for tensor, splits in ((input, input_split_sizes), (output, output_split_sizes)):
        rows, row = (tensor.shape[0], prod(tensor.shape[1:])) if tensor.ndim else (1, 1)
        counts.append(tuple([size * row for size in sizes(splits, rows, group.size())]))
    return run(ALL_TO_ALL, (input,), (output,), group, tuple(counts), async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send tensor k of the input list to rank k, and receive one from each rank. Shapes may differ."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    check_same_dtype(*output_tensor_list, *input_tensor_list)
    if (group := member_group(group, "all_to_all")) is None:
        return None
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != group.size():
            raise RuntimeError(f"all_to_all: expected {group.size()} tensors, one for each rank, got {len(tensors)}")
    sent, received = (
        tuple([tensor.numel() for tensor in tensors]) for tensors in (input_tensor_list, output_tensor_list)
    )
    whole = empty(sum(received), dtype=input_tensor_list[0].dtype)

    def deal() -> None:
        for tensor, part in zip(output_tensor_list, whole.split(list(received))):
            tensor.copy_(part.view(tensor.shape))

    return run(ALL_TO_ALL, (_joined(input_tensor_list),), (whole,), group, (sent, received), async_op, deal)


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: list[int] | None = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all ranks have called it, for `timeout` or the group's."""
    if (group := member_group(group, "barrier")) is None:
        return None
    if timeout is None or async_op:
        return run(BARRIER, (), (), group, (), async_op)
    run(BARRIER, (), (), group, (), True).wait(checked_timeout(timeout))
    return None


all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor  # PyTorch 2.13's names
