"""Broadcasting of parameters, conversion between probabilities and logits, and cached properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..autograd import enable_grad
from ..core import Tensor, tensor, functions as f
from ..core.create.random import randn


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of a common shape; numbers get the tensors' dtype."""
    like = next((value for value in values if isinstance(value, Tensor)), None)
    if like is None:
        dtype = dtypes.get_default_dtype()
    elif like.is_floating_point():
        dtype = like.dtype
    else:
        dtype = dtypes.get_default_dtype()
    if any(not isinstance(value, (Tensor, int, float)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    tensors = [
        value
        if isinstance(value, Tensor)
        else tensor(float(value), dtype=dtype, device=None if like is None else like.device)
        for value in values
    ]
    return tuple(f.broadcast_tensors(*tensors))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert logits to probabilities: a sigmoid, or a softmax along the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Convert probabilities, clamped away from 0 and 1 by the dtype's eps, to logits."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """An attribute that is computed on first use and then cached."""

    def __init__(self, function: Any) -> None:
        self.function, self.__doc__, self.name = function, function.__doc__, function.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():  # the first use may be under no_grad, but later uses need the gradient
            value = self.function(instance)
        instance.__dict__[self.name] = value
        return value


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities clamped away from 0 and 1 by the dtype's eps."""
    eps = dtypes.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dimensions."""
    return value.flatten(-dims).sum(-1) if dims > 0 else value


_sum_rightmost = sum_rightmost  # PyTorch's name


def _standard_normal(shape: Sequence[int], dtype: dtypes.dtype | None, device: Any) -> Tensor:
    """Normally distributed numbers; other libraries' distributions call this."""
    return randn(shape, dtype=dtype, device=device)
