"""Orders kernel calls so that checks, and the calls they depend on, come first: a run stopped by a failed check has
then changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .lower import Buffer, Call, Loaded, Span, Test

FIRST = -1  # the position of calls that were moved forward


def checks_first(calls: Sequence[Call | Test], shared: Sequence[int], inputs: int | None = None) -> list[Call | Test]:
    """The calls, with each check and the calls it depends on moved to the front if dependencies allow it.

    `shared`: for each input, the first one with the same memory. `inputs`: how many inputs are known at the start.
    """
    front, rest = [], list(calls)
    for test in [call for call in calls if isinstance(call, Test)]:
        part = _part(test, rest, shared, inputs)
        if part is not None:
            front += [each for each in rest if id(each) in part]
            rest = [each for each in rest if id(each) not in part]
    for each in front:
        each.position = FIRST
    return front + rest


def may_fail(each: Call | Test) -> bool:
    """Whether it is a check, or runs on the host, which raises where a matrix has no factor, say."""
    return isinstance(each, Test) or each.host is not None


def written_before_checks(calls: Sequence[Call | Test]) -> list[Buffer]:
    """External memory that is written to before the last check, or call that may raise, has passed."""
    last = max((k for k, call in enumerate(calls) if may_fail(call)), default=0)
    written = dict.fromkeys(buffer for call in calls[:last] if isinstance(call, Call) for buffer in call.writes)
    return [each for each in written if each.kind in ("input", "held")]


def _part(test: Test, calls: list[Call | Test], shared: Sequence[int], inputs: int | None) -> set[int] | None:
    """Ids of the check and of the earlier calls it depends on.

    None if they write to external memory, or would overtake a call that reads what they write.
    """
    part, needed, written = {id(test)}, _memory([test.span.buffer], shared), set()
    known = {test.span.buffer}
    place = next(k for k, call in enumerate(calls) if call is test)
    for each in reversed([call for call in calls[:place] if isinstance(call, Call)]):
        writes, touches = _memory(_writes(each), shared), _memory(_touched(each), shared)
        if not writes & needed:
            if touches & written:
                return None
            continue
        if any(buffer.kind in ("input", "held") for buffer in each.writes):
            return None
        part.add(id(each))
        needed, written, known = needed | touches, written | writes, known | _touched(each)
    late = inputs is not None and any(each.kind == "input" and each.number >= inputs for each in known)
    return None if late else part


def _memory(buffers: Iterable[Buffer], shared: Sequence[int]) -> set[Buffer | int]:
    """The memory of these buffers; inputs may share memory."""
    return {shared[buffer.number] if buffer.kind == "input" else buffer for buffer in buffers}


def _touched(call: Call) -> set[Buffer]:
    return {*call.reads, *call.writes, *(argument.buffer for argument in call.arguments if isinstance(argument, (Span, Loaded)))}


def _writes(call: Call) -> set[Buffer]:
    """What a call writes: its results, and buffers that its launch allocated."""
    return {*call.writes, *(_touched(call) - set(call.reads))}
