"""Discrete Fourier transforms on a GPU by the Stockham algorithm: one launch per factor of the length, from one buffer
to another. (Rows that fit shared memory take one launch: `cuda_shared`.)

A task of a stage transforms RADIX elements and multiplies them by twiddle factors. Dimensions inside of the transformed
one only make the steps longer, so nothing is transposed. Neighbouring tasks read neighbouring elements, and write
neighbouring ones as soon as `run` is a warp's number of threads. A length with a larger prime factor becomes a
convolution whose length is a power of two (Bluestein, 1970). Van Loan, Computational Frameworks for the FFT, 1992.
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

# sizes of transforms that fit registers and take less time than their loads
_RADICES = (8, 4, 5, 3, 2, 7, 11, 13)
# NumPy's name of the norm that divides the transform by the length, by `inverse`
_SCALED = {False: "forward", True: "backward"}


def stage_kernel(
    x, roots, input_factors, output_factors, out, tasks, inner, run, root_step, inputs, length, outputs, scale, *, HALF,
    SCALED_IN, ROOTS, NUMBER, SCALED_OUT, RADIX, RESULT,
):  # fmt: skip
    """Run one stage of the transforms of x (outer, inputs, inner) into out (outer, outputs, inner).

    The earlier stages have transformed runs of `run` elements. If HALF, row k from `inputs` to `length` is the
    conjugate of row length - k; other rows beyond `inputs` are 0. roots (ROOTS) are the roots of unity. If SCALED_IN,
    rows are multiplied by input_factors (length); if SCALED_OUT, results by output_factors (outputs). All results are
    multiplied by the scale.
    """
    values = cuda.local.array(RADIX, NUMBER)
    unit_roots = cuda.local.array(RADIX, NUMBER)
    for j in range(RADIX):
        unit_roots[j] = roots[uintp(j * (ROOTS // RADIX))]
    for task in parallel_range(tasks):
        stride = ROOTS // RADIX * inner
        batch, position = int64(task) // stride, int64(task) % stride
        for j in range(RADIX):
            row, value = (position + j * stride) // inner, NUMBER(0)
            if row < inputs:
                value = NUMBER(x[uintp(batch * inputs * inner + position + j * stride)])
            elif HALF and row < length:
                value = NUMBER(x[uintp((batch * inputs + length - row) * inner + position % inner)]).conjugate()
            if SCALED_IN and row < length:
                value = value * input_factors[uintp(row)]
            values[j] = value
        offset = position % run
        first = position // run
        for k in range(RADIX):
            total = values[0]
            for j in range(1, RADIX):
                total = total + values[j] * unit_roots[j * k % RADIX]
            target = offset + run * (RADIX * first + k)
            row = target // inner
            if row < outputs:
                total = total * roots[uintp(first * k * root_step)] * real(scale)
                if SCALED_OUT:
                    total = total * output_factors[uintp(row)]
                out[uintp(batch * outputs * inner + target)] = RESULT(total)


def identity(x):
    """x"""
    return x


def real_part(x):
    """The real part of x."""
    return x.real


def launch(x: Layout, out: Layout, dims: tuple[int, ...], norm: str, inverse: bool) -> Callable:
    """A function of the buffers of x and out.

    A real x becomes half of its spectrum; a real out comes from half of its spectrum.
    """
    shape, kind, device, parts = list(x.shape), x.dtype.to_complex(), x.device, []
    for d in reversed(dims) if out.dtype.is_complex else dims:
        inputs = shape[d]
        shape[d] = out.shape[d]
        n, last = max(inputs, shape[d]), not out.dtype.is_complex and d == dims[-1]
        scale = scale_of(n, norm, inverse)
        sizes = prod(shape[:d]), inputs, prod(shape[d + 1 :])
        storages = (kind if parts else x.dtype).storage, (out.dtype if last else kind).storage
        parts.append((_transform(kind, device, storages, sizes, shape[d], last, inverse, scale), prod(shape)))

    def run(source: object, target: object) -> None:
        # raises for the placeholders of the graph compiler, which then calls this op eagerly (it needs tables)
        source.dtype  # noqa: B018
        for k, (part, size) in enumerate(parts):
            result = target if k == len(parts) - 1 else device.empty(size, kind.storage)
            part(source, result)
            source = result

    return run


def scale_of(n: int, norm: str, inverse: bool) -> float:
    """The factor by which a transform of n elements is multiplied."""
    return 1 / n if norm == _SCALED[inverse] else n**-0.5 if norm == "ortho" else 1.0


def _transform(
    kind: DType,
    device: object,
    storages: tuple,
    sizes: tuple[int, int, int],
    outputs: int,
    half: bool,
    inverse: bool,
    scale: float,
) -> Callable:
    """A function of the buffers of x (outer, inputs, inner) and of its transform (outer, outputs, inner).

    `half`: x is half a spectrum. `storages` are the storage dtypes of the two.
    """
    outer, inputs, inner = sizes
    n = max(inputs, outputs)
    factors = _factors(n)
    if inner == 1 and cuda_shared.fits(n, factors, kind):
        row = cuda_shared.launcher(kind, device, factors, outer, (inputs, n, outputs), storages, half, inverse, scale)
        roots = []

        def run_block(source: object, target: object) -> None:
            roots[:] = roots or [device.backend.upload(_roots(n, inverse).astype(kind.storage))]
            row(source, roots[0], target)

        return run_block
    if factors:
        tables, length = [_roots(n, inverse)], n
        stages = _stages(
            kind, device, factors, n, (outer, inner), (inputs, n, outputs), (0, None, None), storages, half, scale
        )
    else:
        length = 1 << (2 * n - 2).bit_length()
        factors, exponents = _factors(length), np.arange(n, dtype=np.int64) ** 2 % (2 * n)
        chirp = np.exp((1j if inverse else -1j) * np.pi / n * exponents)
        filter_ = np.zeros(length, np.complex128)
        filter_[:n] = chirp.conj()
        filter_[length - n + 1 :] = chirp[:0:-1].conj()
        tables = [_roots(length, False), _roots(length, True), chirp, np.fft.fft(filter_) / length]
        stages = _stages(
            kind,
            device,
            factors,
            length,
            (outer, inner),
            (inputs, n, length),
            (0, 2, 3),
            (storages[0], kind.storage),
            half,
            1.0,
        )
        stages += _stages(
            kind,
            device,
            factors,
            length,
            (outer, inner),
            (length, length, outputs),
            (1, None, 2),
            (kind.storage, storages[1]),
            False,
            scale,
        )
    tables, uploaded = [table.astype(kind.storage) for table in tables], []

    def run(source: object, target: object) -> None:
        uploaded[:] = uploaded or [device.backend.upload(table) for table in tables]
        for k, (stage, table_indices, constants) in enumerate(stages):
            result = target if k == len(stages) - 1 else device.empty(outer * length * inner, kind.storage)
            stage(source, *[uploaded[index or 0] for index in table_indices], result, *constants)
            source = result

    return run


def _stages(
    kind: DType,
    device: object,
    factors: list[int],
    length: int,
    outer_and_inner: tuple[int, int],
    rows: tuple[int, int, int],
    tables: tuple,
    storages: tuple,
    half: bool,
    scale: float,
) -> list[tuple]:
    """(launcher, indices of its tables, its numbers) of each stage of a transform of (inputs, length, outputs) rows.

    `tables`: the indices of the roots, of the factors of the inputs, and of those of the outputs; None for no factors.
    """
    (outer, inner), (inputs, row_length, outputs), stages, finished = outer_and_inner, rows, [], 1
    for k, radix in enumerate(factors):
        first, last = k == 0, k == len(factors) - 1
        table_indices = tables[0], tables[1] if first else None, tables[2] if last else None
        kinds = (storages[0] if first else kind.storage, storages[1] if last else kind.storage)
        final = scale if last else 1.0
        text = specialized(
            stage_kernel, RESULT=identity if kinds[1] == kind.storage else real_part, NUMBER=kind.storage,
            HALF=int(half and first), RADIX=radix, ROOTS=length,
            SCALED_IN=int(table_indices[1] is not None), SCALED_OUT=int(table_indices[2] is not None),
        )  # fmt: skip
        tasks = outer * (length // radix) * inner
        signature = bind.signature(kinds[0], *[kind] * 3, kinds[1], numbers=7, others=("float64",))
        run = bind.launcher(device, "fourier_stage", text, signature, kind, tasks)
        limits = (inputs, row_length) if first else (length, length)
        stages.append(
            (
                run,
                table_indices,
                (tasks, inner, inner * finished, finished, *limits, outputs if last else length, final),
            )
        )
        finished *= radix
    return stages


def _factors(n: int) -> list[int]:
    """Radices whose product is n; an empty list if n has a larger prime factor."""
    factors = []
    for radix in _RADICES:
        while n % radix == 0 and n > 1:
            factors.append(radix)
            n //= radix
    return [] if n > 1 else factors or [1]


def _roots(n: int, inverse: bool) -> np.ndarray:
    """exp(-2 pi i k / n), or the conjugates if `inverse`."""
    return np.exp((2j if inverse else -2j) * np.pi / n * np.arange(n))
