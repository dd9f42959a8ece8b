"""Base classes of schedulers: initial rates, step counts, state dicts; and schedules by functions of the epoch."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any
from weakref import ref

from ...core.listeners import listeners
from ...core.updates import step_schedule
from ...core.tensor import Tensor
from ...errors import warn_caller
from ..optimizer import Optimizer


def _recompute_when_compiled(step: Callable) -> Callable:
    """A schedule's `step` that compiled functions run in every call, to compute the current rates."""

    @wraps(step)
    def run(self: LRScheduler, *arguments: Any, **kwargs: Any) -> None:
        if listeners:
            step_schedule(self, partial(step, self, *arguments, **kwargs))
        else:
            step(self, *arguments, **kwargs)

    return run


class _enable_get_lr_call:
    """A context in which `get_lr` gives no warning of a direct call, for schedules with a `step` of their own."""

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def __enter__(self) -> None:
        self.o._get_lr_called_within_step = True

    def __exit__(self, *exception: object) -> None:
        self.o._get_lr_called_within_step = False


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    """Warn of a direct call of `get_lr`."""
    lr_scheduler._warn_outside_step()


class LRScheduler:
    """Base class of schedulers: sets `lr` of every group at each `step()`.

    Subclasses define `get_lr()`; `last_epoch` counts the steps. Raises TypeError if `optimizer` is not an Optimizer,
    and KeyError if a schedule is resumed (last_epoch >= 0) without `initial_lr` in a group.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.1]
    """

    _get_lr_called_within_step = False  # users' `get_lr` methods read it to warn about direct calls

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _recompute_when_compiled(cls.step)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _value_of(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler with "
                    "last_epoch >= 0"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        _count_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates set by the last step."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """The next rates of the groups. Defined by every schedule."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn_caller("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")

    @_recompute_when_compiled
    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step. Call it after `optimizer.step()`."""
        self._step_count += 1
        if self._step_count == 2:
            self._warn_of_order()
        if epoch is not None:
            warn_caller(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of `epoch`, without counting a step."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        is_closed = epoch is not None and hasattr(self, "_get_closed_form_lr")
        rates = self._get_closed_form_lr() if is_closed else self._next_rates()
        for group, rate in by_group(self.optimizer.param_groups, rates):
            set_rate(group, rate)
        self._last_lr = rates_of(self.optimizer)

    def _next_rates(self) -> list[float]:
        """`get_lr()` as a step calls it, without the warning of direct calls."""
        with _enable_get_lr_call(self):
            return self.get_lr()

    def _warn_of_order(self) -> None:
        if not hasattr(self.optimizer.step, "_counts"):
            warn_caller(
                "Seems like `optimizer.step()` has been overridden after learning rate "
                "scheduler initialization. Call the scheduler after the optimizer's step."
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn_caller(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them "
                "in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. "
                "Else the first value of the schedule is skipped."
            )

    def _rates(self) -> list[float]:
        return [_value_of(group["lr"]) for group in self.optimizer.param_groups]


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated "
    "where possible. Please use `scheduler.step()` to step the scheduler."
)


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set a group's rate. A rate that is a tensor is changed in place."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def rates_of(optimizer: Optimizer) -> list[float]:
    """The groups' rates."""
    return per_group("lr", [group["lr"] for group in optimizer.param_groups], optimizer)


def _value_of(rate: float | Tensor) -> float:
    return rate.item() if isinstance(rate, Tensor) else rate


def _count_steps(optimizer: Optimizer) -> None:
    """Wrap the optimizer's `step` to record that it was called, for the warning about a wrong order."""
    if hasattr(optimizer.step, "_counts"):
        return
    method, reference = optimizer.step.__func__, ref(optimizer)

    @wraps(method)
    def step(*arguments: Any, **kwargs: Any) -> Any:
        target = reference()
        target._opt_called = True
        return method(target, *arguments, **kwargs)

    step._counts = True
    optimizer.step = step


def by_group(values: Sequence, others: Sequence) -> Iterator[tuple]:
    """The pairs of two lists with an item for each parameter group.

    Raises ValueError if a group was added after the scheduler was made.
    """
    if len(values) != len(others):
        raise ValueError(
            f"the scheduler was made for {min(len(values), len(others))} parameter groups, but the optimizer has "
            f"{max(len(values), len(others))}; make a new scheduler after add_param_group()"
        )
    return zip(values, others)


def per_group(name: str, value: Any, optimizer: Optimizer) -> list:
    """One value for all groups, or a list with one per group. Tensors are copied.

    Raises ValueError if the list has another length.
    """
    values = value if isinstance(value, (list, tuple)) else [value] * len(optimizer.param_groups)
    if len(values) != len(optimizer.param_groups):
        raise ValueError(f"Expected {len(optimizer.param_groups)} values for {name}, but got {len(values)}")
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


class FunctionLR(LRScheduler):
    """A schedule by functions of the epoch, one per group.

    State dicts hold the attributes of callable objects, but not plain functions.
    """

    lr_lambdas: list[Callable[[int], float]]

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = per_group("lr_lambdas", lr_lambda, optimizer)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        return {
            **state,
            "lr_lambdas": [
                None if isinstance(lr_lambda, types.FunctionType) else dict(lr_lambda.__dict__)
                for lr_lambda in self.lr_lambdas
            ],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`, which is not modified."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if state is not None:
                function.__dict__.update(state)
