"""Fourier transforms as matrix products, for native code: NumPy's transforms, used in Python, cannot be exported.

A transform of n = a b elements is computed by transforms of size a, twiddle factors, and transforms of size b (Cooley
and Tukey, 1965); a transform of prime size is a product with the DFT matrix.
"""

from __future__ import annotations

import copy
from functools import cache
from math import isqrt

import numpy as np

from .. import dtypes
from ..core.create.creation import empty
from ..core.create.values import tensor
from ..core.shape.joining import cat
from ..core.tensor import Tensor
from ..graph.capture.trace import trace
from ..graph.ir.alias_analysis import copied
from ..graph.ir.program import Program, Step, Value
from ..ops.fft.cuda_stages import scale_of
from ..ops.fft.fft import Transform, complex_transform, from_half, half_spectrum
from .program import ExportedProgram

_MAX_PRODUCT_SIZE = 512  # largest size of a transform computed as one product


def prepared(exported: ExportedProgram) -> ExportedProgram:
    """The exported program with its Fourier transforms replaced by products, for all sizes of dynamic dimensions."""
    program = with_products(exported.program)
    if program is exported.program:
        return exported
    result, dynamic = copy.copy(exported), exported.dynamic
    result.program, result.dynamic = program, dynamic and dynamic.mapped(with_products)
    return result


def with_products(program: Program) -> Program:
    """The program with products instead of Fourier transforms, except for lengths with a large prime factor."""
    if not any(_replaced(program, step) for step in program.steps):
        return program
    result = copied(program, [])
    result.held = dict(program.held)
    number = 1 + max(value.number for value in program.layouts)
    for step in program.steps:
        if not _replaced(program, step):
            result.steps.append(step)
            continue
        layout = program.layouts[step.inputs[0]]
        example = empty((layout.extent,), dtype=layout.dtype).as_strided(layout.shape, layout.strides)
        # fills the cache of `_roots`, which must exist before the recording
        _transformed(example, step.op, *step.attributes)
        part = trace(lambda x, step=step: _transformed(x, step.op, *step.attributes), example)
        names = {part.inputs[0]: step.inputs[0], part.outputs: step.results[0]}
        for value in part.layouts:
            if value not in names:
                names[value], number = Value(number), number + 1
                result.layouts[names[value]] = part.layouts[value]
        result.held |= {names[inner_value]: tensor for inner_value, tensor in part.held.items()}
        for inner in part.steps:
            inputs = tuple(
                [names[old_value] if isinstance(old_value, Value) else old_value for old_value in inner.inputs]
            )
            results = tuple([names[old_value] for old_value in inner.results])
            result.steps.append(Step(inner.op, inputs, inner.attributes, results, inner.in_place, step.location))
    return result


def _replaced(program: Program, step: object) -> bool:
    """Whether a step is a transform that is replaced by products."""
    if not isinstance(step, Step) or not isinstance(step.op, Transform):
        return False
    shape, (dims, _, *rest) = program.layouts[step.inputs[0]].shape, step.attributes
    lengths = [rest[0] if step.op is from_half and d == dims[-1] else shape[d] for d in dims]
    return all(0 < n and max(_factors(n)) <= _MAX_PRODUCT_SIZE for n in lengths) and 0 not in shape


def _transformed(x: Tensor, op: Transform, dims: tuple, norm: str, *rest: int) -> Tensor:
    """The op's result, as a dense tensor."""
    inverse = bool(rest[0]) if op is complex_transform else op is from_half
    scale = 1.0
    if op is half_spectrum:
        x = x.to(x.dtype.to_complex())
    for d in reversed(dims) if op is not from_half else dims:
        n = x.shape[d]
        if op is from_half and d == dims[-1]:
            n = rest[0]
            mirrored = x.narrow(d, 1, (n - 1) // 2).flip(d).conj()
            x = cat([x.narrow(d, 0, n // 2 + 1), mirrored], d)
        x = _along_last(x.movedim(d, -1), inverse).movedim(-1, d)
        if op is half_spectrum and d == dims[-1]:
            x = x.narrow(d, 0, n // 2 + 1)
        scale *= scale_of(n, norm, inverse)
    x = x.real if op is from_half else x
    return (x * scale).contiguous().clone()


def _along_last(x: Tensor, inverse: bool) -> Tensor:
    """The transform along the last dimension, without scaling."""
    n = x.shape[-1]
    first = _first_factor(n)
    if first == n:
        return x @ _roots(n, n, n, inverse, x.dtype)
    second = n // first
    x = x.reshape((*x.shape[:-1], first, second))
    x = (x.transpose(-1, -2) @ _roots(first, first, first, inverse, x.dtype)).transpose(-1, -2)
    x = _along_last(x * _roots(n, first, second, inverse, x.dtype), inverse)
    return x.transpose(-1, -2).reshape((*x.shape[:-2], n))


@cache
def _roots(n: int, rows: int, columns: int, inverse: bool, dtype: dtypes.dtype) -> Tensor:
    """exp(-+2 pi i j k / n). Cached, so that all transforms share one tensor."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % n / n
    roots = np.exp((2j if inverse else -2j) * np.pi * turns)
    return tensor(roots.astype(dtype.name), dtype=dtype)


def _first_factor(n: int) -> int:
    """n, if one product is best, else the factor of n closest to its square root."""
    if n <= 16:
        return n
    return next((k for k in range(isqrt(n), 1, -1) if n % k == 0), n)


def _factors(n: int) -> list[int]:
    """The sizes of the products."""
    first = _first_factor(n)
    return [first] if first == n else [first, *_factors(n // first)]
