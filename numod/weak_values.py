"""A dictionary that holds its values weakly and runs no Python code when one dies."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar
from weakref import ref

K, V = TypeVar("K", bound=Hashable), TypeVar("V")
FIRST_SWEEP = 64  # entries before the first removal of dead ones


class WeakValues(Generic[K, V]):
    """A dictionary that does not keep its values alive. Any number of threads may use it.

    `weakref.WeakValueDictionary` removes an entry in a callback, which runs wherever the value dies. Python drops an
    exception that a signal's handler raises there, so a Ctrl-C would be lost. Here dead entries stay until there are
    twice as many entries as there were living ones.
    """

    def __init__(self) -> None:
        self._references: dict[K, ref[V]] = {}
        self._sweep_at = FIRST_SWEEP

    def get(self, key: K) -> V | None:
        """The living value of a key; None without one."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def __setitem__(self, key: K, value: V) -> None:
        self._references[key] = ref(value)
        if len(self._references) >= self._sweep_at:
            self._sweep()

    def __len__(self) -> int:
        """The number of entries, dead ones included."""
        return len(self._references)

    def values(self) -> Iterator[V]:
        """The living values; those that other threads add meanwhile may be missing."""
        return (value for reference in list(self._references.values()) if (value := reference()) is not None)

    def _sweep(self) -> None:
        for key, reference in list(self._references.items()):
            if reference() is not None:
                continue
            removed = self._references.pop(key, None)
            if removed is not None and removed() is not None:  # another thread has set the key meanwhile
                self._references.setdefault(key, removed)
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self._references))
