"""A count of changes to what recorded programs take as given: a module's attributes and parts, a tensor's memory, hooks, default dtypes.

Who keeps such things calls `note`; who relies on them compares `count`, and looks again where it has grown.
"""

from __future__ import annotations

count = 0
everywhere: list[dict] = []  # what all modules look into, such as the hooks of all modules


def note() -> None:
    """Something that a recorded program may rely on has changed."""
    global count
    count += 1
