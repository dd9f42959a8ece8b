"""The C interface of an exported program: what `net_run` takes and gives, its codes, and the block of weights.

The same for every target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .polynomial import Terms

STREAM = "generator"  # the entry of the state with seed and offset of random numbers
VERSION = 1  # of the interface and of the files beside it
ALIGNMENT = 8  # bytes to which an arena and a block of weights must be aligned; code aligns what lies in them
OK, NULL, MISALIGNED, SMALL, BATCH, ABI, SELFTEST, CHECK = *range(7), 16
CODES = {
    "OK": (OK, "no error"),
    "ERROR_NULL": (NULL, "a pointer is NULL"),
    "ERROR_ALIGNMENT": (
        MISALIGNED,
        "the arena or the weights are not aligned to 8 bytes, or an input or output not to its elements",
    ),
    "ERROR_ARENA": (SMALL, "the arena is too small"),
    "ERROR_BATCH": (BATCH, "the batch, or another size, is out of range"),
    "ERROR_ABI": (ABI, "the header belongs to another version of this library"),
    "ERROR_SELFTEST": (
        SELFTEST,
        "the self-test found other results than those recorded: the library does not fit this processor",
    ),
}
UNKNOWN = "unknown code"
NETWORK, LIBRARY = ("run", "arena_bytes", "selftest"), ("error", "check")  # functions of an entry point, and of all
STATE_FUNCTIONS = ("state_init", "state_header")
_C_TYPES = {
    "float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "complex64": "float", "complex128": "double",
}  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input or output.

    `storage` is NumPy's name of its elements in memory: bool is uint8, float16 and bfloat16 are uint16.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    itemsize: int
    written: bool = False  # whether a run writes to this input
    dims: tuple[Terms, ...] = ()  # of one with dynamic dimensions, its sizes as polynomials of them

    @property
    def count(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.count * self.itemsize

    @property
    def c_type(self) -> str:
        """The C type of an element; complex numbers are pairs."""
        return _C_TYPES[self.storage]

    @property
    def c_count(self) -> int:
        """How many elements of the C type it has."""
        return self.count * (2 if self.storage.startswith("complex") else 1)


@dataclass(frozen=True)
class Size:
    """A dynamic dimension: an argument of the functions. `size`: that of the sample, with which ports are described.

    The dimension `index` of an input is `factor` times it plus `offset`.
    """

    name: str
    low: int
    high: int
    size: int
    input: int
    index: int
    factor: int
    offset: int


@dataclass(frozen=True)
class Weight:
    """A tensor in the block of weights, `offset` bytes behind its start."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Interface:
    """What all targets of one export have in common.

    `checks` are the lines at which a run can find an index out of range, in the order of their codes. If it is
    `stateful`, runs write to the block of weights: each caller has a block of its own, the state.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    weights: tuple[Weight, ...]
    checks: tuple[str, ...]
    embedded: bool
    stateful: bool = False
    sizes: tuple[Size, ...] = ()
    first_check: int = 0  # the number of its first check among those of all entry points
    parts: tuple[str, ...] = NETWORK + LIBRARY  # the functions that it has

    @property
    def weights_bytes(self) -> int:
        """Bytes of the block of weights."""
        return sum(weight.nbytes for weight in self.weights)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the library, without the name before them."""
        return (*self.parts, *(STATE_FUNCTIONS if self.stateful and "check" in self.parts else ()))

    @property
    def sample_bytes(self) -> int:
        """Bytes that the self-test needs behind the arena, for outputs, inputs that are written, and a state."""
        copies = [each for each in (*self.outputs, *self.inputs) if each in self.outputs or each.written]
        return sum(aligned(each.nbytes) for each in copies) + (aligned(self.weights_bytes) if self.stateful else 0)

    def messages(self) -> dict[int, str]:
        """The text of each code."""
        found = dict(CODES.values())
        return found | {
            CHECK + k: f"an index is out of range ({check or 'unknown line'})" for k, check in enumerate(self.checks)
        }


@dataclass(frozen=True)
class Arena:
    """Bytes of local memory: some for every call, and some for each unit of the first dynamic dimension."""

    fixed: int
    unit: int = 0

    def bytes(self, sizes: Sequence[int] = ()) -> int:
        """What a call with these sizes needs."""
        return self.fixed + self.unit * sizes[0] if self.unit else self.fixed

    def most(self, interface: Interface) -> int:
        """What any call needs."""
        return self.bytes([size.high for size in interface.sizes])

    def joined(self, other: Arena) -> Arena:
        """Enough for both."""
        return Arena(max(self.fixed, other.fixed), max(self.unit, other.unit))


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """The size, rounded up to a multiple."""
    return -(-size // alignment) * alignment
