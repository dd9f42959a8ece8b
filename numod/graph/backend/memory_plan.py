"""Memory planning: offsets of local buffers in one arena, where buffers with disjoint lifetimes share bytes.

First fit, in order of birth or of size.
"""

from __future__ import annotations

import numpy as np

from ...device.host_memory import by_numpy
from ...device.storage import address
from .lower import Buffer, Lowered, Test

_BYTES = np.dtype(np.uint8)
ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered, boundary: int | None = None, alignment: int = ALIGNMENT) -> tuple[dict[Buffer, int], int]:
    """(byte offsets of the local buffers, multiples of `alignment`; the arena's size).

    Buffers alive across step `boundary` stay allocated to the end: a backward pass may run twice."""
    alive = lifetimes(lowered, boundary)
    by_birth, by_size = sorted(alive, key=alive.get), sorted(alive, key=lambda each: (-each.nbytes, alive[each]))
    return min((_placed(order, alive, alignment) for order in (by_birth, by_size)), key=lambda found: found[1])


def _placed(
    order: list[Buffer], alive: dict[Buffer, tuple[int, int]], alignment: int = ALIGNMENT
) -> tuple[dict[Buffer, int], int]:
    """First-fit offsets of the buffers in the given order, and the total size."""
    places: dict[Buffer, int] = {}
    # offset, end, first call and last call of each buffer placed, in order of offsets: a step may have thousands
    taken = np.empty((4, len(order)), np.int64)
    for count, buffer in enumerate(order):
        first, last = alive[buffer]
        begins, untils = taken[2:, :count]
        starts, ends = taken[:2, :count][:, (begins <= last) & (first <= untils)]
        # where the space before each of these begins, and that after the last
        free = np.maximum.accumulate(np.concatenate([[0], ends]))
        fitting = np.flatnonzero(starts - free[:-1] >= buffer.nbytes)
        offset = int(free[fitting[0] if len(fitting) else -1])
        place = int(np.searchsorted(taken[0, :count], offset, "right"))
        taken[:, place + 1 : count + 1] = taken[:, place:count]
        taken[:, place] = offset, offset + -(-buffer.nbytes // alignment) * alignment, first, last
        places[buffer] = offset
    return places, int(taken[1].max(initial=0))


def arena(size: int) -> np.ndarray:
    """Uninitialised bytes aligned to a cache line: vectors that straddle two lines cost twice."""
    memory = by_numpy(max(size, 1) + ALIGNMENT, _BYTES)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + max(size, 1)]


def lifetimes(lowered: Lowered, boundary: int | None = None) -> dict[Buffer, tuple[int, int]]:
    """The first and the last call that touch each local buffer."""
    found: dict[Buffer, tuple[int, int]] = {}
    for number, call in enumerate(lowered.calls):
        buffers = (
            [call.span.buffer]
            if isinstance(call, Test)
            else [*call.reads, *call.writes, *(a.buffer for a in call.arguments if hasattr(a, "buffer"))]
        )
        for buffer in buffers:
            if buffer.kind == "local":
                found[buffer] = found.get(buffer, (number, number))[0], number
    if boundary is None:
        return found
    across = crossing(lowered, boundary)
    return {each: (first, len(lowered.calls) if each in across else last) for each, (first, last) in found.items()}


def crossing(lowered: Lowered, boundary: int) -> set[Buffer]:
    """The local buffers that calls before step `boundary` touch and later ones too."""
    split = next((k for k, call in enumerate(lowered.calls) if call.position >= boundary), len(lowered.calls))
    return {each for each, (first, last) in lifetimes(lowered).items() if first < split <= last}
