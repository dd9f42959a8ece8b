"""How losses are reduced: "mean", "sum" or "none", and the older spelling of that, which every loss still takes by name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

from ...core import functions as f
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


def reduction_of(size_average: bool | None, reduce: bool | None) -> str:
    """What `size_average` and `reduce` mean today, with a warning."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=4)
    return reduction


def with_legacy(loss: Callable) -> Callable:
    """A loss that also takes `size_average` and `reduce`, by name."""

    @functools.wraps(loss)
    def function(*arguments: object, size_average: bool | None = None, reduce: bool | None = None, **named: object) -> Tensor:
        if size_average is not None or reduce is not None:
            named["reduction"] = reduction_of(size_average, reduce)
        return loss(*arguments, **named)

    return function
