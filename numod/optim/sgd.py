"""Stochastic gradient descent, with momentum and weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ..core.tensor import Tensor
from ..ops import update
from .optimizer import Optimizer
from .steps import Numbers, gradients_of, non_negative, number


class SGD(Optimizer):
    """p -= lr * v, where v = momentum * v + (1 - dampening) * (g + weight_decay * p); `nesterov` looks one step ahead.

    Raises ValueError for negative hyper-parameters, or nesterov without momentum or with dampening.

    Example:

        >>> w = nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = optim.SGD([w], lr=0.1)
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
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        non_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        defaults |= {"foreach": foreach, "differentiable": differentiable, "fused": fused}
        super().__init__(params, defaults)

    def _updates(self, parameters: list[Tensor], group: dict[str, Any]) -> list[tuple]:
        """The updates of a group: with momentum, parameters at their first step have other numbers."""
        gradients = gradients_of(parameters, group)
        if not group["momentum"]:
            return (
                [(update.sgd, list(zip(parameters, gradients)), Numbers(_plain_numbers, group, []))]
                if parameters
                else []
            )
        first, later = [], []
        for parameter, gradient in zip(parameters, gradients):
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = parameter.new_zeros(parameter.shape)
                first.append((parameter, gradient, buffer))
            else:
                later.append((parameter, gradient, buffer))
        # at the first step the buffer is the gradient itself
        calls = [(update.sgd_momentum, first, Numbers(partial(_numbers, gain=1.0), group, []))] if first else []
        return [*calls, (update.sgd_momentum, later, Numbers(_damped_numbers, group, []))] if later else calls


def _plain_numbers(group: dict[str, Any], states: list) -> tuple[float, ...]:
    return number(group["lr"]), float(group["weight_decay"])


def _damped_numbers(group: dict[str, Any], states: list) -> tuple[float, ...]:
    return _numbers(group, states, 1.0 - group["dampening"])


def _numbers(group: dict[str, Any], states: list, gain: float) -> tuple[float, ...]:
    return number(group["lr"]), float(group["weight_decay"]), float(group["momentum"]), gain, float(group["nesterov"])
