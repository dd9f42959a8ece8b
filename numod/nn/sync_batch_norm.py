"""SyncBatchNorm: batch normalisation with the statistics of all ranks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..autograd import no_grad
from ..core.create.creation import full
from ..core.shape.joining import cat
from ..core.tensor import Tensor
from . import normalization
from .module import Module
from .normalization import _BatchNorm

if TYPE_CHECKING:
    from ..distributed.group import ProcessGroup

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of any (N, C, ...) by the statistics of all ranks' batches.

    In evaluation, and without a process group of several ranks, it is the same as BatchNorm.

    Example:

        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3))
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        group = self._group()
        if group is None or group.size() == 1 or not self.training:  # one rank may evaluate alone
            return super().forward(input)
        self._check_input_dim(input)
        factor = self._count_batch()
        mean, variance, normalized, count = _statistics(input, self.eps, group)
        if self.track_running_stats and self.running_mean is not None:
            with no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                unbiased = variance * (count / (count - 1.0))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)
        return _scaled(normalized, self.weight, self.bias).to(input.dtype)

    def _group(self) -> Any:
        """The process group; None where there is none."""
        if self.process_group is not None:
            return self.process_group
        groups = sys.modules.get("numod.distributed.group")
        return None if groups is None else groups.group.WORLD

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with its batch norms replaced by SyncBatchNorm, with the same parameters and statistics."""
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            result._parameters.update(module._parameters)
            result._buffers.update(module._buffers)
            result.training = module.training
            if hasattr(module, "qconfig"):
                result.qconfig = module.qconfig
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


normalization.SyncBatchNorm = SyncBatchNorm  # PyTorch's file `nn.modules.batchnorm` has it


def _statistics(input: Tensor, eps: float, group: ProcessGroup) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(mean (C,), variance (C,), the normalised input, the number of elements per channel (1,)) over all ranks.

    The mean comes first, so that the variance is a sum of squares of small numbers. 16-bit floats are computed in
    float32. Gradients flow through the sums of all ranks.
    """
    from ..distributed.functional import sum_over_ranks

    x = input.float() if input.dtype.itemsize == 2 else input
    others = [dim for dim in range(x.ndim) if dim != 1]
    local_count = full((1,), x.numel() // x.shape[1], dtype=x.dtype, device=x.device)
    totals = sum_over_ranks(cat([x.sum(others), local_count]), group)
    count = totals[-1:].detach()
    mean = totals[:-1] / count
    centred = x - _as_channels(mean, x.ndim)
    variance = sum_over_ranks((centred * centred).sum(others), group) / count
    return mean, variance, centred * _as_channels((variance + eps).rsqrt(), x.ndim), count


def _as_channels(values: Tensor, ndim: int) -> Tensor:
    """(C,) as (1, C, 1, ...)."""
    return values.reshape(1, -1, *[1] * (ndim - 2))


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * _as_channels(weight, x.ndim)
    return x if bias is None else x + _as_channels(bias, x.ndim)
