"""`profile`, the user interface: it starts and stops a `Watch` by its schedule, and returns the results."""

from __future__ import annotations

import functools
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any

from ..device import threads
from . import chrome, report
from .averages import EventList
from .event import Memory, build
from .kernels import KernelReport, reports
from .steps import ProfilerAction
from .watch import Options, Watch

_now: list[profile] = []  # the active profiler, if any


def _forget() -> None:
    """In a forked child: stop profiling, so that the child can use its own profiler."""
    for profiler in _now:
        if profiler._watch is not None:
            profiler._watch.stop()
            profiler._watch.take()
            profiler._watch = None
    _now.clear()


os.register_at_fork(after_in_child=_forget)


class ProfilerActivity(Enum):
    """Activities to profile. CUDA times are those of the launches unless the program waits for its kernels."""

    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be profiled: CUDA only if this process has used a CUDA device."""
    return {
        ProfilerActivity.CPU,
        *([ProfilerActivity.CUDA] if f"{__package__.partition('.')[0]}.device.cuda" in sys.modules else []),
    }


def kineto_available() -> bool:
    """False, since PyTorch's library Kineto is not used."""
    return False


class profile:
    """Record what runs in the block: ops, gradients, kernels, compilations, modules, optimizer steps.

    `record_shapes` records the inputs' shapes; `with_flops`, operations and bytes; `profile_memory`, buffers allocated
    and freed; `with_stack`, the user's source lines; `with_modules`, module calls and their paths; `with_jit`, the time
    inside compiled kernels and of the compiler's passes. `schedule` maps a step's number to a ProfilerAction, and
    `step()` ends a step. `on_trace_ready(self)` is called at the end of each recorded cycle. Raises RuntimeError if
    another profiler is active.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = True,
        with_jit: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if execution_trace_observer is not None:
            raise NotImplementedError(
                "profile: execution traces are not recorded; numod.compile records a program, see its .graph"
            )
        self.activities = set(activities) if activities is not None else supported_activities()
        self.activities |= {ProfilerActivity.CUDA} if use_cuda else set()
        if not self.activities:
            raise AssertionError("No valid profiler activities found: give ProfilerActivity.CPU, CUDA or both")
        if not all(isinstance(activity, ProfilerActivity) for activity in self.activities):
            raise TypeError(
                f"profile: activities must be of ProfilerActivity, got {sorted(map(repr, self.activities))}"
            )
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise TypeError(f"profile: {name} must be a function, got {type(value).__name__}")
        self.schedule, self.on_trace_ready, self.acc_events = schedule, on_trace_ready, acc_events
        self.record_shapes, self.with_flops, self.profile_memory, self.with_stack, self.with_modules, self.with_jit = (
            record_shapes, with_flops, profile_memory, with_stack, with_modules, with_jit
        )  # fmt: skip
        self.options = Options(record_shapes or with_flops, profile_memory, with_stack, with_modules, with_jit)
        self.step_num, self.current_action = 0, ProfilerAction.NONE
        self.custom_trace_id_callback, self._trace_id = custom_trace_id_callback, None
        self.metadata: dict[str, Any] = {}
        self._watch: Watch | None = None
        self._notes: list | None = None
        self._roots: dict[Any, str] = {}
        self._began = self._step_began = 0
        self._results: tuple[EventList, list[Memory]] | None = None
        self._shared_before, self._sharing = threads.sharing(), None

    # ---- start and stop

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __call__(self, function: Callable) -> Callable:
        """Use as a decorator: each call is profiled."""

        @functools.wraps(function)
        def wrapped(*arguments: Any, **kwargs: Any) -> Any:
            with self:
                return function(*arguments, **kwargs)

        return wrapped

    def start(self) -> None:
        """Start, with the schedule's action for step 0."""
        if not _now:
            action = self._action(self.step_num)
            _now.append(self)
            if _now[0] is self:
                return self._begin(action)
            _now.remove(self)  # another thread started its profiler first
        raise RuntimeError(
            "another profiler is active, in this or another thread; leave its block first: a process has one at a time"
        )

    def _begin(self, action: ProfilerAction) -> None:
        try:
            self._switch_to(action)
        except BaseException:
            if self._watch is not None:
                self._watch.stop()
            self._watch = None
            _now.remove(self)
            raise

    def stop(self) -> None:
        """Stop. The results of a recording are then available."""
        if self not in _now:
            return
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._close(recording)
        self.current_action = ProfilerAction.NONE
        _now.remove(self)
        if recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    start_trace, stop_trace = start, stop

    def step(self) -> None:
        """Signal the start of the program's next step."""
        if self not in _now:
            return
        before = self.current_action
        if self._watch is not None:
            self._note_step()
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._close(True)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._switch_to(self._action(self.step_num))
        self._step_began = clock()

    def _action(self, step: int) -> ProfilerAction:
        action = ProfilerAction.RECORD if self.schedule is None else self.schedule(step)
        if not isinstance(action, ProfilerAction):
            raise TypeError(
                f"profile: schedule({step}) must give a ProfilerAction, got {action!r}; see numod.profiler.schedule"
            )
        return action

    def _switch_to(self, action: ProfilerAction) -> None:
        """Change to the next action. Notes recorded during warm-up are discarded."""
        if action is ProfilerAction.NONE:
            self._close(False)
        elif self._watch is None:
            self._watch = Watch(self.options)
            self._watch.start()
            self._watch.take()
            self._began, self._shared_before = clock(), threads.sharing()
            self._step_began = self._began
        elif self.current_action is ProfilerAction.WARMUP and action is not ProfilerAction.WARMUP:
            self._watch.take()
            self._began, self._shared_before = clock(), threads.sharing()
        self.current_action = action

    def _close(self, keep: bool) -> None:
        if self._watch is None:
            return
        if (
            self.step_num
            and keep
            and self._step_began >= self._began
            and self.current_action is not ProfilerAction.RECORD_AND_SAVE
        ):
            self._note_step()
        end = clock()
        self._watch.stop()
        notes = self._watch.take()
        while notes and notes[-6] >= end:
            del notes[-6:]
        notes[::6] = [max(start, self._began) for start in notes[::6]]  # notes of slices that started before
        notes.extend((self._began, end, get_ident(), "profile", "profile", None))
        if keep:
            before = self._notes if self.acc_events and self._notes else []
            self._notes, self._roots, self._results = [*before, *notes], {**self._roots, **self._watch.roots}, None
            self._sharing = threads.sharing().since(self._shared_before)
        self._watch = None

    def _note_step(self) -> None:
        self._watch.note(max(self._step_began, self._began), "step", f"ProfilerStep#{self.step_num}", None)

    # ---- results

    def _build_results(self) -> tuple[EventList, list[Memory]]:
        if self._results is None:
            if self._notes is None:
                raise AssertionError(
                    "Profiler must be initialized before getting key averages: nothing was recorded yet; leave its "
                    "block, or call stop()"
                )
            events, memory = build(self._notes, self._roots)
            self._results = EventList(events), memory
        return self._results

    def events(self) -> EventList:
        """All slices, ordered by start."""
        return self._build_results()[0]

    def _repr_html_(self) -> str:
        return self.key_averages()._repr_html_()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Slices summed by name and, optionally, by input shapes and source lines."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def kernels(self) -> list[KernelReport]:
        """Reports on all kernels that ran or were built: source, times, operations, machine code.

        Needs with_jit, and with_flops for rates.
        """
        return reports(self.events())

    def sharing(self) -> threads.Sharing:
        """Parallel launches of the last recording, and the time they lost waiting for threads."""
        self._build_results()
        return self._sharing

    def memory(self) -> list[Memory]:
        """Changes of memory usage, in order."""
        return sorted(self._build_results()[1], key=lambda change: change.time)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write the slices as JSON for Perfetto (ui.perfetto.dev) and chrome://tracing; a .gz file is gzipped."""
        chrome.export_trace(self.events(), self.memory(), self.metadata, path)

    def export_html(self, path: str, title: str = "numod profile", assembly: int = 6) -> None:
        """Write a self-contained HTML page with timeline, flame graph, modules, roofline and kernels.

        The `assembly` longest kernels are shown with their machine code. They are compiled again for it, with a limit
        of ten seconds.
        """
        report.export_html(self, path, title, assembly)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graphs, one `outer;inner;... number` per line. Needs with_stack.

        The number is the metric in microseconds.
        """
        if not self.with_stack:
            raise ValueError("export_stacks() needs the lines of code: profile(with_stack=True)")
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write memory usage over time. Needs profile_memory.

        The file is JSON, [times in us, bytes by category] (gzipped for .gz), or the HTML report for .html.
        """
        if not self.profile_memory:
            raise ValueError("export_memory_timeline() needs memory records: profile(profile_memory=True)")
        if path.endswith(".html"):
            self.export_html(path, title="Memory timeline", assembly=0)
        else:
            chrome.export_memory(self.memory(), path)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace's metadata."""
        self.metadata[key] = value

    preset_metadata = add_metadata

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the trace's metadata."""
        self.metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set the function that returns the id of the next trace."""
        self.custom_trace_id_callback, self._trace_id = callback, None

    def get_trace_id(self) -> str | None:
        """The id of the recorded trace: from `custom_trace_id_callback`, else generated; None before a recording."""
        if self._notes is None:
            return None
        if self._trace_id is None:
            self._trace_id = (
                self.custom_trace_id_callback()
                if self.custom_trace_id_callback is not None
                else uuid.uuid4().hex.upper()
            )
        return self._trace_id


class record_function:
    """A user-defined slice, as a context or decorator. It does nothing while no profiler is active."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begins: list[int] = []

    def __enter__(self) -> record_function:
        self._begins.append(clock())
        return self

    def __exit__(self, *_: object) -> None:
        begin = self._begins.pop()
        for profiler in _now[:1]:  # another thread may stop the profiler meanwhile
            if (watch := profiler._watch) is not None:
                watch.note(begin, "user", self.name, None)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*arguments, **kwargs)

        return wrapped


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each trace to its own file in a folder, for TensorBoard's plugin."""
    return functools.partial(chrome.write_for_tensorboard, dir_name, worker_name, use_gzip)
