"""Events: recorded notes turned into nested slices, with names, module paths and the cost of their ops.

Names are PyTorch's where it has one. Times are in microseconds, as in PyTorch; `start` and `end` are in nanoseconds.
"""

from __future__ import annotations

import gc
from enum import Enum
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from ..autograd.tape import Node
from ..device import Layout
from ..graph.report.explain import work
from ..kernel.build import Kernel
from ..nn.module import Module
from ..ops import cost
from ..ops.op import Op
from .launches import Parts
from .watch import Call


def time_text(microseconds: float, unit: str | None = None) -> str:
    """A time as text, such as 1.234ms, in PyTorch's format; `unit` may be s, ms or us."""
    for name, size in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if name == unit or (unit is None and (abs(microseconds) >= size or name == "us")):
            return f"{microseconds / size:.3f}{name}"
    raise ValueError(f"time_unit must be one of None, 's', 'ms' and 'us', got {unit!r}")


class DeviceType(Enum):
    """Where a slice ran. numod's slices are on the host; GPU kernels have the GPU's time as well."""

    CPU = 0
    CUDA = 1


class TimeTexts:
    """Attributes that events and averages have in PyTorch: times as text, and constants."""

    (
        cpu_time_str,
        cpu_time_total_str,
        self_cpu_time_total_str,
        device_time_str,
        device_time_total_str,
        self_device_time_total_str,
    ) = (
        property(lambda self, name=name: time_text(getattr(self, name)))
        for name in (
            "cpu_time",
            "cpu_time_total",
            "self_cpu_time_total",
            "device_time",
            "device_time_total",
            "self_device_time_total",
        )
    )
    self_cuda_memory_usage = property(lambda self: self.self_device_memory_usage)
    device_type, node_id, scope, overload_name, use_device = DeviceType.CPU, -1, 0, "", None
    is_async = is_remote = is_legacy = False


class Event(TimeTexts):
    """A slice of time.

    `category`: profile, step, user, module, op, item, plan, node (an op's gradient), backward, optimizer, data,
    compiled, kernel, compile, load, pass, import, gc.
    """

    module = ""  # path of the module it ran in, or whose gradient it computed
    forward: Event | None = None  # for a gradient: the event of its forward op
    memory_delta = 0  # bytes allocated minus bytes freed in the slice itself

    def __init__(
        self, start: int, end: int, thread: int, category: str, subject: Any = None, detail: Any = None
    ) -> None:
        self.start, self.end, self.thread, self.category, self.detail = start, end, thread, category, detail
        self.call = subject if isinstance(subject, Call) else None
        self.subject = self.call.op if self.call else subject
        self.cpu_parent: Event | None = None
        self.cpu_children: list[Event] = []
        self.id = 0

    @cached_property
    def name(self) -> str:
        """The name in tables."""
        if isinstance(self.subject, Op):
            return (
                f"numod::{self.subject.name}"
                if self.category == "op"
                else Node.name(SimpleNamespace(op=self.subject, outputs=()))
            )
        if isinstance(self.subject, Module):
            return f"nn.Module: {self.module}"
        if isinstance(self.subject, Kernel):
            return f"{self.category} {self.subject.name[:-10]}"  # six digits of the hash distinguish variants
        if callable(self.subject):
            return self.subject(self.detail)
        return self.subject

    key = property(lambda self: self.name)

    # ---- times, in microseconds

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start

    self_duration = 0  # excluding nested slices
    cpu_time_total = cpu_time = property(lambda self: self.duration / 1e3)
    self_cpu_time_total = property(lambda self: self.self_duration / 1e3)
    self_device_time_total = 0.0  # for a GPU kernel, the time on the GPU
    device_time_total = 0.0
    device_time = cuda_time = cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)
    time_range = property(
        lambda self: SimpleNamespace(start=self.start / 1e3, end=self.end / 1e3, elapsed_us=lambda: self.cpu_time_total)
    )
    count = 1

    # ---- attributes of an op's call

    @cached_property
    def input_shapes(self) -> list[list[int]]:
        """Shapes of the inputs; an empty list for a number."""
        return (
            [list(input.shape) if isinstance(input, Layout) else [] for input in self.call.inputs] if self.call else []
        )

    @cached_property
    def input_dtypes(self) -> list[str]:
        """dtypes of the inputs (`float32`), or types of numbers (`int`)."""
        return (
            [
                str(input.dtype).rpartition(".")[2] if isinstance(input, Layout) else input.__name__
                for input in self.call.inputs
            ]
            if self.call
            else []
        )

    external_id = property(lambda self: self.id)
    trace_name = property(lambda self: self.name)
    kernels = property(lambda self: [cpu_child for cpu_child in self.cpu_children if cpu_child.category == "kernel"])

    @property
    def parts(self) -> Parts | None:
        """The parts of the threads, for a parallel kernel."""
        return self.detail if isinstance(self.detail, Parts) else None

    flops = multiply_adds = bytes_moved = 0  # computed from the op's shapes; 0 if they were not recorded

    @property
    def stack(self) -> list[str]:
        """Source lines of the user's code, innermost first; a gradient has those of its forward op."""
        lines = self.call.stack if self.call else ()
        return list(
            lines
            or (
                self.forward.stack
                if self.forward
                else self.cpu_parent.stack
                if self.cpu_parent and self.category in ("kernel", "op")
                else ()
            )
        )

    @property
    def sequence_nr(self) -> int:
        """The number of the tape node that the op created, or whose gradient this is; -1 if there is none."""
        return -1 if self.detail is None or self.category not in ("op", "node") else self.detail

    # ---- memory, in bytes

    self_cpu_memory_usage = property(lambda self: self.memory_delta)
    self_device_memory_usage = device_memory_usage = 0

    cpu_memory_usage = 0  # including nested slices
    is_user_annotation = property(lambda self: self.category == "user")

    def __repr__(self) -> str:
        return f"<Event {self.name}: {self.cpu_time_total:.1f} us, self {self.self_cpu_time_total:.1f} us>"


class Memory:
    """A change of memory usage: time and number of bytes."""

    def __init__(self, time: int, size: int) -> None:
        self.time, self.size = time, size


def build(notes: list, roots: dict[Module, str]) -> tuple[list[Event], list[Memory]]:
    """(slices ordered by start, with their nesting; changes of memory usage).

    Within a thread's notes, inner slices precede outer ones.
    """
    collecting = gc.isenabled()
    gc.disable()  # the collector would traverse all these objects repeatedly, although none is garbage
    try:
        return _build(notes, roots)
    finally:
        if collecting:
            gc.enable()


def _build(notes: list, roots: dict[Module, str]) -> tuple[list[Event], list[Memory]]:
    """The events as a forest, and the memory samples, from notes of six entries each, in the order of their ends."""
    open_: dict[int, list[Event]] = {}
    node_numbers: dict[int, int] = {}  # by thread: the node number of the op that ends next
    memory, events = [], []
    for start, end, thread, category, subject, detail in zip(*[iter(notes)] * 6):
        if category == "node_number":
            node_numbers[thread] = detail
            continue
        if category == "op":
            detail = node_numbers.pop(thread, None)
        event = Event(start, end, thread, category, subject, detail)
        stack = open_.setdefault(thread, [])
        children, later = event.cpu_children, []
        while stack and stack[-1].start >= start:
            # slices that started after this slice's end were noted between that end and this note: a garbage
            # collection, or memory of the op
            inner = stack.pop()
            (children if inner.end <= end or inner.category == "memory" else later).append(inner)
        children.reverse()
        if category == "foreseen":
            events = _without_launches(event, events)
        stack += [event, *reversed(later)]
        if category == "memory":
            memory.append(Memory(start, subject))
            continue
        events.append(event)
        if event.call and event.call.sizes:
            memory.append(Memory(end, sum(event.call.sizes)))
    costs: dict[int, tuple[int, ...]] = {}
    for event in events:  # inner slices come first
        event.memory_delta = sum(
            [cpu_child.subject for cpu_child in event.cpu_children if cpu_child.category == "memory"]
        ) + (sum(event.call.sizes) if event.call else 0)
        event.cpu_children = [cpu_child for cpu_child in event.cpu_children if cpu_child.category != "memory"]
        for cpu_child in event.cpu_children:
            cpu_child.cpu_parent = event
        _add_up(event, costs)
    events.sort(key=lambda event: (event.start, -event.end))
    for number, event in enumerate(events):
        event.id = number
    _link(events, roots)
    return events, memory


def _without_launches(event: Event, events: list[Event]) -> list[Event]:
    """`events` without those inside a slice in which nothing was launched, such as ops; slices of kernels stay."""
    kernels, dropped, waiting = [], set(), [*event.cpu_children]
    while waiting:
        inner = waiting.pop(0)
        if inner.category in ("compile", "load", "import", "pass"):
            kernels.append(inner)
        else:
            dropped.add(inner)
            waiting[:0] = inner.cpu_children
    event.cpu_children = kernels
    return [other for other in events if other not in dropped]


def _add_up(event: Event, costs: dict[int, tuple[int, ...]]) -> None:
    """Sum up nested slices, and compute the cost from the op's shapes."""
    inner = event.cpu_children
    event.self_duration = event.duration - sum([child.duration for child in inner])
    event.cpu_memory_usage = event.memory_delta + sum([child.cpu_memory_usage for child in inner])
    if event.category == "kernel" and event.detail is not None:
        event.self_device_time_total = event.detail.microseconds(event.duration)
    event.device_time_total = event.self_device_time_total + sum([child.device_time_total for child in inner])
    # an op on 16-bit floats may consist of other ops, which are counted
    counted_inside = any([child.category == "op" and child.flops for child in inner])
    if event.call and event.call.results and not counted_inside:
        if id(event.call) not in costs:
            call = event.call[:4]
            costs[id(event.call)] = (
                cost.flops(*call),
                cost.multiply_adds(*call),
                cost.bytes_moved(event.subject, event.call.inputs, event.call.results),
            )
        event.flops, event.multiply_adds, event.bytes_moved = costs[id(event.call)]
    recorded_by_op = any([child.category != "kernel" for child in inner])
    if event.category == "compiled" and event.detail is not None and not recorded_by_op:
        if id(event.detail) not in costs:
            costs[id(event.detail)] = work(event.detail)
        event.flops, event.bytes_moved = costs[id(event.detail)]


def _link(events: list[Event], roots: dict[Module, str]) -> None:
    """Set module paths, from the outermost slice inwards, and link gradients to their forward ops."""
    by_node: dict[int, Event] = {}
    names: dict[int, dict[int, str]] = {}
    for event in events:
        outer = event.cpu_parent
        event.module = outer.module if outer is not None else ""
        if event.category == "module":
            event.module = _path(event, roots, names)
        elif event.category == "op" and event.detail is not None:
            by_node[event.detail] = event
        elif event.category == "node":
            event.forward = by_node.get(event.detail)
            event.module = event.forward.module if event.forward else event.module


def _path(event: Event, roots: dict[Module, str], names: dict[int, dict[int, str]]) -> str:
    """The path of a module from the outermost module called, such as `net.layer1.conv`."""
    outermost, outer = event.subject, event.cpu_parent
    while outer is not None:
        outermost = outer.subject if outer.category == "module" else outermost
        outer = outer.cpu_parent
    root = roots.get(outermost) or type(outermost).__name__
    if id(outermost) not in names:
        names[id(outermost)] = {id(module): path for path, module in outermost.named_modules()}
    inside = names[id(outermost)].get(id(event.subject))
    if inside is None:
        return f"{event.module}.{type(event.subject).__name__}"
    return f"{root}.{inside}" if inside else root
