"""Fourier transforms on the CPU, vectorised over rows or columns (`registers.butterflies`).

Supports lengths with small prime factors and at least as many rows as a register has lanes. NumPy, which is not
vectorised, does the others. A task keeps a group of rows in its caches through all stages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ...dtypes import dtype as DType
from ...kernel import bind
from ...kernel.language import int64, parallel_range, real, uintp
from ...kernel.registers import butterflies, tiles
from ...kernel.registers.primitives.butterflies import (
    columns_in,
    columns_out,
    from_half,
    rows_in,
    rows_out,
    stage,
    to_half,
)
from ...kernel.specialize import specialized
from ...kernel.scalar import inlined_scalar

_MAX_ROW = 4096  # complex numbers per row; a group of longer rows would not stay in the L2 cache
# registers after the real or imaginary parts: one for the last number of half a spectrum, the others so that the parts
# do not map to the same sets of a cache
SPARE_REGISTERS = 18
_WORKERS = 16


def rows_kernel(x, roots, work, out, outer, n, inner, workers, inverse, scale, *, LANES):
    """out (outer, n, inner) = the scaled transforms of complex x along n.

    work (workers, 4, n + SPARE_REGISTERS, LANES) is scratch. The last group of rows overlaps the one before.
    """
    part_size, rows = (n + SPARE_REGISTERS) * LANES, outer if inner == 1 else inner
    groups = (rows + LANES - 1) // LANES
    for worker in parallel_range(workers):
        work_at = int64(worker) * 4 * part_size
        for task in range(int64(worker), groups if inner == 1 else outer * groups, workers):
            first = min(task % groups * LANES, rows - LANES)
            # an inverse transform exchanges real and imaginary parts before and after
            real_at, imag_at = (part_size, 0) if inverse != 0 else (0, part_size)
            if inner == 1:
                rows_in(x, 2 * n * first, 2 * n, n, work, work_at + real_at, work, work_at + imag_at)
            else:
                columns_in(
                    x, 2 * (task // groups * n * inner + first), 2 * inner, n, work, work_at + real_at, work,
                    work_at + imag_at,
                )  # fmt: skip
            result_at = run_stages(work, work_at, work_at + 2 * part_size, part_size, roots, n, 1, LANES)
            if inner == 1:
                rows_out(
                    work, result_at + real_at, work, result_at + imag_at, n, out, 2 * n * first, 2 * n, real(scale)
                )
            else:
                columns_out(
                    work, result_at + real_at, work, result_at + imag_at, n, out,
                    2 * (task // groups * n * inner + first), 2 * inner, real(scale),
                )  # fmt: skip


def real_to_half_kernel(x, roots, work, out, outer, n, workers, scale, *, LANES):
    """out (outer, n + 1) = half of the spectra of real x (outer, 2 n).

    Pairs of elements are transformed as complex numbers. work: as in `rows_kernel`.
    """
    part_size = (n + SPARE_REGISTERS) * LANES
    for worker in parallel_range(workers):
        work_at = int64(worker) * 4 * part_size
        for group in range(int64(worker), (outer + LANES - 1) // LANES, workers):
            row = min(group * LANES, outer - LANES)
            rows_in(x, 2 * n * row, 2 * n, n, work, work_at, work, work_at + part_size)
            result_at = run_stages(work, work_at, work_at + 2 * part_size, part_size, roots, n, 2, LANES)
            spectrum_at = 2 * work_at + 2 * part_size - result_at  # the buffer that the transform is not in
            to_half(
                work, result_at, work, result_at + part_size, roots, work, spectrum_at, work, spectrum_at + part_size, n
            )
            rows_out(
                work, spectrum_at, work, spectrum_at + part_size, n, out, 2 * (n + 1) * row, 2 * n + 2,
                real(0.5 * scale),
            )  # fmt: skip
            for lane in range(LANES):
                for part in range(2):
                    out[uintp(2 * (n + 1) * (row + lane) + 2 * n + part)] = work[
                        uintp(spectrum_at + part * part_size + n * LANES + lane)
                    ] * real(0.5 * scale)


def half_to_real_kernel(x, roots, work, out, outer, n, workers, scale, *, LANES):
    """out (outer, 2 n) = the real inverse transforms of half spectra x (outer, n + 1).

    The imaginary parts of the first and last numbers of a row count as 0.
    """
    part_size = (n + SPARE_REGISTERS) * LANES
    for worker in parallel_range(workers):
        work_at = int64(worker) * 4 * part_size
        for group in range(int64(worker), (outer + LANES - 1) // LANES, workers):
            row = min(group * LANES, outer - LANES)
            rows_in(x, 2 * (n + 1) * row, 2 * n + 2, n, work, work_at, work, work_at + part_size)
            for lane in range(LANES):
                work[uintp(work_at + n * LANES + lane)] = x[uintp(2 * (n + 1) * (row + lane) + 2 * n)]
                work[uintp(work_at + part_size + lane)], work[uintp(work_at + part_size + n * LANES + lane)] = 0, 0
            from_half(
                work, work_at, work, work_at + part_size, roots, work, work_at + 3 * part_size, work,
                work_at + 2 * part_size, n,
            )  # fmt: skip
            result_at = run_stages(work, work_at + 2 * part_size, work_at, part_size, roots, n, 2, LANES)
            rows_out(work, result_at + part_size, work, result_at, n, out, 2 * n * row, 2 * n, real(scale))


@inlined_scalar
def run_stages(work, source, target, part_size, roots, n, step, lanes):
    """Run all stages, alternating between `source` and `target` in work, and return the position of the result.

    Uses every `step`-th root.
    """
    remaining, finished = n, 1
    while remaining > 1:
        radix = (
            4
            if remaining % 4 == 0
            else 2
            if remaining % 2 == 0
            else 3
            if remaining % 3 == 0
            else 5
            if remaining % 5 == 0
            else 7
        )
        remaining //= radix
        stage(
            work, source, work, source + part_size, roots, work, target, work, target + part_size, radix, remaining,
            finished * lanes, finished * step,
        )  # fmt: skip
        source, target, finished = target, source, finished * radix
    return source


def complex_rows(
    kind: DType, device: object, outer: int, n: int, inner: int, inverse: bool, scale: float
) -> Callable | None:
    """A function of the buffers of complex x (outer, n, inner) and its transform along n; None if NumPy must do it."""
    rows, batches = (outer, 1) if inner == 1 else (inner, outer)
    tasks = -(-rows // _lanes(kind)) * batches
    launch_rows = _launcher(rows_kernel, kind, device, rows, n, tasks, (outer, n, inner), (int(inverse),), n, scale)
    if launch_rows is None or rows % _lanes(kind) == 0:
        return launch_rows

    def launch(source: np.ndarray, target: np.ndarray) -> None:
        if np.may_share_memory(source, target):  # groups overlap and would read results
            source = source.copy()
        launch_rows(source, target)

    return launch


def real_rows(kind: DType, device: object, outer: int, n: int, inverse: bool, scale: float) -> Callable | None:
    """A function of the buffers of real x (outer, n) and half of its spectra, or if `inverse`, of the reverse; None if
    NumPy must do it.
    """
    if n % 2:
        return None
    return _launcher(
        half_to_real_kernel if inverse else real_to_half_kernel,
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
    rows: int,
    n: int,
    tasks: int,
    sizes: tuple,
    extra_numbers: tuple,
    root_count: int,
    scale: float,
) -> Callable | None:
    """A function that transforms rows of n elements; None for sizes that this kernel does not support."""
    lanes, storage = _lanes(kind), kind.to_real().storage
    if storage.itemsize < 4 or 2 * n % lanes or not lanes <= n <= _MAX_ROW or rows < lanes or not _has_stages(n):
        return None
    workers = min(_WORKERS, tasks)
    text = specialized(kernel, LANES=lanes)
    numbers = (*sizes, workers, *extra_numbers)
    signature = bind.signature(*[storage] * 4, numbers=len(numbers), others=("float64",))
    run = bind.launcher(device, "fourier_rows", text, signature, kind.to_real(), 8 * tasks * lanes * n)
    scratch_sizes, scratch = ((4 * workers * (n + SPARE_REGISTERS) * lanes, storage),), device.backend.scratch

    def launch(source: np.ndarray, target: np.ndarray) -> None:
        (work,) = scratch(scratch_sizes)
        run(source.view(storage), _roots(root_count, storage), work, target.view(storage), *numbers, scale)

    return launch


def _has_stages(n: int) -> bool:
    for radix in butterflies.RADICES:
        while n % radix == 0:
            n //= radix
    return n == 1


@cache
def _roots(n: int, storage: np.dtype) -> np.ndarray:
    """exp(-2 pi i k / n), real and imaginary parts interleaved."""
    return np.exp(-2j * np.pi / n * np.arange(n)).view(np.float64).astype(storage)
