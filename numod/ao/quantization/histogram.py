"""HistogramObserver: the range that quantizes a histogram of the values with the least squared error."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import warn_caller
from ... import dtypes
from ...core import Tensor, tensor, zeros
from ...core.quantized import per_tensor_affine, qscheme
from .observer import EPS, UniformQuantizationObserverBase

_UPSAMPLING = 16  # parts of a bin when a histogram is stretched over a wider range
_STEP = 1e-5  # share of the values that a step of the search leaves out


class HistogramObserver(UniformQuantizationObserverBase):
    """Records a histogram, and chooses the range by a search that leaves out values at the ends."""

    __module__ = f"{__package__}.observer"  # where PyTorch has it

    histogram: Tensor
    min_val: Tensor
    max_val: Tensor
    _may_be_dynamic = False

    def __init__(
        self,
        bins: int = 2048,
        dtype: dtypes.dtype = dtypes.quint8,
        qscheme: qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.bins = bins
        self.register_buffer("histogram", zeros(bins, **(factory_kwargs or {})))
        self.register_buffer("min_val", tensor(float("inf"), **(factory_kwargs or {})))
        self.register_buffer("max_val", tensor(float("-inf"), **(factory_kwargs or {})))
        self.dst_nbins = 2 ** (8 * getattr(dtype, "itemsize", 1))
        self.upsample_rate = _UPSAMPLING

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().float()
        low, high = x.aminmax()
        if low.item() == -float("inf") or high.item() == float("inf"):
            warn_caller("torch.inf detected in input tensor, ignoring input")
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = x.aminmax()
        if self.min_val.item() != float("inf") and self.max_val.item() != float("-inf"):
            low, high = low.minimum(self.min_val), high.maximum(self.max_val)
            update = x.histc(self.bins, low.item(), high.item())
            self.histogram.copy_(self._stretched(low, high) + update)
        else:
            self.histogram.copy_(x.histc(self.bins, low.item(), high.item()))
        self.min_val.copy_(low)
        self.max_val.copy_(high)
        return x_orig

    def _stretched(self, low: Tensor, high: Tensor) -> Tensor:
        """The histogram over the wider range [low, high]."""
        if low.equal(self.min_val) and high.equal(self.max_val):
            return self.histogram
        if self.min_val.equal(self.max_val):
            single = self.min_val.reshape(1).histc(self.bins, low.item(), high.item())
            return single * self.histogram.sum()
        counts = self.histogram.numpy().repeat(_UPSAMPLING) / np.float32(_UPSAMPLING)
        old_low, old_high, low, high = (np.float32(bound.item()) for bound in (self.min_val, self.max_val, low, high))
        count = self.bins * _UPSAMPLING
        half = np.float32(0.5) * ((old_high - old_low) / np.float32(count))
        middles = _linspace(old_low, old_high, count + 1)[:-1] + half
        boundaries = _linspace(low, high, self.bins + 1)
        places = np.clip(np.searchsorted(boundaries, middles, side="right") - 1, 0, self.bins - 1)
        return tensor(np.bincount(places, weights=counts, minlength=self.bins).astype(np.float32))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point of the best range."""
        if not self._was_calibrated(self.min_val, self.max_val):
            return tensor([1.0]), tensor([0])
        if len(self.histogram) != self.bins:
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins supplied while making this "
                "observer"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        """Leave out values at the end with fewer of them per bin, as long as the error shrinks."""
        histogram = self.histogram.numpy()
        width = (self.max_val - self.min_val) / self.bins
        total, sums = float(self.histogram.sum()), self.histogram.cumsum(0).numpy()
        alpha, beta, first, last, least = 0.0, 1.0, 0, self.bins - 1, float("inf")
        while alpha < beta:
            next_alpha, next_beta = alpha + _STEP, beta - _STEP
            left, right = first, last
            while left < last and sums[left] < np.float32(next_alpha * total):
                left += 1
            while right > first and sums[right] > np.float32(next_beta * total):
                right -= 1
            next_first, next_last = first, last
            if left - first > last - right:
                next_first, alpha = left, next_alpha
            else:
                next_last, beta = right, next_beta
            if (next_first, next_last) == (first, last):
                continue
            error = self._error(histogram, next_first, next_last)
            if error > least:
                break
            least, first, last = error, next_first, next_last
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _error(self, histogram: np.ndarray, first: int, last: int) -> float:
        """The squared error of quantizing the histogram with the range of bins `first` to `last`.

        The values of a bin are taken as spread evenly; each is rounded to the middle of a target bin.
        """
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        target = width * (last - first + 1) / self.dst_nbins
        if target == 0.0:
            return 0.0
        f32, highest = np.float32, self.dst_nbins - 1
        begin = (np.arange(self.bins) - first).astype(f32) * f32(width)
        end = begin + f32(width)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            first_target, last_target = (np.clip(np.floor(bins / f32(target)), 0, highest) for bins in (begin, end))
            density = histogram / f32(width)
            half = f32(target / 2)
            error = _norm(begin - (first_target + f32(0.5)) * f32(target), half, density)
            error += (last_target - first_target - 1) * _norm(-half, half, density)
            error += _norm(-half, end - (last_target * f32(target) + half), density)
            return float(tensor(error).sum())

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


def _norm(begin: np.ndarray, end: np.ndarray, density: np.ndarray) -> np.ndarray:
    """The integral of the squared distance to a middle from `begin` to `end`."""
    return density * ((end * end * end - begin * begin * begin) / np.float32(3))


def _linspace(low: np.float32, high: np.float32, count: int) -> np.ndarray:
    """As numod.linspace, from both ends."""
    step = (high - low) / np.float32(count - 1)
    steps = np.arange(count, dtype=np.float32)
    return np.where(steps < count // 2, low + step * steps, high - step * (np.float32(count - 1) - steps))
