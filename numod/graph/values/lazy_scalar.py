"""Lazy scalars: numbers that a recorded function reads from tensors with `.item()`, `.tolist()` or `.numpy()`.

During recording, the function gets a `LazyScalar` instead of the number. Arithmetic with numbers returns another lazy
scalar, arithmetic with tensors returns a tensor. Any other use needs the value: it raises, or ends the recording and
returns the value. A program computes the scalars that it returns at the end of each run.

Another thread may find a lazy scalar in a module's attribute. There it acts as the number that it represents.
"""

from __future__ import annotations

import builtins
import math
import operator
import os
import sys
import types
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ... import dtypes, errors
from ...core.index import indexing
from ...core import operators
from ...core.apply import apply
from ...core.listeners import active_listeners
from ...core.tensor import Tensor
from ...core.convert.transfer import peek
from ...ops.pointwise import Pointwise

_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__)) + os.sep
# files that read `__class__` of any operand, without using the value
_TRUSTED_FILES = apply.__code__.co_filename, operators.__file__, indexing.__file__, __file__
METHODS = ("item", "tolist", "numpy")  # methods of a tensor that return a lazy scalar
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "round")
_FLOATS = {dtypes.float32, dtypes.float64}
_WIDE_DTYPES = {dtype: dtypes.float64 for dtype in _FLOATS} | {
    dtype: dtypes.int64 for dtype in (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
}
_DIVISIONS = "truediv", "floordiv", "mod"
_EXACT_LIMIT = 1 << 53  # float64 represents all integers up to this one
# operations with equal results on numbers and on float64 tensors
_ON_TENSORS = ("add", "sub", "mul", "truediv", "neg", "pos", "abs")
# ops that take integers of any sign and size
_ON_INTEGERS = ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne", "where")
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_READING_METHODS = (
    "__int__",
    "__float__",
    "__complex__",
    "__index__",
    "__str__",
    "__repr__",
    "__format__",
    "__len__",
    "__iter__",
    "__getitem__",
    "__contains__",
    "__getattr__",
    "__array__",
    "__reduce_ex__",
    "__trunc__",
    "__floor__",
    "__ceil__",
    "__invert__",
    *(
        f"__{reflected}{name}__"
        for name in ("divmod", "and", "or", "xor", "lshift", "rshift")
        for reflected in ("", "r")
    ),
)


class ScalarExpression(NamedTuple):
    """A scalar that a program returns: an operation on operands, computed at the end of a run.

    The operation is a method of a tensor, a Python operator, a function of `math`, `view_of` or `with_inference`.
    """

    operation: str
    operands: tuple


class Constant:
    """A function that returns a constant object, whose parts are not inspected."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


def view_of(x: Tensor, source: Tensor, unrecorded: bool) -> Tensor:
    """Return `x`, registered as a view of the base of `source`."""
    if x._base is None:  # otherwise x is returned twice, or this is the recorded run
        x._base, x._seen = source if source._base is None else source._base, x._storage.version
        x._unrecorded = unrecorded or source._unrecorded
    return x


def with_inference(x: Tensor, is_inference: bool) -> Tensor:
    """Return `x`, marked as an inference tensor or as none."""
    x._inference = is_inference
    return x


def function_of(operation: str) -> Callable:
    """The function that computes an expression from its operands."""
    if operation in ON_RESULTS:
        return ON_RESULTS[operation]
    if operation.startswith("math."):
        return getattr(math, operation[5:])
    return (
        getattr(Tensor, operation)
        if operation in METHODS
        else getattr(operator, operation, None) or getattr(builtins, operation)
    )


# operations on a tensor that a program returns: their first operand is the result
ON_RESULTS: dict[str, Callable[..., Tensor]] = {"view_of": view_of, "with_inference": with_inference}


def compute(operation: str, operands: Iterable) -> Any:
    """Compute an expression's value."""
    return function_of(operation)(*operands)


class LazyScalar:
    """A number whose value is known only after a run. During recording it represents a `ScalarExpression`.

    `on_read` is called before the value is read. It raises, or takes a flag: a condition that can become a guard.
    `alive` collects all lazy scalars of a recording, each with its `on_read`.
    `known_early`: the value is known before a run starts, so comparisons with it can be checked at the start.
    """

    __slots__ = ("__weakref__", "_alive", "_expression", "_known_early", "_on_read", "_thread")

    def __init__(
        self,
        expression: ScalarExpression,
        on_read: Callable,
        alive: list[tuple[ref, Callable]],
        known_early: bool = False,
    ) -> None:
        self._expression, self._on_read, self._alive = expression, on_read, alive
        self._known_early = known_early
        self._thread = get_ident()  # the recorded thread
        alive.append((ref(self), on_read))

    @property
    def __class__(self) -> type:
        """The number's class, for isinstance().

        The dispatcher and a module's `__setattr__`, which test all values, get `LazyScalar`.
        """
        code = sys._getframe(1).f_code
        if code.co_filename in _TRUSTED_FILES or (
            code.co_name == "__setattr__" and code.co_filename.startswith(_PACKAGE)
        ):
            return LazyScalar
        return (_class_of(expression_of(self)) if _is_known_early(self) else None) or type(read_value(self))

    def __hash__(self) -> int:
        # the dispatcher caches plans by hash: a plan must not depend on the number
        return id(self) if sys._getframe(1).f_code.co_filename == _TRUSTED_FILES[0] else hash(read_value(self))

    def __tensor__(self) -> Tensor | None:
        """The scalar as a tensor for indexing and creation, if it is known before a run starts."""
        return _as_tensor(expression_of(self)) if _is_known_early(self) else None

    def __number__(self, op: Any, inputs: tuple) -> Tensor | float:
        """The operand that an op gets: a zero-dimensional tensor for pointwise ops, else the number."""
        kinds = {input.dtype for input in inputs if isinstance(input, Tensor) and input.dtype is not dtypes.bool_}
        becomes_tensor = (
            isinstance(op, Pointwise)
            and any(input is self for input in inputs)
            and len(kinds) == 1
            and not _of_other_thread(self)
        )
        operand = _as_operand(self, kinds.pop()) if becomes_tensor else None
        return (
            read_value(self)
            if operand is None or (operand.dtype is dtypes.int64 and op.name not in _ON_INTEGERS)
            else operand
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **kwargs: Any) -> Any:
        """Call a NumPy function with the number, whose class decides the result's dtype."""
        return getattr(ufunc, method)(*map(read_number, operands), **kwargs)


def expression_of(scalar: LazyScalar) -> ScalarExpression:
    """The expression that a lazy scalar represents."""
    return LazyScalar._expression.__get__(scalar)


def known_early(scalar: LazyScalar, before_read: Callable[[], None]) -> LazyScalar:
    """A copy of the lazy scalar that is known before a run starts.

    Every read except comparisons calls `before_read` first.
    """
    on_read = LazyScalar._on_read.__get__(scalar)
    return LazyScalar(
        expression_of(scalar), lambda *flag: (before_read(), on_read(*flag)), LazyScalar._alive.__get__(scalar), True
    )


def _is_known_early(value: Any) -> bool:
    return type(value) in (int, float) or (
        type(value) is LazyScalar and LazyScalar._known_early.__get__(value) and not _of_other_thread(value)
    )


def _of_other_thread(value: Any) -> bool:
    """Whether the value is a lazy scalar of another thread's recording."""
    return type(value) is LazyScalar and LazyScalar._thread.__get__(value) != get_ident()


def _as_number(value: Any) -> Any:
    """Replace a lazy scalar of another thread's recording by its number; return other values unchanged.

    Active recordings are discarded, and a later call may be recorded: the number may differ at the next call.
    """
    if not _of_other_thread(value):
        return value
    for active_listener in active_listeners():
        if hasattr(active_listener, "may_succeed_later"):
            active_listener.may_succeed_later = True
    alive = LazyScalar._alive.__get__(value)
    # this thread may keep the scalar beyond the end of that recording, which is not an error there
    alive[:] = [entry for entry in alive if entry[0]() is not value]
    return _unobserved_value(expression_of(value))


def _unobserved_value(value: Any) -> Any:
    """Compute an expression without notifying listeners."""
    if type(value) is not ScalarExpression:
        return value
    return (
        peek(*value.operands)
        if value.operation == "item"
        else compute(value.operation, map(_unobserved_value, value.operands))
    )


def _class_of(expression: Any) -> type | None:
    """The expression's type, int or float, or None if it depends on the value."""
    if type(expression) is not ScalarExpression:
        return type(expression)
    if expression.operation == "item":
        return float if expression.operands[0].dtype in _FLOATS else int
    kinds = {*map(_class_of, expression.operands)}
    if expression.operation.startswith("math."):
        return int if expression.operation in _ROUNDING else float
    if expression.operation == "truediv" or not kinds <= {int, float}:
        return float if kinds <= {int, float} else None
    if expression.operation == "round":
        return _class_of(expression.operands[0]) if len(expression.operands) > 1 else int
    if expression.operation != "pow":
        return float if float in kinds else int
    base, exponent = expression.operands
    if float in kinds:  # a power of a negative number may be complex
        return float if _class_of(exponent) is int or (type(base) in (int, float) and base > 0) else None
    return int if type(exponent) is int and exponent >= 0 else None


def value_of(value: Any) -> Any:
    """Compute lazy scalars and expressions now; return other values unchanged."""
    expression = (
        value if type(value) is ScalarExpression else expression_of(value) if type(value) is LazyScalar else None
    )
    return value if expression is None else compute(expression.operation, map(value_of, expression.operands))


def read_value(self: LazyScalar) -> Any:
    """Read the value, after calling `on_read`."""
    if _of_other_thread(self):
        return _as_number(self)
    LazyScalar._on_read.__get__(self)()
    return value_of(self)


def _as_operand(self: LazyScalar, dtype: dtypes.dtype) -> Tensor | None:
    """The scalar as a zero-dimensional operand for tensors of `dtype`, or None if the result could differ."""
    tensor = _as_tensor(expression_of(self)) if dtype in _WIDE_DTYPES else None
    if tensor is None or dtype in _FLOATS:
        return None if tensor is None else tensor.to(dtype)
    if tensor.dtype is dtypes.float64:
        return tensor.to(dtypes.get_default_dtype())
    if dtype is dtypes.int64:
        return tensor
    return None


def _as_tensor(expression: Any) -> Tensor | float | int | None:
    """The expression as a float64 or int64 tensor, or as a constant; None if it has no exact one.

    Converted to another tensor's dtype, it acts on that tensor as the number does.
    """
    if type(expression) in (int, float):
        return expression if type(expression) is float or abs(expression) < _EXACT_LIMIT else None
    if type(expression) is not ScalarExpression:
        return None
    if expression.operation == "item":
        (tensor,) = expression.operands
        if tensor.dtype is dtypes.int64 and ((tensor >= _EXACT_LIMIT) | (tensor <= -_EXACT_LIMIT))._observe():
            return None
        return tensor.to(_WIDE_DTYPES[tensor.dtype]).reshape(()) if tensor.dtype in _WIDE_DTYPES else None
    operands = [_as_tensor(operand) for operand in expression.operands]
    if any(operand is None for operand in operands):
        return None
    integers_only = all(
        type(operand) is int or (isinstance(operand, Tensor) and operand.dtype is dtypes.int64) for operand in operands
    )
    if integers_only and expression.operation != "truediv" and not expression.operation.startswith("math."):
        if expression.operation == "pow":
            return _integer_power(*operands)
        divides = expression.operation in ("floordiv", "mod")
        is_exact = (
            (divides or expression.operation in _ON_TENSORS)
            and _bound(expression) < 1 << 63
            and not (divides and _is_zero(operands[1]))
        )
        return compute(expression.operation, operands) if is_exact else None
    operands = [
        float(operand) if type(operand) is int else operand.double() if isinstance(operand, Tensor) else operand
        for operand in operands
    ]
    if expression.operation in ("pow", "math.pow"):
        return _power(*operands)
    if expression.operation in _MATHEMATICS:
        return _mathematics(expression.operation, *operands)
    if expression.operation not in _ON_TENSORS or (expression.operation == "truediv" and _is_zero(operands[1])):
        return None
    return compute(expression.operation, operands)


def _mathematics(operation: str, x: Tensor | float) -> Tensor | float | None:
    """A function of the math module, or None where it would raise: outside its domain, or at an infinite result."""
    if not isinstance(x, Tensor):
        return compute(operation, [x])
    limits, formula = _MATHEMATICS[operation]
    if limits and not limits(x)._observe():
        return None
    result = formula(x)
    return result if operation in _ROUNDING or (abs(result) < float("inf"))._observe() else None


def _is_zero(divisor: Tensor | float | int) -> bool:
    """Whether a divisor is zero. For tensors this records a check, so a run with a zero divisor fails."""
    return bool((divisor == 0)._observe() if isinstance(divisor, Tensor) else divisor == 0)


def _may_be_zero(divisor: Any) -> bool:
    """Whether a divisor is zero now, or may become zero in a run that cannot check it."""
    value = _as_tensor(divisor) if type(divisor) is ScalarExpression else divisor
    return value is None or _is_zero(value)


def _power(base: Tensor | float, exponent: Tensor | float) -> Tensor | None:
    """A finite power of a positive number; None for others, which may be complex or raise OverflowError."""
    if (base <= 0)._observe() if isinstance(base, Tensor) else base <= 0:
        return None
    result = base**exponent
    return None if (result == float("inf"))._observe() else result


def _integer_power(base: Tensor | int, exponent: Tensor | int) -> Tensor | None:
    """A power of integers that is an integer and exact in float64, or None."""
    if (exponent < 0)._observe() if isinstance(exponent, Tensor) else exponent < 0:
        return None
    floats = [operand.double() if isinstance(operand, Tensor) else float(operand) for operand in (base, exponent)]
    return base**exponent if (abs(floats[0]) ** floats[1] < _EXACT_LIMIT)._observe() else None


def _bound(expression: Any) -> int:
    """An upper bound on the magnitudes of the integers in an expression."""
    if type(expression) is not ScalarExpression:
        return abs(expression) if type(expression) is int else 0
    if expression.operation == "item":
        dtype = expression.operands[0].dtype
        return 0 if dtype in _FLOATS else _EXACT_LIMIT if dtype is dtypes.int64 else 1 << 31
    if expression.operation == "pow" or expression.operation in _ROUNDING:
        return _EXACT_LIMIT
    bounds = list(map(_bound, expression.operands))
    return max(*bounds, math.prod(bounds) if expression.operation == "mul" else sum(bounds))


def _arithmetic(operation: str, reflected: bool) -> Callable:
    """A method of LazyScalar for an arithmetic operation, deferred if the result cannot depend on when it is read."""

    def method(self: LazyScalar, *others: Any) -> Any:
        others = tuple(map(_as_number, others))
        if _of_other_thread(self):
            return compute(operation, (*others, _as_number(self)) if reflected else (_as_number(self), *others))
        other = others[0] if others and isinstance(others[0], Tensor) else None
        if (
            other is not None
            and (number := _as_operand(self, other.dtype)) is not None
            and (other.dtype in _FLOATS or operation in _ON_TENSORS)
        ):
            return function_of(operation)(*((other, number) if reflected else (number, other)))
        on_read = LazyScalar._on_read.__get__(self)
        if len(others) > 1 and operation == "pow":  # modulo a third number
            return pow(read_number(self), *map(read_number, others))
        operands = tuple(expression_of(value) if type(value) is LazyScalar else value for value in (self, *others))
        deferrable = all(
            type(operand) in (bool, int, float, complex)
            or (type(operand) is ScalarExpression and operand.operation != "numpy")
            for operand in operands
        )
        if not deferrable or (operation in _DIVISIONS and _may_be_zero(operands[0 if reflected else 1])):
            on_read()  # an array shares the tensor's memory, which may change before the run ends
            operands = list(map(value_of, operands))
            return compute(operation, operands[::-1] if reflected else operands)
        return LazyScalar(
            ScalarExpression(operation, operands[::-1] if reflected else operands),
            on_read,
            LazyScalar._alive.__get__(self),
            all(map(_is_known_early, (self, *others))),
        )

    return method


def _comparison(name: str) -> Callable:
    """A method of LazyScalar for a comparison."""

    def method(self: LazyScalar, other: Any) -> Any:
        operation, other = name[2:-2], _as_number(other)
        if _of_other_thread(self):
            return compute(operation, (_as_number(self), other))
        if isinstance(other, Tensor) and (number := _as_operand(self, other.dtype)) is not None:
            return function_of(operation)(number, other)
        outcome = _condition(operation, self, other)
        return _call_method(read_value(self), name, (other,)) if outcome is None else outcome

    return method


def _condition(operation: str, self: LazyScalar, other: Any) -> bool | None:
    """The outcome of a comparison, or None if it cannot be recorded.

    Runs check the outcome. For scalars that are not known before a run starts, the flag is passed to `on_read`.
    """
    expressions = [expression_of(operand) if type(operand) is LazyScalar else operand for operand in (self, other)]
    if any(_bound(expression) > _EXACT_LIMIT for expression in expressions):
        return None
    tensors = [_as_tensor(expression) for expression in expressions]
    if any(operand is None for operand in tensors):
        return None
    outcome = function_of(operation)(
        *[operand.double() if isinstance(operand, Tensor) else float(operand) for operand in tensors]
    )
    if not (_is_known_early(self) and _is_known_early(other)):
        LazyScalar._on_read.__get__(self)(outcome)
    return bool(outcome._observe())


def _reading_method(name: str) -> Callable:
    """A method of LazyScalar that reads the number and calls the number's method."""

    def method(self: LazyScalar, *arguments: Any, **kwargs: Any) -> Any:
        value = read_value(self)
        if name == "__array__":
            # NumPy also passes arguments that are None
            return np.array(
                value, *arguments, **{key: argument for key, argument in kwargs.items() if argument is not None}
            )
        return getattr(value, *arguments) if name == "__getattr__" else _call_method(value, name, arguments)

    return method


def _math_function(name: str) -> Callable:
    """A function of the math module that also accepts lazy scalars known before a run starts."""

    def function(*operands: Any) -> Any:
        first = next((operand for operand in operands if type(operand) is LazyScalar), None)
        if first is None or not all(map(_is_known_early, operands)):
            return getattr(math, name)(*map(read_number, operands))
        if name == "log" and len(operands) == 2:  # Python computes log(x, base) as this quotient
            return function(operands[0]) / function(operands[1])
        expressions = tuple(expression_of(operand) if type(operand) is LazyScalar else operand for operand in operands)
        return LazyScalar(
            ScalarExpression(f"math.{name}", expressions),
            LazyScalar._on_read.__get__(first),
            LazyScalar._alive.__get__(first),
            True,
        )

    return function


def _reading_function(function: Callable) -> Callable:
    """Wrap a builtin so that it receives the concrete number."""
    return lambda *operands, **kwargs: function(*map(read_number, operands), **kwargs)


def read_number(value: Any) -> Any:
    """Read a lazy scalar's number; return other values unchanged."""
    return read_value(value) if type(value) is LazyScalar else value


def _call_method(value: Any, name: str, arguments: tuple) -> Any:
    arguments = tuple(map(value_of, arguments))
    if name == "__complex__":  # int and float have no such method
        return complex(value)
    if name in _COMPARISONS:  # int.__lt__(float) returns NotImplemented; the operator tries the reflected method
        return function_of(name[2:-2])(value, *arguments)
    method = getattr(value, name, None)
    if method is None:
        raise TypeError(f"'{type(value).__name__}' object has no {name}()")
    return method(*arguments)


# functions of float64 tensors: (domain, formula)
_MATHEMATICS: dict[str, tuple[Callable | None, Callable]] = {
    "math.sqrt": (lambda x: x >= 0, Tensor.sqrt), "math.exp": (None, Tensor.exp), "math.expm1": (None, Tensor.expm1),
    "math.log": (lambda x: x > 0, Tensor.log), "math.log2": (lambda x: x > 0, Tensor.log2),
    "math.log10": (lambda x: x > 0, Tensor.log10),
    "math.log1p": (lambda x: x > -1, Tensor.log1p), "math.fabs": (None, Tensor.abs),
    **{f"math.{name}": (Tensor.isfinite, getattr(Tensor, name)) for name in ("cos", "sin", "tan", "tanh", "atan",
        "sinh", "cosh", "erf")},
    **{f"math.{name}": (lambda x: x.abs() < _EXACT_LIMIT, lambda x,
        name=name: getattr(x, name)().to(dtypes.int64)) for name in ("floor", "ceil", "trunc")},
}  # fmt: skip
_ROUNDING = "math.floor", "math.ceil", "math.trunc"
# replacements by id of the replaced object
STAND_INS: dict[int, Any] = {
    id(getattr(math, name[5:])): _math_function(name[5:]) for name in (*_MATHEMATICS, "math.pow")
}
for _builtin in vars(math).values():
    if isinstance(_builtin, types.BuiltinFunctionType):
        STAND_INS.setdefault(id(_builtin), _reading_function(_builtin))
STAND_INS[id(math)] = types.ModuleType("math")
vars(STAND_INS[id(math)]).update({name: STAND_INS.get(id(value), value) for name, value in vars(math).items()})
for _name in _ARITHMETIC:
    setattr(LazyScalar, f"__{_name}__", _arithmetic(_name, False))
    setattr(LazyScalar, f"__r{_name}__", _arithmetic(_name, True))
for _name in _READING_METHODS:
    setattr(LazyScalar, _name, _reading_method(_name))
for _name in _COMPARISONS:
    setattr(LazyScalar, _name, _comparison(_name))
LazyScalar.__bool__ = lambda self: (
    bool(read_value(self)) if _of_other_thread(self) or (outcome := _condition("ne", self, 0)) is None else outcome
)
