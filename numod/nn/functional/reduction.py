"""Reduction of losses, "mean", "sum" or "none", and the deprecated arguments `size_average` and `reduce`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...errors import warn_caller
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


def expect_expandable(tensor: Tensor, input: Tensor) -> None:
    """Raise RuntimeError unless a weight or target broadcasts to the input's shape.

    Otherwise the loss would have more elements than the input.
    """
    shape = f.broadcast_shapes(tensor.shape, input.shape)
    if shape != input.shape:
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(shape)}; give it the "
            "input's dimensions"
        )


def reduction_of(size_average: bool | None, reduce: bool | None) -> str:
    """The `reduction` that is equivalent to the deprecated `size_average` and `reduce`, with a warning."""
    for value in (size_average, reduce):
        if isinstance(value, Tensor):
            raise RuntimeError(
                "size_average and reduce must be bool, not Tensor: a loss module takes its options first and then its "
                "inputs, as in loss = nn.MSELoss(); loss(input, target)"
            )
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn_caller(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    return reduction


def with_deprecated_reduction(loss: Callable, before: str = "reduction") -> Callable:
    """Decorator that adds the deprecated `size_average` and `reduce` at PyTorch's positions.

    The first precedes parameter `before`, the second precedes `reduction`.
    """
    first = loss.__code__.co_varnames.index(before)

    @functools.wraps(loss)
    def function(*arguments: object, **kwargs: object) -> Tensor:
        if len(arguments) > first:
            kwargs = signatures.of(function).bind(*arguments, **kwargs).arguments
            arguments = ()
        size_average, reduce = kwargs.pop("size_average", None), kwargs.pop("reduce", None)
        if size_average is not None or reduce is not None:
            kwargs["reduction"] = reduction_of(size_average, reduce)
        if kwargs.get("reduction", "mean") not in ("mean", "sum", "none", "batchmean"):
            raise ValueError(f"{kwargs['reduction']} is not a valid value for reduction")
        return loss(*arguments, **kwargs)

    return function
