"""A counter of changes to state that compiled functions depend on: a module's attributes and submodules, a tensor's
memory, hooks, default dtypes.

Code that changes such state calls `note`. A compiled function checks its guards again when `count` has changed.
"""

from __future__ import annotations

from collections.abc import Callable

count = 0
global_hooks: list[dict] = []  # dictionaries of hooks that apply to all modules or all optimizers
watchers: list[Callable[[str], None]] = []  # called with the name passed to every note


def note(name: str = "") -> None:
    """Count a change of state that compiled functions may depend on, such as the attribute `name` of a module."""
    global count
    count += 1
    for watch in tuple(watchers):
        watch(name)
