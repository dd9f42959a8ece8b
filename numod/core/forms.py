"""The public forms of a row or function: a function with `out`, a method, an in-place method, NumPy's argument names.

`methods` lists which rows and functions have which forms.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection

from ..errors import OutOfMemoryError
from ..ops import table as t
from . import functions as f, overrides, row_texts, signatures
from .apply import apply, apply_into, copy_among, state
from .arguments import NO_POSITION, plain_arguments, strict_of, wrong_argument
from .math.outputs import EXACT
from .tensor import Tensor
from .create.values import tensor


# the rows whose first input, or first inputs, must be tensors: PyTorch takes no numbers there
_LEADING_TENSORS = (
    dict.fromkeys("copysign clamp_min clamp_max eq ne lt le gt ge".split(), 1)
    | dict.fromkeys(
        """logaddexp logaddexp2 atan2 hypot heaviside maximum minimum fmax fmin lerp logical_and logical_or logical_xor
        nextafter gcd lcm""".split(),
        2,
    )
    | {"addcmul": 3, "addcdiv": 3}
)


def _expect_tensors(name: str, inputs: tuple, count: int) -> None:
    """Raise TypeError unless the first `count` inputs are tensors."""
    for position, value in enumerate(inputs[:count]):
        if not isinstance(value, Tensor):
            key = list(signatures.overloads(name)[0].parameters)[position]
            raise TypeError(
                f"{name}(): argument '{key}' (position {position + 1}) must be Tensor, not {type(value).__name__}"
            )


def row_function(row: object) -> Callable:
    """A pointwise row as a function with `out`."""

    count = None if row.defaults else len(row.inputs)
    tensor_count = _LEADING_TENSORS.get(row.name, 0)
    shortcut_count, pair_count = (count, None) if tensor_count < 2 else (None, count)

    def function(*inputs: object, out: Tensor | None = None, **kwargs: object) -> Tensor:
        # shortcuts for the usual calls, which save a third of the time
        if len(inputs) == shortcut_count and out is None and isinstance(inputs[0], Tensor) and not kwargs:
            return apply(row, inputs)
        if len(inputs) == pair_count and out is None and not kwargs:
            if isinstance(inputs[0], Tensor) and isinstance(inputs[1], Tensor):
                return apply(row, inputs)
        # the deprecated order of arguments: the number before the factors
        if len(inputs) == 4 and row.name in ("addcmul", "addcdiv"):
            inputs = (inputs[0], *f.in_older_order(row.name, inputs[1], inputs[2:], 2))
        inputs = _with_named(row, function, inputs, kwargs) if kwargs else inputs
        try:
            if tensor_count:
                _expect_tensors(row.name, inputs, tensor_count)
            return row(*inputs) if out is None else f.write_out(row, inputs, out)
        except TypeError:
            if overrides.appears(inputs):
                return overrides.again(function, inputs, {} if out is None else {"out": out})
            if not _of_numbers(row.name, inputs):
                raise
            return function(tensor(inputs[0]), *inputs[1:], out=out)

    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = (
        row_texts.text(row.name, len(row.inputs) - len(row.defaults))
        or f"{row.name} of each element; tensors broadcast."
    )
    return function


def _of_numbers(name: str, arguments: tuple) -> bool:
    """Whether a call is arithmetic of two numbers, which PyTorch converts to tensors."""
    arithmetic = name in "add sub mul div floor_divide true_divide multiply subtract divide".split()
    return (
        arithmetic
        and len(arguments) > 1
        and all(isinstance(argument, (int, float, complex)) for argument in arguments[:2])
    )


def _with_named(row: object, function: Callable, inputs: tuple, kwargs: dict) -> tuple:
    """The inputs, including keyword arguments."""
    rearranged = signatures.rearranged(function, None, inputs, kwargs)
    if rearranged is None:
        raise TypeError(
            f"{row.name}() got an unexpected keyword argument '{next(iter(kwargs))}'; expected "
            f"{inspect.signature(function)}"
        )
    inputs, kwargs = rearranged
    # the last inputs, such as `value`, are keyword-only
    defaults = dict(zip(row.inputs[-len(row.defaults) :], row.defaults))
    return (*inputs, *[kwargs.get(name, defaults[name]) for name in row.inputs[len(inputs) :]]) if kwargs else inputs


def unary(row: object) -> Callable:
    """The method of a row with one input, with the least possible overhead."""

    def method(self: Tensor) -> Tensor:
        return apply(row, (self,))

    method.__name__ = row.name
    method.__doc__ = row_texts.method_text(row.name) or f"`numod.{row.name}(self)`, elementwise."
    return method


def in_place(row: object) -> Callable:
    """`tensor.row_(...)`: the result overwrites the tensor."""

    tensor_count = _LEADING_TENSORS.get(row.name, 0)

    def method(self: Tensor, *others: object, **kwargs: object) -> Tensor:
        others = _with_named(row, method, (self, *others), kwargs)[1:] if kwargs else others
        if tensor_count > 1:
            _expect_tensors(row.name, (self, *others), tensor_count)
        apply_into(row, row.complete((self, *others)), (self,))
        return self

    method.__name__ = f"{row.name}_"
    text = row_texts.method_text(row.name, is_in_place=True)
    method.__doc__ = text or f"In-place `{row.name}`: overwrites the tensor and returns it."
    return method


def checked(
    name: str, function: Callable, of_tensor: bool = False, truths: Collection[str] = (), numbers: type | None = complex
) -> Callable:
    """The public function, with NumPy's names (`axis` for dim, `keepdims` for keepdim) and PyTorch's type errors.

    `of_tensor`: whether the first argument must be a tensor. `truths`: flags that may be any object, whose truth value
    is used. `numbers`: what floats must be, and not tensors with gradients: real numbers (float), any numbers
    (complex), or anything (None).
    """
    axes = "dim" in function.__annotations__
    strict = {
        key: position_and_types
        for key, position_and_types in strict_of(inspect.unwrap(function), numbers).items()
        if key not in truths
    }
    types_of = {key: types for key, (_, types) in strict.items()}
    # a wrapped loss takes None for PyTorch's deprecated `size_average` and `reduce`, at their own positions
    takes_none = inspect.unwrap(function) is not function and "reduction" in function.__annotations__
    (first, first_types), *other_positions = sorted(
        [value for value in strict.values() if value[0] < NO_POSITION], key=lambda value: value[0]
    ) or [(NO_POSITION, ())]

    @functools.wraps(function)
    def wrapper(*arguments: object, **kwargs: object) -> object:
        try:
            if of_tensor and arguments and not isinstance(arguments[0], Tensor):
                raise TypeError(
                    f"{name}(): argument 'input' (position 1) must be Tensor, not {type(arguments[0]).__name__}"
                )
            if len(arguments) > first:
                if arguments[first].__class__ not in first_types and not (takes_none and arguments[first] is None):
                    arguments, kwargs = plain_arguments(name, strict, arguments, kwargs)
                for position, types in other_positions:
                    if position >= len(arguments) or (takes_none and arguments[position] is None):
                        continue
                    if arguments[position].__class__ not in types:
                        arguments, kwargs = plain_arguments(name, strict, arguments, kwargs)
            if not kwargs:  # passing on even an empty dictionary takes a quarter of the time here
                return function(*arguments)
            if axes and ("axis" in kwargs or "keepdims" in kwargs):
                kwargs = {
                    {"axis": "dim", "keepdims": "keepdim"}.get(name, name): value for name, value in kwargs.items()
                }
            for key, argument in kwargs.items():
                if key in types_of and argument.__class__ not in types_of[key]:
                    arguments, kwargs = plain_arguments(name, strict, arguments, dict(kwargs))
            return function(*arguments, **kwargs)
        except Exception as error:
            if overrides.appears((*arguments, *kwargs.values())):
                return overrides.again(wrapper, arguments, kwargs)
            if _of_numbers(name, arguments):
                return wrapper(tensor(arguments[0]), *arguments[1:], **kwargs)
            if (rearranged := signatures.rearranged(wrapper, function, arguments, kwargs)) is not None:
                return wrapper(*rearranged[0], **rearranged[1])
            better_error = wrong_argument(name, function, arguments, kwargs)
            # from indices that Python or NumPy allocates
            if better_error is None and isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
                better_error = OutOfMemoryError(f"{name}(): {str(error) or 'not enough memory'}")
            if better_error is None:
                raise
            raise better_error from error

    return wrapper


def with_out(function: Callable, exact: bool = False) -> Callable:
    """The function with an argument `out`: a tensor, or a tuple with one for each result, to write the results to.

    Its dtype is the default of an argument `dtype`. `exact`: whether it must have the result's dtype, as it must for
    the functions of EXACT.
    """
    exact = exact or function.__name__ in EXACT
    has_dtype = (
        not exact and "dtype" in function.__annotations__ and "dtype" in (inspect.unwrap(function).__kwdefaults__ or ())
    )

    @functools.wraps(function)
    def filled(*arguments: object, out: Tensor | tuple[Tensor, ...] | None = None, **kwargs: object) -> object:
        tensors = (
            [argument for argument in (*arguments, *kwargs.values()) if isinstance(argument, Tensor)]
            if has_dtype and isinstance(out, Tensor)
            else ()
        )
        # norms of complex numbers are real
        if tensors and (out.is_complex() or not any([tensor.is_complex() for tensor in tensors])):
            kwargs.setdefault("dtype", out.dtype)
        result = function(*arguments, **kwargs)
        # errors use the public name
        return result if out is None else f.write_result(filled.__name__, result, out, exact)

    return filled


def via_copy(function: Callable) -> Callable:
    """The in-place form of a function whose kernel cannot overwrite its input: computes and copies."""

    def method(input: Tensor, *arguments: object, **kwargs: object) -> Tensor:
        needs_grad = state.grad_enabled and any(
            isinstance(argument, Tensor) and argument.requires_grad
            for argument in (input, *arguments, *kwargs.values())
        )
        source = f.clone(input) if needs_grad else input  # values saved for backward must not be overwritten
        result = function(source, *arguments, **kwargs)
        f.expect_cast(result.dtype, input.dtype)
        return f.copy_(input, result)

    method.__wrapped__ = function
    return method


def functional(name: str) -> Callable:
    """The out-of-place form of an in-place function: applied to a copy."""

    def function(input: Tensor, *arguments: object, **kwargs: object) -> Tensor:
        if not isinstance(input, Tensor):
            if overrides.appears((input,)):
                return overrides.again(function, (input, *arguments), kwargs)
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        return getattr(copy_among(apply(t.row_major, (input,)), (*arguments, *kwargs.values())), f"{name}_")(
            *arguments, **kwargs
        )

    text = row_texts.text(name, None, has_out=False)
    function.__name__, function.__doc__ = name, text or f"A copy of `input` after {name}_."
    return function


def view_copy(name: str, view: Callable) -> Callable:
    """`name_copy(input, ..., out=None)`: the results of `view` as tensors with memory of their own."""

    def function(input: Tensor, *arguments: object, **kwargs: object) -> Tensor | tuple[Tensor, ...]:
        views = view(input, *arguments, **kwargs)
        return (
            tuple([apply(t.row_major, (one_view,)) for one_view in views])
            if isinstance(views, tuple)
            else apply(t.row_major, (views,))
        )

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = row_texts.copy_text(name, inspect.getdoc(view))
    return with_out(function, exact=True)
