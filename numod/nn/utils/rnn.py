"""Sequences of different lengths as one tensor: padded, or packed step by step for recurrent layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ...core import Tensor, arange, cat, functions as f, tensor
from ...core.listeners import listeners
from ...graph.values.lazy_scalar import LazyScalar
from ...graph.capture.recorder import recording

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Steps of sequences one after the other, longest sequences first.

    `data` is (total, ...); `batch_sizes` (T) has the number of sequences at each step. `sorted_indices` is the order in
    which the sequences were sorted, `unsorted_indices` its inverse. `pack_padded_sequence` and `pack_sequence` create
    it.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            raise ValueError("batch_sizes of a PackedSequence must be given")
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                f"Got a tensor on {batch_sizes.device}"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move or convert the data; indices are moved to the same device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        move = lambda indices: None if indices is None else indices.to(device=data.device)  # noqa: E731
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
        """With the data in pinned memory, if there is a CUDA device."""
        return self._replace(data=self.data.pin_memory())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


class Unpacked(PackedSequence):
    """A PackedSequence in a compiled function, whose program supports all lengths.

    It has room for every step of every sequence, and the lengths as data. `rows` (steps * batch, ...) are the
    sequence's `data` followed by zeros, `counts` (steps) its `batch_sizes` followed by zeros, and `order` its
    `sorted_indices`. Reading the fields of a PackedSequence makes the lengths constants of the program (`exactly`).
    """

    def __new__(cls, rows: Tensor, lengths: Tensor, order: Tensor | None, steps: int) -> Unpacked:
        self = tuple.__new__(cls, (None,) * 4)
        self.rows, self.lengths, self.order, self.steps, self.batch = rows, lengths, order, steps, lengths.shape[0]
        self.valid = arange(steps).unsqueeze(1) < lengths
        self.counts, self.fields = self.valid.sum(1), None
        return self

    def with_rows(self, rows: Tensor) -> Unpacked:
        """Another sequence with the same lengths."""
        return Unpacked(rows, self.lengths, self.order, self.steps)

    def first_rows(self) -> Tensor:
        """The row at which each step begins."""
        return self.counts.cumsum(0) - self.counts

    def last_rows(self) -> Tensor:
        """The last row of each sequence."""
        return self.first_rows().index_select(0, self.lengths - 1) + arange(self.batch)

    def exactly(self) -> PackedSequence:
        """The sequence as a PackedSequence."""
        if self.fields is None:
            sizes = [n for n in numbers(self.counts) if n]
            self.fields = PackedSequence(
                self.rows[: sum(sizes)], tensor(sizes, dtype=dtypes.int64, device="cpu"), self.order
            )
        return self.fields

    def padded(self, value: float, total_length: int | None) -> Tensor:
        """(steps, batch, ...), filled with `value` where a sequence has ended."""
        positions = f.where(self.valid, self.first_rows().unsqueeze(1) + arange(self.batch), 0)
        rest = self.rows.shape[1:]
        result = f.reshape(self.rows.index_select(0, f.reshape(positions, (-1,))), (self.steps, self.batch, *rest))
        result = f.where(f.reshape(self.valid, (self.steps, self.batch, *[1] * len(rest))), result, value)
        longest = int((self.counts > 0).sum()._observe()) if total_length is None else total_length
        if longest <= self.steps:
            return result[:longest]
        return cat([result, result.new_full((longest - self.steps, self.batch, *rest), value)], 0)

    def is_at_most(self, longest: int) -> bool:
        """Whether no sequence is longer than `longest`."""
        return longest >= self.steps or bool((self.counts[longest:].sum() == 0)._observe())

    def __iter__(self) -> Iterator:
        return iter(self.exactly())

    def __getitem__(self, index: Any) -> Any:
        return self.exactly()[index]

    def __repr__(self) -> str:
        return repr(self.exactly())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.exactly().__reduce_ex__(protocol)

    def _replace(self, **fields: Any) -> PackedSequence:
        return self.exactly()._replace(**fields)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move or convert the data; indices are moved to the same device."""
        return self.exactly().to(*args, **kwargs)


for _name in _Fields._fields:
    setattr(Unpacked, _name, property(lambda self, name=_name: getattr(self.exactly(), name)))


def _unpacked(x: Tensor, lengths: Tensor, enforce_sorted: bool) -> Unpacked | None:
    """(T, N, ...) with these lengths for a program that supports all lengths.

    None if the lengths are invalid, or if no function is being recorded on the CPU.
    """
    steps, batch = x.shape[:2]
    is_supported = (
        lengths.ndim == 1
        and lengths.shape[0] == batch > 0
        and lengths.dtype in (dtypes.int64, dtypes.int32)
        and steps > 0
    )
    if not is_supported or recording() is None or x.device.type != "cpu" or lengths.device.type != "cpu":
        return None
    if not ((lengths > 0) & (lengths <= steps)).all()._observe():
        return None
    order = None
    if enforce_sorted:
        if batch > 1 and not (lengths[:-1] >= lengths[1:]).all()._observe():
            return None
    else:
        lengths, order = f.sort(lengths, descending=True, stable=True)
        x = x.index_select(1, order)
    lengths = lengths.to(dtypes.int64)
    beyond = f.reshape(arange(steps).unsqueeze(1) >= lengths, (-1,))
    rows = f.reshape(x, (steps * batch, *x.shape[2:])).index_select(0, beyond.to(dtypes.int64).argsort(stable=True))
    is_row = f.reshape(arange(steps * batch) < lengths.sum(), (-1, *[1] * (x.ndim - 2)))
    return Unpacked(f.where(is_row, rows, 0.0 if x.dtype.is_floating_point else 0), lengths, order, steps)


def numbers(x: Tensor) -> list[int]:
    """The values of a short tensor, such as lengths.

    A compiled function depends on these values: if they change, it is recorded again.
    """
    return [int(value._observe()) for value in x]


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse permutation."""
    if permutation is None:
        return None
    permuted = numbers(permutation)
    inverse = [0] * len(permuted)
    for k, position in enumerate(permuted):
        inverse[position] = k
    return tensor(inverse, dtype=permutation.dtype, device=permutation.device)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded (T, N, ...), or (N, T, ...) if `batch_first`, without padding.

    Raises RuntimeError if `enforce_sorted` and the lengths are not in descending order.
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"pack_padded_sequence(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    x = input.transpose(0, 1) if batch_first else input
    # symbolic lengths of a compiled function
    if listeners and not isinstance(lengths, Tensor) and any(type(n) is LazyScalar for n in lengths):
        lengths = f.stack([tensor(n) for n in lengths])
    if (
        listeners
        and isinstance(lengths, Tensor)
        and x.ndim > 1
        and (unpacked := _unpacked(x, lengths, enforce_sorted)) is not None
    ):
        return unpacked
    sizes = [int(n) for n in (numbers(lengths) if isinstance(lengths, Tensor) else lengths)]
    if len(sizes) != x.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={x.shape[1]})"
        )
    if not sizes:
        raise RuntimeError("Cannot pack empty tensors.")
    if min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
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
        positions = sorted(range(len(sizes)), key=lambda k: -sizes[k])
        order, sizes = tensor(positions, dtype=dtypes.int64, device=input.device), [sizes[k] for k in positions]
        x = x.index_select(1, order)
    steps = [sum(n > step for n in sizes) for step in range(sizes[0])]
    data = cat([x[step, :count] for step, count in enumerate(steps)], 0)
    return PackedSequence(data, tensor(steps, dtype=dtypes.int64, device="cpu"), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(padded sequences (T, N, ...) or (N, T, ...), their lengths), in the order before packing."""
    if isinstance(sequence, Unpacked) and (total_length is None or sequence.is_at_most(total_length)):
        padded, lengths = sequence.padded(padding_value, total_length), sequence.lengths.clone()
        if sequence.order is not None:
            positions = sequence.order.argsort()
            padded, lengths = padded.index_select(1, positions), lengths.index_select(0, positions)
        return padded.transpose(0, 1) if batch_first else padded, lengths
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
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences (length, ...) to (T, N, ...) or (N, T, ...), padded on one side."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not isinstance(sequences, Tensor) and not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    for k, sequence in enumerate(sequences):
        if not isinstance(sequence, Tensor):
            raise TypeError(
                f"pad_sequence(): expected Tensor as element {k} in argument 0, but got {type(sequence).__name__}"
            )
    longest = max(sequence.shape[0] for sequence in sequences)
    padded = []
    for item in sequences:
        missing = longest - item.shape[0]
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(f.pad_constant(item, (0, 0) * (item.ndim - 1) + sides, padding_value))
    return f.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, without padding, as copies."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n].clone() for row, n in zip(x, numbers(lengths))]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, ...)."""
    return pack_padded_sequence(
        pad_sequence(sequences), [sequence.shape[0] for sequence in sequences], enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a PackedSequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
