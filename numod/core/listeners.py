"""Listeners: functions that are called after every op, such as the recorder of compiled functions and the profiler.

A listener can also have methods for events that are no ops: a tensor that Python values created, a gradient that is
set to None.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ..ops.op import Op
from .tensor import Tensor

# Called with (op, inputs, attributes, outputs, in_place) after every op. Listeners with an attribute `thread` are
# called for ops of that thread only
listeners: list[Callable] = []


class _State(threading.local):
    muted = False  # whether this thread's ops are none of the program's


_state = _State()


@contextmanager
def muted() -> Iterator[None]:
    """Context in which listeners are not notified of this thread's ops."""
    before, _state.muted = _state.muted, True
    try:
        yield
    finally:
        _state.muted = before


def active_listeners() -> list[Callable]:
    """The listeners for ops of this thread. Test `listeners` first, which is nearly always empty."""
    if _state.muted:
        return []
    thread = threading.get_ident()
    return [listener for listener in tuple(listeners) if getattr(listener, "thread", thread) == thread]


def notify_listeners(op: Op, inputs: tuple, attributes: tuple, outputs: tuple, in_place: bool) -> None:
    if outputs and outputs[0]._layout.batch is not None:
        return  # they were notified of the ops on the whole batch
    for listener in active_listeners():
        listener(op, inputs, attributes, outputs, in_place)
    if not (in_place or op.is_view):
        _notify_other_threads(outputs)


def _notify_other_threads(tensors: tuple) -> None:
    """Notify recorders on other threads of new tensors, so that they do not treat them as existing ones."""
    if _state.muted:
        return
    thread = threading.get_ident()
    for listener in tuple(listeners):
        created = getattr(listener, "created_on_other_thread", None)
        if created is not None and listener.thread != thread:
            created(tensors)


def notify_created(tensor: Tensor, how: str) -> Tensor:
    """Notify listeners of a tensor that no op created: of "empty" memory, Python "values", or an "array"."""
    notify("created", tensor, how)
    _notify_other_threads((tensor,))
    return tensor


def notify_copied(
    copy: Tensor,
    source: Tensor,
    again: Callable[[], Tensor],
    back: Callable[[], None],
    view: Callable[[], Tensor],
    gaps: bool = False,
) -> Tensor:
    """Notify listeners of a copy that replaces a view of `source`.

    `again` computes the copy after a write to the source, `back` writes the copy to the source, `view` creates the
    view. `gaps`: the view is not contiguous, though the copy is.
    """
    notify("view_copied", copy, source, again, back, view)
    if gaps:
        notify("has_gaps", copy)
    return copy


def lies_dense(tensor: Tensor) -> bool:
    """Whether the tensor is contiguous, also in eager mode if it is a copy that replaces a view while recording."""
    if not (tensor._layout.dense and listeners):
        return tensor._layout.dense
    storage = id(tensor._storage)
    return tensor._layout.size < 2 or not any(storage in getattr(listener, "gapped", ()) for listener in listeners)


def notify_overridden(function: str) -> None:
    """Notify listeners that a class or mode overrides a call of this function."""
    notify("overridden", function)


def with_gradients(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The tensors that have a gradient. Listeners are notified, since the recorded program depends on it."""
    if listeners:
        tensors = list(tensors)
        for tensor in tensors:
            notify("gradient_checked", tensor)
    return [tensor for tensor in tensors if tensor._grad is not None]


def notify_dropped(leaf: Tensor) -> None:
    """Notify listeners that a leaf's gradient is set to None."""
    notify("gradient_dropped", leaf)


def notify(event: str, *details: object) -> None:
    for listener in active_listeners() if listeners else ():
        watch = getattr(listener, event, None)
        if watch is not None:
            watch(*details)


def _enter_child() -> None:
    """Drop the listeners of other threads, which do not exist after a fork."""
    listeners[:] = active_listeners()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
