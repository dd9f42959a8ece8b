"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import sqrt
from typing import Any

from ..core.tensor import Tensor
from ..ops import update
from .optimizer import Optimizer, by_step, next_step, non_negative


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient; `weight_decay` is an L2 penalty. Kingma and Ba, 2015.

    Raises ValueError for negative hyper-parameters or betas outside [0, 1).
    """

    def __init__(
        self, params: Iterable, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False,
        *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        for k, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {beta}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach}
        super().__init__(
            params, {**defaults, "capturable": capturable, "differentiable": differentiable, "fused": fused, "decoupled_weight_decay": decoupled_weight_decay}
        )

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        row = update.adam_amsgrad if group["amsgrad"] else update.adam
        found = by_step(self, parameters, group, lambda each: {name: each.new_zeros(each.shape) for name in names})
        return [(row, members, partial(self._numbers, group, states)) for members, states in found]

    def _numbers(self, group: dict[str, Any], states: list[dict[str, Any]]) -> tuple[float, ...]:
        """The scalars of the next step: kept, weight_decay, gain1, beta2, gain2, step, root, eps (see `ops.update.adam`)."""
        step = next_step(states)
        (beta1, beta2), lr, decay = group["betas"], float(group["lr"]), float(group["weight_decay"])
        kept, penalty = (1.0 - lr * decay, 0.0) if group["decoupled_weight_decay"] else (1.0, decay)
        return kept, penalty, 1.0 - beta1, float(beta2), 1.0 - beta2, lr / (1.0 - beta1**step), sqrt(1.0 - beta2**step), float(group["eps"])


class AdamW(Adam):
    """Adam with decoupled weight decay. Loshchilov and Hutter, 2019."""

    def __init__(
        self, params: Iterable, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
