"""Guards of optimizers and learning-rate schedules: lists and dictionaries that are edited in place, and settings.

The steps of a program read the numbers of an optimizer at every run, so most numbers need no guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from .guard import Guard, Setting, Settings, listed, unwritten
from ..values import objects
from ..values.kinds import is_simple

if TYPE_CHECKING:
    from .build import GuardBuilder


def guard(builder: GuardBuilder, name: str, optimizer: Any) -> None:
    """Guard the tensors of an optimizer's state, and the settings that a step branches on.

    These are flags, and whether numbers are zero. Other numbers are guarded if the function's code reads them, or if
    the optimizer does not read them at every run.
    """
    for state in optimizer.state.values():
        for key, value in state.items() if isinstance(state, dict) else ():
            if issubclass(type(value), Tensor):
                builder.guards.append(Guard(f"{name}'s state {key!r}", f"{{0}}[{key!r}] is {{1}}", (state, value)))
        _guard_numbers(builder, f"{name}.state", "state", optimizer, state)
    builder.guards += [
        unwritten(f"{name}'s state", optimizer.state),
        listed(f"{name}'s param_groups", optimizer.param_groups),
    ]
    counts: dict[Any, list[dict]] = {}
    for state in optimizer.state.values():
        if isinstance(state, dict) and isinstance(state.get("step"), (int, float)):
            counts.setdefault(state["step"], []).append(state)
    for states in counts.values():  # parameters with equal step counts are updated together
        if len(states) > 1:
            builder.guards.append(
                Guard(
                    f"{name}'s step counts", " == ".join(f"{{{k}}}['step']" for k in range(len(states))), tuple(states)
                )
            )
    for group in optimizer.param_groups:
        keys = [
            key
            for key, value in group.items()
            if key not in ("params", "lr", "initial_lr") and isinstance(value, (bool, int, float, type(None)))
        ]
        if "param_groups" in builder.mentioned:
            builder.guards.append(Guard(f"{name}'s settings", "{0}.keys() == {1}", (group, frozenset(group))))
        texts = [f"{{0}}[{key!r}]" if group[key] else f"not {{0}}[{key!r}]" for key in keys]
        settings = Settings(f"{name}'s settings", " and ".join(texts) or "True", (group,), group)
        builder.guards += [settings.parameters, listed(f"{name}'s parameters", group["params"]), settings]
        _guard_numbers(builder, f"{name}.param_groups", "param_groups", optimizer, group)


def guard_schedule(builder: GuardBuilder, name: str, schedule: Any) -> None:
    """Guard the attributes of a schedule that the code reads. Every run steps the schedule in Python.

    If the code mentions a method other than `step`, these are all attributes.
    """
    reads = any(callable(getattr(type(schedule), key, None)) for key in builder.mentioned - {"step"})
    for key, attribute in objects.attributes(schedule).items():
        if (reads or key in builder.mentioned) and (type(attribute) is list or is_simple(attribute)):
            builder.guard_value(f"{name}.{key}", f"{{0}}.{key}", (schedule,), attribute)


def _guard_numbers(builder: GuardBuilder, name: str, holder: str, optimizer: Any, values: dict) -> None:
    """Guard the numbers of a state or group that Python code reads."""
    reads_all = not getattr(optimizer, "rereads_scalars", True)
    read_keys = builder.strings if {holder, "state_dict"} & (builder.mentioned | builder.strings) else ()
    for key, value in values.items() if isinstance(values, dict) else ():
        is_setting = isinstance(value, tuple) or is_simple(value)
        if (reads_all or key in read_keys) and is_setting and (id(values), key) not in builder.excluded:
            text = f"{{1}} == {{0}}[{key!r}]"
            builder.guards.append(Setting(f"{name}[{key!r}]", text, (values, value), (values, key)))
