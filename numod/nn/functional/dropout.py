"""Dropout: elements or whole channels are set to 0, or to SELU's lower limit, at random in training."""

from __future__ import annotations

from math import sqrt

from ...errors import warn_caller
from ...core import functions as f
from ...core.create import random
from ...core.tensor import Tensor
from ...ops import table as t

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]
_ALPHA = -1.7580993408473766  # the value of a dropped element: -scale * alpha of SELU


def _check(input: Tensor, p: float) -> None:
    if not isinstance(input, Tensor):
        raise TypeError("dropout: the input must be a Tensor")
    if not 0.0 <= p <= 1.0:
        error = RuntimeError if p != p else ValueError  # PyTorch finds NaN in C++
        raise error(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zero each element with probability p and divide the others by 1 - p.

    Srivastava et al., 2014.

    Example:

        >>> F.dropout(torch.ones(3), p=0.5, training=False)
        tensor([1., 1., 1.])
    """
    _check(input, p)
    if not training or p == 0.0:
        return input
    result = _dropped(input, p * 1.0)
    return f.copy_(input, result) if inplace else result


def _dropped(input: Tensor, p: float) -> Tensor:
    """Dropout whose result has the memory order of the input."""
    if (orders := f.memory_order(input._layout)) is not None:
        order, back = orders
        return f.permute(t.dropout(f.contiguous(f.permute(input, *order)), p, *random.draw_for(input)), *back)
    return t.dropout(f.contiguous(input), p, *random.draw_for(input))


def _channel_mask(input: Tensor, p: float) -> Tensor:
    """A mask over the first two dimensions: 1 with probability 1 - p, otherwise 0."""
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return (random.rand(shape, dtype=input.dtype, device=input.device) >= p).to(input.dtype)


def _expect_channels(input: Tensor) -> None:
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")


def _channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if not training or p == 0.0:
        return input
    _expect_channels(input)
    result = input * (_channel_mask(input, p) / (1.0 - p) if p < 1.0 else 0.0)
    return f.copy_(input, result) if inplace else result


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, L) or (C, L).

    Example:

        >>> F.dropout1d(torch.ones(1, 2, 3), 0.5, training=False).shape
        numod.Size([1, 2, 3])
    """
    _check(input, p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension"
        )
    return (
        _channels(input, p, training, inplace)
        if input.ndim == 3
        else _channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    )


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, H, W). Tompson et al., 2015.

    Example:

        >>> F.dropout2d(torch.ones(1, 2, 3, 3), 0.5, training=False).shape
        numod.Size([1, 2, 3, 3])
    """
    _check(input, p)
    if input.ndim not in (3, 4):
        warn_caller(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated and will result in an "
            "error in a future release."
        )
    elif input.ndim == 3:
        warn_caller(
            "dropout2d: Received a 3-D input, which is treated as (N, C, L), not as (C, H, W); use dropout1d for it "
            "to avoid this warning."
        )
    return _channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W).

    Example:

        >>> F.dropout3d(torch.ones(1, 2, 3, 3, 3), 0.5, training=False).shape
        numod.Size([1, 2, 3, 3, 3])
    """
    _check(input, p)
    if input.ndim not in (4, 5):
        warn_caller(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated and will result in an "
            "error in a future release."
        )
    return (
        _channels(input, p, training, inplace)
        if input.ndim != 4
        else _channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    )


def _alpha(input: Tensor, mask: Tensor, p: float, inplace: bool) -> Tensor:
    """Set dropped elements to SELU's lower limit, and rescale all to mean 0 and variance 1."""
    if p == 1.0:
        result = input * 0.0
    else:
        scale = 1.0 / sqrt((_ALPHA * _ALPHA * p + 1.0) * (1.0 - p))
        result = (input * mask + _ALPHA * (1.0 - mask)) * scale - scale * p * _ALPHA
    return f.copy_(input, result) if inplace else result


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that preserves the mean and variance of SELU networks. Klambauer et al., 2017.

    Example:

        >>> F.alpha_dropout(torch.ones(3), 0.5, training=False)
        tensor([1., 1., 1.])
    """
    _check(input, p)
    if not training or p == 0.0:
        return input
    return _alpha(input, (random.rand_like(input) >= p).to(input.dtype), p, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Alpha dropout of whole channels.

    Example:

        >>> F.feature_alpha_dropout(torch.ones(1, 2, 1), 0.5, training=False)
        tensor([[[1.],
                 [1.]]])
    """
    _check(input, p)
    if not training or p == 0.0:
        return input
    _expect_channels(input)
    return _alpha(input, _channel_mask(input, p), p, inplace)
