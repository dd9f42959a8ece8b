"""A section's kernels on a GPU, started by one call: the driver keeps them as a graph, and is told again only those whose arguments have changed.

What a run makes (results, gradients) and is given has other addresses than the last, and random numbers and hyper-parameters other values; most kernels work on
local memory and weights, and stay as they are. Memory that is freed is given again, so that addresses come again in turns: for these there are graphs of their
own. Kernels that do not wait for one another run beside each other, as far as there is room.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .lower import Buffer, Call, Integer, Number, Span, Test

LEAST = 3  # kernels that are worth it
GRAPHS = 3  # for as many turns of addresses: two, where a run's results and gradients are dropped for those of the next, and one for what is odd
MOST = 1 << 27  # bytes of local memory that a program may keep for itself: kernels that work on more take longer than their launches


def suits(calls: Sequence[Call | Test], size: int) -> bool:
    """Whether the calls are kernels on a GPU and nothing else, with local memory of this size in all."""
    kernels = [each.kernel for each in calls if isinstance(each, Call)]
    if len(calls) < LEAST or len(kernels) < len(calls) or size > MOST:
        return False
    return all(each is not None and each.device.type == "cuda" and not each.device.backend.SIMULATED for each in kernels)


class Replay:
    """Calls whose launchers are `launchers()`, ready to start together; `lock` must be held for it: they have their local memory, of `size` bytes, once.

    `buffers` and `numbers` are what may change from run to run: memory that is not local, and the (source, index) of run-time numbers.
    """

    def __init__(self, calls: Sequence[Call], launchers: Callable[[], Sequence[Callable]], places: dict[Buffer, int], size: int) -> None:
        self.calls, self.launchers, self.places, self.size = calls, launchers, places, size
        self.backend, self.lock = calls[0].kernel.device.backend, threading.Lock()
        self.buffers = list(dict.fromkeys(a.buffer for each in calls for a in each.arguments if isinstance(a, Span) and a.buffer.kind != "local"))
        late = sorted({((a.source, a.index), a.kind) for each in calls for a in each.arguments if isinstance(a, (Number, Integer))})
        self.numbers = [key for key, _ in late]
        self.users: list[list[int]] = [[] for _ in (*self.buffers, *self.numbers)]  # for each what changes with it
        place = {each: k for k, each in enumerate((*self.buffers, *self.numbers))}
        for k, each in enumerate(calls):
            keys = [a.buffer if isinstance(a, Span) else (a.source, a.index) for a in each.arguments if isinstance(a, (Span, Number, Integer))]
            for key in dict.fromkeys(keys):
                if key in place:
                    self.users[place[key]].append(k)
        self.words = struct.Struct(f"={len(self.buffers)}Q{''.join('q' if kind == 'int64' else 'd' for _, kind in late)}")
        self.graphs: dict[bytes, Any] = {}  # by what they were told, the last told behind
        self.stream: Any = None  # the one they were last started on

    def start(self, arrays: Sequence, numbers: Sequence[float]) -> None:
        """Start the kernels on memory for `buffers` and these `numbers`, in the current stream."""
        now = self.words.pack(*[each.address for each in arrays], *numbers)
        graph = self.graphs.get(now) or self._told(now, arrays, numbers)
        if self.backend.current.stream is not self.stream:
            self._follow(self.backend.current.stream)
        graph.start()

    def _told(self, now: bytes, arrays: Sequence, numbers: Sequence[float]) -> Any:
        """A graph that is told what is now: a new one, unless one that there is differs by a number, or there are enough."""
        memory, values = dict(zip(self.buffers, arrays)), dict(zip(self.numbers, numbers))

        def given(each: Any) -> Any:
            if isinstance(each, Span):
                array = memory[each.buffer] if each.buffer in memory else self._local(each.buffer)
                return array[each.offset :] if each.offset else array
            return values[each.source, each.index] if isinstance(each, (Number, Integer)) else each

        if not self.graphs:
            self.arena, self.stream = self.backend.empty(max(self.size, 1), np.dtype(np.uint8)), self.backend.current.stream
            self.behind = dependencies(self.calls, self.places)
        stale = {told: self._stale(told, now) for told in self.graphs}
        nearest = min(stale, key=lambda told: len(stale[told]), default=b"")
        if len(self.graphs) < GRAPHS and len(stale.get(nearest, self.calls)) > len(self.numbers):
            graph = self.backend.graph(self.launchers(), [[given(a) for a in each.arguments] for each in self.calls], self.behind)
        else:
            graph = self.graphs.pop(nearest)
            graph.change({k: [given(a) for a in self.calls[k].arguments] for k in stale[nearest]})
        self.graphs[now] = graph
        return graph

    def _stale(self, told: bytes, now: bytes) -> dict[int, None]:
        """The numbers of the kernels whose arguments have changed since."""
        changed = [k for k in range(len(self.users)) if now[8 * k : 8 * k + 8] != told[8 * k : 8 * k + 8]]
        return dict.fromkeys(number for k in changed for number in self.users[k])

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
    """For each call the numbers of those it must wait for: the last that wrote what it touches, and those that have read since what it writes.

    Local memory is known by its bytes, which buffers share. Arguments may be views of the same memory: they count as one.
    """
    touched = [dict.fromkeys("input" if a.buffer.kind == "input" else a.buffer for a in each.arguments if isinstance(a, Span)) for each in calls]
    locals_ = [each for each in dict.fromkeys(key for keys in touched for key in keys) if isinstance(each, Buffer) and each.kind == "local"]
    starts = np.array([places[each] for each in locals_], np.int64)
    ends = starts + np.array([max(each.nbytes, 1) for each in locals_], np.int64)
    beside = {each: [locals_[j] for j in np.flatnonzero((starts < ends[k]) & (starts[k] < ends))] for k, each in enumerate(locals_)}
    writer: dict[Any, int] = {}
    readers: dict[Any, list[int]] = {}
    found, before = [], []  # `before`: of each call all that it waits for, through others too, as bits
    for number, (call, keys) in enumerate(zip(calls, touched)):
        reads = {"input" if each.kind == "input" else each for each in call.reads}
        writes = {"input" if each.kind == "input" else each for each in call.writes}
        written = {key for key in keys if key in writes or key not in reads}
        waits = {writer[each] for key in keys for each in beside.get(key, [key]) if each in writer}
        waits.update(reader for key in written for each in beside.get(key, [key]) for reader in readers.get(each, ()))
        bits = 0
        for each in waits:
            bits |= before[each]
        found.append(sorted(each for each in waits if not bits >> each & 1))
        before.append(bits | sum(1 << each for each in waits))
        for key in keys:
            if key in written:
                writer[key], readers[key] = number, []
            else:
                readers.setdefault(key, []).append(number)
    return found
