"""The C interface of an exported program, equal for all targets: arguments of `net_run`, error codes, the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .polynomial import Terms

STREAM = "generator"  # the state's tensor with the seed and offset of random numbers
VERSION = 1  # of the interface and of the files that accompany it
ALIGNMENT = 8  # of an arena and a block of weights in bytes; the code aligns the buffers within them
PACKED_ALIGNMENT = 64  # of packed weights among the constants of the code
OK, NULL, MISALIGNED, SMALL_ARENA, BATCH, ABI, SELFTEST, CHECK = *range(7), 16
CODES = {
    "OK": (OK, "no error"),
    "ERROR_NULL": (NULL, "a pointer is NULL"),
    "ERROR_ALIGNMENT": (
        MISALIGNED,
        "the arena or the weights are not aligned to 8 bytes, or an input or output not to its elements",
    ),
    "ERROR_ARENA": (SMALL_ARENA, "the arena is too small"),
    "ERROR_BATCH": (BATCH, "the batch, or another size, is out of range"),
    "ERROR_ABI": (ABI, "the header belongs to another version of this library"),
    "ERROR_SELFTEST": (
        SELFTEST,
        "the self-test's results differ from the recorded ones: the library does not fit this processor",
    ),
}
UNKNOWN = "unknown code"
NETWORK, LIBRARY = (
    ("run", "arena_bytes", "selftest"),
    ("error", "check"),
)  # functions of each entry point, and of the library
STATE_FUNCTIONS = ("state_init", "state_header")
_C_TYPES = {
    "float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "complex64": "float", "complex128": "double",
}  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input or output.

    `storage` is the NumPy dtype of its elements in memory: uint8 for bool, uint16 for float16 and bfloat16.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    itemsize: int
    written: bool = False  # whether a run writes to this input
    dims: tuple[Terms, ...] = ()  # the shape as polynomials, if it has dynamic dimensions
    scale: float = 0.0  # of a quantized tensor, whose values are scale * (integer - zero_point); 0 for all others
    zero_point: int = 0

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
    """A dynamic dimension, which is an argument of the functions. `size`: its size in the sample.

    Dimension `index` of input `input` is `factor` times it plus `offset`.
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
    """The properties that all targets of one export share.

    `checks` are the source lines at which a run can detect an index out of range, in the order of their codes. With
    `stateful`, runs write to the block of weights, and each caller owns a block, the state.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    weights: tuple[Weight, ...]
    checks: tuple[str, ...]
    embedded: bool
    stateful: bool = False
    sizes: tuple[Size, ...] = ()
    first_check: int = 0  # the index of its first check among the checks of all entry points
    parts: tuple[str, ...] = NETWORK + LIBRARY  # its functions

    @property
    def weights_bytes(self) -> int:
        """Bytes of the block of weights."""
        return sum(weight.nbytes for weight in self.weights)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the library, without the name prefix."""
        return (*self.parts, *(STATE_FUNCTIONS if self.stateful and "check" in self.parts else ()))

    @property
    def sample_bytes(self) -> int:
        """Bytes that the self-test needs behind the arena: for outputs, written inputs, and the state."""
        copies = [port for port in (*self.outputs, *self.inputs) if port in self.outputs or port.written]
        return sum(aligned(port.nbytes) for port in copies) + (aligned(self.weights_bytes) if self.stateful else 0)

    def messages(self) -> dict[int, str]:
        """The text of each code."""
        common = dict(CODES.values())
        return common | {
            CHECK + k: f"an index is out of range ({check or 'unknown line'})" for k, check in enumerate(self.checks)
        }


@dataclass(frozen=True)
class Arena:
    """Bytes of local memory: a fixed number, and a number per unit of the first dynamic dimension."""

    fixed: int
    unit: int = 0

    def bytes(self, sizes: Sequence[int] = ()) -> int:
        """Bytes for a call with these sizes."""
        return self.fixed + self.unit * sizes[0] if self.unit else self.fixed

    def most(self, interface: Interface) -> int:
        """Bytes that suffice for any call."""
        return self.bytes([size.high for size in interface.sizes])

    def joined(self, other: Arena) -> Arena:
        """Enough for both."""
        return Arena(max(self.fixed, other.fixed), max(self.unit, other.unit))


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """The size, rounded up to a multiple."""
    return -(-size // alignment) * alignment
