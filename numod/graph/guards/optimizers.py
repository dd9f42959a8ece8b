"""The guards of what a compiled function reaches in optimizers and schedules of rates: lists and dictionaries that are
edited in place, and numbers, which the steps of a program ask for anew at every run.
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
    """Tensors of an optimizer's state, and of its groups' settings what a step branches on: flags, and whether numbers
    are zero.

    Numbers that the function's own code reads, or a step that does not read them anew at every run, are what they were.
    """
    for state in optimizer.state.values():
        for key, each in state.items() if isinstance(state, dict) else ():
            if issubclass(type(each), Tensor):
                builder.guards.append(Guard(f"{name}'s state {key!r}", f"{{0}}[{key!r}] is {{1}}", (state, each)))
        _guard_numbers(builder, f"{name}.state", "state", optimizer, state)
    builder.guards += [
        unwritten(f"{name}'s state", optimizer.state),
        listed(f"{name}'s param_groups", optimizer.param_groups),
    ]
    counts: dict[Any, list[dict]] = {}
    for state in optimizer.state.values():
        if isinstance(state, dict) and isinstance(state.get("step"), (int, float)):
            counts.setdefault(state["step"], []).append(state)
    for states in counts.values():  # those of equal counts are one update with the numbers of one step
        if len(states) > 1:
            builder.guards.append(
                Guard(
                    f"{name}'s step counts", " == ".join(f"{{{k}}}['step']" for k in range(len(states))), tuple(states)
                )
            )
    for group in optimizer.param_groups:
        keys = [
            key
            for key, each in group.items()
            if key not in ("params", "lr", "initial_lr") and isinstance(each, (bool, int, float, type(None)))
        ]
        texts = [f"{{0}}[{key!r}]" if group[key] else f"not {{0}}[{key!r}]" for key in keys]
        settings = Settings(f"{name}'s settings", " and ".join(texts) or "True", (group,), group)
        builder.guards += [settings.parameters, listed(f"{name}'s parameters", group["params"]), settings]
        _guard_numbers(builder, f"{name}.param_groups", "param_groups", optimizer, group)


def guard_schedule(builder: GuardBuilder, name: str, schedule: Any) -> None:
    """What the code reads of a schedule of rates: attributes, or whatever it has where a method other than `step` is
    mentioned. Every run steps it in Python.
    """
    reads = any(callable(getattr(type(schedule), key, None)) for key in builder.mentioned - {"step"})
    for key, attribute in objects.attributes(schedule).items():
        if (reads or key in builder.mentioned) and (type(attribute) is list or is_simple(attribute)):
            builder.guard_value(f"{name}.{key}", f"{{0}}.{key}", (schedule,), attribute)


def _guard_numbers(builder: GuardBuilder, name: str, holder: str, optimizer: Any, values: dict) -> None:
    """The numbers of a state or group that Python code reads."""
    every = not getattr(optimizer, "reads_anew", True)
    named = builder.strings if {holder, "state_dict"} & (builder.mentioned | builder.strings) else ()
    for key, each in values.items() if isinstance(values, dict) else ():
        if (
            (every or key in named)
            and (isinstance(each, tuple) or is_simple(each))
            and (id(values), key) not in builder.excluded
        ):
            builder.guards.append(
                Setting(f"{name}[{key!r}]", f"{{1}} == {{0}}[{key!r}]", (values, each), (values, key))
            )
