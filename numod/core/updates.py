"""In-place updates by optimizers, and steps of schedulers, which recorded programs rerun."""

from __future__ import annotations

from collections.abc import Callable

from ..ops.update import ACTION, Update
from .apply import any_complex, state
from .extensions import extensions
from .listeners import active_listeners, listeners, notify, notify_listeners
from .tensor import Tensor


def apply_updates(op: Update, members: list[tuple[Tensor, ...]], numbers: Callable[[], tuple]) -> None:
    """Run an optimizer's step in place on each member, a parameter with its gradient and state.

    `numbers` returns the numbers of the step, such as rates; a recorded program calls it at every run. Small members
    share launches. This is a shorter `apply_into` for ops that have no tape node.
    """
    values = _read_numbers(numbers) if listeners else numbers()
    for first in range(0, len(members), op.together):
        tensors = [member_tensor for member in members[first : first + op.together] for member_tensor in member]
        layouts = [tensor._layout for tensor in tensors]
        key = tuple(layouts)
        plan = op.plans.get(key)
        # as in PyTorch's optimizers, real and imaginary parts are updated like other numbers
        if plan is None and any_complex(layouts):
            tensors = list(map(extensions.as_pairs, tensors))
            layouts = [tensor._layout for tensor in tensors]
            key = tuple(layouts)
            plan = op.plans.get(key)
        if plan is None:
            plan = op.plan([*layouts, *map(type, values)], (len(layouts) // len(members[0]),), key)
            op.remember(key, plan)
        plan.launch(
            *[tensor._storage.data[tensor._offset :] if tensor._offset else tensor._storage.data for tensor in tensors],
            *values,
            *plan.constants,
        )
        for member in members[first : first + op.together]:
            for k in op.positions:
                (member[k]._version_counter or member[k]._storage).version += 1
    if listeners:
        written = tuple(member[k] for member in members for k in op.positions)
        notify_listeners(
            op,
            tuple(member_tensor for member in members for member_tensor in member),
            (numbers, len(members), values),
            written,
            True,
        )


def _read_numbers(numbers: Callable[[], tuple]) -> tuple:
    """The numbers of an update. Listeners learn that tensors read here, such as rates, are read at every run."""
    notify("reading_update_numbers", True)
    try:
        return numbers()
    finally:
        notify("reading_update_numbers", False)


def step_schedule(owner: object, action: Callable[[], object]) -> None:
    """Run the step of a scheduler, which sets the numbers of updates. Recorded programs rerun it."""
    recorders = [
        listener
        for listener in active_listeners()
        if hasattr(listener, "schedule_stepped") and not state.stepping_schedule
    ]
    if not recorders:
        action()
        return
    state.stepping_schedule = True
    try:
        apply_updates(ACTION, [], lambda: (action(), ())[1])
    finally:
        state.stepping_schedule = False
    for recorder in recorders:
        recorder.schedule_stepped(owner)
