"""Discrete Fourier transforms on a GPU of rows that fit in shared memory: a block of threads takes a row through all
stages of `fourier_stages`, and global memory is read and written once.

The text is written for a length. Between stages a row lies in shared memory, real and imaginary parts apart, in one of
two places in turn: a thread reads its elements from one and writes their transform to the other. Neighbouring threads
read neighbours; of the first stage's results, which lie a factor apart, some meet in a bank. The transform of a few
elements is written out, its factors are numbers of the text: none is multiplied by 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sin

from ...device.device import Device
from ...dtypes import dtype as DType
from ...kernel import bind

# elements of a row for which a block is worth starting; bytes of shared memory that a block may have
_LEAST, _SHARED = 32, 48 << 10


def fits(length: int, factors: list[int], kind: DType) -> bool:
    """Whether the transform of rows of so many complex numbers can be made so."""
    return bool(factors) and length >= _LEAST and 2 * length * kind.itemsize <= _SHARED


def launcher(
    kind: DType,
    device: Device,
    factors: list[int],
    outer: int,
    rows: tuple[int, int, int],
    ends: tuple,
    half: bool,
    inverse: bool,
    scale: float,
) -> Callable:
    """A function of the buffers of x (outer, given), perhaps `half` a spectrum, of the powers of a root of one, and of
    out (outer, kept): the transform of (given, whole, kept) elements, `ends` those of x and out.
    """
    given, whole, kept = rows
    threads = device.backend.team(2 * whole)
    text, signature = (
        _text(factors, whole, kind, ends, half, inverse, threads),
        bind.signature(ends[0], kind, ends[1], numbers=3, others=("float64",)),
    )
    run = bind.launcher(device, "fourier_block", text, signature, kind, outer * whole, team=(outer, threads))
    return lambda x, roots, out: run(x, roots, out, outer, given, kept, scale)


def _text(factors: list[int], length: int, kind: DType, ends: tuple, half: bool, inverse: bool, threads: int) -> str:
    number, part = kind.storage.name, kind.to_real().storage.name
    lines = [
        "def kernel(x, roots, out, outer, given, kept, scale):",
        f"    near = shared_array({2 * length}, {part}, SHARED)",
        # on a line of its own: by these the simulator knows them
        f"    apart = shared_array({2 * length}, {part}, SHARED)",
        "    thread = int32(cuda.threadIdx.x)",
        "    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):",
    ]  # fmt: skip
    done = 1
    for k, radix in enumerate(factors):
        count, source, goal = length // radix, k % 2 * length, (k + 1) % 2 * length
        lines += [f"        for place in range(thread, {count}, {threads}):"]
        for j in range(radix):
            where = f"place + {j * count}"
            if k:
                lines.append(
                    f"            held{j}, turned{j} = near[uintp({source} + {where})], apart[uintp({source} + "
                    f"{where})]"
                )
                continue
            read = f"value = {number}(x[uintp(row * given"
            lines += [
                f"            value = {number}(0)",
                f"            if {where} < given:",
                f"                {read} + {where})])",
            ]
            if half:
                lines += [
                    f"            elif {where} < {length}:",
                    f"                {read} + {length} - ({where}))]).conjugate()",
                ]
            lines.append(f"            held{j}, turned{j} = value.real, value.imag")
        lines += [f"            done, first = place % {done}, place // {done}"]
        for m in range(radix):
            lines.append(f"            here, there = {', '.join(_sums(m, radix, inverse, part))}")
            if radix * done != length and m:
                lines.append(f"            turn = roots[uintp(first * {m * done})]")
                lines.append(
                    "            here, there = here * turn.real - there * turn.imag, here * turn.imag + there * "
                    "turn.real"
                )
            target = f"done + {done} * ({radix} * first + {m})"
            if k < len(factors) - 1:
                lines.append(
                    f"            near[uintp({goal} + {target})], apart[uintp({goal} + {target})] = here, there"
                )
            else:
                value = "here" if ends[1] == kind.to_real().storage else "complex(here, there)"
                lines += [
                    f"            here, there, target = here * {part}(scale), there * {part}(scale), {target}",
                    "            if target < kept:",
                ]
                lines.append(f"                out[uintp(row * kept + target)] = {value}")
        lines.append("        cuda.syncthreads()")
        done *= radix
    return "\n".join(lines) + "\n"


def _sums(m: int, radix: int, inverse: bool, part: str) -> tuple[str, str]:
    """The texts of the real and the imaginary part of the m-th result of a transform of a few elements."""
    here, there = ["held0"], ["turned0"]
    for j in range(1, radix):
        angle = 2 * pi * (j * m % radix) / radix * (1 if inverse else -1)
        c, s = (round(each) if abs(each - round(each)) < 1e-9 else each for each in (cos(angle), sin(angle)))
        here += _terms(((c, f"held{j}"), (-s, f"turned{j}")), part)
        there += _terms(((s, f"held{j}"), (c, f"turned{j}")), part)
    return "".join(here), "".join(there)


def _terms(pairs: tuple, part: str) -> list[str]:
    """`+ factor * name` of each, shorter where the factor is 0 or 1."""
    return [
        f" {'-' if factor < 0 else '+'} {name if abs(factor) == 1 else f'{part}({abs(factor)!r}) * {name}'}"
        for factor, name in pairs
        if factor
    ]
