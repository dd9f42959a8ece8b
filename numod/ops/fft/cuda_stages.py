"""Discrete Fourier transforms on a GPU, in Stockham's order: a launch for each factor of the length, from one buffer to
another. (Of rows that shared memory holds one launch: `fourier_block`.)

A task of a stage transforms RADIX elements and turns the results. What lies inside of the dimension only makes the
steps longer, so nothing is transposed. Neighbouring tasks read neighbouring elements; they also write them, once the
stages before have as many results as a warp has threads. A length with a larger prime factor is a convolution whose
length is a power of two (Bluestein, 1970). Van Loan, Computational Frameworks for the FFT, 1992.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...device import Layout
from ...dtypes import dtype as DType
from ...kernel import bind
from ...kernel.language import cuda, int64, parallel_range, real, uintp
from ...kernel.specialize import specialized
from . import cuda_shared

# registers hold so many elements, and the sums of their products take less time than loading them
_RADICES = (8, 4, 5, 3, 2, 7, 11, 13)
# which transform is divided by the length, under NumPy's name for it, by `inverse`
_SCALED = {False: "forward", True: "backward"}


def stage_kernel(
    x,
    roots,
    before,
    behind,
    out,
    tasks,
    inside,
    step,
    turn,
    given,
    whole,
    kept,
    scale,
    *,
    HALF,
    INWARD,
    LENGTH,
    NUMBER,
    OUTWARD,
    RADIX,
    RESULT,
):
    """out (outer, kept, inside) = a stage of the transforms of x (outer, given, inside), in which runs of `step`
    elements of the result are together already.

    Rows from `given` on to `whole`, where HALF, are the conjugates of those as far from `whole`; others are 0. roots
    (LENGTH) are the powers of one. Rows are multiplied by before (whole) on their way in and by behind (kept) on their
    way out, if INWARD and OUTWARD; results by the scale.
    """
    held = cuda.local.array(RADIX, NUMBER)
    factors = cuda.local.array(RADIX, NUMBER)
    for j in range(RADIX):
        factors[j] = roots[uintp(j * (LENGTH // RADIX))]
    for task in parallel_range(tasks):
        apart = LENGTH // RADIX * inside
        batch, place = int64(task) // apart, int64(task) % apart
        for j in range(RADIX):
            row, value = (place + j * apart) // inside, NUMBER(0)
            if row < given:
                value = NUMBER(x[uintp(batch * given * inside + place + j * apart)])
            elif HALF and row < whole:
                value = NUMBER(x[uintp((batch * given + whole - row) * inside + place % inside)]).conjugate()
            if INWARD and row < whole:
                value = value * before[uintp(row)]
            held[j] = value
        done = place % step
        first = place // step
        for k in range(RADIX):
            total = held[0]
            for j in range(1, RADIX):
                total = total + held[j] * factors[j * k % RADIX]
            target = done + step * (RADIX * first + k)
            row = target // inside
            if row < kept:
                total = total * roots[uintp(first * k * turn)] * real(scale)
                if OUTWARD:
                    total = total * behind[uintp(row)]
                out[uintp(batch * kept * inside + target)] = RESULT(total)


def itself(x):
    """x"""
    return x


def real_part(x):
    """The real part of x."""
    return x.real


def launch(x: Layout, out: Layout, dims: tuple[int, ...], norm: str, inverse: bool) -> Callable:
    """A function of the buffers of x and out.

    A real result is from the half of its spectrum; of a real x the half of it is the result.
    """
    shape, kind, device, parts = list(x.shape), x.dtype.to_complex(), x.device, []
    for d in reversed(dims) if out.dtype.is_complex else dims:
        given = shape[d]
        shape[d] = out.shape[d]
        n, last = max(given, shape[d]), not out.dtype.is_complex and d == dims[-1]
        scale = scale_of(n, norm, inverse)
        sizes = prod(shape[:d]), given, prod(shape[d + 1 :])
        ends = (kind if parts else x.dtype).storage, (out.dtype if last else kind).storage
        parts.append((_transform(kind, device, ends, sizes, shape[d], last, inverse, scale), prod(shape)))

    def run(source: object, target: object) -> None:
        # the graph compiler's placeholders have none: it calls this as it is, for the tables are none of its buffers
        source.dtype  # noqa: B018
        for k, (part, size) in enumerate(parts):
            result = target if k == len(parts) - 1 else device.empty(size, kind.storage)
            part(source, result)
            source = result

    return run


def scale_of(n: int, norm: str, inverse: bool) -> float:
    """What a transform of n elements is multiplied by."""
    return 1 / n if norm == _SCALED[inverse] else n**-0.5 if norm == "ortho" else 1.0


def _transform(
    kind: DType,
    device: object,
    ends: tuple,
    sizes: tuple[int, int, int],
    kept: int,
    half: bool,
    inverse: bool,
    scale: float,
) -> Callable:
    """A function of the buffers of x (outer, given, inside), perhaps `half` a spectrum, and of its transform (outer,
    kept, inside); `ends`: their elements.
    """
    outer, given, inside = sizes
    n = max(given, kept)
    factors = _factors(n)
    if inside == 1 and cuda_shared.fits(n, factors, kind):
        row, roots = (
            cuda_shared.launcher(kind, device, factors, outer, (given, n, kept), ends, half, inverse, scale),
            [],
        )

        def whole(source: object, target: object) -> None:
            roots[:] = roots or [device.backend.upload(_roots(n, inverse).astype(kind.storage))]
            row(source, roots[0], target)

        return whole
    if factors:
        tables, length = [_roots(n, inverse)], n
        stages = _stages(
            kind, device, factors, n, (outer, inside), (given, n, kept), (0, None, None), ends, half, scale
        )
    else:
        length = 1 << (2 * n - 2).bit_length()
        factors, squares = _factors(length), np.arange(n, dtype=np.int64) ** 2 % (2 * n)
        chirp = np.exp((1j if inverse else -1j) * np.pi / n * squares)
        around = np.zeros(length, np.complex128)
        around[:n] = chirp.conj()
        around[length - n + 1 :] = chirp[:0:-1].conj()
        tables = [_roots(length, False), _roots(length, True), chirp, np.fft.fft(around) / length]
        stages = _stages(
            kind,
            device,
            factors,
            length,
            (outer, inside),
            (given, n, length),
            (0, 2, 3),
            (ends[0], kind.storage),
            half,
            1.0,
        )
        stages += _stages(
            kind,
            device,
            factors,
            length,
            (outer, inside),
            (length, length, kept),
            (1, None, 2),
            (kind.storage, ends[1]),
            False,
            scale,
        )
    tables, held = [table.astype(kind.storage) for table in tables], []

    def run(source: object, target: object) -> None:
        held[:] = held or [device.backend.upload(table) for table in tables]
        for k, (stage, places, constants) in enumerate(stages):
            result = target if k == len(stages) - 1 else device.empty(outer * length * inside, kind.storage)
            stage(source, *[held[place or 0] for place in places], result, *constants)
            source = result

    return run


def _stages(
    kind: DType,
    device: object,
    factors: list[int],
    length: int,
    around: tuple[int, int],
    rows: tuple[int, int, int],
    tables: tuple,
    ends: tuple,
    half: bool,
    scale: float,
) -> list[tuple]:
    """(launcher, positions of its tables, its numbers) of each stage of a transform of (given, whole, kept) rows."""
    (outer, inside), (given, whole, kept), made, done = around, rows, [], 1
    for k, radix in enumerate(factors):
        first, last = k == 0, k == len(factors) - 1
        places = tables[0], tables[1] if first else None, tables[2] if last else None
        kinds, final = (ends[0] if first else kind.storage, ends[1] if last else kind.storage), scale if last else 1.0
        text = specialized(
            stage_kernel, RESULT=itself if kinds[1] == kind.storage else real_part, NUMBER=kind.storage,
            HALF=int(half and first),
            INWARD=int(places[1] is not None), OUTWARD=int(places[2] is not None), RADIX=radix, LENGTH=length,
        )  # fmt: skip
        tasks = outer * (length // radix) * inside
        signature = bind.signature(kinds[0], *[kind] * 3, kinds[1], numbers=7, others=("float64",))
        run = bind.launcher(device, "fourier_stage", text, signature, kind, tasks)
        limits = (given, whole) if first else (length, length)
        made.append((run, places, (tasks, inside, inside * done, done, *limits, kept if last else length, final)))
        done *= radix
    return made


def _factors(n: int) -> list[int]:
    """Radices whose product is n; none if it has a larger prime factor."""
    found = []
    for radix in _RADICES:
        while n % radix == 0 and n > 1:
            found.append(radix)
            n //= radix
    return [] if n > 1 else found or [1]


def _roots(n: int, inverse: bool) -> np.ndarray:
    """exp(-2 pi i k / n), or the conjugates."""
    return np.exp((2j if inverse else -2j) * np.pi / n * np.arange(n))
