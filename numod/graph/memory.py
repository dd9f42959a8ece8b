"""Where local buffers lie in one arena: buffers that are never alive together share bytes. First fit, in order of birth."""

from __future__ import annotations

from .lower import Buffer, Lowered, Test

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def plan(lowered: Lowered) -> tuple[dict[Buffer, int], int]:
    """Byte offsets of the local buffers, and the arena's size."""
    places: dict[Buffer, int] = {}
    alive: list[tuple[int, int, int]] = []  # (offset, end, last use)
    size = 0
    for buffer, (first, last) in sorted(lifetimes(lowered).items(), key=lambda item: item[1]):
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


def lifetimes(lowered: Lowered) -> dict[Buffer, tuple[int, int]]:
    """The first and the last call that touch each local buffer."""
    found: dict[Buffer, tuple[int, int]] = {}
    for number, each in enumerate(lowered.calls):
        buffers = [each.span.buffer] if isinstance(each, Test) else [*each.reads, *each.writes, *(a.buffer for a in each.arguments if hasattr(a, "buffer"))]
        for buffer in buffers:
            if buffer.kind == "local":
                found[buffer] = found.get(buffer, (number, number))[0], number
    return found
