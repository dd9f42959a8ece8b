"""The forms in which users meet a row or a function: as a function with `out`, as a method, in place, with NumPy's
names. `methods` says what has which.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection

from ..errors import OutOfMemoryError
from ..ops import table as t
from . import functions as f, overrides, signatures
from .apply import apply, apply_into, copy_among, state
from .arguments import NO_POSITION, plain_arguments, strict_of, wrong_argument
from .math.elementwise import EXACT
from .tensor import Tensor
from .create.values import tensor


def row_function(row: object) -> Callable:
    """A pointwise row as a function with `out`."""

    count = None if row.defaults else len(row.inputs)

    def function(*inputs: object, out: Tensor | None = None, **named: object) -> Tensor:
        # the usual call, in two thirds of the time
        if len(inputs) == count and out is None and isinstance(inputs[0], Tensor) and not named:
            return apply(row, inputs)
        # the deprecated order of arguments: the number before the factors
        if len(inputs) == 4 and row.name in ("addcmul", "addcdiv"):
            inputs = (inputs[0], *f.in_older_order(row.name, inputs[1], inputs[2:], 2))
        inputs = _with_named(row, function, inputs, named) if named else inputs
        try:
            return row(*inputs) if out is None else f.write_out(row, inputs, out)
        except TypeError:
            if overrides.appears(inputs):
                return overrides.again(function, inputs, {} if out is None else {"out": out})
            if not _of_numbers(row.name, inputs):
                raise
            return function(tensor(inputs[0]), *inputs[1:], out=out)

    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = f"{row.name}({', '.join(row.inputs)}), element by element, with broadcasting and type promotion."
    return function


def _of_numbers(name: str, arguments: tuple) -> bool:
    """Whether it is arithmetic of two numbers, which PyTorch takes for tensors."""
    arithmetic = name in "add sub mul div floor_divide true_divide multiply subtract divide".split()
    return (
        arithmetic
        and len(arguments) > 1
        and all(isinstance(argument, (int, float, complex)) for argument in arguments[:2])
    )


def _with_named(row: object, function: Callable, inputs: tuple, named: dict) -> tuple:
    """The inputs, including those given by name."""
    placed = signatures.rearranged(function, None, inputs, named)
    if placed is None:
        raise TypeError(
            f"{row.name}() got an unexpected keyword argument '{next(iter(named))}'; expected "
            f"{inspect.signature(function)}"
        )
    inputs, named = placed
    # the last inputs, as `value`, are given by name only
    defaults = dict(zip(row.inputs[-len(row.defaults) :], row.defaults))
    return (*inputs, *[named.get(name, defaults[name]) for name in row.inputs[len(inputs) :]]) if named else inputs


def unary(row: object) -> Callable:
    """The method of a row with one input, with the least possible overhead."""

    def method(self: Tensor) -> Tensor:
        return apply(row, (self,))

    method.__name__, method.__doc__ = row.name, f"{row.name} of every element."
    return method


def in_place(row: object) -> Callable:
    """`tensor.row_(...)`: the result overwrites the tensor."""

    def method(self: Tensor, *others: object, **named: object) -> Tensor:
        others = _with_named(row, method, (self, *others), named)[1:] if named else others
        apply_into(row, row.complete((self, *others)), (self,))
        return self

    method.__name__, method.__doc__ = f"{row.name}_", f"In-place {row.name}."
    return method


def checked(name: str, function: Callable, of_tensor: bool = False, truths: Collection[str] = ()) -> Callable:
    """The public function, which knows NumPy's names as well:

    `axis` for dim, `keepdims` for keepdim. Where it fails on an argument of a wrong type, the error is PyTorch's.

    `of_tensor`: its first argument is looked at before. `truths`: flags that may be any object, since PyTorch asks
    whether it is true.
    """
    axes = "dim" in function.__annotations__
    strict = {key: each for key, each in strict_of(inspect.unwrap(function)).items() if key not in truths}
    kinds = {key: kind for key, (_, kind) in strict.items()}
    (first, first_kind), *others = sorted(
        [value for value in strict.values() if value[0] < NO_POSITION], key=lambda value: value[0]
    ) or [(NO_POSITION, None)]

    @functools.wraps(function)
    def answered(*arguments: object, **named: object) -> object:
        try:
            if of_tensor and arguments and not isinstance(arguments[0], Tensor):
                raise TypeError(
                    f"{name}(): argument 'input' (position 1) must be Tensor, not {type(arguments[0]).__name__}"
                )
            if len(arguments) > first:
                if arguments[first].__class__ is not first_kind:
                    arguments, named = plain_arguments(name, strict, arguments, named)
                for place, kind in others:
                    if place < len(arguments) and arguments[place].__class__ is not kind:
                        arguments, named = plain_arguments(name, strict, arguments, named)
            if not named:  # to hand on even an empty dictionary takes a quarter of the time here
                return function(*arguments)
            if axes and ("axis" in named or "keepdims" in named):
                named = {{"axis": "dim", "keepdims": "keepdim"}.get(name, name): value for name, value in named.items()}
            for key, given in named.items():
                if key in kinds and given.__class__ is not kinds[key]:
                    arguments, named = plain_arguments(name, strict, arguments, dict(named))
            return function(*arguments, **named)
        except Exception as error:
            if overrides.appears((*arguments, *named.values())):
                return overrides.again(answered, arguments, named)
            if _of_numbers(name, arguments):
                return answered(tensor(arguments[0]), *arguments[1:], **named)
            if (placed := signatures.rearranged(answered, function, arguments, named)) is not None:
                return answered(*placed[0], **placed[1])
            wrong = wrong_argument(name, function, arguments, named)
            # of indices that Python or NumPy makes
            if wrong is None and isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
                wrong = OutOfMemoryError(f"{name}(): {str(error) or 'not enough memory'}")
            if wrong is None:
                raise
            raise wrong from error

    return answered


def with_out(function: Callable) -> Callable:
    """The function with an argument `out`: a tensor, or a tuple of as many as there are results, filled with the
    results. Where it has a `dtype`, that of `out` is the default.
    """
    exact = function.__name__ in EXACT
    typed = (
        not exact and "dtype" in function.__annotations__ and "dtype" in (inspect.unwrap(function).__kwdefaults__ or ())
    )

    @functools.wraps(function)
    def filled(*arguments: object, out: Tensor | tuple[Tensor, ...] | None = None, **named: object) -> object:
        tensors = (
            [each for each in (*arguments, *named.values()) if isinstance(each, Tensor)]
            if typed and isinstance(out, Tensor)
            else ()
        )
        # norms of complex numbers are real
        if tensors and (out.is_complex() or not any([tensor.is_complex() for tensor in tensors])):
            named.setdefault("dtype", out.dtype)
        result = function(*arguments, **named)
        # by the name that users know
        return result if out is None else f.write_result(filled.__name__, result, out, exact)

    return filled


def via_copy(function: Callable) -> Callable:
    """An in-place form that computes and copies, for ops whose kernel cannot overwrite its input."""

    def method(input: Tensor, *arguments: object, **named: object) -> Tensor:
        recorded = state.grad_enabled and any(
            isinstance(each, Tensor) and each.requires_grad for each in (input, *arguments, *named.values())
        )
        source = f.clone(input) if recorded else input  # values saved for backward must not be overwritten
        result = function(source, *arguments, **named)
        f.expect_cast(result.dtype, input.dtype)
        return f.copy_(input, result)

    method.__wrapped__ = function
    return method


def functional(name: str) -> Callable:
    """The out-of-place form of an in-place function: applied to a copy."""

    def function(input: Tensor, *arguments: object, **named: object) -> Tensor:
        if not isinstance(input, Tensor):
            if overrides.appears((input,)):
                return overrides.again(function, (input, *arguments), named)
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        return getattr(copy_among(apply(t.row_major, (input,)), (*arguments, *named.values())), f"{name}_")(
            *arguments, **named
        )

    function.__name__, function.__doc__ = name, f"A copy of `input` after {name}_."
    return function


def view_copy(name: str, view: Callable) -> Callable:
    """`name_copy(input, ..., out=None)`: what `view` gives, as tensors with memory of their own."""

    def function(input: Tensor, *arguments: object, **named: object) -> Tensor | tuple[Tensor, ...]:
        found = view(input, *arguments, **named)
        return (
            tuple([apply(t.row_major, (each,)) for each in found])
            if isinstance(found, tuple)
            else apply(t.row_major, (found,))
        )

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"A copy of what `{name}` gives as a view."
    return with_out(function)
