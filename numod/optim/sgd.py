"""Stochastic gradient descent, with momentum and weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.apply import apply_update
from ..core.tensor import Tensor
from ..ops import update
from .optimizer import Optimizer, non_negative


class SGD(Optimizer):
    """p -= lr * v, where v = momentum * v + (1 - dampening) * (g + weight_decay * p); `nesterov` looks one step ahead.

    Raises ValueError for negative hyper-parameters, or nesterov without momentum or with dampening.
    """

    def __init__(
        self, params: Iterable, lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False
    ) -> None:
        non_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize}
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        gradient = -parameter._grad if group["maximize"] else parameter._grad
        if not group["momentum"]:
            apply_update(update.sgd, (parameter, gradient), lambda: (float(group["lr"]), float(group["weight_decay"])))
            return
        state = self.state[parameter]
        first = "momentum_buffer" not in state  # the first step takes the gradient whole
        if first:
            state["momentum_buffer"] = parameter.new_zeros(parameter.shape)

        def numbers() -> tuple[float, ...]:
            gain = 1.0 if first else 1.0 - group["dampening"]
            return float(group["lr"]), float(group["weight_decay"]), float(group["momentum"]), gain, float(group["nesterov"])

        apply_update(update.sgd_momentum, (parameter, gradient, state["momentum_buffer"]), numbers)
