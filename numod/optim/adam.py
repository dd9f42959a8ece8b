"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops import update
from .optimizer import Optimizer
from .steps import by_step, check_betas, decay_factors, next_step, non_negative, number, square_root, zeros


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient; `weight_decay` is an L2 penalty. Kingma and Ba, 2015.

    Raises ValueError for negative hyper-parameters or betas outside [0, 1).

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.Adam([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if isinstance(betas[0], Tensor) is not isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
        }
        super().__init__(
            params,
            {
                **defaults,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        if group["amsgrad"]:
            return by_step(
                self, update.adam_amsgrad, parameters, group, zeros("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
            )
        return by_step(self, update.adam, parameters, group, zeros("exp_avg", "exp_avg_sq"))

    def _numbers(self, group: dict[str, Any], states: list[dict[str, Any]]) -> tuple[float, ...]:
        """The next step's scalars in the order of `ops.update.adam`: retention, decay, gains, step, root, eps."""
        step = next_step(states)
        (beta1, beta2), lr = group["betas"], number(group["lr"])
        return (
            *decay_factors(group, lr),
            1.0 - beta1,
            float(beta2),
            1.0 - beta2,
            lr / (1.0 - beta1**step),
            square_root(1.0 - beta2**step),
            float(group["eps"]),
        )


class AdamW(Adam):
    """Adam with decoupled weight decay. Loshchilov and Hutter, 2019.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.AdamW([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.8990], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
