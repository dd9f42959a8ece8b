"""Values of a program as functions of its bytes, for `integers`.

A `Curve` is a function of one byte: its values for all 256 bytes. A `Surface` is one of two bytes, a `Line` one of an
integer sum. Their values are computed by the program's own ops, so they have the roundings of its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import dtypes
from ..core.apply import apply
from ..core.create.values import from_numpy, tensor
from ..core.tensor import Tensor
from ..graph.ir.program import Value
from ..ops.op import Op

BYTES = dtypes.int8, dtypes.uint8
_SAMPLES = 1 << 16  # of a sum, if it takes more values


@dataclass(frozen=True)
class Curve:
    """A function of the byte `source`. `values` (256, …) broadcasts over channels, if they have functions of theirs."""

    source: Value
    low: int  # the least byte
    values: Tensor

    @property
    def line(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(slope, value at 0), for each channel, if the function is linear."""
        values = self.values.numpy().astype(np.float64)
        slope = (values[-1] - values[0]) / 255
        exact = values[0] + slope * np.arange(256.0).reshape(-1, *[1] * (values.ndim - 1))
        if not np.isfinite(exact).all() or (abs(exact - values) > 1e-5 * abs(values).max(initial=0.0)).any():
            return None
        return slope, values[0] - slope * self.low

    @property
    def plain_line(self) -> tuple[float, int] | None:
        """(slope, zero point) of a linear function that is the same for all channels, if its zero is an integer."""
        line = self.line if self.values.numel() == 256 else None
        if line is None or not line[0].item():
            return None
        zero = -line[1].item() / line[0].item()
        return (line[0].item(), round(zero)) if abs(zero - round(zero)) < 1e-3 else None


@dataclass(frozen=True)
class Surface:
    """A function of two bytes, the sources of linear curves, which it adds first: `values` (256, 256)."""

    first: Curve
    second: Curve
    slopes: tuple[float, float]
    at_zero: float
    values: Tensor


@dataclass(frozen=True)
class Line:
    """A function of an integer value: `slope` times it before anything else. `values` are those for `totals`.

    `count`: of a mean, the number of elements in the sum; `varies`: whether it depends on dynamic sizes.
    """

    source: Value
    slope: float
    totals: np.ndarray
    values: Tensor
    count: int
    varies: bool


@dataclass(frozen=True)
class Tree:
    """Curves of several bytes, joined and moved. `parts`: curves or trees, the inputs of `op`."""

    op: Op
    attributes: tuple
    parts: tuple[Any, ...]


def curve_of(source: Value, dtype: dtypes.dtype, ndim: int, op: Op, attributes: tuple) -> Curve:
    """The function that converts a byte."""
    low, high = dtypes.RANGES[dtype]
    integers = tensor(list(range(low, high + 1)), dtype=dtype).reshape(256, *[1] * ndim)
    return Curve(source, low, apply(op, (integers,), attributes))


def line_of(source: Value, slope: float, low: int, high: int, count: int = 1, varies: bool = False) -> Line:
    """The product of an integer value in [low, high] with a number."""
    totals = np.unique(np.linspace(low, high, min(_SAMPLES, high - low + 1)).astype(np.int64))
    return Line(source, slope, totals, from_numpy((totals * slope).astype(np.float32)), count, varies)


def mapped(form: Any, op: Op, inputs: Sequence, attributes: tuple) -> Any:
    """The form of a pointwise op of `form`, which stands among inputs that are numbers and constant tensors otherwise.

    None if it has none.
    """
    if isinstance(form, Tree):
        parts = tuple([mapped(part, op, [part if x is form else x for x in inputs], attributes) for part in form.parts])
        plain = all(not isinstance(x, Tensor) for x in inputs) and None not in parts
        return replace(form, parts=parts) if plain else None
    if not isinstance(form, Curve) and any(isinstance(x, Tensor) and x.numel() > 1 for x in inputs):
        return None
    values = apply(op, tuple([form.values if x is form else x for x in inputs]), attributes)
    return replace(form, values=values)


def combined(op: Op, inputs: Sequence, attributes: tuple, forms: Sequence[Curve]) -> Any:
    """The form of a pointwise op of curves. None if it has none."""
    if len({form.source for form in forms}) == 1:
        values = apply(op, tuple([x.values if isinstance(x, Curve) else x for x in inputs]), attributes)
        return replace(forms[0], values=values)
    lines = [form.plain_line for form in forms]
    if len(forms) != 2 or len(inputs) != 2 or None in lines or op.name not in ("add", "sub"):
        return None
    (a, zero_a), (b, zero_b) = lines
    b = -b if op.name == "sub" else b
    first, second = forms
    values = apply(op, (first.values.reshape(256, 1), second.values.reshape(1, 256)), attributes)
    return Surface(first, second, (a, b), -a * zero_a - b * zero_b, values)
