"""`numod.cuda.Stream` and `Event`: queues of work on the device, and marks in them.

Work of one queue runs in order; queues run side by side.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any

from .. import config
from ..device.device import Device

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


def _back_end() -> Any:
    return Device("cuda").backend


class Event:
    """A mark in a stream. With `enable_timing`, `elapsed_time` tells the milliseconds between two of them."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise ValueError("an Event of numod belongs to one process; share tensors through the host instead")
        self.enable_timing, self.blocking = enable_timing, blocking
        self._raw = _back_end().make_event(enable_timing)
        self._recorded: float | None = None  # the host's clock: all the simulator has

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind what `stream` (the current one) was told so far."""
        self._raw.record((stream or current_stream())._raw)
        self._recorded = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Let what `stream` is told from now on wait for the mark."""
        self._raw.wait((stream or current_stream())._raw)

    def query(self) -> bool:
        """Whether all before the mark has run."""
        return self._recorded is None or self._raw.query()

    def synchronize(self) -> None:
        """Wait for the mark. Raises what kernels reported."""
        self._raw.synchronize()
        _back_end().reports().raise_reported()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another.

        Raises RuntimeError where one was not recorded, ValueError where one takes no time.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end_event._recorded is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if config.cuda_simulator():
            return 1e3 * (end_event._recorded - self._recorded)
        return self._raw.elapsed_time(end_event._raw)

    def __repr__(self) -> str:
        return f"<numod.cuda.Event {id(self._raw):#x}>"


class Stream:
    """A queue of work.

    `with numod.cuda.stream(s):` sends what follows to it. `priority` is accepted and has no effect.
    """

    def __init__(self, device: Device | str | int | None = None, priority: int = 0) -> None:
        self.device, self.priority = Device("cuda" if device is None else device), priority
        self._raw = self.device.backend.make_stream()
        self._outer: list[Any] = []

    @property
    def cuda_stream(self) -> int:
        """The driver's handle; 0 for the default stream."""
        return 0 if self._raw is None else self._raw.handle

    def synchronize(self) -> None:
        """Wait for all work of the stream. Raises what kernels reported."""
        if self._raw is not None:
            self._raw.synchronize()
            _back_end().reports().raise_reported()
        else:
            _back_end().synchronize()

    def query(self) -> bool:
        """Whether all work of the stream has run."""
        return self.record_event().query()

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark behind what the stream was told so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work wait for a mark of another stream."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for all that another stream was told so far."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._raw is self._raw

    def __hash__(self) -> int:
        return hash((Stream, id(self._raw)))

    def __enter__(self) -> Stream:
        self._outer.append(_back_end().current.stream)
        _back_end().current.stream = self._raw
        return self

    def __exit__(self, *error: object) -> None:
        _back_end().current.stream = self._outer.pop()

    def __repr__(self) -> str:
        return f"<numod.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def _over(raw: Any) -> Stream:
    """The Stream of a back end's stream; None is the default one."""
    stream = object.__new__(Stream)
    stream.device, stream.priority, stream._raw, stream._outer = Device("cuda"), 0, raw, []
    return stream


def current_stream(device: Device | str | int | None = None) -> Stream:
    """The stream that this thread's work goes to."""
    return _over(_back_end().current.stream)


def default_stream(device: Device | str | int | None = None) -> Stream:
    """The stream that work goes to unless another is chosen."""
    return _over(None)


def set_stream(stream: Stream) -> None:
    """Send this thread's work to `stream` from now on."""
    _back_end().current.stream = stream._raw


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Send this thread's work to `stream` in the block; None changes nothing."""
    if stream is None:
        yield
        return
    with stream:
        yield


StreamContext = stream
