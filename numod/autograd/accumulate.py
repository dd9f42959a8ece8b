"""Add a gradient to `.grad` of a tensor, without a copy where its memory is not shared."""

from __future__ import annotations

from sys import getrefcount

from ..core.apply import apply, state
from ..core.tensor import Tensor, wrap
from ..device import Layout
from ..ops import table


def accumulate(leaf: Tensor, gradient: Tensor, shared_storages: set[int]) -> None:
    """Add a gradient to `leaf.grad`. The first one is stored itself unless its memory is shared, else copied."""
    if leaf._grad_dtype is not None and leaf._grad_dtype[0] is not None:
        gradient = gradient.to(leaf._grad_dtype[0])
    if leaf._grad is not None:
        leaf._grad = leaf._grad + gradient if state.grad_enabled or state.vmap_depth else leaf._grad.add_(gradient)
        return
    if not state.grad_enabled:
        leaf_layout, storage = leaf._layout, gradient._storage
        in_order = (
            gradient._layout.dense
            if leaf_layout.dense or not leaf_layout.packed
            else gradient._layout.strides == leaf_layout.strides
        )
        if not in_order or id(storage) in shared_storages:
            gradient = _copy_in_layout(gradient, leaf_layout)
        elif gradient._base is not None:
            gradient = wrap(storage, gradient._layout, 0) if _covers_storage(gradient) else gradient.clone()
        shared_storages.add(id(gradient._storage))
    leaf._grad = gradient


def _copy_in_layout(gradient: Tensor, leaf_layout: Layout) -> Tensor:
    """A copy with the leaf's strides, as in PyTorch; row-major if the leaf has gaps."""
    if leaf_layout.dense or not leaf_layout.packed:
        return gradient.clone() if gradient._layout.dense else gradient.contiguous()
    return apply(
        table.fill, (0,), (gradient.dtype, gradient.device, tuple(leaf_layout.shape), leaf_layout.strides)
    ).copy_(gradient)


def _covers_storage(view: Tensor) -> bool:
    """Whether a dense view covers all of its storage, and only the view refers to its base and storage.

    Then the view does not need its base.
    """
    # one reference is the argument of `getrefcount`, one more to the storage is in `accumulate`
    return (
        view._layout.size == view._storage.data.size
        and getrefcount(view._base) <= 2
        and getrefcount(view._storage) <= 4
    )
