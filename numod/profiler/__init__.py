"""The profiler measures where a program's time goes, from Python code down to the compiler's passes.

It has the interface of `torch.profiler`.

- `profile` is the user interface; `steps` defines schedules.
- `watch` records. It replaces functions (`exchange`) with bodies that note their start and end (`bodies`; `launches`
  for kernels, `compiling` for the compiler) in the `recorder`.
- `event` turns notes into nested slices. From these come tables (`averages`), an HTML page (`report`), traces and
  stacks (`chrome`), and reports on kernels (`kernels`, compared with the `roofline`).
- `perf_map` and `jit_dump` support Linux `perf`; `command` is `python -m numod profile`, `script` runs the user's
  script; `legacy` and `ranges` are further interfaces of PyTorch.
"""

from __future__ import annotations

from . import ranges as itt
from .averages import EventList, FunctionEventAvg
from .event import DeviceType
from .jit_dump import JitDump
from .kernels import KernelReport
from .perf_map import write_perf_map
from .profile import (
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    supported_activities,
    tensorboard_trace_handler,
)
from .steps import ProfilerAction, schedule

__all__ = [
    "DeviceType", "EventList", "FunctionEventAvg", "JitDump", "KernelReport", "ProfilerAction", "ProfilerActivity",
    "itt", "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler", "write_perf_map",
]  # fmt: skip
