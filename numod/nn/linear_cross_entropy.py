"""A linear layer and the cross-entropy of its scores as one module."""

from __future__ import annotations

from math import prod
from typing import Any

from ..core import Tensor
from . import functional as F
from .functional.linear_cross_entropy import LinearCrossEntropyOptions
from .linear import Linear
from .module import Module

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class LinearCrossEntropyLoss(Module):
    """The cross-entropy of `linear(input)` as scores of `num_classes` classes.

    There is a prediction for each of `out_features` positions.

    Example:

        >>> nn.LinearCrossEntropyLoss(3, 4)(torch.ones(2, 3), torch.tensor([0, 1])).shape
        numod.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.reduction, self.num_classes, self.out_features = reduction, num_classes, tuple(out_features)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, num_classes * prod(self.out_features), bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        class_shape = self.num_classes, *self.out_features
        bias = None if self.linear.bias is None else self.linear.bias.reshape(class_shape)
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*class_shape, self.linear.in_features),
            target,
            linear_bias=bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        settings = {
            "in_features": self.linear.in_features,
            "num_classes": self.num_classes,
            "out_features": self.out_features,
            "bias": self.linear.bias is not None,
        }
        settings |= {name: getattr(self, name) for name in ("reduction", "ignore_index", "label_smoothing", "options")}
        return ", ".join(f"{name}={value}" for name, value in settings.items())
