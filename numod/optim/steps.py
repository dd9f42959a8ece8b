"""What the steps of optimizers share: calls of update ops, their scalars, and checks of hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..ops.update import Update

if TYPE_CHECKING:
    from .optimizer import Optimizer


def by_step(
    optimizer: Optimizer,
    op: Update,
    parameters: list[Tensor],
    group: dict[str, Any],
    begin: Callable[[Tensor], dict[str, Any]],
) -> list[tuple]:
    """The updates of a step by `op`, one for all parameters that have taken the same number of steps.

    A member is a parameter, its gradient and its state's tensors. `begin(parameter)` creates the state at a parameter's
    first step; the optimizer's `_numbers(group, states)` returns the scalars.
    """
    by_count: dict[int, tuple[list, list]] = {}
    names = getattr(begin, "names", None)
    for parameter, gradient in zip(parameters, gradients_of(parameters, group)):
        state = optimizer.state[parameter]
        if not state:
            state.update({"step": 0, **begin(parameter)})
        members, states = by_count.setdefault(state["step"], ([], []))
        tensors = (
            [value for value in state.values() if isinstance(value, Tensor)]
            if names is None
            else [_state_tensor(state, name) for name in names]
        )
        members.append((parameter, gradient, *tensors))
        states.append(state)
    return [(op, members, Numbers(optimizer._numbers, group, states)) for members, states in by_count.values()]


class Numbers:
    """The scalars of an update, `formula(group, states)`, computed in every run.

    In an exported step, tensors replace the learning rate and the step counts, and so do the scalars (see `number`).
    """

    __slots__ = ("formula", "group", "states")

    def __init__(self, formula: Callable, group: dict[str, Any], states: list[dict[str, Any]]) -> None:
        self.formula, self.group, self.states = formula, group, states

    def __call__(self) -> tuple:
        """The scalars. A step that raises because of an invalid option does not count."""
        before = self.states[0]["step"] if self.states else 0
        try:
            return self.formula(self.group, self.states)
        except Exception:
            for state in self.states:
                state["step"] = before
            raise


def mark_exported(value: Tensor) -> Tensor:
    """Mark a tensor that replaces a learning rate or a count in an exported step. Returns it."""
    value._is_exported = True
    return value


def number(value: float | Tensor) -> Any:
    """A setting as a number; a tensor that replaces it is returned as it is."""
    return value if getattr(value, "_is_exported", False) else float(value)


def square_root(value: Any) -> Any:
    """The square root of a number, or of a tensor that replaces it."""
    return value.sqrt() if isinstance(value, Tensor) else sqrt(value)


def _state_tensor(state: dict[str, Any], name: str) -> Tensor:
    """A tensor of a parameter's state.

    Raises KeyError, before the step counts, if the group's options have changed since the state was created.
    """
    if name not in state:
        raise KeyError(
            f"{name}: the parameter's state, created in its first step, has no such entry; create a new optimizer to "
            "change options that need it"
        )
    return state[name]


def zeros(*names: str) -> Callable[[Tensor], dict[str, Any]]:
    """A function that creates a parameter's initial state: zeros under the names in its attribute `names`."""

    def begin(parameter: Tensor) -> dict[str, Any]:
        return {name: parameter.new_zeros(parameter.shape) for name in names}

    begin.names = names
    return begin


def decay_factors(group: dict[str, Any], lr: Any) -> tuple[Any, float]:
    """(the factor of the parameters, the part of them that is added to their gradients), by `weight_decay`."""
    decay = float(group["weight_decay"])
    return (1.0 - lr * decay, 0.0) if group["decoupled_weight_decay"] else (1.0, decay)


def next_step(states: list[dict[str, Any]]) -> int:
    """Increment the step count of all states, which have the same count, and return it."""
    for state in states:
        state["step"] += 1
    return states[0]["step"]


def gradients_of(parameters: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
    """The gradients, negated if the group maximizes."""
    return (
        [-parameter._grad.detach() for parameter in parameters]
        if group.get("maximize")
        else [parameter._grad for parameter in parameters]
    )


def non_negative(**values: float) -> None:
    """Raise ValueError, as PyTorch words it, for a hyper-parameter that is negative or NaN."""
    names = {
        "lr": "learning rate",
        "eps": "epsilon value",
        "weight_decay": "weight_decay value",
        "momentum": "momentum value",
    }
    for name, value in values.items():
        one_element(name, value)
        if not value >= 0.0:
            raise ValueError(f"Invalid {names[name]}: {value}")


def check_betas(betas: tuple[float, float]) -> None:
    """Raise ValueError for a coefficient of a running average outside [0, 1)."""
    for k, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {beta}")


def one_element(name: str, value: float | Tensor) -> None:
    """Raise ValueError for a hyper-parameter that is a tensor of several elements."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")
