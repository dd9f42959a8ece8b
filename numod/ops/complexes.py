"""Ops of complex numbers whose gradients are not derived from their formulas: parts, conjugate, magnitude, products.

Other rows of `table` state their complex formula themselves. As in PyTorch, the gradient of a real loss L with respect
to a complex tensor is dL/dRe + i dL/dIm.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from .matmul import matmul as mm
from . import special, table as t
from .convolution.convolution import convolution, convolution_input, convolution_weight
from .op import Op, Plan
from .pointwise import Pointwise


class ComplexPart(Pointwise):
    """A row with gradients in tensor operations: `rules`, by input."""

    complex_form = None

    def __init__(self, name: str, body: str, rules: dict[str, Callable], **options: object) -> None:
        super().__init__(name, body, {}, **options)
        self.rules, self.differentiable = rules, True

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`. All rows but `direction` are also defined for real numbers."""
        problem = super().check(arguments, attributes, sizes)
        kinds = tuple([argument if isinstance(argument, Layout) else type(argument) for argument in arguments])
        if problem or self is not direction or self.types(kinds, attributes)[0].is_complex:
            return problem
        return "it must compute with a complex dtype"

    def gradient_of(self, position: int) -> Callable | None:
        return self.rules.get(self.inputs[position])


real = ComplexPart("real", "x.real", {"x": lambda g, layout: g.to(layout.dtype)}, result="real", complex=True)
imag = ComplexPart("imag", "x.imag", {"x": lambda g: g * 1j}, result="real", complex=True)
conj = ComplexPart("conj", "x.conjugate()", {"x": lambda g: g.conj()}, complex=True)
magnitude = ComplexPart("abs", "hypot(x.real, x.imag)", {"x": lambda g, x: g * x.sgn()}, result="real", complex=True)
angle = ComplexPart(
    "angle",
    "atan2(x.imag, x.real)",
    {"x": lambda g, x: (g * 1j * x / (x * x.conj())).masked_fill(x == 0, 0)},
    result="real",
    complex=True,
)
direction = ComplexPart(
    "sgn", "complex_sign(x)",
    {"x": lambda g, x, out: ((g - (g * out.conj()).real * out) / x.abs()).masked_fill(x == 0, 0)}, complex=True,
)  # fmt: skip
join = ComplexPart(
    "complex", "complex(x, y)", {"x": lambda g: g.real, "y": lambda g: g.imag}, result="complex", accepts="f"
)


class ViewAsDtype(Op):
    """A view of the same memory as another dtype. Recorded like an op; needs no kernel."""

    inputs = ("x",)
    portable = False
    wide_unsigned = True

    def __init__(self, name: str, gradient: Callable, rule: Callable) -> None:
        super().__init__(name)
        self.gradients, self.rule = {"x": gradient}, rule

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        shape, strides, dtype, _ = self.rule(x, 0)
        return Plan(layout(shape, dtype, x.device, strides), None)


def _pairs(x: object, offset: int) -> tuple:
    """Shape, strides, dtype and offset of complex elements as pairs of real ones."""
    return (*x.shape, 2), (*(2 * s for s in x.strides), 1), x.dtype.real, 2 * offset


def _from_pairs(x: object, offset: int) -> tuple:
    """Shape, strides, dtype and offset of pairs of real elements as complex ones.

    Raises RuntimeError if the pairs are not adjacent and aligned.
    """
    if x.ndim == 0 or x.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if x.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1; try .contiguous()")
    if any(s % 2 for s in x.strides[:-1]) or offset % 2:
        raise RuntimeError(
            "Tensor must have a stride divisible by 2 for all but last dimension, and a storage_offset divisible by "
            "2; try .contiguous()"
        )
    return tuple(x.shape[:-1]), tuple(s // 2 for s in x.strides[:-1]), x.dtype.to_complex(), offset // 2


as_real = ViewAsDtype("view_as_real", lambda g: join.apply((g.select(-1, 0), g.select(-1, 1))), _pairs)
as_complex = ViewAsDtype("view_as_complex", lambda g: g._pairs(), _from_pairs)


def parts(x: object) -> tuple:
    """Dense copies of the real and the imaginary part."""
    return real.apply((x,)), imag.apply((x,))


def _product(op: Op) -> Callable:
    """The complex form of a matrix product or convolution, with an optional bias: four real products."""

    def product(inputs: tuple, attributes: tuple) -> object:
        if len({input.dtype for input in inputs if input is not None}) > 1:
            kinds = " and ".join(str(input.dtype) for input in inputs if input is not None)
            raise RuntimeError(
                f"{op.name}: expected all matrices to have the same dtype, but got: {kinds}; convert one with .to()"
            )
        (a, b), bias = inputs[:2], inputs[2:]
        (a_real, a_imag), (b_real, b_imag) = parts(a), parts(b)
        no_bias = (None,) * len(bias)
        result = join.apply((
            op.apply((a_real, b_real, *no_bias), attributes) - op.apply((a_imag, b_imag, *no_bias), attributes),
            op.apply((a_real, b_imag, *no_bias), attributes) + op.apply((a_imag, b_real, *no_bias), attributes),
        ))  # fmt: skip
        return result if not bias or bias[0] is None else result + bias[0]

    return product


def _logaddexp(x: object, y: object) -> object:
    """log(exp(x) + exp(y)) = high + log1p(exp(low - high)), where high has the larger real part."""
    x, y = (value + 0 if value.dtype is dtypes.bool_ else value for value in (x, y))
    x_is_high = (real(x) >= real(y)) | (real(x) != real(x))
    high, low = t.where(x_is_high, x, y), t.where(x_is_high, y, x)
    low_is_zero = real(low) == -inf
    return t.where(low_is_zero, high, high + t.log1p(t.exp(t.where(low_is_zero, 0.0, low - high))))


def _set_complex_form(row: Pointwise, function: Callable) -> None:
    """Compute a row of real numbers by `function` for complex tensors."""
    row.complex_form = lambda inputs, attributes: function(*inputs)


_set_complex_form(t.abs, magnitude)
_set_complex_form(special.angle, angle)
_set_complex_form(t.softsign, lambda x: x / (1.0 + magnitude(x)))
_set_complex_form(t.logaddexp, _logaddexp)
for _op in (mm.matmul, mm.linear, convolution, convolution_input, convolution_weight):
    _op.complex_form = _product(_op)
