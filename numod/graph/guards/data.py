"""A guard of numbers in tensors that the library reads as Python numbers, such as the scales of quantized layers."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.derived import memory_of, settle
from ...core.tensor import DataVersionCounter, Tensor
from .guard import Guard


class _Numbers:
    """The numbers that small tensors hold, compared again after a write: `count` writes were compared."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors, self.numbers = tuple(tensors), self._numbers(tensors)
        self.are_same()

    @staticmethod
    def _numbers(tensors: Sequence[Tensor]) -> list[bytes]:
        return [memory_of(tensor).tobytes() for tensor in tensors]  # NaN equals NaN

    def _count(self) -> int:
        return DataVersionCounter.last + sum(tensor._storage.version for tensor in self.tensors)

    def are_same(self) -> bool:
        """Whether the tensors still hold these numbers."""
        count, storages = self._count(), [tensor._storage for tensor in self.tensors]
        settle(storages)
        is_same = self._numbers(self.tensors) == self.numbers
        self.count = count if is_same and not any(storage.lent for storage in storages) else -1
        return is_same


def same_data(tensors: Sequence[Tensor]) -> Guard:
    """The condition that tensors hold the same numbers as now. They are read after a write, or in other memory."""
    numbers, storages = _Numbers(tensors), [tensor._storage for tensor in tensors]
    count, places = len(tensors), range(len(tensors))
    same = " and ".join([f"{{{k}}}._storage is {{{count + k}}}" for k in places])
    versions = " + ".join([f"{{{count + k}}}.version" for k in places])
    unwritten = f"{same} and {versions} + {{{2 * count}}}.last == {{{2 * count + 1}}}.count"
    text = f"({unwritten} or {{{2 * count + 1}}}.are_same())"
    objects = (*tensors, *storages, DataVersionCounter, numbers)
    return Guard("the number that a layer reads from a tensor", text, objects)
