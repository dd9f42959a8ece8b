"""Fourier transforms on a processor by registers whose lanes are rows or columns (`registers.butterflies`): of lengths
whose prime factors are small, and of as many rows as lanes. Others are NumPy's, whose instructions are of one number
each.

A task keeps a group of rows in its caches from the first stage to the last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ...dtypes import dtype as DType
from ...kernel import bind
from ...kernel.language import int64, parallel_range, real, uintp
from ...kernel.registers import butterflies, tiles
from ...kernel.registers.primitives import columns_in, columns_out, from_half, rows_in, rows_out, stage, to_half
from ...kernel.specialize import specialized
from ...kernel.scalar import inlined_scalar

_LONGEST = 4096  # complex numbers of a row; a group of longer ones would not stay in the second-level cache
# registers behind those of real or imaginary parts: one for the last number of half a spectrum, others lest all lie in
# one set of a cache
SPARE = 18
_WORKERS = 16


def rows_kernel(x, roots, work, out, outer, n, inside, workers, inverse, scale, *, LANES):
    """out (outer, n, inside) = the transforms of complex x along n, scaled. work (workers, 4, n + SPARE, LANES).

    The last group overlaps one before.
    """
    apart, lines = (n + SPARE) * LANES, outer if inside == 1 else inside
    groups = (lines + LANES - 1) // LANES
    for worker in parallel_range(workers):
        own = int64(worker) * 4 * apart
        for task in range(int64(worker), groups if inside == 1 else outer * groups, workers):
            first = min(task % groups * LANES, lines - LANES)
            # an inverse is the transform of exchanged parts, exchanged again
            near, far = (apart, 0) if inverse != 0 else (0, apart)
            if inside == 1:
                rows_in(x, 2 * n * first, 2 * n, n, work, own + near, work, own + far)
            else:
                columns_in(
                    x, 2 * (task // groups * n * inside + first), 2 * inside, n, work, own + near, work, own + far
                )
            made = all_stages(work, own, own + 2 * apart, apart, roots, n, 1, LANES)
            if inside == 1:
                rows_out(work, made + near, work, made + far, n, out, 2 * n * first, 2 * n, real(scale))
            else:
                columns_out(
                    work,
                    made + near,
                    work,
                    made + far,
                    n,
                    out,
                    2 * (task // groups * n * inside + first),
                    2 * inside,
                    real(scale),
                )


def half_kernel(x, roots, work, out, outer, n, workers, scale, *, LANES):
    """out (outer, n + 1) = the halves of the spectra of real x (outer, 2 n), whose neighbours are taken for complex
    numbers. work as in `rows_kernel`.
    """
    apart = (n + SPARE) * LANES
    for worker in parallel_range(workers):
        own = int64(worker) * 4 * apart
        for group in range(int64(worker), (outer + LANES - 1) // LANES, workers):
            row = min(group * LANES, outer - LANES)
            rows_in(x, 2 * n * row, 2 * n, n, work, own, work, own + apart)
            made = all_stages(work, own, own + 2 * apart, apart, roots, n, 2, LANES)
            half = 2 * own + 2 * apart - made  # the buffer that the transform is not in
            to_half(work, made, work, made + apart, roots, work, half, work, half + apart, n)
            rows_out(work, half, work, half + apart, n, out, 2 * (n + 1) * row, 2 * n + 2, real(0.5 * scale))
            for lane in range(LANES):
                for part in range(2):
                    out[uintp(2 * (n + 1) * (row + lane) + 2 * n + part)] = work[
                        uintp(half + part * apart + n * LANES + lane)
                    ] * real(0.5 * scale)


def whole_kernel(x, roots, work, out, outer, n, workers, scale, *, LANES):
    """out (outer, 2 n) = the real numbers whose spectra have the halves x (outer, n + 1); the imaginary parts of their
    first and last numbers count as 0.
    """
    apart = (n + SPARE) * LANES
    for worker in parallel_range(workers):
        own = int64(worker) * 4 * apart
        for group in range(int64(worker), (outer + LANES - 1) // LANES, workers):
            row = min(group * LANES, outer - LANES)
            rows_in(x, 2 * (n + 1) * row, 2 * n + 2, n, work, own, work, own + apart)
            for lane in range(LANES):
                work[uintp(own + n * LANES + lane)] = x[uintp(2 * (n + 1) * (row + lane) + 2 * n)]
                work[uintp(own + apart + lane)], work[uintp(own + apart + n * LANES + lane)] = 0, 0
            from_half(work, own, work, own + apart, roots, work, own + 3 * apart, work, own + 2 * apart, n)
            made = all_stages(work, own + 2 * apart, own, apart, roots, n, 2, LANES)
            rows_out(work, made + apart, work, made, n, out, 2 * n * row, 2 * n, real(scale))


@inlined_scalar
def all_stages(work, source, target, apart, roots, n, step, lanes):
    """Where in work the transform is of what begins at `source`: the stages go to and fro between there and `target`.

    Each takes every `step`-th root.
    """
    rest, done = n, 1
    while rest > 1:
        radix = 4 if rest % 4 == 0 else 2 if rest % 2 == 0 else 3 if rest % 3 == 0 else 5 if rest % 5 == 0 else 7
        rest //= radix
        stage(
            work,
            source,
            work,
            source + apart,
            roots,
            work,
            target,
            work,
            target + apart,
            radix,
            rest,
            done * lanes,
            done * step,
        )
        source, target, done = target, source, done * radix
    return source


def complex_rows(
    kind: DType, device: object, outer: int, n: int, inside: int, inverse: bool, scale: float
) -> Callable | None:
    """A function (x, out) of the buffers of complex (outer, n, inside) and its transform along n; None where it is
    NumPy's.
    """
    lines, others = (outer, 1) if inside == 1 else (inside, outer)
    tasks = -(-lines // _lanes(kind)) * others
    made = _launcher(rows_kernel, kind, device, lines, n, tasks, (outer, n, inside), (int(inverse),), n, scale)
    if made is None or lines % _lanes(kind) == 0:
        return made

    def launch(source: np.ndarray, target: np.ndarray) -> None:
        if np.may_share_memory(source, target):  # groups that overlap would read what is written already
            source = source.copy()
        made(source, target)

    return launch


def real_rows(kind: DType, device: object, outer: int, n: int, back: bool, scale: float) -> Callable | None:
    """A function (x, out) of the buffers of real (outer, n) and the halves of its spectra, or `back`; None where it is
    NumPy's.
    """
    if n % 2:
        return None
    return _launcher(
        whole_kernel if back else half_kernel,
        kind,
        device,
        outer,
        n // 2,
        -(-outer // _lanes(kind)),
        (outer, n // 2),
        (),
        n,
        scale,
    )


def _lanes(kind: DType) -> int:
    return tiles.host().lanes(kind.to_real().itemsize)


def _launcher(
    kernel: Callable,
    kind: DType,
    device: object,
    lines: int,
    n: int,
    tasks: int,
    sizes: tuple,
    further: tuple,
    roots: int,
    scale: float,
) -> Callable | None:
    lanes, storage = _lanes(kind), kind.to_real().storage
    if storage.itemsize < 4 or 2 * n % lanes or not lanes <= n <= _LONGEST or lines < lanes or not _has_stages(n):
        return None
    workers = min(_WORKERS, tasks)
    text = specialized(kernel, LANES=lanes)
    numbers = (*sizes, workers, *further)
    signature = bind.signature(*[storage] * 4, numbers=len(numbers), others=("float64",))
    run = bind.launcher(device, "fourier_rows", text, signature, kind.to_real(), 8 * tasks * lanes * n)
    room, scratch = ((4 * workers * (n + SPARE) * lanes, storage),), device.backend.scratch

    def launch(source: np.ndarray, target: np.ndarray) -> None:
        (work,) = scratch(room)
        run(source.view(storage), _roots(roots, storage), work, target.view(storage), *numbers, scale)

    return launch


def _has_stages(n: int) -> bool:
    for radix in butterflies.RADICES:
        while n % radix == 0:
            n //= radix
    return n == 1


@cache
def _roots(n: int, storage: np.dtype) -> np.ndarray:
    """exp(-2 pi i k / n), real and imaginary parts in turn."""
    return np.exp(-2j * np.pi / n * np.arange(n)).view(np.float64).astype(storage)
