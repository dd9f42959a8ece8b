"""Sequences of different lengths as one tensor: padded, or packed step by step for recurrent layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...core import Tensor, cat, functions as f, tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Steps of sequences one after the other: `data` (total, ...), `batch_sizes` (T) how many sequences reach each step, longest first.

    `sorted_indices` is the order the sequences were put in, `unsorted_indices` its inverse. Made by `pack_padded_sequence` and `pack_sequence`.
    """

    def __new__(
        cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            raise ValueError("batch_sizes of a PackedSequence must be given")
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                f"batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. Got a tensor on {batch_sizes.device}"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Data elsewhere or of another dtype, indices on the same device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        move = lambda each: None if each is None else each.to(device=data.device)  # noqa: E731
        return type(self)(data, self.batch_sizes, move(self.sorted_indices), move(self.unsorted_indices))

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        """On a CUDA device."""
        return self.to(device="cuda" if device is None else device)

    def double(self) -> PackedSequence:
        """As float64."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """As float32."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """As float16."""
        return self.to(dtype=dtypes.float16)

    def bfloat16(self) -> PackedSequence:
        """In bfloat16."""
        return self.to(dtypes.bfloat16)

    def long(self) -> PackedSequence:
        """In int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """In int32."""
        return self.to(dtypes.int32)

    def short(self) -> PackedSequence:
        """In int16."""
        return self.to(dtypes.int16)

    def char(self) -> PackedSequence:
        """In int8."""
        return self.to(dtypes.int8)

    def byte(self) -> PackedSequence:
        """In uint8."""
        return self.to(dtypes.uint8)

    def pin_memory(self) -> PackedSequence:
        """With the data in memory that a CUDA device reads by itself, where there is one."""
        return self._replace(data=self.data.pin_memory())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in such memory."""
        return self.data.is_pinned()


def numbers(x: Tensor) -> list[int]:
    """The values of a short tensor, such as lengths. A compiled function depends on these values: if they change, it is recorded again."""
    return [int(each._observe()) for each in x]


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes one."""
    if permutation is None:
        return None
    places = numbers(permutation)
    inverse = [0] * len(places)
    for k, place in enumerate(places):
        inverse[place] = k
    return tensor(inverse, dtype=permutation.dtype, device=permutation.device)


def pack_padded_sequence(input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Padded (T, N, ...), or (N, T, ...) where `batch_first`, without its padding. Raises RuntimeError for lengths that rise, unless not `enforce_sorted`."""
    if not isinstance(input, Tensor):
        raise TypeError(f"pack_padded_sequence(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    sizes = [int(n) for n in (numbers(lengths) if isinstance(lengths, Tensor) else lengths)]
    x = input.transpose(0, 1) if batch_first else input
    if len(sizes) != x.shape[1]:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={x.shape[1]})")
    if not sizes:
        raise RuntimeError("Cannot pack empty tensors.")
    if min(sizes) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if max(sizes) > x.shape[0]:
        raise RuntimeError(f"Expected lengths of at most {x.shape[0]} steps, got {max(sizes)}")
    order = None
    if enforce_sorted:
        if any(a < b for a, b in zip(sizes, sizes[1:])):
            raise RuntimeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
                "You can pass `enforce_sorted=False` to pack_padded_sequence to sidestep this requirement."
            )
    else:
        places = sorted(range(len(sizes)), key=lambda k: -sizes[k])
        order, sizes = tensor(places, dtype=dtypes.int64, device=input.device), [sizes[k] for k in places]
        x = x.index_select(1, order)
    steps = [sum(n > step for n in sizes) for step in range(sizes[0])]
    data = cat([x[step, :count] for step, count in enumerate(steps)], 0)
    return PackedSequence(data, tensor(steps, dtype=dtypes.int64, device="cpu"), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded sequences (T, N, ...) or (N, T, ...), their lengths), in the order they had before packing."""
    steps = numbers(sequence.batch_sizes)
    longest = len(steps)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    rest, offset, parts = sequence.data.shape[1:], 0, []
    for count in steps:
        part = sequence.data[offset : offset + count]
        parts.append(f.pad_constant(part, (0, 0) * len(rest) + (0, steps[0] - count), padding_value))
        offset += count
    parts += [sequence.data.new_full((steps[0], *rest), padding_value) for _ in range(longest - len(steps))]
    padded = f.stack(parts, 0).transpose(0, 1) if batch_first else f.stack(parts, 0)
    lengths = tensor([sum(count > k for count in steps) for k in range(steps[0])], dtype=dtypes.int64, device="cpu")
    if sequence.unsorted_indices is not None:
        padded, lengths = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices), lengths.index_select(0, sequence.unsorted_indices.cpu())
    return padded, lengths


def pad_sequence(sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Sequences (length, ...) as one tensor (T, N, ...) or (N, T, ...), padded at one side."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not isinstance(sequences, Tensor) and not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    for k, each in enumerate(sequences):
        if not isinstance(each, Tensor):
            raise TypeError(f"pad_sequence(): expected Tensor as element {k} in argument 0, but got {type(each).__name__}")
    longest = max(each.shape[0] for each in sequences)
    padded = []
    for each in sequences:
        missing = longest - each.shape[0]
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(f.pad_constant(each, (0, 0) * (each.ndim - 1) + sides, padding_value))
    return f.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, without padding, as copies."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n].clone() for row, n in zip(x, numbers(lengths))]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (length, ...) packed."""
    return pack_padded_sequence(pad_sequence(sequences), [each.shape[0] for each in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
