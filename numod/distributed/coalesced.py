"""Collectives of several tensors of one dtype at once: `all_reduce_coalesced` and `all_gather_coalesced`."""

from __future__ import annotations

from ..core.tensor import Tensor
from .arguments import check_same_dtype, check_tensors, member_group
from .calls import ALL_GATHER, ALL_REDUCE
from .collective_op import run
from .collectives import SUM, _averaging, _joined, _whole
from .group import ProcessGroup
from .reduce_op import ReduceOp, checked
from .work import Work


def all_reduce_coalesced(
    tensors: list[Tensor], op: ReduceOp = SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors of one dtype, as one collective."""
    check_tensors(tensors, "tensors")
    check_same_dtype(*tensors)
    checked(op, tensors[0].dtype, "all_reduce")
    if (group := member_group(group, "all_reduce_coalesced")) is None:
        return None
    whole, counts = _joined(tensors), [tensor.numel() for tensor in tensors]
    average = _averaging(op, whole, group)

    def deal() -> None:
        if average is not None:
            average()
        for tensor, part in zip(tensors, whole.split(counts)):
            tensor.copy_(part.view(tensor.shape))

    return run(ALL_REDUCE, (), (whole,), group, (op,), async_op, deal)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors of one dtype, as one collective: list k of the output is rank k's."""
    if (group := member_group(group, "all_gather_coalesced")) is None:
        return None
    check_tensors(input_tensor_list, "input_tensor_list")
    check_same_dtype(*input_tensor_list)
    if not isinstance(output_tensor_lists, list) or len(output_tensor_lists) != group.size():
        raise RuntimeError(f"all_gather_coalesced: expected {group.size()} lists of tensors, one for each rank")
    for outputs in output_tensor_lists:
        check_tensors(outputs, "output_tensor_lists")
        if [x.shape for x in outputs] != [x.shape for x in input_tensor_list]:
            raise RuntimeError(
                "all_gather_coalesced: each rank's output tensors must have the shapes of the input tensors, "
                f"{[tuple(x.shape) for x in input_tensor_list]}, got {[tuple(x.shape) for x in outputs]}"
            )
        check_same_dtype(input_tensor_list[0], *outputs)
    joined, counts = _joined(input_tensor_list), [x.numel() for x in input_tensor_list]
    whole = _whole(joined, group.size())

    def deal() -> None:
        for outputs, row in zip(output_tensor_lists, whole.unbind()):
            for tensor, part in zip(outputs, row.split(counts)):
                tensor.copy_(part.view(tensor.shape))

    return run(ALL_GATHER, (joined,), (whole,), group, (), async_op, deal)
