"""Adam, and AdamW, whose weight decay stays apart from the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..core.apply import apply_update
from ..core.tensor import Tensor
from ..ops import update
from .optimizer import Optimizer, non_negative


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient; `weight_decay` is an L2 penalty. Kingma and Ba, 2015.

    Raises ValueError for negative hyper-parameters or betas outside [0, 1).
    """

    _decoupled = False

    def __init__(
        self, params: Iterable, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        for k, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize})

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ())):
                state[name] = parameter.new_zeros(parameter.shape)
        tensors = [value for name, value in state.items() if name != "step"]
        gradient = -parameter._grad if group["maximize"] else parameter._grad
        row = update.adam_amsgrad if group["amsgrad"] else update.adam
        apply_update(row, (parameter, gradient, *tensors), lambda: self._numbers(group, state))

    def _numbers(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[float, ...]:
        """The next step's numbers: kept, weight_decay, gain1, beta2, gain2, step, root, eps (see `ops.update.adam`)."""
        state["step"] += 1
        step = state["step"]
        (beta1, beta2), lr, decay = group["betas"], float(group["lr"]), float(group["weight_decay"])
        kept, penalty = (1.0 - lr * decay, 0.0) if self._decoupled else (1.0, decay)
        return kept, penalty, 1.0 - beta1, float(beta2), 1.0 - beta2, lr / (1.0 - beta1**step), sqrt(1.0 - beta2**step), float(group["eps"])


class AdamW(Adam):
    """Adam with weight decay apart from the gradient. Loshchilov and Hutter, 2019."""

    _decoupled = True

    def __init__(
        self, params: Iterable, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
