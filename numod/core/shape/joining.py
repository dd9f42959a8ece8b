"""Tensors joined along a dimension, padded and repeated: argument handling for `ops.index`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ... import dtypes
from ...device import Layout
from ...dtypes import dtype as DType
from ...errors import normalize_dim
from ...ops import table as t
from ...ops.index import concat, pad as ops_pad
from ..apply import apply
from ..arguments import expect_ints
from ..resolve import resolved, whole_number
from ..tensor import Tensor
from .shapes import channels_last_order, in_shape, permute, reshape, unsqueeze

FUNCTIONS = """
    cat stack concat=cat concatenate=cat hstack vstack dstack column_stack row_stack=vstack atleast_1d atleast_2d
    atleast_3d
"""
METHODS = "repeat"
OUT = "cat stack concat concatenate hstack vstack dstack column_stack row_stack"


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors concatenated along a dimension. Empty one-dimensional tensors are skipped, as in PyTorch.

    Example:

        >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
        tensor([1, 2, 3])
    """
    if isinstance(tensors, Tensor):
        raise TypeError("cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element in argument 0, but got {type(tensor).__name__}")
    dim, joined_positions, converted, result_dtype, orders = _joining(dim, *[tensor._layout for tensor in tensors])
    if orders is not None:  # the result has its channels last too
        return permute(cat([permute(tensor, orders[0]) for tensor in tensors], orders[0].index(dim)), orders[1])
    if len(joined_positions) < len(tensors):
        tensors = _without_skipped(tensors, joined_positions, dim)
    if converted:
        tensors = tuple([tensor.to(result_dtype) for tensor in tensors])
    result = apply(concat.cat, tensors, (dim,))
    return result if result._layout.dtype is result_dtype else result.to(result_dtype)


def _without_skipped(tensors: tuple[Tensor, ...], joined_positions: tuple[int, ...], dim: int) -> tuple[Tensor, ...]:
    """The tensors to join.

    Skipped ones that require a gradient get an empty one: they are joined, in a shape that fits.
    """
    shape = list(tensors[joined_positions[0]].shape)
    shape[dim] = 0
    return tuple(
        [
            tensor if k in joined_positions else reshape(tensor, tuple(shape))
            for k, tensor in enumerate(tensors)
            if k in joined_positions or tensor.requires_grad
        ]
    )


@resolved
def _joining(dim: int, *layouts: Layout) -> tuple[int, tuple[int, ...], bool, DType, tuple | None]:
    """(dimension counted from the front, positions of the tensors to join, whether they must be converted first, dtype
    of the result, `channels_last_order`).
    """
    for k, layout in enumerate(layouts):
        if layout.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated; use stack()")
    joined_positions = tuple(k for k, layout in enumerate(layouts) if layout.shape != (0,)) or (0,)
    # skipped tensors still count for the dtype
    result_dtype = dtypes.result_type([layout.dtype for layout in layouts], [], [])
    converted = any(
        layouts[k].dtype is not result_dtype and layouts[k].dtype.compute is not layouts[k].dtype
        for k in joined_positions
    )
    # where all are skipped, any dimension will do
    dim = 0 if layouts[joined_positions[0]].shape == (0,) else normalize_dim(dim, layouts[joined_positions[0]].ndim)
    return dim, joined_positions, converted, result_dtype, channels_last_order(*layouts)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of equal shape concatenated along a new dimension.

    Example:

        >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    if isinstance(tensors, Tensor):
        raise TypeError("stack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first_layout, mixed = tensors[0]._layout, False
    for k, tensor in enumerate(tensors):
        if tensor._layout is not first_layout and tensor.shape != first_layout.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first_layout.shape)} at entry 0 and "
                f"{list(tensor.shape)} at entry {k}"
            )
        mixed |= tensor._layout.dtype is not first_layout.dtype
    if mixed:
        common_dtype = dtypes.result_type([tensor.dtype for tensor in tensors], [], [])
        tensors = tuple([tensor.to(common_dtype) for tensor in tensors])
    return apply(concat.stack, tensors, (normalize_dim(dim, first_layout.ndim + 1),))


def pad_constant(input: Tensor, pad: Sequence[int], value: float = 0.0) -> Tensor:
    """Padded with `value`: pad = (left, right, top, bottom, ...) from the last dimension on; negative sizes crop."""
    before, after = _sides(input._layout, *pad)
    dtype = input._layout.dtype
    kind = {"c": complex, "f": float, "b": bool}.get(dtype.kind, int)
    result = padded(input, before, after, "constant", kind(dtypes.fitting(value, dtype)))
    return result if result is not input else input.clone()


@resolved
def _sides(input_layout: Layout, *pad: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The number of elements to insert before and after each dimension."""
    for number in pad:
        whole_number("pad", "pad", number)
    if len(pad) % 2 or len(pad) > 2 * input_layout.ndim:
        raise RuntimeError(
            "Padding length must be divisible by 2 and at most twice the number of the dimension of the input, got "
            f"{len(pad)} for {input_layout.ndim} dimensions"
        )
    before, after = ((*(0,) * (input_layout.ndim - len(pad) // 2), *pad[-2 + k :: -2]) for k in (0, 1))
    for n, low, high in zip(input_layout.shape, before, after):
        if n + low + high < 0 or n + min(low, 0) < 0 or n + min(high, 0) < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {low} and {high}, resulted in a negative output size"
            )
    return before, after


def padded(input: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: float = 0) -> Tensor:
    """Pad each dimension by these numbers of elements before and after (negative: remove), see `ops.index.pad`."""
    if (orders := channels_last_order(input._layout)) is not None and mode != "circular":
        order, inverse = orders
        sides = [[side[d] for d in order] for side in (before, after)]
        return permute(padded(permute(input, order), *sides, mode, value), inverse)
    for low, high in _paddings(tuple(before), tuple(after)):
        input = apply(
            ops_pad.pad, (input if input._layout.dense else apply(t.row_major, (input,)), value), (low, high, mode)
        )
    return input


@lru_cache(maxsize=1024)
def _paddings(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """`_sides` in steps of at most three dimensions, the limit of the op."""
    steps, changed = [], [d for d in range(len(before)) if before[d] or after[d]]
    while changed:
        step_dims = [d for d in changed if d > changed[-1] - 3]
        steps.append(tuple([tuple(n if d in step_dims else 0 for d, n in enumerate(side)) for side in (before, after)]))
        changed = changed[: -len(step_dims)]
    return steps


def repeat(input: Tensor, *times: int, repeats: Sequence[int] | None = None) -> Tensor:
    """A copy repeated along each dimension (new ones in front).

    Example:

        >>> torch.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = times if repeats is None else (repeats,)
    repeats = tuple(times[0]) if len(times) == 1 and isinstance(times[0], Sequence) else times
    expect_ints("repeat", "repeats", repeats)
    if len(repeats) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(repeats) - input.ndim) + tuple(input.shape)
    spread = input.reshape([m for n in shape for m in (1, n)]).expand(
        [m for k, n in zip(repeats, shape) for m in (k, n)]
    )
    return in_shape(apply(t.row_major, (spread,)), *[k * n for k, n in zip(repeats, shape)])


def unpacked(tensors: tuple) -> list[Tensor]:
    """The tensors as a list; a single argument may be a sequence of them."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def _same_kind(tensors: tuple, results: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
    return results[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(results)


def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Scalars as vectors of one element; other tensors unchanged.

    Example:

        >>> torch.atleast_1d(torch.tensor(3.0))
        tensor([3.])
    """
    return _same_kind(tensors, [reshape(tensor, 1) if not tensor.ndim else tensor for tensor in unpacked(tensors)])


def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Scalars and vectors as a row of a matrix; other tensors unchanged.

    Example:

        >>> torch.atleast_2d(torch.tensor([1.0, 2.0])).shape
        numod.Size([1, 2])
    """
    return _same_kind(
        tensors,
        [
            reshape(tensor, (1, -1)) if not tensor.ndim else unsqueeze(tensor, 0) if tensor.ndim == 1 else tensor
            for tensor in unpacked(tensors)
        ],
    )


def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Scalars as (1, 1, 1), vectors as (1, n, 1), matrices as (m, n, 1); other tensors unchanged.

    Example:

        >>> torch.atleast_3d(torch.tensor([1.0, 2.0])).shape
        numod.Size([1, 2, 1])
    """
    return _same_kind(
        tensors, [tensor if tensor.ndim > 2 else unsqueeze(atleast_2d(tensor), -1) for tensor in unpacked(tensors)]
    )


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 1, vectors along 0.

    Example:

        >>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
        tensor([1, 2, 3])
    """
    parts = _converted("hstack", tensors, atleast_1d)
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 0, vectors as rows.

    Example:

        >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    return cat(_converted("vstack", tensors, atleast_2d), 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 2.

    Example:

        >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])]).shape
        numod.Size([1, 2, 2])
    """
    return cat(_converted("dstack", tensors, atleast_3d), 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 1, scalars and vectors as columns.

    Example:

        >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 3],
                [2, 4]])
    """
    return hstack(
        _converted(
            "column_stack", tensors, lambda tensor: reshape(tensor, (tensor.numel(), 1)) if tensor.ndim <= 1 else tensor
        )
    )


def _converted(name: str, tensors: Sequence[Tensor], convert: object) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor; did you mean [tensor]?"
        )
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [convert(tensor) for tensor in tensors]
