"""The values of a program that is being recorded, by tensor and by memory."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...device import Layout, Storage
from ..ir.program import Value

Memory = tuple[int, int, Layout]  # (id of the storage, offset, layout)


def memory_of(tensor: Tensor) -> Memory:
    """The memory that a tensor describes."""
    return id(tensor._storage), tensor._offset, tensor._layout


class ValueMap:
    """Maps tensors to values, and values to tensors. It keeps the tensors alive, so that no id is used again."""

    def __init__(self, layouts: dict[Value, Layout]) -> None:
        self.layouts = layouts  # of the program
        self.tensors: list[Tensor] = []  # by number of the value
        self.by_tensor: dict[int, Value] = {}  # by id of the tensor
        self.by_memory: dict[Memory, Value] = {}  # the first value for each memory
        self._memory: list[Memory] = []  # by number of the value, when it was added
        self._alive: list[object] = []

    def add(self, tensor: Tensor) -> Value:
        """A new value for a tensor."""
        value = self.by_tensor[id(tensor)] = Value(len(self.tensors))
        memory = memory_of(tensor)
        self.layouts[value] = tensor._layout
        self.tensors.append(tensor)
        self._memory.append(memory)
        self._alive.append(tensor._storage)
        self.by_memory.setdefault(memory, value)
        return value

    def get(self, tensor: Tensor) -> Value | None:
        """The value of a tensor whose memory has not changed since it was added, or None."""
        value = self.by_tensor.get(id(tensor))
        return value if value is not None and self._memory[value.number] == memory_of(tensor) else None

    def add_alias(self, tensor: Tensor) -> Value | None:
        """The value of another tensor with the same memory, from now on also the value of this one; or None."""
        value = self.by_memory.get(memory_of(tensor))
        if value is not None:
            self.by_tensor[id(tensor)] = value
            self._alive += [tensor, tensor._storage]
        return value

    def tensor(self, value: Value) -> Tensor:
        """The tensor that a value was added for."""
        return self.tensors[value.number]

    def storage(self, value: Value) -> Storage:
        """The memory of a value's tensor."""
        return self.tensors[value.number]._storage

    def is_moved(self, value: Value, tensor: Tensor) -> bool:
        """Whether the tensor has other memory, or another layout, than when the value was added."""
        return self._memory[value.number] != memory_of(tensor)

    def storage_id(self, value: Value) -> int:
        """The id of the storage that the value was added with."""
        return self._memory[value.number][0]
