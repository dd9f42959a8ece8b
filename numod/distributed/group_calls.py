"""The collectives as methods of a process group, as communication hooks of DistributedDataParallel call them.

Each begins a collective and returns its `Work`. Tensors are given alone or in a list of one; ranks are the group's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from .reduce_op import ReduceOp

if TYPE_CHECKING:
    from .work import Work


@dataclass
class CollectiveOptions:
    """The options of all collectives; PyTorch has a class for each. Only `reduceOp` and `rootRank` have an effect."""

    reduceOp: ReduceOp = ReduceOp.SUM
    rootRank: int = 0
    rootTensor: int = 0
    device_ids: list[int] = field(default_factory=list)


AllgatherOptions = AllreduceCoalescedOptions = AllreduceOptions = AllToAllOptions = BarrierOptions = CollectiveOptions
BroadcastOptions = GatherOptions = ReduceOptions = ReduceScatterOptions = ScatterOptions = CollectiveOptions


def _chosen(name: str, opts: Any, value: Any) -> Any:
    """An option: the keyword's value, or else the second argument, which may also be `CollectiveOptions`."""
    if value is not None:
        return value
    opts = CollectiveOptions() if opts is None else opts
    return getattr(opts, name) if isinstance(opts, CollectiveOptions) else opts


def _one(tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """The tensor. Raises RuntimeError for a list of none or of several."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise RuntimeError(f"a process group's collective requires one tensor, got a list of {len(tensors)}")
    return tensors[0]


def _inner(tensors: Sequence) -> list[Tensor]:
    """A list of tensors, which may be alone in another list."""
    return list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)


def _begin(name: str, *arguments: Any, **options: Any) -> Work:
    """Begin a collective, by its function's name. The functions build on groups, so they are imported here."""
    return getattr(import_module(__package__), name)(*arguments, **options)


class GroupCalls:
    """The methods; `ProcessGroup` inherits them.

    Examples:
        >>> import numod.distributed as dist
        >>> dist.init_process_group("mpi")
        >>> x = numod.ones(2)
        >>> work = dist.group.WORLD.allreduce([x])
        >>> work.wait()
        True
        >>> dist.destroy_process_group()
    """

    def allreduce(self, tensors: Any, opts: Any = None, *, op: ReduceOp | None = None) -> Work:
        """`all_reduce`, with an operation or `AllreduceOptions`."""
        return _begin("all_reduce", _one(tensors), _chosen("reduceOp", opts, op), self, True)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Work:
        """`all_reduce_coalesced`."""
        return _begin("all_reduce_coalesced", tensors, _chosen("reduceOp", opts, None), self, True)

    def broadcast(self, tensors: Any, opts: Any = None, *, root: int | None = None) -> Work:
        """`broadcast` from a rank of the group."""
        return _begin("broadcast", _one(tensors), group=self, async_op=True, group_src=_chosen("rootRank", opts, root))

    def reduce(self, tensors: Any, opts: Any = None, op: ReduceOp | None = None, *, root: int | None = None) -> Work:
        """`reduce` to a rank of the group."""
        combine = _chosen("reduceOp", opts if isinstance(opts, CollectiveOptions) else None, op)
        root = _chosen("rootRank", opts, root)
        return _begin("reduce", _one(tensors), op=combine, group=self, async_op=True, group_dst=root)

    def allgather(self, output_tensors: list, input_tensor: Any, opts: Any = None) -> Work:
        """`all_gather`."""
        return _begin("all_gather", _inner(output_tensors), _one(input_tensor), self, True)

    def allgather_coalesced(self, output_lists: list[list[Tensor]], input_list: list[Tensor], opts: Any = None) -> Work:
        """`all_gather_coalesced`."""
        return _begin("all_gather_coalesced", output_lists, input_list, self, True)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """`all_gather_into_tensor`."""
        return _begin("all_gather_into_tensor", output, input, self, True)

    def gather(self, output_tensors: list, input_tensor: Any, opts: Any = None, *, root: int | None = None) -> Work:
        """`gather` to a rank of the group."""
        root, outputs = _chosen("rootRank", opts, root), _inner(output_tensors) or None
        return _begin("gather", _one(input_tensor), outputs, group=self, async_op=True, group_dst=root)

    def scatter(self, output_tensor: Any, input_tensors: list, opts: Any = None, *, root: int | None = None) -> Work:
        """`scatter` from a rank of the group."""
        root, inputs = _chosen("rootRank", opts, root), _inner(input_tensors) or None
        return _begin("scatter", _one(output_tensor), inputs, group=self, async_op=True, group_src=root)

    def reduce_scatter(
        self, output_tensor: Any, input_tensors: list, opts: Any = None, *, op: ReduceOp | None = None
    ) -> Work:
        """`reduce_scatter`."""
        combine = _chosen("reduceOp", opts, op)
        return _begin("reduce_scatter", _one(output_tensor), _inner(input_tensors), combine, self, True)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """`reduce_scatter_tensor`."""
        return _begin("reduce_scatter_tensor", output, input, _chosen("reduceOp", opts, None), self, True)

    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None) -> Work:
        """`all_to_all`."""
        return _begin("all_to_all", output_tensors, input_tensors, self, True)

    def alltoall_base(
        self, output: Tensor, input: Tensor, output_split_sizes: list, input_split_sizes: list, opts: Any = None
    ) -> Work:
        """`all_to_all_single`."""
        return _begin("all_to_all_single", output, input, output_split_sizes, input_split_sizes, self, True)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> Work:
        """`isend` to a rank of the group."""
        return _begin("isend", _one(tensors), group=self, tag=tag, group_dst=dstRank)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> Work:
        """`irecv` from a rank of the group."""
        return _begin("irecv", _one(tensors), group=self, tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """`irecv` from any rank."""
        return _begin("irecv", _one(tensors), group=self, tag=tag)

    def barrier(self, opts: Any = None) -> Work:
        """`barrier`."""
        return _begin("barrier", self, True)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """`monitored_barrier`."""
        _begin("monitored_barrier", self, timeout, wait_all_ranks)

    _allgather_base, _reduce_scatter_base = all_gather_single, reduce_scatter_single  # PyTorch's older names
    all_to_all_single = alltoall_base
