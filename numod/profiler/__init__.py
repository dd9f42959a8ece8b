"""The profiler: where the time of a program goes, from Python down to the passes of the compiler. `torch.profiler`'s names and meanings."""

from __future__ import annotations

from . import ranges as itt
from .averages import EventList, FunctionEventAvg
from .event import DeviceType
from .jit_dump import JitDump
from .kernels import KernelReport
from .perf_map import write_perf_map
from .profile import ProfilerActivity, kineto_available, profile, record_function, supported_activities, tensorboard_trace_handler
from .steps import ProfilerAction, schedule

__all__ = [
    "DeviceType", "EventList", "FunctionEventAvg", "JitDump", "KernelReport", "ProfilerAction", "ProfilerActivity", "itt", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler", "write_perf_map",
]
