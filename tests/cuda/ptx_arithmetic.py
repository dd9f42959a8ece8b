"""What PTX instructions compute and NumPy has no word for: fused and directed rounding, quotients, carries, fields of
bits, products by tensor cores.
"""

from __future__ import annotations

import functools

import numpy as np


class Fault(RuntimeError):
    """What a kernel must not do."""


def exchanged(before: np.ndarray, expected: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What compare-and-swap leaves."""
    return np.where(before == expected, value, before)


@functools.cache
def fused() -> object:
    """x * y + z, rounded once."""
    import numba
    from llvmlite import ir
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def fma(context: object, x: object, y: object, z: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            number = context.get_value_type(x)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(number, [number] * 3), f"llvm.fma.f{x.bitwidth}"
            )
            return builder.call(function, values)

        return x(x, x, x), generate

    return numba.vectorize(["float32(float32, float32, float32)", "float64(float64, float64, float64)"])(
        lambda x, y, z: fma(x, y, z)
    )


def odd_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y in float64, the last bit set where that is not exact: rounded once more, in any direction, to float32 it is
    as if it had been exact.
    """
    total = x + y
    part = total - x
    rest = (x - (total - part)) + (y - part)
    bits = np.asarray(total).view("u8")
    inexact = (rest != 0) & (bits & 1 == 0) & np.isfinite(total)
    return np.where(inexact, np.nextafter(total, np.where(rest > 0, np.inf, -np.inf)), total)


def directed(x: np.ndarray, how: str) -> np.ndarray:
    """float64 to float32, rounded to zero, down or up."""
    y = x.astype("f4")
    past = {"rz": np.abs(y) > np.abs(x), "rm": y > x, "rp": y < x}[how]
    return np.where(past, np.nextafter(y, np.float32({"rz": 0, "rm": -np.inf, "rp": np.inf}[how])), y)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y to zero; all bits set where y is 0."""
    safe = np.where(y == 0, y.dtype.type(1), y)
    whole = x // safe
    if x.dtype.kind == "i":
        whole = whole + ((whole < 0) & (whole * safe != x))
    return np.where(y == 0, np.array(-1).astype(x.dtype), whole)


def shifted(x: np.ndarray, by: np.ndarray, left: bool) -> np.ndarray:
    """x << by or x >> by, where `by` may be the width and more."""
    most = 8 * x.dtype.itemsize - 1
    within = np.minimum(by, most).astype(x.dtype)
    if left:
        return np.where(by > most, x.dtype.type(0), x << within)
    return x >> within if x.dtype.kind == "i" else np.where(by > most, x.dtype.type(0), x >> within)


def high_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper half of x * y."""
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{x.dtype.kind}8")
        return (x.astype(wide) * y.astype(wide) >> wide.type(bits)).astype(x.dtype)
    product = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.array([(element >> 64) & (1 << 64) - 1 for element in np.ravel(product)], "u8").view(x.dtype)


def converted(x: np.ndarray, kind: np.dtype, how: str, saturated: bool) -> np.ndarray:
    """`cvt`: a number as another kind."""
    rounds = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    if x.dtype.kind == "f" and kind.kind == "f":
        if how in rounds:
            x = rounds[how](x)
        elif how in ("rz", "rm", "rp") and kind.itemsize < x.dtype.itemsize:
            return directed(x, how)
        y = x.astype(kind)
        return np.where(np.isnan(y), kind.type(0), np.clip(y, 0, 1)) if saturated else y
    if x.dtype.kind == "f":
        least, most = (np.iinfo(kind).min, np.iinfo(kind).max)
        whole = rounds[how](x.astype("f8"))
        nothing = 1 << 8 * kind.itemsize - 1 if x.dtype.itemsize == 8 or kind.itemsize == 8 else 0
        y = np.where((whole > least) & (whole < most), whole, 0).astype(kind)
        y = np.where(whole >= most, kind.type(most), np.where(whole <= least, kind.type(least), y))
        return np.where(np.isnan(x), np.array(nothing, "u8").astype(kind), y)
    if saturated and kind.kind != "f":
        x = np.clip(x, np.iinfo(kind).min, np.iinfo(kind).max)
    return x.astype(kind)


def flushed(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers are 0."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def field(x: np.ndarray, y: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfi`: y with `length` bits of x from `start` on."""
    one, start, length = y.dtype.type(1), np.asarray(start).astype(y.dtype), np.asarray(length).astype(y.dtype)
    mask = (np.where(length >= 8 * y.dtype.itemsize, y.dtype.type(0), one << length) - one) << start
    return (x << start) & mask | y & ~mask


def carried(
    parts: list[str], x: np.ndarray, y: np.ndarray, z: np.ndarray, carry: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A sum, difference or product of 32-bit words with its carry, which comes in where the opcode ends in c."""
    x, y, z = (np.asarray(operand).astype("i8") for operand in (x, y, z))
    value = x - y if parts[0].startswith("sub") else x + y
    if parts[0].startswith("mad"):
        product = np.asarray(x.astype("u8") * y.astype("u8"))
        value = ((product >> np.uint64(32)) if "hi" in parts else product & np.uint64(0xFFFFFFFF)).astype("i8") + z
    if parts[0].endswith("c"):
        value = value - carry if parts[0].startswith("sub") else value + carry
    return value & 0xFFFFFFFF, (value >> 32) & 1


def numbers(words: np.ndarray, kind: str) -> np.ndarray:
    """Words (..., registers) of a fragment as its elements (..., elements), the lowest first."""
    if kind == "tf32":
        if (words & 0x1FFF).any():
            raise Fault("a register is taken for tf32 that has more bits than that, which a GPU may drop or not")
        return words.view("f4")
    halves = words.view("u2")
    return halves.view("f2") if kind == "f16" else (halves.astype("u4") << np.uint32(16)).view("f4")


# Rows and columns of the elements that thread `lane` of a warp holds, as formulas of g = lane >> 2, t = lane % 4 and
# the element's number i
# (PTX ISA 9.7.14.5.7 and .8, "Matrix Fragments for mma.m16n8k8" and "... mma.m16n8k16 with floating point type").
FRAGMENTS = {
    ("m16n8k16", "a"): (
        8,
        lambda g, t, i: np.where((i < 2) | ((i >= 4) & (i < 6)), g, g + 8),
        lambda g, t, i: t * 2 + (i & 1) + np.where(i >= 4, 8, 0),
    ),
    ("m16n8k16", "b"): (4, lambda g, t, i: t * 2 + (i & 1) + np.where(i >= 2, 8, 0), lambda g, t, i: g + 0 * i),
    ("m16n8k8", "a"): (
        4,
        lambda g, t, i: np.where((i == 0) | (i == 2), g, g + 8),
        lambda g, t, i: np.where(i < 2, t, t + 4),
    ),
    ("m16n8k8", "b"): (2, lambda g, t, i: np.where(i == 0, t, t + 4), lambda g, t, i: g + 0 * i),
    "c": (4, lambda g, t, i: np.where(i < 2, g, g + 8), lambda g, t, i: t * 2 + (i & 1)),
}


def dealt(rows: np.ndarray, transposed: bool) -> np.ndarray:
    """`ldmatrix`: the registers (warps, 32, 4) of four matrices (8, 8), of whose rows thread k of a warp has the k-th,
    as words (warps, 32, 4).

    Thread k gets two neighbours of row k >> 2 of each matrix, at 2 (k % 4), or of column k >> 2 where they are turned
    (PTX ISA 9.7.14.5.15).
    """
    whole = np.ascontiguousarray(rows).view("u2").reshape(-1, 4, 8, 8)  # warps, matrices, rows, columns
    whole = whole.swapaxes(2, 3) if transposed else whole
    return np.ascontiguousarray(whole).view("u4").reshape(-1, 4, 32).swapaxes(1, 2)


def matrices(shape: str, kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`mma`: the registers (warps, 32, 4) of a @ b + c, of those (warps, 32, registers) of a, b and c.

    Products and their sums are exact, and rounded once.
    """
    inner = int(shape.partition("k")[2])
    lane = np.arange(32)[:, None]
    wholes = []
    for key, size, values in (
        ((shape, "a"), (16, inner), numbers(a, kind)),
        ((shape, "b"), (inner, 8), numbers(b, kind)),
        ("c", (16, 8), c.view("f4")),
    ):
        count, row, column = FRAGMENTS[key]
        i = np.arange(count)[None, :]
        element = row(lane >> 2, lane % 4, i), column(lane >> 2, lane % 4, i)
        whole = np.full((len(values), *size), np.nan)
        whole[:, element[0], element[1]] = values
        wholes.append(whole)
    return (wholes[0] @ wholes[1] + wholes[2])[:, element[0], element[1]].astype("f4")
