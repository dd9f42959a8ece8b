"""Sequences, which are lists of tensors, and optional values, which are None where absent."""

from __future__ import annotations

import numpy as np

import numod

from ...core import Tensor
from ...dtypes import dtype
from ..program import Program
from ..registry import operator
from ..tensors import as_array, as_tensor

ElementType = object  # the dtype of the elements, which is ignored


@operator("SequenceEmpty", since=11, raw=True)
def sequence_empty(*, dtype: dtype = numod.float32) -> list:
    """A sequence of nothing."""
    return []


@operator("SequenceConstruct", since=11, raw=True)
def sequence_construct(*tensors: object) -> list:
    """A sequence of tensors."""
    return [as_tensor(tensor) for tensor in tensors]


def _checked_index(sequence: list, index: object, least: int) -> int:
    index = int(as_array(index).reshape(()))
    if not -len(sequence) <= index < len(sequence) + least:
        raise IndexError(f"index {index} of a sequence of {len(sequence)}")
    return index


@operator("SequenceInsert", since=11, raw=True)
def sequence_insert(sequence: list, value: object, index: object = None) -> list:
    """With one more tensor, at the end by default."""
    position = len(sequence) if index is None else _checked_index(sequence, index, 1)
    position = position + len(sequence) if position < 0 else position
    return [*sequence[:position], as_tensor(value), *sequence[position:]]


@operator("SequenceErase", since=11, raw=True)
def sequence_erase(sequence: list, index: object = None) -> list:
    """Without one of its tensors, the last by default."""
    result = list(sequence)
    del result[-1 if index is None else _checked_index(sequence, index, 0)]
    return result


@operator("SequenceAt", since=11, raw=True)
def sequence_at(sequence: list, index: object) -> Tensor:
    """One of its tensors."""
    return sequence[_checked_index(sequence, index, 0)]


@operator("SequenceLength", since=11, raw=True)
def sequence_length(sequence: list) -> np.ndarray:
    """The number of tensors."""
    return np.array(len(sequence), np.int64)


@operator("SplitToSequence", since=11, raw=True)
def split_to_sequence(x: object, split: object = None, *, axis: int = 0, keepdims: int = 1) -> list:
    """Parts along an axis: of one size, of several, or single slices."""
    x = as_tensor(x)
    if split is None:
        parts = numod.split(x, 1, axis)
        return list(parts) if keepdims else [part.squeeze(axis) for part in parts]
    lengths = as_array(split).tolist()
    return list(numod.split(x, lengths, axis))


@operator("ConcatFromSequence", since=11, raw=True)
def concat_from_sequence(sequence: list, *, axis: int, new_axis: int = 0) -> Tensor:
    """All tensors of a sequence, along an axis or a new one."""
    return numod.stack(sequence, axis) if new_axis else numod.cat(sequence, axis)


@operator("SequenceMap", since=17, raw=True)
def sequence_map(sequence: list, *others: object, body: Program, outputs: int, scope: dict) -> object:
    """A graph applied to each tensor, with those of other sequences at the same index."""
    columns: list[list] = [[] for _ in range(outputs)]
    if lengths := [len(other) for other in others if isinstance(other, list) and len(other) < len(sequence)]:
        raise ValueError(f"the sequences must be as long as the first, {len(sequence)}, got {lengths[0]}")
    for index, value in enumerate(sequence):
        arguments = [other[index] if isinstance(other, list) else other for other in others]
        for column, result in zip(columns, body.run([value, *arguments], scope)):
            column.append(as_tensor(result))
    return tuple(columns) if outputs > 1 else columns[0]


@operator("Optional", since=15, raw=True)
def optional(value: object = None, *, type: ElementType | None = None) -> object:
    """A value that may be absent."""
    return value


@operator("OptionalHasElement", since=15, raw=True)
def optional_has_element(value: object = None) -> np.ndarray:
    """Whether there is a value."""
    return np.array(value is not None)


@operator("OptionalGetElement", since=15, raw=True)
def optional_get_element(value: object) -> object:
    """The value. Raises ValueError where there is none."""
    if value is None:
        raise ValueError("the optional value is absent")
    return value
