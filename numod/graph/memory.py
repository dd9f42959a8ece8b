"""Memory planning: offsets of local buffers in one arena, where buffers with disjoint lifetimes share bytes. First fit, in order of birth or of size."""

from __future__ import annotations

from bisect import insort

import numpy as np

from ..device.host_memory import by_numpy
from .lower import Buffer, Lowered, Test

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered, boundary: int | None = None) -> tuple[dict[Buffer, int], int]:
    """(byte offsets of the local buffers, the arena's size). Buffers alive across step `boundary` stay allocated to the end: a backward pass may run twice."""
    alive = lifetimes(lowered, boundary)
    by_birth, by_size = sorted(alive, key=alive.get), sorted(alive, key=lambda each: (-each.nbytes, alive[each]))
    return min((_placed(order, alive) for order in (by_birth, by_size)), key=lambda found: found[1])


def _placed(order: list[Buffer], alive: dict[Buffer, tuple[int, int]]) -> tuple[dict[Buffer, int], int]:
    """First-fit offsets of the buffers in the given order, and the total size."""
    places: dict[Buffer, int] = {}
    taken: list[tuple[int, int, int, int]] = []  # (offset, end, first call, last call), in order
    for buffer in order:
        first, last = alive[buffer]
        offset = 0
        for start, end, begin, until in taken:
            if begin <= last and first <= until:
                if start - offset >= buffer.nbytes:
                    break
                offset = max(offset, end)
        insort(taken, (offset, offset + -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT, first, last))
        places[buffer] = offset
    return places, max((end for _, end, *_ in taken), default=0)


def arena(size: int) -> np.ndarray:
    """Uninitialised bytes aligned to a cache line: vectors that straddle two lines cost twice."""
    memory = by_numpy(max(size, 1) + ALIGNMENT, np.dtype(np.uint8))
    return memory[-memory.ctypes.data % ALIGNMENT :][: max(size, 1)]


def lifetimes(lowered: Lowered, boundary: int | None = None) -> dict[Buffer, tuple[int, int]]:
    """The first and the last call that touch each local buffer."""
    found: dict[Buffer, tuple[int, int]] = {}
    for number, each in enumerate(lowered.calls):
        buffers = [each.span.buffer] if isinstance(each, Test) else [*each.reads, *each.writes, *(a.buffer for a in each.arguments if hasattr(a, "buffer"))]
        for buffer in buffers:
            if buffer.kind == "local":
                found[buffer] = found.get(buffer, (number, number))[0], number
    if boundary is None:
        return found
    split = next((k for k, each in enumerate(lowered.calls) if each.position >= boundary), len(lowered.calls))
    return {each: (first, len(lowered.calls) if first < split <= last else last) for each, (first, last) in found.items()}
