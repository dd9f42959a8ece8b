"""Where local buffers lie in one arena: buffers that are never alive together share bytes. First fit, in order of birth."""

from __future__ import annotations

import numpy as np

from .lower import Buffer, Lowered, Test

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered, boundary: int | None = None) -> tuple[dict[Buffer, int], int]:
    """Byte offsets of the local buffers, and the arena's size. What lives across step `boundary` keeps its bytes to the end: a backward pass may run twice."""
    places: dict[Buffer, int] = {}
    alive: list[tuple[int, int, int]] = []  # (offset, end, last use)
    size = 0
    for buffer, (first, last) in sorted(lifetimes(lowered, boundary).items(), key=lambda item: item[1]):
        alive = sorted(each for each in alive if each[2] >= first)
        offset = 0
        for start, end, _ in alive:
            if start - offset >= buffer.nbytes:
                break
            offset = max(offset, end)
        end = offset + -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT
        alive.append((offset, end, last))
        places[buffer], size = offset, max(size, end)
    return places, size


def arena(size: int) -> np.ndarray:
    """Fresh bytes that begin where a cache line does: vectors that cross lines cost twice."""
    memory = np.empty(max(size, 1) + ALIGNMENT, np.uint8)
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
