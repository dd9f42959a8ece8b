"""Schedules that multiply the rate by a factor: functions, steps, linear, polynomial and cosine schedules.

Each computes the next rates from the current ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from ..optimizer import Optimizer
from .base import FunctionLR, LRScheduler, by_group


class LambdaLR(FunctionLR):
    """The initial rate times a function of the epoch.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        return [base * function(self.last_epoch) for base, function in by_group(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(FunctionLR):
    """The rate times a function of the epoch, at every step.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self._is_initial:
            return self._rates()
        return [rate * function(self.last_epoch) for rate, function in by_group(self._rates(), self.lr_lambdas)]


class StepLR(LRScheduler):
    """Multiplies the rate by `gamma` every `step_size` epochs.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the rate by `gamma` at each of the epochs `milestones`.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.1)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.1]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        passed = sum(1 for element in self.milestones.elements() if element <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the rate by `factor` for the first `total_iters` epochs.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        return (
            [rate * (1.0 / self.factor) for rate in self._rates()]
            if self.last_epoch == self.total_iters
            else self._rates()
        )

    def _get_closed_form_lr(self) -> list[float]:
        return [
            base * (self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)) for base in self.base_lrs
        ]


class LinearLR(LRScheduler):
    """Multiplies the rate by a factor that changes linearly from `start_factor` to `end_factor`.

    The change takes `total_iters` epochs.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        gain = self.end_factor - self.start_factor
        return [
            rate * (1.0 + gain / (self.total_iters * self.start_factor + (self.last_epoch - 1) * gain))
            for rate in self._rates()
        ]

    def _get_closed_form_lr(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` every epoch.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.9]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        return self._rates() if self._is_initial else [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.75]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        factor = (
            (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        ) ** self.power
        return [rate * factor for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [
            base * (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
            for base in self.base_lrs
        ]


class CosineAnnealingLR(LRScheduler):
    """Anneals the initial rate to `eta_min` along half a cosine of `T_max` epochs, and back.

    Loshchilov and Hutter, 2017.

    Example:

        >>> optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        epoch, half = self.last_epoch, self.T_max
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and epoch > 0:
            return [
                self.eta_min + (base - self.eta_min) * (1 + math.cos(epoch * math.pi / half)) / 2
                for base in self.base_lrs
            ]
        if (epoch - 1 - half) % (2 * half) == 0:
            return [
                rate + (base - self.eta_min) * (1 - math.cos(math.pi / half)) / 2
                for base, rate in by_group(self.base_lrs, self._rates())
            ]
        factor = (1 + math.cos(math.pi * epoch / half)) / (1 + math.cos(math.pi * (epoch - 1) / half))
        return [factor * (rate - self.eta_min) + self.eta_min for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [
            self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
            for base in self.base_lrs
        ]
