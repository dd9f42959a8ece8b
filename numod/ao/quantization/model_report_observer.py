"""The observer of `ModelReport`: ranges of batches, channels and all data, and outliers."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core import Tensor, tensor, zeros
from .observer import ObserverBase

__all__ = ["ModelReportObserver"]

_OF_AN_EPOCH = (
    "epoch_activation_min", "epoch_activation_max", "min_val", "max_val", "average_percentile_ratio",
    "percentile_batches_tracked", "constant_channels",
)  # fmt: skip


class ModelReportObserver(ObserverBase):
    """Notes what the detectors of `ModelReport` need, and returns its input.

    For each channel (`ch_axis`): the range, the mean ratio of the maximum to the quantile `comp_percentile` over the
    batches where these are not both 0 (`average_percentile_ratio`, `percentile_batches_tracked`), and the number of
    batches in which the channel is constant (`constant_channels`).

    Example:

        >>> from numod.ao.quantization.fx._model_report.model_report_observer import ModelReportObserver
        >>> observer = ModelReportObserver()
        >>> _ = observer(torch.tensor([[0.0, 1.0], [2.0, 3.0]])), observer(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))
        >>> observer.get_batch_to_epoch_ratio()  # the mean range of a batch: (3 + 1) / 2, that of all: 3
        tensor(0.6667)
    """

    def __init__(self, ch_axis: int = 1, comp_percentile: float = 0.9) -> None:
        super().__init__(dtypes.qint8)
        self.ch_axis = ch_axis
        for name in _OF_AN_EPOCH:
            self.register_buffer(name, tensor([]))
        self.register_buffer("comp_percentile", tensor([float(comp_percentile)]))
        self.reset_batch_and_epoch_values()

    def reset_batch_and_epoch_values(self) -> None:
        """Forget all data."""
        device = self.comp_percentile.device
        self.num_batches_tracked = 0
        self.average_batch_activation_range = tensor(0.0, device=device)
        for name in _OF_AN_EPOCH:
            setattr(self, name, tensor([], device=device))
        self.epoch_activation_min = tensor(float("inf"), device=device)
        self.epoch_activation_max = tensor(float("-inf"), device=device)

    def forward(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.numel():
            return x
        values = x.detach().to(self.comp_percentile.dtype)
        self._note_range(values)
        if x.ndim <= self.ch_axis:
            return x  # without channels
        channels = values.transpose(0, self.ch_axis).flatten(1)
        self._note_channels(channels)
        self._note_outliers(channels)
        return x

    def _note_range(self, values: Tensor) -> None:
        low, high = values.aminmax()
        self.epoch_activation_min = self.epoch_activation_min.minimum(low)
        self.epoch_activation_max = self.epoch_activation_max.maximum(high)
        count = self.num_batches_tracked
        self.average_batch_activation_range = (self.average_batch_activation_range * count + (high - low)) / (count + 1)
        self.num_batches_tracked += 1

    def _note_channels(self, channels: Tensor) -> None:
        low, high = channels.aminmax(dim=1)
        if self.min_val.numel():
            low, high = low.minimum(self.min_val), high.maximum(self.max_val)
        self.min_val, self.max_val = low, high

    def _note_outliers(self, channels: Tensor) -> None:
        quantiles = tensor([0.0, self.comp_percentile.item(), 1.0], dtype=channels.dtype, device=channels.device)
        low, middle, high = channels.quantile(quantiles, dim=1, interpolation="lower")
        counts = ((middle != 0) | (high != 0)).int()
        if not self.percentile_batches_tracked.numel():
            self.percentile_batches_tracked = zeros(len(counts), dtype=dtypes.int32, device=channels.device)
            self.constant_channels = zeros(len(counts), dtype=dtypes.int32, device=channels.device)
            self.average_percentile_ratio = zeros(len(counts), device=channels.device)
        total = self.average_percentile_ratio * self.percentile_batches_tracked + counts * (high / middle).nan_to_num()
        self.percentile_batches_tracked = self.percentile_batches_tracked + counts
        self.average_percentile_ratio = (total / self.percentile_batches_tracked).nan_to_num()
        self.constant_channels = self.constant_channels + (high == low).int()

    def get_batch_to_epoch_ratio(self) -> Tensor:
        """The mean range of a batch divided by the range of all data: near 1 where batches are alike."""
        whole = self.epoch_activation_max - self.epoch_activation_min
        if whole == 0:
            raise ValueError("Range for Epoch is 0")
        if not whole.isfinite():
            raise ValueError("No data has been run through observer or infinity value present")
        return self.average_batch_activation_range / whole
