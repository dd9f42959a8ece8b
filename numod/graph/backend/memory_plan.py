"""Memory planning: offsets of local buffers in one arena, where buffers with disjoint lifetimes share bytes.

First fit, in order of birth or of size.
"""

from __future__ import annotations

import numpy as np

from ...device.host_memory import by_numpy
from ...device.storage import address
from .lower import Buffer, CheckCall, Lowered

_BYTES = np.dtype(np.uint8)
ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered, boundary: int | None = None, alignment: int = ALIGNMENT) -> tuple[dict[Buffer, int], int]:
    """(byte offsets of the local buffers, multiples of `alignment`; the arena's size).

    Buffers alive across step `boundary` stay allocated to the end: a backward pass may run twice.
    """
    alive = lifetimes(lowered, boundary)
    by_birth, by_size = sorted(alive, key=alive.get), sorted(alive, key=lambda buffer: (-buffer.nbytes, alive[buffer]))
    return min((_placed(order, alive, alignment) for order in (by_birth, by_size)), key=lambda placement: placement[1])


def _placed(
    order: list[Buffer], alive: dict[Buffer, tuple[int, int]], alignment: int = ALIGNMENT
) -> tuple[dict[Buffer, int], int]:
    """First-fit offsets of the buffers in this order, and the total size."""
    offsets: dict[Buffer, int] = {}
    # rows: offset, end, first call, last call; columns: placed buffers by offset. An array, as there may be thousands
    placed = np.empty((4, len(order)), np.int64)
    for count, buffer in enumerate(order):
        first, last = alive[buffer]
        first_calls, last_calls = placed[2:, :count]
        starts, ends = placed[:2, :count][:, (first_calls <= last) & (first <= last_calls)]
        # the start of the gap before each live buffer, and of the space after the last one
        gap_starts = np.maximum.accumulate(np.concatenate([[0], ends]))
        fits = np.flatnonzero(starts - gap_starts[:-1] >= buffer.nbytes)
        offset = int(gap_starts[fits[0] if len(fits) else -1])
        index = int(np.searchsorted(placed[0, :count], offset, "right"))
        placed[:, index + 1 : count + 1] = placed[:, index:count]
        placed[:, index] = offset, offset + -(-buffer.nbytes // alignment) * alignment, first, last
        offsets[buffer] = offset
    return offsets, int(placed[1].max(initial=0))


def arena(size: int) -> np.ndarray:
    """Uninitialised bytes, aligned to a cache line: vectors that straddle two lines are slower."""
    memory = by_numpy(max(size, 1) + ALIGNMENT, _BYTES)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + max(size, 1)]


def lifetimes(lowered: Lowered, boundary: int | None = None) -> dict[Buffer, tuple[int, int]]:
    """The first and last call that access each local buffer."""
    alive: dict[Buffer, tuple[int, int]] = {}
    for number, call in enumerate(lowered.calls):
        buffers = (
            [call.span.buffer]
            if isinstance(call, CheckCall)
            else [*call.reads, *call.writes, *(a.buffer for a in call.arguments if hasattr(a, "buffer"))]
        )
        for buffer in buffers:
            if buffer.kind == "local":
                alive[buffer] = alive.get(buffer, (number, number))[0], number
    if boundary is None:
        return alive
    crossing_buffers = crossing(lowered, boundary)
    return {
        local: (first, len(lowered.calls) if local in crossing_buffers else last)
        for local, (first, last) in alive.items()
    }


def crossing(lowered: Lowered, boundary: int) -> set[Buffer]:
    """The local buffers that are accessed both before step `boundary` and after it."""
    split = next((k for k, call in enumerate(lowered.calls) if call.position >= boundary), len(lowered.calls))
    return {buffer for buffer, (first, last) in lifetimes(lowered).items() if first < split <= last}
