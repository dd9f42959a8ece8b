"""Values that a recorded function reads in Python and only returns:

`return loss.item()`. Runs of its program read them when they have ended.

While it is recorded, the function gets a `LazyScalar` in the value's stead. Arithmetic with numbers makes another one,
arithmetic with tensors makes it a tensor; whatever else looks at it raises, or is given the value where the recording
is given up instead.

Another thread may find one in a module's attribute. To that it is the number that it stands for.
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
from ...core.apply import apply, active_listeners
from ...core.tensor import Tensor
from ...core.convert.transfer import peek
from ...ops.pointwise import Pointwise

_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__)) + os.sep
# whose code asks for the class before it knows what it has
_TRUSTED = apply.__code__.co_filename, operators.__file__, indexing.__file__, __file__
METHODS = ("item", "tolist", "numpy")  # of a tensor
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "round")
_FLOATS = {dtypes.float32, dtypes.float64}
_WIDE = {each: dtypes.float64 for each in _FLOATS} | {
    each: dtypes.int64 for each in (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
}
_DIVISIONS = "truediv", "floordiv", "mod"
_LARGEST = 1 << 53  # to which float64 has all integers
# of numbers, which are the same for tensors of float64
_ON_TENSORS = ("add", "sub", "mul", "truediv", "neg", "pos", "abs")
# ops that take integers of any sign and size
_ON_INTEGERS = ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne", "where")
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_LOOKS = (
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
    """What is had of others when a run has ended, in a program's outputs: by a method of a tensor, an operation of
    Python, or `view_of`, on `operands`.
    """

    operation: str
    operands: tuple


class Itself:
    """Gives a thing that is the same at every run, whose parts nobody looks into."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __call__(self) -> Any:
        return self.thing


def view_of(x: Tensor, source: Tensor, unrecorded: bool) -> Tensor:
    """`x` with what the tape knows of a view of `source`, or of what that is a view of."""
    if x._base is None:  # else it was returned twice, or the run is the recorded one
        x._base, x._seen = source if source._base is None else source._base, x._storage.version
        x._unrecorded = unrecorded or source._unrecorded
    return x


def function_of(operation: str) -> Callable:
    """What computes a reading from its operands."""
    if operation == "view_of":
        return view_of
    if operation.startswith("math."):
        return getattr(math, operation[5:])
    return (
        getattr(Tensor, operation)
        if operation in METHODS
        else getattr(operator, operation, None) or getattr(builtins, operation)
    )


def compute(operation: str, operands: Iterable) -> Any:
    """The value of a reading."""
    return function_of(operation)(*operands)


class LazyScalar:
    """Stands for a reading while the function runs.

    `look` is called by whatever looks at it, and raises, unless it is given a flag: a condition that can be a guard.
    `made` collects all that are alive, with their looks.
    """

    __slots__ = ("__weakref__", "_early", "_look", "_made", "_reading", "_thread")

    def __init__(
        self, reading: ScalarExpression, look: Callable, made: list[tuple[ref, Callable]], given: bool = False
    ) -> None:
        self._reading, self._look, self._made = reading, look, made
        self._early = given  # whether it is known before a run begins, so that what it is compared with may be checked
        self._thread = get_ident()  # that is recorded
        made.append((ref(self), look))

    @property
    def __class__(self) -> type:
        """What isinstance() looks at.

        A module's `__setattr__`, which only tells parameters and modules from the rest, may, and so may the waist.
        """
        code = sys._getframe(1).f_code
        if code.co_filename in _TRUSTED or (code.co_name == "__setattr__" and code.co_filename.startswith(_PACKAGE)):
            return LazyScalar
        return (_class_of(reading_of(self)) if _is_early(self) else None) or type(look(self))

    def __hash__(self) -> int:
        # no plan of the waist is of this
        return id(self) if sys._getframe(1).f_code.co_filename == _TRUSTED[0] else hash(look(self))

    def __tensor__(self) -> Tensor | None:
        """What indexing and creation take for it, if it is known before a run begins."""
        return _exact(reading_of(self)) if _is_early(self) else None

    def __number__(self, op: Any, inputs: tuple) -> Tensor | float:
        """What an op on these inputs gets: in pointwise ones of floats a tensor without dimensions, that does to them
        what the number does.
        """
        kinds = {input.dtype for input in inputs if isinstance(input, Tensor) and input.dtype is not dtypes.bool_}
        taken = (
            isinstance(op, Pointwise)
            and any(input is self for input in inputs)
            and len(kinds) == 1
            and not _is_foreign(self)
        )
        found = _among(self, kinds.pop()) if taken else None
        return look(self) if found is None or (found.dtype is dtypes.int64 and op.name not in _ON_INTEGERS) else found

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **named: Any) -> Any:
        """What NumPy's functions get: the number, whose class decides the result's dtype."""
        return getattr(ufunc, method)(*map(value_of_looked_at, operands), **named)


def reading_of(later: LazyScalar) -> ScalarExpression:
    """What a Later stands for."""
    return LazyScalar._reading.__get__(later)


def early(later: LazyScalar, first: Callable[[], None]) -> LazyScalar:
    """The same, as a number that is known before a run begins.

    Whatever looks at it, but for comparisons, calls `first`.
    """
    own = LazyScalar._look.__get__(later)
    return LazyScalar(reading_of(later), lambda *flag: (first(), own(*flag)), LazyScalar._made.__get__(later), True)


def _is_early(thing: Any) -> bool:
    return type(thing) in (int, float) or (
        type(thing) is LazyScalar and LazyScalar._early.__get__(thing) and not _is_foreign(thing)
    )


def _is_foreign(thing: Any) -> bool:
    """Whether it stands for a number in the recording of another thread."""
    return type(thing) is LazyScalar and LazyScalar._thread.__get__(thing) != get_ident()


def _as_number(thing: Any) -> Any:
    """The number, of what stands for one in another thread's recording.

    A recording of this thread finds another there when it is made again.
    """
    if not _is_foreign(thing):
        return thing
    for active_listener in active_listeners():
        if hasattr(active_listener, "confused"):
            active_listener.confused = True
    made = LazyScalar._made.__get__(thing)
    # this thread may still hold it when the recording ends, which is no fault of the function
    made[:] = [each for each in made if each[0]() is not thing]
    return _value_untold(reading_of(thing))


def _value_untold(thing: Any) -> Any:
    """The value of a reading, of which listeners are not told."""
    if type(thing) is not ScalarExpression:
        return thing
    return (
        peek(*thing.operands)
        if thing.operation == "item"
        else compute(thing.operation, map(_value_untold, thing.operands))
    )


def _class_of(reading: Any) -> type | None:
    """Whether a number is an integer or a float, where that does not depend on its value."""
    if type(reading) is not ScalarExpression:
        return type(reading)
    if reading.operation == "item":
        return float if reading.operands[0].dtype in _FLOATS else int
    kinds = {*map(_class_of, reading.operands)}
    if reading.operation.startswith("math."):
        return int if reading.operation in _ROUNDING else float
    if reading.operation == "truediv" or not kinds <= {int, float}:
        return float if kinds <= {int, float} else None
    if reading.operation == "round":
        return _class_of(reading.operands[0]) if len(reading.operands) > 1 else int
    if reading.operation != "pow":
        return float if float in kinds else int
    base, exponent = reading.operands
    if float in kinds:  # that of a negative number may be complex
        return float if _class_of(exponent) is int or (type(base) in (int, float) and base > 0) else None
    return int if type(exponent) is int and exponent >= 0 else None


def value_of(thing: Any) -> Any:
    """A value now, of what may stand for one."""
    reading = thing if type(thing) is ScalarExpression else reading_of(thing) if type(thing) is LazyScalar else None
    return thing if reading is None else compute(reading.operation, map(value_of, reading.operands))


def look(self: LazyScalar) -> Any:
    """The value, for what looks at it."""
    if _is_foreign(self):
        return _as_number(self)
    LazyScalar._look.__get__(self)()
    return value_of(self)


def _among(self: LazyScalar, dtype: dtypes.dtype) -> Tensor | None:
    """A tensor without dimensions that does to tensors of `dtype` what the number does."""
    found = _exact(reading_of(self)) if dtype in _WIDE else None
    if found is None or dtype in _FLOATS:
        return None if found is None else found.to(dtype)
    return (
        found.to(dtypes.get_default_dtype())
        if found.dtype is dtypes.float64
        else found
        if dtype is dtypes.int64
        else None
    )


def _exact(reading: Any) -> Tensor | float | int | None:
    """A float as a tensor of float64, an integer as one of int64, if the reading is one.

    Converted to a tensor's dtype, it does to that what the number does.
    """
    if type(reading) in (int, float):
        return reading if type(reading) is float or abs(reading) < _LARGEST else None
    if type(reading) is not ScalarExpression:
        return None
    if reading.operation == "item":
        (tensor,) = reading.operands
        if tensor.dtype is dtypes.int64 and ((tensor >= _LARGEST) | (tensor <= -_LARGEST))._observe():
            return None
        return tensor.to(_WIDE[tensor.dtype]).reshape(()) if tensor.dtype in _WIDE else None
    operands = [_exact(operand) for operand in reading.operands]
    if any(operand is None for operand in operands):
        return None
    whole = all(
        type(operand) is int or (isinstance(operand, Tensor) and operand.dtype is dtypes.int64) for operand in operands
    )
    if whole and reading.operation != "truediv" and not reading.operation.startswith("math."):
        if reading.operation == "pow":
            return _whole_power(*operands)
        divides = reading.operation in ("floordiv", "mod")
        known = (
            (divides or reading.operation in _ON_TENSORS)
            and _bound(reading) < 1 << 63
            and not (divides and _is_zero(operands[1]))
        )
        return compute(reading.operation, operands) if known else None
    operands = [
        float(operand) if type(operand) is int else operand.double() if isinstance(operand, Tensor) else operand
        for operand in operands
    ]
    if reading.operation in ("pow", "math.pow"):
        return _power(*operands)
    if reading.operation in _MATHEMATICS:
        return _mathematics(reading.operation, *operands)
    if reading.operation not in _ON_TENSORS or (reading.operation == "truediv" and _is_zero(operands[1])):
        return None
    return compute(reading.operation, operands)


def _mathematics(operation: str, x: Tensor | float) -> Tensor | float | None:
    """A function of the math module where it raises no error: its argument is in its domain, and its result finite."""
    if not isinstance(x, Tensor):
        return compute(operation, [x])
    limits, formula = _MATHEMATICS[operation]
    if limits and not limits(x)._observe():
        return None
    found = formula(x)
    return found if operation in _ROUNDING or (abs(found) < float("inf"))._observe() else None


def _is_zero(divisor: Tensor | float | int) -> bool:
    """Python raises ZeroDivisionError, and so does a run in which a divisor becomes zero: its check fails."""
    return bool((divisor == 0)._observe() if isinstance(divisor, Tensor) else divisor == 0)


def _may_be_zero(divisor: Any) -> bool:
    """Whether a divisor is zero, or may be in another run.

    Where it can be checked a run fails, before it has written anything.
    """
    found = _exact(divisor) if type(divisor) is ScalarExpression else divisor
    return found is None or _is_zero(found)


def _power(base: Tensor | float, exponent: Tensor | float) -> Tensor | None:
    """A power of a positive number. Of others it may be complex, and one that is too large is an error."""
    if (base <= 0)._observe() if isinstance(base, Tensor) else base <= 0:
        return None
    found = base**exponent
    return None if (found == float("inf"))._observe() else found


def _whole_power(base: Tensor | int, exponent: Tensor | int) -> Tensor | None:
    """A power of integers that is one, and that float64 has exactly."""
    if (exponent < 0)._observe() if isinstance(exponent, Tensor) else exponent < 0:
        return None
    floats = [each.double() if isinstance(each, Tensor) else float(each) for each in (base, exponent)]
    return base**exponent if (abs(floats[0]) ** floats[1] < _LARGEST)._observe() else None


def _bound(reading: Any) -> int:
    """How large the magnitudes of the integers in it can be."""
    if type(reading) is not ScalarExpression:
        return abs(reading) if type(reading) is int else 0
    if reading.operation == "item":
        dtype = reading.operands[0].dtype
        return 0 if dtype in _FLOATS else _LARGEST if dtype is dtypes.int64 else 1 << 31
    if reading.operation == "pow" or reading.operation in _ROUNDING:
        return _LARGEST
    bounds = list(map(_bound, reading.operands))
    return max(*bounds, math.prod(bounds) if reading.operation == "mul" else sum(bounds))


def _arithmetic(operation: str, reflected: bool) -> Callable:
    def method(self: LazyScalar, *others: Any) -> Any:
        others = tuple(map(_as_number, others))
        if _is_foreign(self):
            return compute(operation, (*others, _as_number(self)) if reflected else (_as_number(self), *others))
        other = others[0] if others and isinstance(others[0], Tensor) else None
        if (
            other is not None
            and (number := _among(self, other.dtype)) is not None
            and (other.dtype in _FLOATS or operation in _ON_TENSORS)
        ):
            return function_of(operation)(*((other, number) if reflected else (number, other)))
        look = LazyScalar._look.__get__(self)
        if len(others) > 1 and operation == "pow":  # modulo a third number
            return pow(value_of_looked_at(self), *map(value_of_looked_at, others))
        operands = tuple(reading_of(each) if type(each) is LazyScalar else each for each in (self, *others))
        known = all(
            type(operand) in (bool, int, float, complex)
            or (type(operand) is ScalarExpression and operand.operation != "numpy")
            for operand in operands
        )
        if not known or (operation in _DIVISIONS and _may_be_zero(operands[0 if reflected else 1])):
            look()  # an array shares the tensor's memory, which may change until the run has ended
            operands = list(map(value_of, operands))
            return compute(operation, operands[::-1] if reflected else operands)
        return LazyScalar(
            ScalarExpression(operation, operands[::-1] if reflected else operands),
            look,
            LazyScalar._made.__get__(self),
            all(map(_is_early, (self, *others))),
        )

    return method


def _comparison(name: str) -> Callable:
    def method(self: LazyScalar, other: Any) -> Any:
        operation, other = name[2:-2], _as_number(other)
        if _is_foreign(self):
            return compute(operation, (_as_number(self), other))
        if isinstance(other, Tensor) and (number := _among(self, other.dtype)) is not None:
            return function_of(operation)(number, other)
        found = _condition(operation, self, other)
        return _called(look(self), name, (other,)) if found is None else found

    return method


def _condition(operation: str, self: LazyScalar, other: Any) -> bool | None:
    """What comes of comparing numbers.

    Of those that are known before a run begins, runs check that it is the same; of others it may be a flag, a guard.
    """
    readings = [reading_of(each) if type(each) is LazyScalar else each for each in (self, other)]
    if any(_bound(reading) > _LARGEST for reading in readings):
        return None
    pair = [_exact(reading) for reading in readings]
    if any(each is None for each in pair):
        return None
    found = function_of(operation)(*[each.double() if isinstance(each, Tensor) else float(each) for each in pair])
    if not (_is_early(self) and _is_early(other)):
        LazyScalar._look.__get__(self)(found)
    return bool(found._observe())


def _looking(name: str) -> Callable:
    def method(self: LazyScalar, *arguments: Any, **named: Any) -> Any:
        value = look(self)
        if name == "__array__":
            # NumPy also names what it leaves open
            return np.array(value, *arguments, **{key: each for key, each in named.items() if each is not None})
        return getattr(value, *arguments) if name == "__getattr__" else _called(value, name, arguments)

    return method


def _function(name: str) -> Callable:
    """A function of the math module that also takes what stands for numbers known before a run begins."""

    def function(*operands: Any) -> Any:
        first = next((operand for operand in operands if type(operand) is LazyScalar), None)
        if first is None or not all(map(_is_early, operands)):
            return getattr(math, name)(*map(value_of_looked_at, operands))
        if name == "log" and len(operands) == 2:  # to a base, which Python computes so too
            return function(operands[0]) / function(operands[1])
        given = tuple(reading_of(operand) if type(operand) is LazyScalar else operand for operand in operands)
        return LazyScalar(
            ScalarExpression(f"math.{name}", given),
            LazyScalar._look.__get__(first),
            LazyScalar._made.__get__(first),
            True,
        )

    return function


def _function_that_looks(function: Callable) -> Callable:
    """A function in C of the value of what stands for a number, which may refuse what is no number."""
    return lambda *operands, **named: function(*map(value_of_looked_at, operands), **named)


def value_of_looked_at(thing: Any) -> Any:
    """The value of what stands for a number, which is looked at; and any other thing."""
    return look(thing) if type(thing) is LazyScalar else thing


def _called(value: Any, name: str, arguments: tuple) -> Any:
    arguments = tuple(map(value_of, arguments))
    if name == "__complex__":  # which numbers do not have
        return complex(value)
    if name in _COMPARISONS:  # the method of an integer leaves that with a float to the float's
        return function_of(name[2:-2])(value, *arguments)
    found = getattr(value, name, None)
    if found is None:
        raise TypeError(f"'{type(value).__name__}' object has no {name}()")
    return found(*arguments)


# of tensors of float64: where they are defined, and what they give
_MATHEMATICS: dict[str, tuple[Callable | None, Callable]] = {
    "math.sqrt": (lambda x: x >= 0, Tensor.sqrt), "math.exp": (None, Tensor.exp), "math.expm1": (None, Tensor.expm1),
    "math.log": (lambda x: x > 0, Tensor.log), "math.log2": (lambda x: x > 0, Tensor.log2),
    "math.log10": (lambda x: x > 0, Tensor.log10),
    "math.log1p": (lambda x: x > -1, Tensor.log1p), "math.fabs": (None, Tensor.abs),
    **{f"math.{name}": (Tensor.isfinite, getattr(Tensor, name)) for name in ("cos", "sin", "tan", "tanh", "atan",
        "sinh", "cosh", "erf")},
    **{f"math.{name}": (lambda x: x.abs() < _LARGEST, lambda x,
        name=name: getattr(x, name)().to(dtypes.int64)) for name in ("floor", "ceil", "trunc")},
}  # fmt: skip
_ROUNDING = "math.floor", "math.ceil", "math.trunc"
# of what the ids are of
STAND_INS: dict[int, Any] = {id(getattr(math, each[5:])): _function(each[5:]) for each in (*_MATHEMATICS, "math.pow")}
for _each in vars(math).values():
    if isinstance(_each, types.BuiltinFunctionType):
        STAND_INS.setdefault(id(_each), _function_that_looks(_each))
STAND_INS[id(math)] = types.ModuleType("math")
vars(STAND_INS[id(math)]).update({name: STAND_INS.get(id(each), each) for name, each in vars(math).items()})
for _each in _ARITHMETIC:
    setattr(LazyScalar, f"__{_each}__", _arithmetic(_each, False))
    setattr(LazyScalar, f"__r{_each}__", _arithmetic(_each, True))
for _each in _LOOKS:
    setattr(LazyScalar, _each, _looking(_each))
for _each in _COMPARISONS:
    setattr(LazyScalar, _each, _comparison(_each))
LazyScalar.__bool__ = lambda self: (
    bool(look(self)) if _is_foreign(self) or (found := _condition("ne", self, 0)) is None else found
)
