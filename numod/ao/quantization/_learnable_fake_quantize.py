"""Rounding whose scale and zero point are learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core import Tensor, tensor
from ...core.quantized import (
    _fake_quantize_learnable_per_channel_affine,
    _fake_quantize_learnable_per_tensor_affine,
)
from ...nn.parameter import Parameter
from .fake_quantize import FakeQuantizeBase
from .observer import EPS, PER_CHANNEL, SYMMETRIC


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Rounds with a scale and a zero point that an observer finds (`enable_static_estimate`) or that are learned
    (`enable_param_learning`). With `use_grad_scaling` their gradients are divided by sqrt(elements * quant_max).
    """

    static_enabled: Tensor
    learning_enabled: Tensor

    def __init__(
        self,
        observer: Any,
        quant_min: int = 0,
        quant_max: int = 255,
        scale: float = 1.0,
        zero_point: float = 0.0,
        channel_len: int = -1,
        use_grad_scaling: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError(f"quant_min must be strictly less than quant_max, got {quant_min} and {quant_max}")
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError(f"Channel size must be a positive integer, got {channel_len}")
        self.quant_min, self.quant_max, self.use_grad_scaling = quant_min, quant_max, use_grad_scaling
        count = 1 if channel_len == -1 else channel_len
        self.scale, self.zero_point = (Parameter(tensor([number] * count)) for number in (scale, zero_point))
        self.activation_post_process = inner = observer(quant_min=quant_min, quant_max=quant_max, **observer_kwargs)
        limits = dtypes.iinfo(inner.dtype)
        if quant_min < limits.min or quant_max > limits.max:
            raise AssertionError(
                f"quant_min and quant_max out of bound: expected {limits.min} to {limits.max}, got {quant_min} and "
                f"{quant_max}"
            )
        self.dtype, self.qscheme, self.ch_axis = inner.dtype, inner.qscheme, getattr(inner, "ch_axis", -1)
        del self.observer_enabled  # PyTorch names it static_enabled
        self.register_buffer("static_enabled", tensor([1], dtype=dtypes.uint8))
        self.register_buffer("learning_enabled", tensor([0], dtype=dtypes.uint8))
        self.bitwidth = int(np.log2(quant_max - quant_min + 1))
        self.register_buffer("eps", tensor([EPS]))

    def enable_param_learning(self) -> _LearnableFakeQuantize:
        """Learn scale and zero point, round, and observe nothing."""
        return self.toggle_qparam_learning(True).toggle_fake_quant(True).toggle_observer_update(False)

    def enable_static_estimate(self) -> None:
        """Take scale and zero point from the observer, and round."""
        self.toggle_qparam_learning(False).toggle_fake_quant(True).toggle_observer_update(True)

    def enable_static_observation(self) -> None:
        """Only observe."""
        self.toggle_qparam_learning(False).toggle_fake_quant(False).toggle_observer_update(True)

    def toggle_observer_update(self, enabled: bool = True) -> _LearnableFakeQuantize:
        """Switch the observer on or off."""
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled: bool = True) -> None:
        """Switch the observer on or off."""
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled: bool = True) -> _LearnableFakeQuantize:
        """Switch the learning of scale and zero point on or off."""
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled: bool = True) -> _LearnableFakeQuantize:
        """Switch the rounding on or off."""
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self) -> None:
        """Print scale and zero point."""
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale, at least eps, and zero point, an integer in the range."""
        self.scale.data.clamp_(min=self.eps.item())
        return self.scale.detach(), self.zero_point.detach().round().clamp(self.quant_min, self.quant_max).long()

    def forward(self, X: Tensor) -> Tensor:
        if self.static_enabled[0] == 1:
            self.activation_post_process(X.detach())
            for parameter, number in zip(
                (self.scale, self.zero_point), self.activation_post_process.calculate_qparams()
            ):
                parameter.data.copy_(number)
        else:
            self.scale.data.clamp_(min=self.eps.item())
        return self._rounded(X) if self.fake_quant_enabled[0] == 1 else X

    def _rounded(self, x: Tensor) -> Tensor:
        if self.qscheme in SYMMETRIC:
            self.zero_point.data.zero_()
        factor = 1.0 / (x.numel() * self.quant_max) ** 0.5 if self.use_grad_scaling else 1.0
        limits = self.quant_min, self.quant_max, factor
        if self.qscheme in PER_CHANNEL:
            return _fake_quantize_learnable_per_channel_affine(x, self.scale, self.zero_point, self.ch_axis, *limits)
        return _fake_quantize_learnable_per_tensor_affine(x, self.scale, self.zero_point, *limits)
