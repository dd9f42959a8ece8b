"""Launches: the time spent inside compiled kernels, without the ops around them.

Plans hold the entry points of compiled kernels in closures, so that a launch needs no lookup. While recording, timed
wrappers replace them in those closures. A GPU launch returns before its kernel has run; events in its stream, before
and after it, measure the GPU's time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType

from .. import config
from ..device import chunks
from ..device.threads import Gated
from ..kernel import bind, build
from ..ops import op as ops
from .exchange import Exchange


class Launches:
    """Replaces kernel entry points with timed wrappers wherever they are stored, and restores them."""

    def __init__(self, note: Callable, clock: Callable) -> None:
        self.note, self.clock = note, clock
        self.on, self._gpu = False, None
        self._timed: dict[int, Callable] = {}  # id of an entry point -> its timed wrapper
        self._plain: dict[int, Callable] = {}  # id of a timed wrapper -> the entry point
        self._compiled: dict[int, tuple] = {}  # compiled functions that were changed, with their original state

    def start(self, exchange: Exchange) -> None:
        """Time all kernels in existing plans and in future ones."""
        self.on = True
        for kernel in build.kernels():
            self._time(kernel)
        exchange.replace(bind, "_built", self._watch_built)
        self._gpu = sys.modules.get(f"{bind.__name__.split('.')[0]}.device.cuda")
        if self._gpu is not None:
            exchange.replace(self._gpu, "launch_on", lambda plain: lambda *arguments: self._time_gpu(plain(*arguments)))
            exchange.replace(self._gpu, "replaying", lambda _: False)
        self._wire_plans(self._timed)

    def stop(self) -> None:
        """Restore the entry points."""
        if self.on:
            self.on = False
            chunks.watch(False)
            self._wire_plans(self._plain)
            for compiled, *_ in self._compiled.values():
                _wire_program(compiled, compiled.__call__, self._plain, self._plain)
            self._compiled.clear()

    def _time(self, kernel: build.Kernel) -> Callable:
        """The kernel's entry point with its launches timed."""
        entry, note, clock = kernel.launch, self.note, self.clock
        if id(entry) not in self._timed and isinstance(entry, BuiltinFunctionType):

            def launch(*arguments: object) -> object:
                start = clock()
                result = entry(*arguments)  # a compiled program returns the number of a failed check
                note(start, "kernel", kernel, None)
                return result

            def launch_parallel(*arguments: object) -> object:
                start = clock()
                result = entry(*arguments)
                end = clock()
                note(
                    start,
                    "kernel",
                    kernel,
                    Parts([chunk for chunk in chunks.take() if chunk[0] >= start], arguments[-1]),
                    end,
                )
                return result

            if kernel.parallel:
                launch = launch_parallel
                chunks.watch(True)
            launch.is_timed = True
            self._timed[id(entry)], self._plain[id(launch)] = launch, entry
        return self._timed.get(id(entry), entry)

    def _time_gpu(self, entry: Callable) -> Callable:
        """A timed wrapper of a GPU launcher from the back end's `launch_on`. The note's detail is a pair of events."""
        dispatcher = getattr(entry, "kernel", None)
        note = self.note
        clock = self.clock
        gpu = self._gpu
        simulated = config.cuda_simulator()
        kernel = next((kernel for kernel in build.kernels() if kernel.launch is dispatcher), None)
        if kernel is None or id(entry) in self._timed or id(entry) in self._plain:
            return self._timed.get(id(entry), entry)

        def launch(*arguments: object) -> None:
            stream = gpu.current.stream
            marks = None if simulated else (gpu.make_event(True), gpu.make_event(True))
            start = clock()
            if marks:
                marks[0].record(stream)
            entry(*arguments)
            if marks:
                marks[1].record(stream)
            note(start, "kernel", kernel, Marks(*marks) if marks else Simulated())

        # a program compiled meanwhile keeps this launcher, and may become a CUDA graph
        launch.kernel, launch.shape = entry.kernel, entry.shape
        self._timed[id(entry)], self._plain[id(launch)] = launch, entry
        return launch

    def _watch_built(self, plain: Callable) -> Callable:
        def built(*arguments: object) -> Callable:
            entry = plain(*arguments)
            if id(entry) not in self._timed:
                for kernel in reversed(build.begun()):
                    if kernel.launch is entry:
                        self._time(kernel)
                        break
            return self._timed.get(id(entry), entry)

        return built

    def _wire_plans(self, exchange: dict[int, Callable]) -> None:
        seen = set(self._plain)
        for op in ops.every_op():
            for plan in op.cached_plans():
                if self._gpu is not None and exchange is self._timed:
                    for launch in _launches(plan.launch, set()):
                        self._time_gpu(launch)
                plan.launch = wire(plan.launch, exchange, seen)
                wire(getattr(plan, "run", None), exchange, seen)

    def watch_compiled(self, compiled: object, short: Callable) -> None:
        """Time the native functions of a compiled function's programs, and of the fast path to its last program."""
        if self.on and self._compiled.get(id(compiled)) != (compiled, short, compiled.recorded):
            for kernel in build.kernels():
                self._time(kernel)
            if self._gpu is not None:
                for launch in _launches(
                    [section.launchers for section in _sections(compiled) if not section.linked], set()
                ):
                    self._time_gpu(launch)
            _wire_program(compiled, short, self._timed, self._plain)
            self._compiled[id(compiled)] = (compiled, short, compiled.recorded)


class Parts:
    """How a parallel launch was divided: `chunks` of (start, end, thread) in ns, and the number of threads."""

    def __init__(self, chunks: list[tuple[int, int, int]], threads: int) -> None:
        self.chunks, self.threads = chunks, threads

    def microseconds(self, _: int) -> float:
        """The time on a GPU."""
        return 0.0

    @property
    def busy(self) -> dict[int, int]:
        """Nanoseconds of work by thread."""
        totals: dict[int, int] = {}
        for start, end, thread in self.chunks:
            totals[thread] = totals.get(thread, 0) + end - start
        return totals


class Marks:
    """Two events in a GPU stream."""

    def __init__(self, before: object, after: object) -> None:
        self.before, self.after = before, after

    def microseconds(self, _: int) -> float:
        """The time between the events; waits for the second one."""
        self.after.synchronize()
        return 1e3 * self.before.elapsed_time(self.after)


class Simulated:
    """A kernel in the simulator, whose GPU time is its CPU time."""

    def microseconds(self, duration: int) -> float:
        """The time, from the slice's nanoseconds."""
        return duration / 1e3


def _launches(value: object, seen: set[int]) -> list[Callable]:
    """The GPU kernel launches that a plan's launcher refers to."""
    if id(value) in seen or not isinstance(value, (FunctionType, tuple, list)):
        return []
    seen.add(id(value))
    if isinstance(value, FunctionType) and hasattr(value, "kernel"):
        return [value]
    parts = value if isinstance(value, (tuple, list)) else [cell.cell_contents for cell in value.__closure__ or ()]
    return [launch for part in parts for launch in _launches(part, seen)]


def wire(value: object, exchange: dict[int, Callable], seen: set[int]) -> object:
    """Replace functions by the table `exchange` (by id): `value` itself, or inside closures, lists and gates."""
    if id(value) in exchange:
        return exchange[id(value)]
    if isinstance(value, (tuple, list)):
        parts = [wire(item, exchange, seen) for item in value]
        return value if all(a is b for a, b in zip(parts, value)) else type(value)(parts)
    if id(value) in seen:
        return value
    if isinstance(value, FunctionType):
        seen.add(id(value))
        if hasattr(value, "is_timed"):  # a wrapper that another thread made meanwhile would call itself
            return value
        for cell in value.__closure__ or ():
            replacement = wire(cell.cell_contents, exchange, seen)
            if replacement is not cell.cell_contents:
                cell.cell_contents = replacement
    elif isinstance(value, Gated):
        seen.add(id(value))
        vars(value).update({name: wire(item, exchange, seen) for name, item in vars(value).items()})
    return value


def _wire_program(compiled: object, short: Callable, exchange: dict[int, Callable], wrappers: Iterable[int]) -> None:
    """`wire` for the programs of a compiled function and its fast path to the last program.

    Entry points inside the timed wrappers (given by id) are not replaced.
    """
    for path in (short, *[variant.entry for variant in compiled.variants]):
        space = getattr(path, "__globals__", {})
        if "slow" in space:
            space.update(
                {
                    name: wire(value, exchange, set(wrappers))
                    for name, value in space.items()
                    if name.startswith("launch")
                }
            )
    for section in _sections(compiled):
        name = "launch" if section.linked else "launchers"
        setattr(section, name, wire(getattr(section, name), exchange, set(wrappers)))


def _sections(compiled: object) -> list[object]:
    """The sections of a compiled function's programs."""
    executables = [version.executable for versions in compiled.versions.values() for version in versions]
    return [value for executable in executables for value in vars(executable).values() if hasattr(value, "linked")]
