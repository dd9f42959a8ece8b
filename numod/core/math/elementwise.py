"""Elementwise functions with more arguments or checks than a row of the table, and conversions of dtype, device and
memory order.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from numbers import Number

from ... import dtypes
from ...device import Layout
from ...device.device import Device
from ...dtypes import dtype as DType
from ...errors import every_dim, warn_caller_once
from ...formats import contiguous_format, memory_format as MemoryFormat, preserve_format
from ...ops import complexes, table as t
from ...ops.reduce import reduction as r
from ...ops.op import Op
from ...ops.pointwise import Pointwise, broadcast_shapes
from ..apply import apply, apply_into, state
from ..listeners import lies_dense
from ..create.creation import zeros
from ..shape.formats import follows, in_format
from ..tensor import Tensor

BOTH = """
    fmod clamp round nan_to_num bitwise_not logit masked_fill equal isclose allclose clone clip=clamp
"""
_COUNTED_DTYPES = (dtypes.float32, dtypes.float64, dtypes.int64)  # in which a number of elements is not taken for none
# the first of these may be a number
FUNCTIONS = "where pow remainder add sub div floor_divide subtract=sub divide=div true_divide=div"
METHODS = (
    "to contiguous copy_ where=where_of pow remainder add sub div floor_divide subtract=sub divide=div true_divide=div"
)
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
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version. Use a boolean condition instead.",
            stacklevel=3,
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


def write_out(op: object, inputs: tuple, out: Tensor | None) -> Tensor:
    """The result of a pointwise op; written to `out` where given, which is resized if empty."""
    inputs = op.complete(inputs)
    if out is None:
        return apply(op, inputs) if isinstance(inputs[0], Tensor) else op(*inputs)
    _expect_tensor(op.name, out)
    tensors = [input for input in inputs if isinstance(input, Tensor)]
    recorded = (out, *tensors) if op.differentiable else (out,)
    if state.grad_enabled and True in [tensor.requires_grad for tensor in recorded]:
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _expect_no_partial_overlap(out, tensors)
    shape = _written_shape(op, tuple([tensor._layout for tensor in tensors]), out.dtype)
    # bounds that are tensors are other functions in PyTorch
    exact = op.name in EXACT and not (len(tensors) > 1 and op.name.startswith("clamp"))
    if shape is None or (exact and (op.result == "bool" or any([tensor.dtype is not out.dtype for tensor in tensors]))):
        result = op(*inputs)
        _expect_no_input(out, result.shape, tensors)
        return write_result(op.name, result, out, exact and not any([tensor.dtype.is_complex for tensor in tensors]))
    if out._layout.shape != shape:
        _expect_no_input(out, shape, tensors)
        _fit(out, shape)
    apply_into(op, inputs, (out,))
    return out


# functions whose `out` must have the dtype of the result, as in PyTorch; others convert to a dtype of the same or a
# higher kind
EXACT = frozenset(
    """
    abs absolute neg negative round frac ceil floor trunc fix sign sgn clamp clip clamp_min clamp_max bitwise_not
    conj_ nan_to_num isposinf isneginf signbit where heaviside amax amin argmax argmin norm vector_norm
    matrix_norm nuclear_norm old_norm mm_ matmul addmm bmm mv addmv baddbmm addbmm dot vdot inner tensordot vecdot
    multi_dot matrix_power chain_matmul gather index_select take take_along_dim masked_select nonzero tril triu
    diag narrow_copy inv inverse cholesky det solve svdvals eigvals eigvalsh cross any all any_ all_ quantile
    nanquantile bucketize searchsorted isin histc renorm scatter scatter_add scatter_reduce index_add index_copy
    index_reduce softmax log_softmax msort logcumsumexp multinomial float_power polar complex fft rfft hash_tensor
    nonzero_static ormqr slice_scatter solve_triangular argsort
""".split()
)

_JOINING = frozenset("cat concat concatenate stack hstack vstack dstack column_stack row_stack".split())


@lru_cache(maxsize=4096)
def _written_shape(op: Pointwise, layouts: tuple[Layout, ...], dtype: DType) -> tuple[int, ...] | None:
    """The shape of the result if the kernel can write it to a tensor of this dtype, else None."""
    kinds = {layout.dtype for layout in layouts} | {dtype}
    # complex numbers become real ones
    computed_by_parts = any(kind.is_complex for kind in kinds) and (
        op.result == "bool" or not isinstance(op.complex_form, Op)
    )
    if (
        not layouts
        or computed_by_parts
        or ((op.defaults or any(layout.dtype.compute is not layout.dtype for layout in layouts)) and len(kinds) > 1)
    ):
        return None
    return broadcast_shapes(op.name, [layout.shape for layout in layouts])


def write_result(
    name: str, result: Tensor | tuple[Tensor, ...], out: Tensor | tuple[Tensor, ...], exact: bool | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Write the result of an op to `out`.

    `out` is a tensor, or a tuple with one for each result; a tuple is returned as the type of `result`. `exact`:
    whether `out` must have the result's dtype; by default as in PyTorch's function of this name.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(
                f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors, not {type(out).__name__}"
            )
        for one_result, one_out in zip(result, out):
            if isinstance(one_out, Tensor) and one_out.dtype is not one_result.dtype:
                raise RuntimeError(
                    f"{name}(): Expected out tensor to have dtype {one_result.dtype.short}, "
                    f"but got {one_out.dtype.short} "
                    "instead"
                )
        filled = [write_result(name, one_result, one_out) for one_result, one_out in zip(result, out, strict=True)]
        return type(result)(filled)
    _expect_tensor(name, out)
    if state.grad_enabled and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    is_truth = name in ("all", "any") and out.dtype is dtypes.uint8  # as PyTorch's before it had bool
    if out.dtype is not result.dtype and not is_truth and (name in EXACT if exact is None else exact):
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {result.dtype.short}, but got {out.dtype.short} instead"
        )
    expect_cast(result.dtype, out.dtype, TypeError if name in _JOINING else RuntimeError)
    if out.is_meta and not result.is_meta:
        raise RuntimeError(f"{name}(): out is on the meta device, which keeps no values; expected {result.device}")
    _fit(out, result.shape)
    return copy_(out, result)


def _expect_tensor(name: str, out: object) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")


def expect_cast(source: DType, target: DType, error: type[Exception] = RuntimeError) -> None:
    """Raise an error where results of a dtype must not be written into another."""
    if not dtypes.can_cast(source, target):
        raise error(f"result type {source.short} can't be cast to the desired output type {target.short}")


def _expect_no_partial_overlap(out: Tensor, inputs: list[Tensor]) -> None:
    """Raise RuntimeError where `out` shares a part of an input's memory, unless it is the input itself.

    Sharing is decided by the first and last element; tensors with gaps, such as every second column, are not compared.
    """
    target = out._layout
    for input in inputs:
        source = input._layout
        if (
            input._storage is out._storage
            and input._offset < out._offset + target.extent
            and out._offset < input._offset + source.extent
            and source.packed
            and target.packed
            and (input._offset != out._offset or source.strides != target.strides)
        ):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def _expect_no_input(out: Tensor, shape: tuple[int, ...], inputs: list[Tensor]) -> None:
    """Raise RuntimeError where `out` would be resized, but is an input."""
    if out.shape != shape and any([input is out for input in inputs]):
        raise RuntimeError(
            f"output with shape {list(out.shape)} doesn't match the broadcast shape {list(shape)}: an input cannot be "
            "resized to hold the result"
        )


def _fit(out: Tensor, shape: tuple[int, ...]) -> None:
    """Resize `out` to this shape. Warns if `out` is not empty and has another shape."""
    if out.shape == shape:
        return
    if out._layout.overlapping:
        raise RuntimeError(
            "Trying to resize storage that is not resizable: elements of `out` share memory. Please clone() the "
            "tensor first."
        )
    if out.numel():
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(out.shape)}, which does not match the required output shape {list(shape)}.",
            stacklevel=4,
        )
    out.data = zeros(shape, dtype=out.dtype, device=out.device)


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


def to(
    input: Tensor,
    *arguments: object,
    dtype: DType | None = None,
    device: object = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """In another dtype and on another device: to(dtype), to(device), to(device, dtype), to(other).

    Itself where nothing changes, unless `copy`.

    Example:

        >>> torch.tensor([1, 2]).to(torch.float32)
        tensor([1., 2.])
    """
    if len(arguments) == 1 and dtype is device is None and not copy:
        if arguments[0] is input._layout.device or arguments[0] is input._layout.dtype:
            return input if memory_format is preserve_format else in_format(input, memory_format)
        if arguments[0].__class__ is DType and memory_format is preserve_format:
            return apply(t.copy, (_without_imaginary(input, arguments[0]),), (arguments[0],))
    flags = 0
    for argument in arguments if other is None else (*arguments, other):
        if isinstance(argument, (DType, type)):
            dtype = argument
        elif isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, bool):
            flags += 1
            non_blocking, copy = (argument, copy) if flags == 1 else (non_blocking, argument)
        elif argument is not None:
            device = argument
    device = input.device if device is None else Device(device)
    dtype = dtypes.as_dtype(dtype) or input.dtype
    if not isinstance(dtype, DType):
        raise TypeError(f"to(): dtype must be a numod dtype, got {dtype!r}")
    result = input if device is input.device else _moved(input, device, non_blocking)
    if dtype is not input.dtype:
        result = apply(t.copy, (_without_imaginary(result, dtype),), (dtype,))
    result = result if memory_format is preserve_format else in_format(result, memory_format)
    return input.clone() if result is input and copy else result


def _without_imaginary(input: Tensor, dtype: DType) -> Tensor:
    """The real parts of complex numbers that become real ones, with PyTorch's warning.

    `!= 0` is asked of both parts.
    """
    if not input.is_complex() or dtype.is_complex or dtype is dtypes.bool_:
        return input
    warnings.warn("Casting complex values to real discards the imaginary part", stacklevel=4)
    return complexes.real(input)


def _moved(input: Tensor, device: object, non_blocking: bool) -> Tensor:
    from ..convert.transfer import move

    return move(input, device, non_blocking)


def clone(input: Tensor, *, memory_format: MemoryFormat = preserve_format) -> Tensor:
    """A copy with memory of its own.

    Example:

        >>> torch.clone(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    if memory_format is not preserve_format and not follows(input, memory_format):
        return in_format(input, memory_format)
    return apply(t.copy, (input,))


def contiguous(input: Tensor, memory_format: MemoryFormat = contiguous_format) -> Tensor:
    """The tensor itself if it is dense in row-major order (or in `memory_format`), else a dense copy.

    Example:

        >>> torch.ones(2, 3).t().contiguous().stride()
        (2, 1)
    """
    if memory_format is not contiguous_format:
        return in_format(input, memory_format)
    return input if lies_dense(input) else apply(t.row_major, (input,))


def copy_(self: Tensor, other: Tensor | float, non_blocking: bool = False) -> Tensor:
    """Fill with `other`, which broadcasts and is converted; returns self.

    Example:

        >>> torch.zeros(2).copy_(torch.tensor([1, 2]))
        tensor([1., 2.])
    """
    if not isinstance(other, Tensor):
        if isinstance(other, Number):
            return self.fill_(other)
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    self_layout, other_layout = self._layout, other._layout
    if other_layout is not self_layout:
        other = (
            other
            if other_layout.device is self_layout.device
            else other.to(device=self_layout.device, non_blocking=non_blocking)
        )
        other = _without_imaginary(
            other.expand(self_layout.shape) if other_layout.shape != self_layout.shape else other, self_layout.dtype
        )
    apply_into(t.copy, (other,), (self,), (self_layout.dtype,))
    return self
