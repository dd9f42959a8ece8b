"""Optimizers with per-element step sizes: RMSprop, Adagrad, Adadelta, Rprop; and averaged SGD."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ..core.tensor import Tensor
from ..ops import update
from .adam_variants import Adamax, NAdam, RAdam  # noqa: F401 - older pickles name these here
from .optimizer import Optimizer
from .steps import by_step, next_step, non_negative, number, zeros


def _filled(tensor: Tensor, value: float) -> Tensor:
    """A tensor like this one, filled with a number; both parts of complex elements are set to it."""
    return tensor.new_full(tensor.shape, complex(value, value) if tensor.is_complex() else value)


class RMSprop(Optimizer):
    """RMSprop: gradients divided by the root of a running mean of their squares.

    With `centered`, the variance replaces the mean of the squares; `momentum` is applied to the result. Hinton,
    Coursera lecture 6e, 2012.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.RMSprop([w], lr=0.01)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay)
        if not alpha >= 0.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
        }
        super().__init__(
            params,
            {
                **defaults,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        names = (
            "square_avg",
            *(("momentum_buffer",) if group["momentum"] > 0 else ()),
            *(("grad_avg",) if group["centered"] else ()),
        )
        row = getattr(
            update,
            "rmsprop" + ("_centered" if group["centered"] else "") + ("_momentum" if group["momentum"] > 0 else ""),
        )
        return by_step(self, row, parameters, group, zeros(*names))

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        next_step(states)
        alpha = group["alpha"]
        numbers = number(group["lr"]), float(group["weight_decay"]), float(alpha), 1.0 - alpha, float(group["eps"])
        return (*numbers, float(group["momentum"])) if group["momentum"] > 0 else numbers


class Adagrad(Optimizer):
    """Adagrad: gradients divided by the root of the sum of their squares. Duchi, Hazan and Singer, 2011.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.Adagrad([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        non_negative(lr=lr, weight_decay=weight_decay, eps=eps)
        if not lr_decay >= 0.0:
            raise ValueError(f"Invalid lr_decay value: {lr_decay}")
        if not initial_accumulator_value >= 0.0:
            raise ValueError(f"Invalid initial_accumulator_value value: {initial_accumulator_value}")
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
        }
        super().__init__(
            params,
            {**defaults, "foreach": foreach, "maximize": maximize, "differentiable": differentiable, "fused": fused},
        )
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter] = self._initial_state(group, parameter)

    def _initial_state(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        return {"step": 0, "sum": _filled(parameter, group["initial_accumulator_value"])}

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        return by_step(self, update.adagrad, parameters, group, partial(self._initial_state, group))

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        step = next_step(states)
        return (
            number(group["lr"]) / (1 + (step - 1) * group["lr_decay"]),
            float(group["weight_decay"]),
            float(group["eps"]),
        )


class Adadelta(Optimizer):
    """Adadelta: steps scaled by the ratio of running RMS values of past steps and gradients. Zeiler, 2012.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.Adadelta([w], lr=1.0)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9968], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        non_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(
            params, {**defaults, "capturable": capturable, "foreach": foreach, "differentiable": differentiable}
        )

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        return by_step(self, update.adadelta, parameters, group, zeros("square_avg", "acc_delta"))

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        next_step(states)
        return (
            number(group["lr"]),
            float(group["weight_decay"]),
            float(group["rho"]),
            1.0 - group["rho"],
            float(group["eps"]),
        )


class Rprop(Optimizer):
    """Rprop: steps grow while the gradient keeps its sign and shrink when it changes. Riedmiller and Braun, 1993.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.Rprop([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        non_negative(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize}
        super().__init__(params, {**defaults, "differentiable": differentiable, "capturable": capturable})

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        def begin(parameter: Tensor) -> dict[str, Any]:
            return {"prev": parameter.new_zeros(parameter.shape), "step_size": _filled(parameter, float(group["lr"]))}

        return by_step(self, update.rprop, parameters, group, begin)

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        next_step(states)
        return *map(float, group["etas"]), *map(float, group["step_sizes"])


class ASGD(Optimizer):
    """Averaged SGD: `state[p]["ax"]` is the average of the parameters. Polyak and Juditsky, 1992.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.ASGD([w], lr=0.1)
        >>> (w * 3).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.7000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        non_negative(lr=lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, {**defaults, "differentiable": differentiable, "capturable": capturable})

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        return by_step(
            self,
            update.asgd,
            parameters,
            group,
            lambda parameter: {"eta": float(group["lr"]), "mu": 1.0, "ax": parameter.new_zeros(parameter.shape)},
        )

    def _numbers(self, group: dict[str, Any], states: list) -> tuple[float, ...]:
        step, (eta, share) = next_step(states), (states[0]["eta"], states[0]["mu"])
        for state in states:  # for the next step
            state["eta"] = number(group["lr"]) / (1 + group["lambd"] * number(group["lr"]) * step) ** group["alpha"]
            late = step - group["t0"]
            state["mu"] = 1 / (late.clamp(min=1) if isinstance(late, Tensor) else max(1, late))
        return float(group["weight_decay"]), 1.0 - group["lambd"] * eta, eta, share
