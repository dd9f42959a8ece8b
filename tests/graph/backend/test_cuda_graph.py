"""Dependencies between the kernels of a CUDA graph."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import numod
from numod.graph.backend.lower import Buffer, Call, Span
from numod.graph.backend.cuda_graph import dependencies


def buffer(kind: str, size: int = 8) -> Buffer:
    return Buffer(kind, size, np.dtype(np.float32), numod.device("cpu"))


def call(reads: list[Buffer], writes: list[Buffer], also: tuple[Buffer, ...] = ()) -> Call:
    return Call(None, tuple(map(Span, [*reads, *writes, *also])), 0, None, tuple(reads), tuple(writes))


def test_kernels_wait_for_what_they_read_and_overwrite() -> None:
    x, y, weight, a, b, c = (
        buffer("input"),
        buffer("input"),
        buffer("result"),
        buffer("local"),
        buffer("local"),
        buffer("local"),
    )
    places = {a: 0, b: 32, c: 16}  # c lies on halves of a and b
    calls = [
        call([x], [a]), call([weight], [b]),  # neither waits
        call([a, b], [buffer("result")]),  # for both
        call([x], [c]),  # overwrites a and b: for the reader, who waited for the writers
        call([x], [a]),  # overwrites a part of c
        call([c, x], [weight]), call([weight], [y]),  # y may be a view of x
    ]  # fmt: skip
    assert dependencies(calls, places) == [[], [], [0, 1], [2], [3], [4], [5]]


def test_memory_held_twice_and_given_is_one() -> None:
    class Data:
        def __init__(self, address: int) -> None:
            self.address = address

    def buffer_at(address: int) -> Buffer:
        tensor = numod.zeros(8)
        tensor._storage = SimpleNamespace(data=Data(address))
        return Buffer("held", 8, np.dtype(np.float32), numod.device("cpu"), tensor)

    one, half, other, x = buffer_at(64), buffer_at(80), buffer_at(96), buffer("input")
    calls = [
        call([one], [buffer("result")]),
        call([], [half]),
        call([other], [buffer("result")]),
        call([], [x]),
        call([one], [buffer("result")]),
    ]
    # the third call depends on the second: their buffers overlap
    assert dependencies(calls, {}) == [[], [0], [1], [2], [3]]


def test_memory_that_a_launch_took_for_itself_is_written() -> None:
    parts, x, out = buffer("local"), buffer("input"), buffer("result")
    assert dependencies(
        [call([x], [], (parts,)), call([x], [out], (parts,)), call([x], [buffer("result")])], {parts: 0}
    ) == [[], [0], []]
