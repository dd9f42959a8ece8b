"""A section's kernels on a GPU, started by one call: the driver keeps them as a graph, and is told again only those
whose arguments have changed.

What a run makes (results, gradients) and is given has other addresses than the last, and random numbers and
hyper-parameters other values; most kernels work on local memory and weights, and stay as they are. Memory that is freed
is given again, so that addresses come again in turns: for these there are graphs of their own. Kernels that do not wait
for one another run beside each other, as far as there is room.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .lower import Buffer, Call, Integer, Number, Span, Test

LEAST = 3  # kernels that are worth it
# for as many sets of addresses: a step whose loss and gradients are dropped for those of the next comes back to the
# first after four
GRAPHS = 4
# bytes of local memory that a program may keep for itself: kernels that work on more take longer than their launches
MOST = 1 << 27


def suits(calls: Sequence[Call | Test], size: int) -> bool:
    """Whether the calls are kernels on a GPU and nothing else, with local memory of this size in all."""
    kernels = [call.kernel for call in calls if isinstance(call, Call)]
    if len(calls) < LEAST or len(kernels) < len(calls) or size > MOST:
        return False
    return all(
        kernel is not None and kernel.device.type == "cuda" and not kernel.device.backend.SIMULATED
        for kernel in kernels
    )


class Told:
    """A graph, and the numbers that it was last told, as bytes."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.numbers = graph, b""


class Replay:
    """Calls whose launchers are `launchers()`, ready to start together; `lock` must be held for it: they have their
    local memory once.

    `buffers` and `numbers` are what may change from run to run: memory that is not local, and the (source, index) of
    run-time numbers.
    """

    def __init__(
        self, calls: Sequence[Call], launchers: Callable[[], Sequence[Callable]], places: dict[Buffer, int]
    ) -> None:
        self.calls, self.launchers, self.places = calls, launchers, places
        self.backend, self.lock = calls[0].kernel.device.backend, threading.Lock()
        spans = dict.fromkeys(a.buffer for call in calls for a in call.arguments if isinstance(a, Span))
        self.size = max((places[span] + span.nbytes for span in spans if span.kind == "local"), default=1)
        self.buffers = sorted((span for span in spans if span.kind != "local"), key=lambda span: span.kind != "held")
        self.held = 8 * sum(buffer.kind == "held" for buffer in self.buffers)  # bytes of their addresses, the first
        late = sorted(
            {
                ((a.source, a.index), a.kind)
                for call in calls
                for a in call.arguments
                if isinstance(a, (Number, Integer))
            }
        )
        self.numbers = [key for key, _ in late]
        self.users: list[list[int]] = [[] for _ in self.buffers]  # for each the calls that it is given to
        place = {buffer: k for k, buffer in enumerate(self.buffers)}
        for k, call in enumerate(calls):
            for buffer in dict.fromkeys(a.buffer for a in call.arguments if isinstance(a, Span) and a.buffer in place):
                self.users[place[buffer]].append(k)
        self.counted = [
            k for k, call in enumerate(calls) if any(isinstance(a, (Number, Integer)) for a in call.arguments)
        ]
        self.addresses = struct.Struct(f"={len(self.buffers)}Q")
        self.words = struct.Struct(f"={''.join('q' if kind == 'int64' else 'd' for _, kind in late)}")
        self.graphs: dict[bytes, Told] = {}  # by the addresses they were told, the last used behind
        self.stream: Any = None  # the one they were last started on

    def ready(self, arrays: Sequence) -> Told:
        """The graph for this memory of `buffers`.

        Where it cannot be made, this raises, before a run has changed anything.
        """
        now = self.addresses.pack(*[array.address for array in arrays])
        told = self.graphs[now] = self.graphs.pop(now, None) or self._told(now, arrays)
        return told

    def start(self, told: Told, arrays: Sequence, numbers: Sequence[float]) -> None:
        """Start the kernels of what is `ready` for these arrays, with these `numbers`, in the current stream."""
        now = self.words.pack(*numbers)
        if now != told.numbers:
            told.graph.change(self._given(self.counted, arrays, numbers))
            told.numbers = now
        if self.backend.current.stream is not self.stream:
            self._follow(self.backend.current.stream)
        told.graph.start()

    def _told(self, now: bytes, arrays: Sequence) -> Told:
        """A graph that is told where memory is now: a new one, or where there are enough that which was used least
        lately.
        """
        oldest = next(iter(self.graphs), b"")
        if len(self.graphs) == GRAPHS and oldest[: self.held] == now[: self.held]:
            changed = [k for k in range(len(self.users)) if now[8 * k : 8 * k + 8] != oldest[8 * k : 8 * k + 8]]
            told = self.graphs.pop(oldest)
            told.numbers = b""  # what is told here are no numbers of a run
            told.graph.change(
                self._given(
                    dict.fromkeys(number for k in changed for number in self.users[k]), arrays, [0] * len(self.numbers)
                )
            )
            return told
        if not self.graphs:
            self.arena, self.stream = self.backend.empty(self.size, np.dtype(np.uint8)), self.backend.current.stream
        given = self._given(range(len(self.calls)), arrays, [0] * len(self.numbers))
        told = Told(self.backend.graph(self.launchers(), list(given.values()), dependencies(self.calls, self.places)))
        if len(self.graphs) == GRAPHS:
            del self.graphs[oldest]
        return told

    def _given(self, which: Iterable[int], arrays: Sequence, numbers: Sequence[float]) -> dict[int, list]:
        """The arguments of some of the calls."""
        memory, values = dict(zip(self.buffers, arrays)), dict(zip(self.numbers, numbers))

        def given(each: Any) -> Any:
            if isinstance(each, Span):
                return each.of(memory[each.buffer] if each.buffer in memory else self._local(each.buffer))
            return values[each.source, each.index] if isinstance(each, (Number, Integer)) else each

        return {k: [given(a) for a in self.calls[k].arguments] for k in which}

    def _follow(self, stream: Any) -> None:
        """Let the stream wait for what the last one was told: all graphs have the same local memory."""
        mark = self.backend.make_event(False)
        mark.record(self.stream)
        mark.wait(stream)
        self.stream = stream
        self.backend.record_stream(self.arena, stream)

    def _local(self, buffer: Buffer) -> Any:
        offset = self.places[buffer]
        return self.arena[offset : offset + buffer.nbytes].view(buffer.storage)


def dependencies(calls: Sequence[Call], places: dict[Buffer, int]) -> list[list[int]]:
    """For each call the numbers of those it must wait for: the last that wrote what it touches, and those that have
    read since what it writes.

    Memory that is local or held is known by its bytes, which buffers share. Arguments may be views of the same memory,
    and of what is held: they count as one.
    """
    touched = [
        dict.fromkeys("input" if a.buffer.kind == "input" else a.buffer for a in call.arguments if isinstance(a, Span))
        for call in calls
    ]
    buffers = [each for each in dict.fromkeys(key for keys in touched for key in keys) if each != "input"]
    beside = _overlapping({buffer: places[buffer] for buffer in buffers if buffer.kind == "local"})
    held = _overlapping({buffer: buffer.tensor._storage.data.address for buffer in buffers if buffer.kind == "held"})
    beside |= {**{each: ["input", *others] for each, others in held.items()}, "input": ["input", *held]}
    writer: dict[Any, int] = {}
    readers: dict[Any, list[int]] = {}
    found, before = [], []  # `before`: of each call all that it waits for, through others too, as bits
    for number, (call, keys) in enumerate(zip(calls, touched)):
        reads = {"input" if read.kind == "input" else read for read in call.reads}
        writes = {"input" if write.kind == "input" else write for write in call.writes}
        written = {key for key in keys if key in writes or key not in reads}
        waits = {writer[each] for key in keys for each in beside.get(key, [key]) if each in writer}
        waits.update(reader for key in written for each in beside.get(key, [key]) for reader in readers.get(each, ()))
        bits = 0
        for wait in waits:
            bits |= before[wait]
        found.append(sorted(wait for wait in waits if not bits >> wait & 1))
        before.append(bits | sum(1 << wait for wait in waits))
        for key in keys:
            if key in written:
                writer[key], readers[key] = number, []
            else:
                readers.setdefault(key, []).append(number)
    return found


def _overlapping(begins: dict[Buffer, int]) -> dict[Buffer, list[Buffer]]:
    """For each of the buffers, which begin at these bytes, those that it has bytes in common with, itself among
    them.
    """
    buffers, starts = list(begins), np.array(list(begins.values()), np.int64)
    ends = starts + np.array([max(buffer.nbytes, 1) for buffer in buffers], np.int64)
    return {
        buffer: [buffers[j] for j in np.flatnonzero((starts < ends[k]) & (starts[k] < ends))]
        for k, buffer in enumerate(buffers)
    }
