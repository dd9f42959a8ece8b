"""Checks of the collectives' arguments, with PyTorch's errors."""

from __future__ import annotations

from typing import Any

from ..errors import warn_caller
from ..core.tensor import Tensor
from .group import ProcessGroup, default_group, get_group_rank, is_member


def check_tensor(value: object, name: str) -> None:
    """Raise TypeError if the value is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type numod.Tensor\n"
            f"             but got {type(value)} instead."
        )


def check_tensors(values: object, name: str) -> None:
    """Raise TypeError if the value is not a list of tensors."""
    if not isinstance(values, list) or not all(isinstance(value, Tensor) for value in values):
        kinds = (
            f" with elements of type {[type(value) for value in values]}" if isinstance(values, list) else " instead"
        )
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[numod.Tensor]\n"
            f"             but got {type(values)}{kinds}."
        )


def check_same_dtype(*tensors: Tensor) -> None:
    """Raise ValueError for tensors of several dtypes."""
    for tensor in tensors:
        if tensor.dtype is not tensors[0].dtype:
            raise ValueError(f"Invalid usage of tensors with different dtypes: {tensors[0].dtype} and {tensor.dtype}")


def check_parts(tensors: list[Tensor], like: Tensor, count: int, name: str) -> None:
    """Raise RuntimeError unless there is one tensor of the shape of `like` for each rank, ValueError for dtypes."""
    if len(tensors) != count:
        raise RuntimeError(f"{name}: expected a list of {count} tensors, one for each rank, got {len(tensors)}")
    for k, tensor in enumerate(tensors):
        if tensor.shape != like.shape:
            raise RuntimeError(
                f"{name}: invalid tensor size at index {k} (expected {tuple(like.shape)}, got {tuple(tensor.shape)})"
            )
    check_same_dtype(like, *tensors)


def member_group(group: ProcessGroup | int | None, name: str) -> ProcessGroup | None:
    """The group, the default one for None; None with a warning for a rank outside the group."""
    group = default_group(group)
    if is_member(group):
        return group
    warn_caller(f"Running {name} on global rank {default_group().group_rank} which does not belong to the given group.")
    return None


def root_of(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str, default: int | None = 0) -> int:
    """A rank of the group as its number in it, from `rank` among all or from `group_rank`.

    Raises ValueError where both are given, or neither and there is no default, or the rank is not in the group.
    """
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: Can't specify both group_rank and global_rank")
    if rank is None and group_rank is None:
        if default is None:
            raise ValueError(f"{name}: Must specify global_rank or group_rank")
        rank = default
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"{name}: invalid root rank: {group_rank}")
        return int(group_rank)
    if rank not in group.ranks:
        raise ValueError(f"{name}: invalid root rank: {rank}; the group has the ranks {group.ranks}")
    return get_group_rank(group, rank)


def other_rank(group: ProcessGroup, rank: int | None, group_rank: int | None, role: str) -> int:
    """Like `root_of` for the other end of a message. Raises ValueError for this process's own rank."""
    number = root_of(group, rank, group_rank, role, None)
    if number == group.group_rank:
        raise ValueError(f"Invalid {role} rank: {role} rank should not be the same as the rank of the current process.")
    return number


def sizes(splits: Any, total: int, count: int) -> list[int]:
    """The split sizes of `all_to_all_single`: equal ones by default. Raises RuntimeError if they do not fit."""
    if not splits:
        if total % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [total // count] * count
    if len(splits) != count:
        raise RuntimeError(f"Number of tensor splits not equal to group size: {len(splits)} for {count} ranks")
    if sum(splits) != total:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [int(size) for size in splits]
