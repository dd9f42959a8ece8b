"""Schedules of the sparsity level of a sparsifier's groups, by PyTorch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import warn_caller
from .sparsifier import BaseSparsifier


__path__: list[str] = []  # PyTorch has files below this name; `numod.paths` finds them here


class BaseScheduler:
    """Base: each `step` sets the groups' `sparsity_level` to what `get_sl` returns for the epoch `last_epoch`."""

    def __init__(self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(f"{type(sparsifier).__name__} is not an instance of numod.ao.pruning.BaseSparsifier")
        self.sparsifier, self.last_epoch, self.verbose = sparsifier, last_epoch, verbose
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self._step_count, self._get_sl_called_within_step = 0, False
        _count_steps(sparsifier)
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the sparsifier."""
        return {name: value for name, value in vars(self).items() if name != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the attributes of a `state_dict`."""
        vars(self).update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels that the last `step` has set."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """The levels of the groups for `last_epoch`. `step` calls it."""
        self._warn_outside_of_step()
        raise NotImplementedError(f"{type(self).__name__} must define get_sl()")

    def _warn_outside_of_step(self) -> None:
        if not self._get_sl_called_within_step:
            warn_caller("To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.")

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Print the level of a group, if `is_verbose`."""
        if is_verbose:
            start = "Adjusting" if epoch is None else f"Epoch {epoch:5d}: adjusting"
            print(f"{start} sparsity level of group {group} to {sl:.4e}.")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set the levels."""
        if self._step_count == 1 and self.sparsifier._step_count < 1:
            warn_caller(
                "Detected call of `scheduler.step()` before `sparsifier.step()`. You have to make sure you run the "
                "sparsifier.step() BEFORE any calls to the scheduler.step()."
            )
        self._step_count += 1
        self._get_sl_called_within_step = True
        try:
            self.last_epoch += 1
            values = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for number, (group, level) in enumerate(zip(self.sparsifier.groups, values)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, number, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list:
        """A value for each group."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)

    def __repr__(self) -> str:
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"


def _count_steps(sparsifier: BaseSparsifier) -> None:
    """Count the calls of `sparsifier.step` in `sparsifier._step_count`."""
    sparsifier._step_count = 0
    if "step" in vars(sparsifier):
        return

    @functools.wraps(type(sparsifier).step)
    def step(*args: Any, **kwargs: Any) -> Any:
        sparsifier._step_count += 1
        return type(sparsifier).step(sparsifier, *args, **kwargs)

    sparsifier.step = step


class LambdaSL(BaseScheduler):
    """The final level times a function of the epoch, or one function for each group."""

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        count = len(sparsifier.groups)
        self.sl_lambdas = list(sl_lambda) if isinstance(sl_lambda, (list, tuple)) else [sl_lambda] * count
        if len(self.sl_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.sl_lambdas)}")
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """See `BaseScheduler`."""
        self._warn_outside_of_step()
        return [level * factor(self.last_epoch) for factor, level in zip(self.sl_lambdas, self.base_sl)]


class CubicSL(BaseScheduler):
    """From `init_sl` to the final level: s_f + (s_0 - s_f) * (1 - (t - init_t) / (delta_t * total_t))^3.

    Before `init_t` the level is `init_sl`, or 0 if `initially_zero` (Zhu and Gupta, To prune, or not to prune).
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl, self.init_t = self._make_sure_a_list(init_sl), self._make_sure_a_list(init_t)
        self.delta_t, self.total_t = self._make_sure_a_list(delta_t), self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: int, t_0: int, dt: float, n: int, initially_zero: bool = False
    ) -> float:
        """The level at step t."""
        if initially_zero and t < t_0:
            return 0
        level = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self) -> list[float]:
        """See `BaseScheduler`."""
        self._warn_outside_of_step()
        settings = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)
        return [
            self.sparsity_compute_fn(start, final, self.last_epoch, first, step, count, is_zero)
            for start, final, first, step, count, is_zero in settings
        ]
