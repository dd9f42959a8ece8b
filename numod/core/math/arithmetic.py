"""Elementwise functions composed of rows (ldexp, frexp, float_power, ...), and trivial ones for real tensors.

The rows are in `ops`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp as frexp_of

from ... import dtypes
from ...dtypes import dtype as DType
from ...ops import special as s, table as t
from .. import return_types
from ..apply import apply_into
from ..shape.arrangement import broadcast_tensors
from .elementwise import sub
from ..convert.copies import to
from .in_place import unexpanded
from ..tensor import Tensor

BOTH = "nextafter ldexp frexp rsub positive"
FUNCTIONS = "float_power result_type threshold threshold_"
METHODS = "float_power ldexp_ float_power_"
IN_PLACE = "nextafter"
OUT = "nextafter ldexp frexp float_power threshold"


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other; with integers `other`, in the dtype of a floating `input`.

    Example:

        >>> torch.ldexp(torch.tensor([1.0]), torch.tensor([3]))
        tensor([8.])
    """
    if other.dtype.differentiable:
        return t.mul(input, t.exp2(other))
    for power in _powers_of_two(other, input.dtype):
        input = t.mul(input, power)
    return input


def ldexp_(self: Tensor, other: Tensor) -> Tensor:
    """In-place ldexp."""
    for power in [t.exp2(other)] if other.dtype.differentiable else _powers_of_two(other, self.dtype):
        self.mul_(power)
    return self


def _powers_of_two(exponent: Tensor, kind: DType) -> Iterable[Tensor]:
    """Three factors of 2 ** exponent that `kind` holds where it would not hold their product: 0.5 * 2 ** 128 is finite
    in float32.
    """
    kind = kind if kind.differentiable else dtypes.get_default_dtype()
    bound = 3 * (frexp_of(dtypes.finfo(kind).max)[1] - 1)
    exponent = t.clamp(to(exponent, dtypes.int64), -bound, bound)
    third = exponent // 3
    for part in (third, (exponent - third) // 2, exponent - third - (exponent - third) // 2):
        yield t.exp2(to(part, kind))


def frexp(input: Tensor) -> return_types.frexp:
    """(mantissa, exponent) with input = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1; the exponent is int32.

    Example:

        >>> torch.frexp(torch.tensor([8.0]))
        numod.return_types.frexp(
        mantissa=tensor([0.5000]),
        exponent=tensor([4], dtype=numod.int32))
    """
    if not input.is_floating_point():
        raise RuntimeError(
            f"frexp() only supports floating-point dtypes, got {input.dtype.short}; convert with .float()"
        )
    return return_types.frexp((s.mantissa(input), to(s.exponent(input.detach()), dtypes.int32)))


def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number of the tensor's dtype towards `other`.

    Example:

        >>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) > 1
        tensor([True])
    """
    if input.dtype.compute is input.dtype:
        return s.nextafter(input, other)
    start, end = broadcast_tensors(input.detach(), other.detach())
    bits = start.clone().view(dtypes.int16)
    moved = t.where((end > start) == (start > 0), bits + 1, bits - 1)
    moved = t.where(start == 0, t.where(end > 0, 1, -32767), moved).to(dtypes.int16).view(input.dtype)
    return t.where(t.isnan(start) | t.isnan(end), float("nan"), t.where(start == end, end, moved))


def float_power(input: Tensor | float, exponent: Tensor | float) -> Tensor:
    """input ** exponent in float64, or complex128.

    Example:

        >>> torch.float_power(torch.tensor([2, 3]), 2)
        tensor([4., 9.], dtype=numod.float64)
    """
    kind = _precise(input, exponent)
    return t.pow(
        *(
            to(value, kind) if isinstance(value, Tensor) else complex(value) if kind.is_complex else float(value)
            for value in (input, exponent)
        )
    )


def _precise(*values: Tensor | float) -> DType:
    """The dtype of `float_power`: complex128 where a value is complex, else float64."""
    return (
        dtypes.complex128
        if any(value.is_complex() if isinstance(value, Tensor) else isinstance(value, complex) for value in values)
        else dtypes.float64
    )


def float_power_(self: Tensor, exponent: Tensor | float) -> Tensor:
    """In-place float_power, of a tensor that has the result's dtype: float64 or complex128."""
    result_dtype = _precise(self, exponent)
    if self.dtype is not result_dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.short} but the operation's result requires dtype "
            f"{result_dtype.short}"
        )
    return self.pow_(exponent)


def rsub(input: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """other - alpha * input.

    Example:

        >>> torch.rsub(torch.tensor([1.0, 2.0]), 3)
        tensor([2., 1.])
    """
    return sub(other, input, alpha=alpha)


def positive(input: Tensor) -> Tensor:
    """The tensor itself.

    Example:

        >>> torch.positive(torch.tensor([-1.0, 2.0]))
        tensor([-1.,  2.])
    """
    if input.dtype is dtypes.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def result_type(tensor1: Tensor | float, tensor2: Tensor | float) -> DType:
    """The dtype that arithmetic between two tensors or numbers results in.

    Example:

        >>> torch.result_type(torch.tensor([1, 2]), 1.0)
        numod.float32
    """
    arguments = (tensor1, tensor2)
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    numbers = [type(argument) for argument in arguments if not isinstance(argument, Tensor)]
    return dtypes.result_type(
        [tensor.dtype for tensor in tensors if tensor.ndim],
        [tensor.dtype for tensor in tensors if not tensor.ndim],
        numbers,
    )


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """The element where it is above `threshold`, else `value`; integers stay integers.

    Example:

        >>> F.threshold(torch.tensor([0.5, 2.0]), 1.0, 0.0)
        tensor([0., 2.])
    """
    return t.threshold(input, *_converted(input, threshold, value))


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place threshold."""
    part = unexpanded(input) if input._layout.overlapping else input
    apply_into(t.threshold, (part, *_converted(input, threshold, value)), (part,))
    return input


def _converted(input: Tensor, *numbers: float) -> Iterable[float]:
    """The numbers as ints for an integer tensor."""
    return numbers if input.dtype.is_floating_point else map(int, numbers)
