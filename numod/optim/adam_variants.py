"""Adam with other moments: Adamax, NAdam and RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.math.elementwise import where
from ..core.tensor import Tensor
from ..ops import update
from .optimizer import Optimizer
from .steps import by_step, check_betas, decay_factors, next_step, non_negative, number, square_root, zeros


class Adamax(Optimizer):
    """Adamax: Adam with the infinity norm, a decayed maximum of gradients. Kingma and Ba, 2015.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.Adamax([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, "differentiable": differentiable, "capturable": capturable})

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        return by_step(self, update.adamax, parameters, group, zeros("exp_avg", "exp_inf"))

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        return (
            number(group["lr"]) / (1 - beta1 ** next_step(states)),
            float(group["weight_decay"]),
            1.0 - beta1,
            float(beta2),
            float(group["eps"]),
        )


class NAdam(Optimizer):
    """NAdam: Adam with Nesterov's momentum. Dozat, Incorporating Nesterov momentum into Adam, 2016.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.NAdam([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.8944], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        if not momentum_decay >= 0.0:
            raise ValueError(f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(
            params,
            {
                **defaults,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        return by_step(
            self,
            update.nadam,
            parameters,
            group,
            lambda parameter: {"mu_product": 1.0, **zeros("exp_avg", "exp_avg_sq")(parameter)},
        )

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        step = next_step(states)
        (beta1, beta2) = group["betas"]
        lr = number(group["lr"])
        decay = group["momentum_decay"]
        mu, next_mu = (beta1 * (1.0 - 0.5 * 0.96 ** (n * decay)) for n in (step, step + 1))
        for state in states:
            state["mu_product"] *= mu
        product = states[0]["mu_product"]
        rates = lr * (1.0 - mu) / (1.0 - product), lr * next_mu / (1.0 - product * next_mu)
        return (
            *decay_factors(group, lr),
            1.0 - beta1,
            float(beta2),
            1.0 - beta2,
            *rates,
            1.0 - beta2**step,
            float(group["eps"]),
        )


class RAdam(Optimizer):
    """RAdam: Adam with a rectified second moment, which is used only after enough steps. Liu et al., 2020.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.RAdam([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.7000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(
            params, {**defaults, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable}
        )

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        return by_step(self, update.radam, parameters, group, zeros("exp_avg", "exp_avg_sq"))

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        step, (beta1, beta2), lr = next_step(states), group["betas"], number(group["lr"])
        longest = 2.0 / (1.0 - beta2) - 1.0
        # the length of the equivalent simple moving average
        length = longest - 2.0 * step * beta2**step / (1.0 - beta2**step)
        adaptive = length > 5.0
        root = square_root(1.0 - beta2**step)
        if isinstance(adaptive, Tensor):
            root = where(adaptive, root * _rectification(length, longest), root)
            adaptive = adaptive.to(root.dtype)
        elif adaptive:
            root *= _rectification(length, longest)
        return (
            *decay_factors(group, lr),
            1.0 - beta1,
            float(beta2),
            1.0 - beta2,
            lr / (1.0 - beta1**step),
            root,
            float(group["eps"]),
            adaptive if isinstance(adaptive, Tensor) else float(adaptive),
        )


def _rectification(length: Any, longest: float) -> Any:
    """RAdam's factor for a moving average of this length, whose limit is `longest`."""
    return square_root((length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length))
