"""Fused layers for training: the batch norm is part of the weight that is rounded, as it will be after `convert`."""

from __future__ import annotations

from typing import Any

from .....core import Tensor, zeros
from .....nn import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d as _Conv1d,
    Conv2d as _Conv2d,
    Conv3d as _Conv3d,
    Linear as _Linear,
    Module,
    Parameter,
)
from .....nn import functional as F
from .....nn.utils.parametrize import type_before_parametrizations as kind_of
from .....nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights
from ... import qat
from ...qat import QATModule, expect_qconfig, with_rounding
from .. import (
    Fused,
    ConvBn1d as _ConvBn1d,
    ConvBn2d as _ConvBn2d,
    ConvBn3d as _ConvBn3d,
    ConvBnReLU1d as _ConvBnReLU1d,
    ConvBnReLU2d as _ConvBnReLU2d,
    ConvBnReLU3d as _ConvBnReLU3d,
    ConvReLU1d as _ConvReLU1d,
    ConvReLU2d as _ConvReLU2d,
    ConvReLU3d as _ConvReLU3d,
    LinearBn1d as _LinearBn1d,
    LinearReLU as _LinearReLU,
    _FusedModule,
)

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "LinearBn1d", "LinearReLU", "freeze_bn_stats", "update_bn_stats",
]  # fmt: skip


class _Fused(Fused, QATModule):
    """Base of a layer for training that replaces several. `_then_relu`: whether a ReLU is the last of them."""

    _then_relu = False

    def forward(self, input: Tensor) -> Tensor:
        result = super().forward(input)
        return F.relu(result) if self._then_relu else result


class LinearReLU(_Fused, qat.Linear):
    """Linear and ReLU with a rounded weight."""

    _FLOAT_MODULE, _then_relu = _LinearReLU, True


class ConvReLU1d(_Fused, qat.Conv1d):
    """Conv1d and ReLU with a rounded weight."""

    _FLOAT_MODULE, _then_relu = _ConvReLU1d, True


class ConvReLU2d(_Fused, qat.Conv2d):
    """Conv2d and ReLU with a rounded weight."""

    _FLOAT_MODULE, _then_relu = _ConvReLU2d, True


class ConvReLU3d(_Fused, qat.Conv3d):
    """Conv3d and ReLU with a rounded weight."""

    _FLOAT_MODULE, _then_relu = _ConvReLU3d, True


class _WithBatchNorm(_Fused):
    """A layer whose rounded weight is w * gamma / running_std. Its result is divided by gamma / running_std, so that
    the input of the batch norm has the same scale as without rounding. Where gamma is 0, it counts as 1 there.
    """

    bn: Module
    freeze_bn = False
    _norm: type[Module]

    def _add(self, features: int, eps: float, momentum: float, freeze_bn: bool, qconfig: Any) -> None:
        """Add the batch norm and the rounding to a new layer."""
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig, self.bn, self.weight_fake_quant = qconfig, self._norm(features, eps, momentum), qconfig.weight()
        self.freeze_bn = freeze_bn if self.training else True
        if self.freeze_bn:
            self.freeze_bn_stats()

    @classmethod
    def from_float(cls, mod: _FusedModule, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer for training: it has the float layers' parameters."""
        if kind_of(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        expect_qconfig(mod)
        result = with_rounding(cls, mod[0], mod.qconfig)
        rounding = result.weight_fake_quant
        del result.weight_fake_quant
        result.bn, result.weight_fake_quant = mod[1], rounding
        result.freeze_bn = not mod.training
        if getattr(result.bn, "qconfig", None) is not None:
            del result.bn.qconfig
        return result

    def _factors(self) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
        ones = [1] * (self.weight.ndim - 1)
        gamma = self.bn.weight.masked_fill(self.bn.weight == 0, 1.0)  # any other number: its result is divided again
        factor = gamma / (self.bn.running_var + self.bn.eps).sqrt()
        return factor, (-1, *ones), (1, -1, *ones[1:])

    def forward(self, input: Tensor) -> Tensor:
        factor, rows, channels = self._factors()
        weight = self.weight_fake_quant(self.weight * factor.reshape(rows))
        result = self._product(input, weight, zeros(weight.shape[0], dtype=input.dtype, device=input.device))
        result = result / factor.reshape(channels)
        if self.bias is not None:
            result = result + self.bias.reshape(channels)
        result = self.bn(result)
        return F.relu(result) if self._then_relu else result

    def train(self, mode: bool = True) -> Any:
        """Switch to training, except for a batch norm whose statistics are frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def update_bn_stats(self) -> Any:
        """Let the batch norm use and update the statistics of batches."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> Any:
        """Let the batch norm use its running statistics."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def reset_running_stats(self) -> None:
        """Reset the batch norm's statistics."""
        self.bn.reset_running_stats()

    def fused_parameters(self) -> tuple[Parameter, Parameter]:
        """Weight and bias with the batch norm in them."""
        bn = self.bn
        fuse = fuse_linear_bn_weights if isinstance(self, _Linear) else fuse_conv_bn_weights
        return fuse(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


class _ConvBatchNorm(_WithBatchNorm):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool | None = None,
        padding_mode: str = "zeros",
        eps: float = 1e-05,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bool(bias), padding_mode
        )
        self._add(out_channels, eps, momentum, freeze_bn, qconfig)

    def _product(self, input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self._conv_forward(input, weight, bias)


class LinearBn1d(_WithBatchNorm, _Linear):
    """Linear and BatchNorm1d."""

    _FLOAT_MODULE, _norm = _LinearBn1d, BatchNorm1d

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        eps: float = 1e-05,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self._add(out_features, eps, momentum, freeze_bn, qconfig)

    def _product(self, input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.linear(input, weight, bias)


class ConvBn1d(_ConvBatchNorm, _Conv1d):
    """Conv1d and BatchNorm1d."""

    _FLOAT_MODULE, _norm = _ConvBn1d, BatchNorm1d


class ConvBn2d(_ConvBatchNorm, _Conv2d):
    """Conv2d and BatchNorm2d."""

    _FLOAT_MODULE, _norm = _ConvBn2d, BatchNorm2d


class ConvBn3d(_ConvBatchNorm, _Conv3d):
    """Conv3d and BatchNorm3d."""

    _FLOAT_MODULE, _norm = _ConvBn3d, BatchNorm3d


class ConvBnReLU1d(ConvBn1d):
    """Conv1d, BatchNorm1d and ReLU."""

    _FLOAT_MODULE, _then_relu = _ConvBnReLU1d, True


class ConvBnReLU2d(ConvBn2d):
    """Conv2d, BatchNorm2d and ReLU."""

    _FLOAT_MODULE, _then_relu = _ConvBnReLU2d, True


class ConvBnReLU3d(ConvBn3d):
    """Conv3d, BatchNorm3d and ReLU."""

    _FLOAT_MODULE, _then_relu = _ConvBnReLU3d, True


def update_bn_stats(mod: Module) -> None:
    """Let fused batch norms use the statistics of batches: for `model.apply`."""
    if isinstance(mod, _WithBatchNorm):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Module) -> None:
    """Let fused batch norms use their running statistics: for `model.apply`."""
    if isinstance(mod, _WithBatchNorm):
        mod.freeze_bn_stats()
