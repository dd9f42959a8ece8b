"""A counter of changes to state that compiled functions depend on: a module's attributes and submodules, a tensor's
memory, hooks, default dtypes.

Code that changes such state calls `note`. A compiled function checks its guards again when `count` has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

count = 0
global_hooks: list[dict] = []  # dictionaries of hooks that apply to all modules or all optimizers
watchers: list[Callable[[str], None]] = []  # called with the name passed to every note


def note(name: str = "") -> None:
    """Count a change of state that compiled functions may depend on, such as the attribute `name` of a module."""
    global count
    count += 1
    for watch in tuple(watchers):
        watch(name)


class NotedDict(OrderedDict):
    """An ordered dictionary that notes every change of its entries and of their order."""

    def __setitem__(self, key: Any, value: Any) -> None:
        note()
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        note()
        super().__delitem__(key)

    def pop(self, *arguments: Any) -> Any:
        """As in dict."""
        note()
        return super().pop(*arguments)

    def popitem(self, last: bool = True) -> tuple:
        """As in OrderedDict."""
        note()
        return super().popitem(last)

    def clear(self) -> None:
        """As in dict."""
        note()
        super().clear()

    def move_to_end(self, key: Any, last: bool = True) -> None:
        """As in OrderedDict."""
        note()
        super().move_to_end(key, last)
