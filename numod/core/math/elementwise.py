"""Elementwise functions with more arguments or checks than a row of the table."""

from __future__ import annotations


from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import every_dim, warn_caller_once, warn_caller
from ...ops import complexes, table as t
from ...ops.reduce import reduction as r
from ..apply import apply
from ..convert.copies import contiguous, to
from ..tensor import Tensor
from .outputs import write_out

BOTH = """
    fmod clamp round nan_to_num bitwise_not logit masked_fill equal isclose allclose clip=clamp
"""
_COUNTED_DTYPES = (dtypes.float32, dtypes.float64, dtypes.int64)  # in which a number of elements is not taken for none
# the first of these may be a number
FUNCTIONS = "where pow remainder add sub div floor_divide subtract=sub divide=div true_divide=div"
METHODS = "where=where_of pow remainder add sub div floor_divide subtract=sub divide=div true_divide=div"
# exponents with a row of their own, as in PyTorch
_POWERS = (2, t.square), (3, t.cube), (0.5, t.root), (-1, t.inverse), (-0.5, t.rsqrt)
OUT = "where nan_to_num bitwise_not logit round"
IN_PLACE = "bitwise_not pow nan_to_num logit"


def add(
    input: Tensor, other: Tensor | float, third: Tensor | None = None, *, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """input + alpha * other. Of masks the union, or with alpha = 0 the input.

    Example:

        >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), alpha=2)
        tensor([ 7., 10.])
    """
    if third is not None:
        other, alpha = in_older_order("add", other, (third,))
    if alpha == 1 or (alpha := scale_of(input, other, alpha)) == 1:
        return write_out(t.add, (input, other), out)
    _check_scale(input, other, alpha)
    return write_out(t.add_scaled, (input, other, alpha), out)


def sub(
    input: Tensor, other: Tensor | float, third: Tensor | None = None, *, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """input - alpha * other.

    Example:

        >>> torch.sub(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 1.0]), alpha=2)
        tensor([1., 2.])
    """
    if third is not None:
        other, alpha = in_older_order("sub", other, (third,))
    refuse_masks(input, other)
    if alpha != 1:
        _check_scale(input, other, alpha)
    return write_out(
        t.sub if alpha == 1 else t.add_scaled, (input, other) if alpha == 1 else (input, other, -alpha), out
    )


def in_older_order(name: str, factor: object, tensors: tuple, count: int = 1) -> tuple:
    """The tensors and then the number, of arguments in the deprecated order, `x.add_(alpha, other)`, which many older
    programs have.
    """
    if isinstance(factor, Tensor) or len(tensors) != count or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise TypeError(
            f"{name}() takes {count} positional argument{'s'[: count - 1]} besides the tensor, got "
            f"{1 + len(tensors)}; name the factor"
        )
    keyword = "value" if count > 1 else "alpha"
    warn_caller_once(f"This overload of {name} is deprecated: name the factor, {name}(..., {keyword}={factor}).")
    return *tensors, factor


def pow(input: Tensor | float, exponent: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent. Raises RuntimeError for an integer to a negative integer number.

    Example:

        >>> torch.pow(torch.tensor([2.0, 3.0]), 2)
        tensor([4., 9.])
    """
    if isinstance(exponent, (int, float)) and isinstance(input, Tensor):
        for number, row in _POWERS if input.dtype.differentiable else _POWERS[: isinstance(exponent, int)]:
            if exponent == number and input.dtype is not dtypes.bool_:
                return write_out(row, (input,), out)
        if isinstance(exponent, int) and exponent < 0 and not input.dtype.differentiable:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
    return write_out(t.pow, (input, exponent), out)


def div(input: Tensor, other: Tensor | float, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient.

    Example:

        >>> torch.div(torch.tensor([7.0, -7.0]), 2.0, rounding_mode="floor")
        tensor([ 3., -4.])
    """
    return write_out(quotient(rounding_mode), (input, divisor(input, other) if rounding_mode else other), out)


def quotient(rounding_mode: str | None) -> object:
    """The op for a rounding mode. Raises TypeError unless it is a string or None, RuntimeError for another mode."""
    if rounding_mode is None:
        return t.div
    if not isinstance(rounding_mode, str):
        raise TypeError(f"div(): argument 'rounding_mode' must be str, not {type(rounding_mode).__name__}")
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return t.floor_divide if rounding_mode == "floor" else t.trunc_divide


def floor_divide(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Quotient rounded towards minus infinity.

    Example:

        >>> torch.floor_divide(torch.tensor([7, -7]), 2)
        tensor([ 3, -4])
    """
    return write_out(t.floor_divide, (input, divisor(input, other)), out)


def remainder(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Remainder with the sign of `other`.

    Example:

        >>> torch.remainder(torch.tensor([7.0, -7.0]), 3.0)
        tensor([1., 2.])
    """
    return write_out(t.remainder, (input, divisor(input, other)), out)


def fmod(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Remainder with the sign of `input`.

    Example:

        >>> torch.fmod(torch.tensor([7.0, -7.0]), 3.0)
        tensor([ 1., -1.])
    """
    return write_out(t.fmod, (input, divisor(input, other)), out)


def divisor(input: Tensor | float, other: Tensor | float) -> Tensor | float:
    """`other`. Raises RuntimeError for an integer division by zero; on a GPU when that is known."""
    if all(
        not value.dtype.differentiable if isinstance(value, Tensor) else isinstance(value, int)
        for value in (input, other)
    ):
        error = RuntimeError, "ZeroDivisionError: integer division or remainder by zero"
        if not isinstance(other, Tensor):
            if other == 0:
                raise error[0](error[1])
        elif other.device.type != "meta":
            from ..index.selection import require_all

            require_all(other, *error)
    return other


def clamp(
    input: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Elements limited to [min, max]; either bound may be None, a number or a tensor.

    Example:

        >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=-1.0, max=1.0)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("numod.clamp: At least one of 'min' or 'max' must not be None")
    if max is None:
        return write_out(t.clamp_min, (input, min), out)
    return write_out(t.clamp_max, (input, max), out) if min is None else write_out(t.clamp, (input, min, max), out)


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """Nearest integer (or multiple of 10^-decimals), halves to even.

    Example:

        >>> torch.round(torch.tensor([0.5, 1.5, 2.345]), decimals=0)
        tensor([0., 2., 2.])
    """
    if decimals == 0:
        return write_out(t.round, (input,), out)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return t.round(input * scale) / scale if decimals > 0 else t.round(input / scale) * scale


def where(
    condition: Tensor, input: Tensor | float | None = None, other: Tensor | float | None = None
) -> Tensor | tuple[Tensor, ...]:
    """`input` where condition is true, else `other`; with condition alone, the indices where it is true.

    Example:

        >>> torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([1, 4])
    """
    if not isinstance(condition, Tensor):
        raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}")
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or input and other with it, got None for one of them")
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.short}"
        )
    if condition.dtype is dtypes.uint8:
        warn_caller(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version. Use a boolean condition instead."
        )
    return t.where(condition, input, other)


def where_of(self: Tensor, condition: Tensor, other: Tensor | float) -> Tensor:
    """The tensor where condition is true, else `other`."""
    return where(condition, self, other)


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN and infinities replaced, in both parts of complex numbers; by default by 0 and the greatest and least finite
    numbers.

    Example:

        >>> torch.nan_to_num(torch.tensor([torch.nan, torch.inf, 1.0]), posinf=9.0)
        tensor([0., 9., 1.])
    """
    if input.is_complex():
        return complexes.join(*(nan_to_num(part, nan, posinf, neginf) for part in complexes.parts(input)))
    if not input.is_floating_point():
        return input.clone()
    low, high = dtypes.RANGES[input.dtype]
    return t.nan_to_num(
        input, 0.0 if nan is None else nan, high if posinf is None else posinf, low if neginf is None else neginf
    )


def bitwise_not(input: Tensor) -> Tensor:
    """Bits inverted; of a bool, the opposite.

    Example:

        >>> torch.bitwise_not(torch.tensor([0, 5], dtype=torch.int8))
        tensor([-1, -6], dtype=numod.int8)
    """
    return t.logical_not(input) if input.dtype is dtypes.bool_ else t.bitwise_not(input)


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given.

    Example:

        >>> torch.logit(torch.tensor([0.5, 0.9]))
        tensor([0.0000, 2.1972])
    """
    if eps is None or eps != eps:  # no number is below or above NaN
        return t.logit(input)
    return t.logit(clamp(input, eps, max(eps, 1.0 - eps)))


def masked_fill(input: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """`value` where mask is true, else `input`, in the dtype of input. The result is row-major, as PyTorch's.

    Example:

        >>> torch.masked_fill(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]), 0)
        tensor([0, 2, 0])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    mask, input = (tensor if tensor._layout.dense else contiguous(tensor) for tensor in (mask, input))
    return apply(t.where, (mask, checked_fill(value, input.dtype), input), (input.dtype,))


def invert(self: Tensor) -> Tensor:
    """~self. Raises TypeError for floats."""
    if self.dtype.is_floating_point:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


def checked_fill(value: Tensor | float, dtype: DType) -> Tensor | float:
    """The fill value. Raises RuntimeError unless it is a single number that the dtype holds."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if isinstance(value, Tensor) and value.dtype.is_complex and not dtype.is_complex:
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name}: it is complex; take a part first, with .real, .imag or "
            ".abs()"
        )
    return dtypes.fitting(value, dtype)


def refuse_masks(input: object, other: object) -> None:
    """Raise RuntimeError for a subtraction in which a mask takes part."""
    masks = _is_mask(input) + _is_mask(other)
    if masks == 2:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    if masks:
        instead = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        raise RuntimeError(f"Subtraction, the `-` operator, with a bool tensor is not supported. {instead}")


def _is_mask(value: object) -> bool:
    """Whether a value is a bool or bool tensor. Uses type(), since isinstance() reads the value of lazy scalars."""
    return type(value) is bool or (issubclass(type(value), Tensor) and value._layout.dtype is dtypes.bool_)


def scale_of(input: Tensor, other: object, alpha: float) -> float:
    """`alpha` as the sum takes it: of masks, which stay masks, whether it is other than zero."""
    return bool(alpha) if alpha != 1 and _is_mask(input) and _is_mask(other) and isinstance(alpha, int) else alpha


def _check_scale(input: Tensor, other: object, alpha: float) -> None:
    """Raise RuntimeError for a factor that the result's dtype cannot hold (a float factor of integers, a complex one of
    real numbers).
    """
    if isinstance(alpha, complex) and not any(
        value.dtype.is_complex if isinstance(value, Tensor) else isinstance(value, complex) for value in (input, other)
    ):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    integers = all(
        not (value.dtype.differentiable if isinstance(value, Tensor) else isinstance(value, (float, complex)))
        for value in (input, other)
    )
    if integers and isinstance(alpha, float):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements agree.

    Example:

        >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
        True
    """
    input_layout = input._layout
    if (
        input_layout is other._layout
        and input_layout.dense
        and input_layout.size
        and input_layout.dtype in _COUNTED_DTYPES
        and input_layout.batch is None
    ):
        return not apply(r.fused_map_reduce(t.ne), (input, other), (1,))
    return input_layout.shape == other._layout.shape and bool(
        apply(r.all_, (input == other,), (every_dim(input.ndim), False, None))
    )


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """|input - other| <= atol + rtol * |other|, or equal infinities, or both NaN where `equal_nan`.

    Example:

        >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
        tensor([ True, False])
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    if input.dtype is dtypes.bool_ and other.dtype is dtypes.bool_:
        return input == other
    if not input.dtype.differentiable and not other.dtype.differentiable:
        input, other = to(input, dtypes.int64), to(other, dtypes.int64)
    same = input == other
    if not input.dtype.differentiable and not other.dtype.differentiable:  # whose differences may overflow
        input, other = to(input, dtypes.get_default_dtype()), to(other, dtypes.get_default_dtype())
    close = same | ((input - other).abs() <= atol + rtol * other.abs()) & t.isfinite(input) & t.isfinite(other)
    return close | (t.isnan(input) & t.isnan(other)) if equal_nan else close


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close.

    Example:

        >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())
