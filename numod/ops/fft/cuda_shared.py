"""CUDA kernel for Fourier transforms of rows that fit in shared memory: a thread block runs a row through all stages of
`cuda_stages`, so that global memory is read and written once.

The source is generated per length. Between stages a row is in one of two buffers in shared memory, real and imaginary
parts apart: a thread reads its elements from one buffer and writes their transform to the other. Neighbouring threads
read neighbouring elements. Stores of the first stage are a factor apart, which causes some bank conflicts. The
transform of a few elements is unrolled with constant factors, without multiplications by 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sin

from ...device.device import Device
from ...dtypes import dtype as DType
from ...kernel import bind

# minimum length of a row for which a thread block pays off; bytes of shared memory per block
_MIN_LENGTH, _SHARED_BYTES = 32, 48 << 10


def fits(length: int, factors: list[int], kind: DType) -> bool:
    """Whether this kernel can transform rows of `length` complex numbers."""
    return bool(factors) and length >= _MIN_LENGTH and 2 * length * kind.itemsize <= _SHARED_BYTES


def launcher(
    kind: DType,
    device: Device,
    factors: list[int],
    outer: int,
    rows: tuple[int, int, int],
    dtypes: tuple,
    half: bool,
    inverse: bool,
    scale: float,
) -> Callable:
    """A function of the buffers of x (outer, inputs), the roots of unity, and out (outer, outputs).

    `rows` is (inputs, length, outputs), `dtypes` the storage dtypes of x and out. `half`: x is half a spectrum.
    """
    inputs, length, outputs = rows
    threads = device.backend.threads_per_row(2 * length)
    text = _text(factors, length, kind, dtypes, half, inverse, threads)
    signature = bind.signature(dtypes[0], kind, dtypes[1], numbers=3, others=("float64",))
    run = bind.launcher(device, "fourier_block", text, signature, kind, outer * length, blocks=(outer, threads))
    return lambda x, roots, out: run(x, roots, out, outer, inputs, outputs, scale)


def _text(factors: list[int], length: int, kind: DType, dtypes: tuple, half: bool, inverse: bool, threads: int) -> str:
    """The source of the kernel for one length. Buffer k % 2 of shared memory is the source of stage k."""
    real = kind.to_real().storage
    lines = [
        "def kernel(x, roots, out, outer, inputs, outputs, scale):",
        f"    tile_re = shared_array({2 * length}, {real.name}, SHARED)",
        # on a separate line, as the simulator requires
        f"    tile_im = shared_array({2 * length}, {real.name}, SHARED)",
        "    thread = int32(cuda.threadIdx.x)",
        "    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):",
    ]  # fmt: skip
    run = 1  # elements that the earlier stages have transformed together
    for k, radix in enumerate(factors):
        count, is_last = length // radix, k == len(factors) - 1
        lines += [f"        for item in range(thread, {count}, {threads}):"]
        for j in range(radix):
            index = f"item + {j * count}"
            lines += _shared_loads(j, index, k % 2 * length) if k else _global_loads(j, index, length, kind, half)
        lines += [f"            offset, first = item % {run}, item // {run}"]
        for m in range(radix):
            lines.append(f"            sum_re, sum_im = {', '.join(_sums(m, radix, inverse, real.name))}")
            if radix * run != length and m:
                lines.append(f"            root = roots[uintp(first * {m * run})]")
                product = "sum_re * root.real - sum_im * root.imag, sum_re * root.imag + sum_im * root.real"
                lines.append(f"            sum_re, sum_im = {product}")
            target = f"offset + {run} * ({radix} * first + {m})"
            if is_last:
                lines += _global_stores(target, real.name, dtypes[1] == real)
            else:
                index = f"uintp({(k + 1) % 2 * length} + {target})"
                lines.append(f"            tile_re[{index}], tile_im[{index}] = sum_re, sum_im")
        lines.append("        cuda.syncthreads()")
        run *= radix
    return "\n".join(lines) + "\n"


def _shared_loads(j: int, index: str, buffer: int) -> list[str]:
    """Load element j of a thread's transform from shared memory."""
    index = f"uintp({buffer} + {index})"
    return [f"            re{j}, im{j} = tile_re[{index}], tile_im[{index}]"]


def _global_loads(j: int, index: str, length: int, kind: DType, half: bool) -> list[str]:
    """Load element j of a thread's transform from x: 0 beyond the inputs, or with `half` the conjugate."""
    number, row = kind.storage.name, "x[uintp(row * inputs"
    mirrored = [
        f"            elif {index} < {length}:",
        f"                value = {number}({row} + {length} - ({index}))]).conjugate()",
    ]
    return [
        f"            value = {number}(0)",
        f"            if {index} < inputs:",
        f"                value = {number}({row} + {index})])",
        *(mirrored if half else []),
        f"            re{j}, im{j} = value.real, value.imag",
    ]


def _global_stores(target: str, real: str, is_real: bool) -> list[str]:
    """Scale a result and store it."""
    return [
        f"            sum_re, sum_im, target = sum_re * {real}(scale), sum_im * {real}(scale), {target}",
        "            if target < outputs:",
        f"                out[uintp(row * outputs + target)] = {'sum_re' if is_real else 'complex(sum_re, sum_im)'}",
    ]


def _sums(m: int, radix: int, inverse: bool, real: str) -> tuple[str, str]:
    """The source of the real and the imaginary part of result m of a transform of `radix` elements."""
    sum_re, sum_im = ["re0"], ["im0"]
    for j in range(1, radix):
        angle = 2 * pi * (j * m % radix) / radix * (1 if inverse else -1)
        c, s = (round(x) if abs(x - round(x)) < 1e-9 else x for x in (cos(angle), sin(angle)))
        sum_re += _terms(((c, f"re{j}"), (-s, f"im{j}")), real)
        sum_im += _terms(((s, f"re{j}"), (c, f"im{j}")), real)
    return "".join(sum_re), "".join(sum_im)


def _terms(pairs: tuple, real: str) -> list[str]:
    """`+ factor * name` for each pair, simplified for factors of 0, 1 and -1."""
    return [
        f" {'-' if factor < 0 else '+'} {name if abs(factor) == 1 else f'{real}({abs(factor)!r}) * {name}'}"
        for factor, name in pairs
        if factor
    ]
