"""Cyclic schedules: warm restarts, CyclicLR and OneCycleLR, some of which also cycle the momentum inversely."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, by_group, per_group, rates_of, set_rate


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing to `eta_min` over `T_0` epochs, then restarts with periods `T_mult` times longer each time.

    `step` accepts fractional epochs. Loshchilov and Hutter, 2017.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        return [
            self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
            for base in self.base_lrs
        ]

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to `epoch`, which may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._set_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        for group, rate in by_group(self.optimizer.param_groups, self._next_rates()):
            set_rate(group, rate)
        self._last_lr = rates_of(self.optimizer)

    def _set_cycle(self, epoch: float) -> None:
        """Set the cycle that contains an epoch, and the position in it."""
        self.T_cur, self.T_i = epoch, self.T_0
        if epoch >= self.T_0:
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                n = int(math.log((epoch / self.T_0 * (self.T_mult - 1) + 1), self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult**n


def _set_momentum(group: dict[str, Any], value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the optimizer's momentum is the first of its `betas`. Raises ValueError if it has no momentum."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


class CyclicLR(LRScheduler):
    """Cycles between `base_lr` and `max_lr`: `step_size_up` steps up, `step_size_down` steps down.

    The momentum cycles inversely. Smith, 2017.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.9)
        >>> schedule = optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5)
        >>> schedule.get_last_lr()
        [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, per_group("base_lr", base_lr, optimizer)):
                set_rate(group, rate)
        self.max_lrs = per_group("max_lr", max_lr, optimizer)
        step_size_down = float(step_size_up if step_size_down is None else step_size_down)
        self.total_size = float(step_size_up) + step_size_down
        self.step_ratio = float(step_size_up) / self.total_size
        self.mode, self.gamma, self._custom, self.cycle_momentum = mode, gamma, scale_fn, cycle_momentum
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            self.base_momentums = per_group("base_momentum", base_momentum, optimizer)
            self.max_momentums = per_group("max_momentum", max_momentum, optimizer)
            if last_epoch == -1:
                for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums):
                    _set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = per_group("base_lr", base_lr, optimizer)

    def scale_fn(self, x: float) -> float:
        """The amplitude of a cycle (or step)."""
        if self._custom is not None:
            return self._custom(x)
        return {
            "triangular": lambda: 1.0,
            "triangular2": lambda: 1 / (2.0 ** (x - 1)),
            "exp_range": lambda: self.gamma**x,
        }[self.mode]()

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a plain function."""
        state = super().state_dict()
        custom = state.pop("_custom")
        plain = not hasattr(custom, "__dict__") or isinstance(custom, FunctionType)
        return {**state, "_scale_fn_custom": None if plain else dict(custom.__dict__)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        state = dict(state_dict)
        custom = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if custom is not None and self._custom is not None:
            self._custom.__dict__.update(custom)


class OneCycleLR(LRScheduler):
    """One cycle of `total_steps`: from max_lr / div_factor up to `max_lr`, then down to a small fraction of it.

    The momentum cycles inversely. Smith and Topin, 2019.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.9)
        >>> schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=10)
        >>> round(schedule.get_last_lr()[0], 4)
        0.02
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        up, last = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        if three_phase:
            ends = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (2 * pct_start * self.total_steps - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            ends = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        self._schedule_phases = [
            dict(zip(("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"), end)) for end in ends
        ]
        self._anneal_func_type, self.cycle_momentum = anneal_strategy, cycle_momentum
        rates = per_group("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, rates):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            if last_epoch == -1:
                pairs = zip(
                    optimizer.param_groups,
                    per_group("max_momentum", max_momentum, optimizer),
                    per_group("base_momentum", base_momentum, optimizer),
                )
                for group, high, low in pairs:
                    _set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _annealed(self, start: float, end: float, done: float) -> float:
        return (
            end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
            if self._anneal_func_type == "cos"
            else (end - start) * done + start
        )

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The total number of steps is {self.total_steps}")
        begin = 0.0
        for k, phase in enumerate(self._schedule_phases):
            if step <= phase["end_step"] or k == len(self._schedule_phases) - 1:
                done = (step - begin) / (phase["end_step"] - begin)
                break
            begin = phase["end_step"]
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                _set_momentum(group, self._annealed(group[phase["start_momentum"]], group[phase["end_momentum"]], done))
        return [self._annealed(group[phase["start_lr"]], group[phase["end_lr"]], done) for group in groups]


def _total_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * per_epoch
