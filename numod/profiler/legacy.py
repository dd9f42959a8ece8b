"""`numod.autograd.profiler`: PyTorch's older names for the profiler. The same thing, on from the first to the last line of its block."""

from __future__ import annotations

from typing import Any

from .averages import EventList, FunctionEventAvg
from .profile import profile as _profile
from .profile import record_function

__all__ = ["profile", "record_function"]


class profile(_profile):  # noqa: N801
    """As `numod.profiler.profile`, without schedule and steps; does nothing where not `enabled`. Its events can be asked of it directly."""

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None, record_shapes: bool = False, with_flops: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_modules: bool = True, use_kineto: bool = False, use_cpu: bool = True, **_: Any,
    ) -> None:
        super().__init__(record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack, with_modules=with_modules)
        self.enabled = enabled

    def start(self) -> None:
        """Begin, if enabled."""
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList | None:
        """Every slice; None where nothing was recorded."""
        return self.events() if self._notes is not None else None

    def table(self, *arguments: Any, **named: Any) -> str:
        """The table of all slices, one by one."""
        return self.events().table(*arguments, **named)

    def total_average(self) -> FunctionEventAvg:
        """All slices added up."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all slices."""
        return self.events().self_cpu_time_total
