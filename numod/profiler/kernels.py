"""Reports on kernels: source, compile or load time, time of the calls, and fraction of the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..device import threads
from ..kernel import inspection
from ..kernel.build import Kernel
from .event import Event
from .roofline import machine


@dataclass
class KernelReport:
    """The results for one kernel. Times are in microseconds.

    `dispatch` is the time of its ops outside kernels. Flops and bytes are those of the ops, attributed to their longest
    kernel. For parallel launches, `shared_time` is the total time, `busiest` the busiest thread's work, and `shared`
    the mean work of all threads.
    """

    kernel: Kernel
    calls: int = 0
    time: float = 0.0
    dispatch: float = 0.0
    flops: int = 0
    bytes_moved: int = 0
    roofline: float = 0.0
    most_threads: int = 0
    busiest: float = 0.0
    shared: float = 0.0
    shared_time: float = 0.0
    ops: dict[str, None] = field(default_factory=dict)
    modules: dict[str, None] = field(default_factory=dict)
    building: Event | None = None
    concurrent_passes: list[Event] = field(default_factory=list)  # passes that ran in other threads meanwhile

    @property
    def threads(self) -> int:
        """The largest number of threads that took part in a launch."""
        return self.most_threads or (threads.get_num_threads() if self.kernel.parallel else 1)

    @property
    def imbalance(self) -> float:
        """Work of the busiest thread divided by the mean of all threads; 0 if the kernel did not run in parallel."""
        return self.busiest / self.shared if self.shared else 0.0

    @property
    def waiting(self) -> float:
        """The fraction of time in which no thread worked, such as for starting and synchronizing threads."""
        return max(1.0 - self.busiest / self.shared_time, 0.0) if self.shared_time else 0.0

    @property
    def built(self) -> str:
        """ "compile" or "load" if that happened while the profiler was on, otherwise ""."""
        return self.building.category if self.building else ""

    @property
    def passes(self) -> list[tuple[str, float]]:
        """The compiler's passes with their self times, including inner functions, longest first."""
        totals: dict[str, float] = {}
        waiting = [*self.building.cpu_children, *self.concurrent_passes] if self.building else []
        for event in waiting:
            totals[event.name] = totals.get(event.name, 0.0) + event.self_cpu_time_total
            waiting += event.cpu_children
        return sorted(totals.items(), key=lambda item: -item[1])

    @property
    def gflops(self) -> float:
        """Achieved rate in 10^9 operations per second."""
        return self.flops / self.time / 1e3 if self.time else 0.0

    @property
    def gbs(self) -> float:
        """Achieved bandwidth in 10^9 bytes per second."""
        return self.bytes_moved / self.time / 1e3 if self.time else 0.0

    @cached_property
    def machine_code(self) -> inspection.MachineCode | None:
        """The kernel's assembly with the source lines of its instructions. Compiles the kernel again."""
        return inspection.machine_code(self.kernel, lines=True)

    def __str__(self) -> str:
        k = self.kernel
        rates = f"{self.gflops:.2f} GFLOP/s, {self.gbs:.2f} GB/s, {100 * self.roofline:.0f} % of the roofline"
        return f"{k.name}: {self.calls} calls, {self.time:.1f} us, {rates}{self._sharing()}; {k.why}"

    def _sharing(self) -> str:
        return (
            f", {self.threads} threads, the busiest {self.imbalance:.2f} of the mean, {100 * self.waiting:.0f} % "
            "waiting"
            if self.shared
            else ""
        )


def reports(events: Sequence[Event]) -> list[KernelReport]:
    """Reports on every kernel that ran or was built, longest time first."""
    report_by_key: dict[str, KernelReport] = {}
    best: dict[str, float] = {}
    for event in events:
        if event.category not in ("kernel", "compile", "load"):
            continue
        report = report_by_key.setdefault(event.subject.key, KernelReport(event.subject))
        if event.category != "kernel":
            report.building = event
            continue
        report.calls += 1
        report.time += event.cpu_time_total
        _note_threads(report, event)
        _note_op(report, event, best)
    apart = [event for event in events if event.category == "pass" and event.cpu_parent is None]
    for report in report_by_key.values():
        if report.building is not None:
            report.concurrent_passes = [
                event_ for event_ in apart if report.building.start <= event_.start <= report.building.end
            ]
    for key, seconds in best.items():
        report_by_key[key].roofline = seconds
    return sorted(report_by_key.values(), key=lambda value: -value.time)


def _note_threads(report: KernelReport, event: Event) -> None:
    if event.parts is not None and event.parts.chunks:
        busy = event.parts.busy.values()
        report.most_threads = max(report.most_threads, len(busy))
        report.busiest += max(busy) / 1e3
        report.shared += sum(busy) / max(event.parts.threads, len(busy)) / 1e3
        report.shared_time += event.cpu_time_total


def _note_op(report: KernelReport, event: Event, best: dict[str, float]) -> None:
    """Add the op, module and line of a launch to the kernel's report."""
    op = event.cpu_parent
    if op is None or op.category not in ("op", "compiled"):
        return
    report.ops[op.name] = None
    if event.module:
        report.modules[event.module] = None
    kernels = [cpu_child for cpu_child in op.cpu_children if cpu_child.category == "kernel"]
    # chunks cannot be attributed to a launch
    if event is not max(kernels, key=lambda kernel: kernel.duration) or (
        op.category == "compiled" and len(kernels) > 1
    ):
        return
    report.dispatch += op.self_cpu_time_total
    report.flops += op.flops
    report.bytes_moved += op.bytes_moved
    reached = machine().fraction(op.flops, op.bytes_moved, event.duration / 1e9)
    best[event.subject.key] = max(best.get(event.subject.key, 0.0), reached)
