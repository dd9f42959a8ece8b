"""A counter of changes to what recorded programs depend on: a module's attributes and children, a tensor's memory,
hooks, default dtypes.

The owners of such state call `note`; a recorded program compares `count`, and checks its guards again if it has grown.
"""

from __future__ import annotations

from collections.abc import Callable

count = 0
everywhere: list[dict] = []  # what all modules look into, such as the hooks of all modules
watchers: list[Callable[[str], None]] = []  # told of every note, and of what is assigned


def note(name: str = "") -> None:
    """Something that a recorded program may rely on has changed: the attribute `name` of a module, say."""
    global count
    count += 1
    for watch in tuple(watchers):
        watch(name)
