"""Reduction of losses, "mean", "sum" or "none", and the deprecated arguments for it, which most losses still take."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

from ...core import functions as f, signatures
from ...core.tensor import Tensor


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss per element, its sum, or its mean. Raises ValueError for another `reduction`."""
    if reduction == "mean":
        return f.mean(loss)
    if reduction == "sum":
        return f.sum(loss)
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss


def expect_expandable(each: Tensor, input: Tensor) -> None:
    """Raise RuntimeError unless a weight or target broadcasts to the input's shape; a greater one would make a loss of
    more elements than the input has.
    """
    shape = f.broadcast_shapes(each.shape, input.shape)
    if shape != input.shape:
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(shape)}; give it the "
            "input's dimensions"
        )


def reduction_of(size_average: bool | None, reduce: bool | None) -> str:
    """The `reduction` that the deprecated `size_average` and `reduce` stand for, with a warning."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=4
    )
    return reduction


def with_legacy(loss: Callable, before: str = "reduction") -> Callable:
    """Decorator that adds `size_average` and `reduce` at PyTorch's positions: the first precedes parameter `before`,
    the second `reduction`.
    """
    first = loss.__code__.co_varnames.index(before)

    @functools.wraps(loss)
    def function(*arguments: object, **named: object) -> Tensor:
        if len(arguments) > first:
            named = signatures.of(function).bind(*arguments, **named).arguments
            arguments = ()
        size_average, reduce = named.pop("size_average", None), named.pop("reduce", None)
        if size_average is not None or reduce is not None:
            named["reduction"] = reduction_of(size_average, reduce)
        if named.get("reduction", "mean") not in ("mean", "sum", "none", "batchmean"):
            raise ValueError(f"{named['reduction']} is not a valid value for reduction")
        return loss(*arguments, **named)

    return function
