"""`numod.autograd.profiler`: PyTorch's deprecated profiler interface, without schedules."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .averages import EventList, FunctionEventAvg
from .event import DeviceType
from .event import Event as FunctionEvent
from .profile import ProfilerActivity, kineto_available, record_function
from .profile import profile as _profile

__all__ = [
    "DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerActivity", "emit_itt", "emit_nvtx",
    "kineto_available", "profile", "record_function",
]  # fmt: skip


class profile(_profile):
    """`numod.profiler.profile` without schedule; it has the results' methods, and can be disabled."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = True,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        super().__init__(
            record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack,
            with_modules=with_modules,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )  # fmt: skip
        self.enabled = enabled

    def start(self) -> None:
        """Start, if enabled."""
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList | None:
        """All slices; None if nothing was recorded."""
        return self.events() if self._notes is not None else None

    def table(self, *arguments: Any, **kwargs: Any) -> str:
        """The table of all slices."""
        return self.events().table(*arguments, **kwargs)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all slices."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Total self time of all slices in microseconds."""
        return self.events().self_cpu_time_total


class emit_nvtx(AbstractContextManager):
    """Accepted for compatibility: no ranges are sent to NVIDIA's tools. numod's profiler records the same slices."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class emit_itt(emit_nvtx):
    """Accepted for compatibility: no ranges are sent to Intel's tools."""
