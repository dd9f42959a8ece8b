"""Ranges for integers of few bits, found by a search for the least error: outliers are cut off where that pays."""

from __future__ import annotations

import numpy as np

from ..create.values import as_tensor
from ..derived import data_of
from ..tensor import Tensor


def choose_qparams_optimized(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> tuple[Tensor, Tensor]:
    """The greatest and the least value of a range for integers of `bit_width`, for the first `numel` elements.

    The range is narrowed from both ends in steps of a bin while more than `ratio` of the bins would be left out.

    Example:

        >>> x = torch.tensor([0.0, 0.1, 0.2, 0.3, 5.0])
        >>> high, low = torch.choose_qparams_optimized(x, 5, 200, 0.16, 4)
        >>> bool(low >= 0) and bool(high <= 5)
        True
    """
    if not 0 < numel <= input.numel():
        raise RuntimeError(
            f"numel is out of the bound of input tensor: expected 1 to {input.numel()} elements, got {numel}"
        )
    values = data_of(input.detach().float().contiguous()).reshape(-1)[:numel]
    low, high = best_range(values, n_bins, ratio, bit_width)
    return as_tensor([float(high)]), as_tensor([float(low)])


def best_range(values: np.ndarray, bins: int, ratio: float, bits: int) -> tuple[np.float32, np.float32]:
    """The ends of the range with the least rounding error among those that the search visits."""
    low, high = best = values.min(), values.max()
    step = np.float32((high - low) / np.float32(bins))
    narrowest = np.float32(int(np.float32(bins) * (np.float32(1) - np.float32(ratio)))) * step
    loss = least = _loss(values, low, high, bits)
    while low + narrowest < high and low < low + step and high - step < high:  # the steps of a tiny range may be lost
        without_low, without_high = _loss(values, low + step, high, bits), _loss(values, low, high - step, bits)
        if loss < without_low and loss < without_high and loss < least:
            least, best = loss, (low, high)
        if without_low < without_high:
            low, loss = low + step, without_low
        else:
            high, loss = high - step, without_high
    return best


def _loss(values: np.ndarray, low: np.float32, high: np.float32, bits: int) -> np.float32:
    """The norm of the rounding errors; the scale and the lowest value are rounded to float16, as they are stored."""
    with np.errstate(all="ignore"):
        low, last = np.float32(np.float16(low)), np.float32(2**bits - 1)
        span = high - low
        scale = np.float32(1) if span == 0 else np.float32(np.float16(span / last))
        inverse = np.float32(1) if scale == 0 else np.float32(1) / scale
        integers = np.clip(np.rint((values - low) * inverse), 0, last)
        return np.sqrt(np.sum((values - (integers * scale + low)) ** 2, dtype=np.float32))
