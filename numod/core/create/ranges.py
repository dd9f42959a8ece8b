"""Tensors of evenly spaced numbers: arange, linspace, logspace."""

from __future__ import annotations

from math import ceil, isinf, isnan

import numpy as np

from ...errors import warn_caller
from ... import dtypes
from ...device.device import Device
from ...dtypes import dtype as DType
from ...kernel.any_size import tables_by_steps
from ...ops import table as t
from .creation import constant, factory, full
from ..arguments import is_whole, plain_number
from ..resolve import resolved
from ..tensor import Tensor


@factory
def arange(
    *bounds: float,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    **kwargs: float,
) -> Tensor:
    """`start, start + step, ...` below `end`: arange(end), arange(start, end), arange(start, end, step).

    Example:

        >>> torch.arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    kind, start, step, count = _progression(
        getattr(dtypes.as_dtype(dtype), "name", None), *(_bounds(bounds, kwargs) if kwargs else bounds)
    )
    return constant(t.arange, (start, step), (count,), kind, device, requires_grad)


@resolved
def _progression(kind: str | None, *bounds: float) -> tuple[DType, float, float, int]:
    """(dtype, first number, step, number of elements) of a range."""
    start, end, step = _bounds(bounds, {})
    if any(isinf(bound) or isnan(bound) for bound in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}")
    if kind:
        kind = dtypes.ALL.get(kind) or dtypes.ABSENT[kind]
    elif all(isinstance(bound, (int, np.integer)) for bound in (start, end, step)):
        kind = dtypes.int64
    else:
        kind = dtypes.get_default_dtype()
    if kind is dtypes.int64:  # PyTorch counts whole numbers for this dtype alone
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise RuntimeError("step must be nonzero")
    return kind, _whole(start, kind), _whole(step, kind), ceil((end - start) / step)


@factory
def range(
    start: float = 0, end: float | None = None, step: float = 1, *, dtype: DType | None = None, **options: object
) -> Tensor:
    """Like arange, but `end` is included. Deprecated, as in PyTorch, since Python's range excludes `end`.

    Example:

        >>> torch.arange(1.0, 4.0)
        tensor([1., 2., 3.])
    """
    count = int((end - start) / step) + 1 if step else 0
    if count < 1:
        raise RuntimeError(
            "step must be nonzero"
            if step == 0
            else f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}"
        )
    warn_caller(
        "numod.range is deprecated because its behavior is inconsistent with Python's range builtin. Instead, use "
        "numod.arange."
    )
    return constant(
        t.arange, (start, step), (count,), dtype, options.get("device"), options.get("requires_grad", False)
    )


def _bounds(bounds: tuple, kwargs: dict) -> tuple:
    names = ("end",) if len(bounds) == 1 else ("start", "end", "step")
    bounds = (
        *[plain_number("arange", *pair) if isinstance(pair[1], Tensor) else pair[1] for pair in zip(names, bounds)],
        *bounds[3:],
    )
    if len(bounds) == 1 and "end" not in kwargs:
        bounds = (0, *bounds)
    values = {**dict(zip(("start", "end", "step"), bounds)), **kwargs}
    if "end" not in values or len(bounds) > 3 or len(values) > 3 or not {"start", "end", "step"} >= values.keys():
        raise TypeError(
            f"arange() takes (end), (start, end) or (start, end, step), got {len(bounds)} of them in order, and by "
            f"name {sorted(kwargs)}"
        )
    return values.get("start", 0), values["end"], values.get("step", 1)


def _count(name: str, start: float, end: float, steps: int) -> int:
    if not is_whole(steps):
        types = ", ".join(type(value).__name__ for value in (start, end, steps))
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({types}); steps must be an int")
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    return int(steps)


@factory
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from `start` to `end`, evenly spaced, both ends included.

    Example:

        >>> torch.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    steps = _count("linspace", start, end, steps)
    start, end = _number(start), _number(end)
    if isinstance(start, complex) or isinstance(end, complex):
        return _complex_linspace(
            complex(start), complex(end), steps, dtype or dtypes.get_default_dtype().to_complex(), device
        ).requires_grad_(requires_grad)
    if dtype is not None and dtype.kind == "w" and steps:
        raise NotImplementedError(f"\"linspace\" not implemented for '{dtype.short}'; use numod.int64")
    if dtype is not None and not dtype.is_floating_point:
        return linspace(*_wholes(start, end, steps, dtype), steps, dtype=dtypes.float64, device=device).to(dtype)
    if tables_by_steps.get() and steps > 1:
        return _linspace_by_steps(start, end, steps, dtype, device).requires_grad_(requires_grad)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return constant(
        t.linspace,
        (float(start), float(end), step, max(steps // 2, 1), steps - 1),
        (steps,),
        dtype,
        device,
        requires_grad,
    )


def _linspace_by_steps(
    start: float, end: float, steps: int, dtype: DType | None, device: Device | str | None
) -> Tensor:
    """As `linspace`, computed by tensors, so that a program can follow other sizes."""
    first, last, count = (
        full((), number, dtype=dtypes.int64 if type(number) is int else dtypes.float64, device=device).double()
        for number in (start, end, steps - 1)
    )
    places = arange(steps, dtype=dtypes.float64, device=device)
    return (places * ((last - first) / count) + first).to(dtype or dtypes.get_default_dtype())


def _complex_linspace(start: complex, end: complex, steps: int, dtype: DType, device: Device | str | None) -> Tensor:
    """The parts evenly spaced. Raises RuntimeError for a dtype of real numbers."""
    if not dtype.is_complex:
        raise RuntimeError(
            f"linspace(): the inferred dtype is complex and can't be safely cast to {dtype}; give a complex dtype, or "
            "real ends"
        )
    real, imaginary = (
        linspace(a, b, steps, dtype=dtype.real, device=device)
        for a, b in ((start.real, end.real), (start.imag, end.imag))
    )
    return t.add(real, t.mul(imaginary, 1j))


@factory
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` powers of `base`, the exponents evenly spaced from `start` to `end`.

    Example:

        >>> torch.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    steps = _count("logspace", start, end, steps)
    if dtype is not None and not dtype.is_floating_point:
        return t.pow(
            float(base),
            linspace(
                *_wholes(start, end, steps, dtype),
                steps,
                dtype=dtypes.complex128 if dtype.is_complex else dtypes.float64,
                device=device,
            ),
        ).to(dtype)
    result = t.pow(float(base), linspace(start, end, steps, dtype=dtype, device=device))
    return result.requires_grad_() if requires_grad else result


def _whole(bound: float, kind: DType) -> float:
    """A bound of a range, cut to an integer for a dtype of integers."""
    return bound if kind.differentiable else int(bound)


def _wholes(start: float, end: float, steps: int, kind: DType) -> tuple[float, float]:
    """The ends of `steps` numbers as a dtype of integers holds them.

    Raises RuntimeError for one it does not hold, unless it is not among the numbers.
    """
    if kind.differentiable:
        return start, end
    first, last = (
        int(dtypes.fitting(bound, kind)) if used else 0 for bound, used in ((start, steps > 0), (end, steps > 1))
    )
    return (first % (1 << 8 * kind.itemsize), last % (1 << 8 * kind.itemsize)) if kind.kind in "uw" else (first, last)


def _number(value: Tensor | float) -> float:
    """A number, or the value of a zero-dimensional tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"linspace only supports 0-dimensional start and end tensors, but got start with {value.ndim} "
                "dimension(s)"
            )
        return value.item()
    return value
