"""Moves checks, and the calls that they depend on, to the front of a run.

If a check fails, the run has then not changed any external memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .lower import Buffer, Call, CheckCall, Loaded, Span

FIRST = -1  # the position of calls that were moved forward


def checks_first(
    calls: Sequence[Call | CheckCall], shared: Sequence[int], inputs: int | None = None
) -> list[Call | CheckCall]:
    """Move each check and the calls that it depends on to the front, if their data dependencies allow it.

    `shared`: for each input, the first one with the same memory. `inputs`: number of inputs available at the start.
    """
    front, rest = [], list(calls)
    for test in [call for call in calls if isinstance(call, CheckCall)]:
        moved = _dependencies(test, rest, shared, inputs)
        if moved is not None:
            front += [entry for entry in rest if id(entry) in moved]
            rest = [entry for entry in rest if id(entry) not in moved]
    for moved_call in front:
        moved_call.position = FIRST
    return front + rest


def may_fail(call: Call | CheckCall) -> bool:
    """Whether the call is a check, or runs on the host and may raise (at a singular matrix, for example).

    The eager function then runs again, which is not allowed for ops in which other processes take part.
    """
    return isinstance(call, CheckCall) or call.host is not None and call.step.op.repeatable


def written_before_checks(calls: Sequence[Call | CheckCall]) -> list[Buffer]:
    """The external buffers that are written before the last call that may fail."""
    last_check = max((k for k, call in enumerate(calls) if may_fail(call)), default=0)
    written = dict.fromkeys(buffer for call in calls[:last_check] if isinstance(call, Call) for buffer in call.writes)
    return [buffer for buffer in written if buffer.kind in ("input", "held")]


def _dependencies(
    test: CheckCall, calls: list[Call | CheckCall], shared: Sequence[int], inputs: int | None
) -> set[int] | None:
    """Ids of the check and of the earlier calls that it depends on.

    None if they write to external memory, or if moving them would cross a conflicting call.
    """
    part, needed, written = {id(test)}, _memory([test.span.buffer], shared), set()
    accessed = {test.span.buffer}
    position = next(k for k, call in enumerate(calls) if call is test)
    for earlier in reversed([call for call in calls[:position] if isinstance(call, Call)]):
        writes, touches = _memory(_all_writes(earlier), shared), _memory(_accessed(earlier), shared)
        if not writes & needed:
            if touches & written:
                return None
            continue
        if any(buffer.kind in ("input", "held") for buffer in earlier.writes):
            return None
        part.add(id(earlier))
        needed, written, accessed = needed | touches, written | writes, accessed | _accessed(earlier)
    reads_late_input = inputs is not None and any(
        buffer.kind == "input" and buffer.number >= inputs for buffer in accessed
    )
    return None if reads_late_input else part


def _memory(buffers: Iterable[Buffer], shared: Sequence[int]) -> set[Buffer | int]:
    """The memory of these buffers; inputs may share memory."""
    return {shared[buffer.number] if buffer.kind == "input" else buffer for buffer in buffers}


def _accessed(call: Call) -> set[Buffer]:
    spans = [argument for argument in call.arguments if isinstance(argument, (Span, Loaded))]
    return {*call.reads, *call.writes, *(span.buffer for span in spans)}


def _all_writes(call: Call) -> set[Buffer]:
    """The buffers that a call may write: its results, and buffers that its launch allocated."""
    return {*call.writes, *(_accessed(call) - set(call.reads))}
