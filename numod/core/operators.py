"""Tensor's operators and Python protocols: truth, iteration, conversion to numbers, text."""

from __future__ import annotations

from collections.abc import Callable

from numpy import ndarray

from .. import dtypes, notebook
from ..ops import table as t
from . import functions as f, overrides
from .convert import transfer
from .create import values
from .create.nested import warn_of_gradient
from .apply import apply
from .forms import unary
from .printing import format_tensor
from .tensor import Tensor


def _operator(row: object) -> Callable:
    """The method of an operator that a row of the table computes."""

    def method(self: Tensor, other: object) -> Tensor:
        try:
            return apply(row, (self, other))
        except TypeError:
            if isinstance(other, (Tensor, int, float, bool, complex)) or dtypes_number(other):
                raise
            return (
                apply(row, (self, values.as_tensor(other)))
                if isinstance(other, ndarray)
                else _foreign(method, self, other)
            )

    return method


def _reflected(row: object) -> Callable:
    """The reflected method, for a tensor on the right."""

    def method(self: Tensor, other: object) -> Tensor:
        return apply(row, (other, self)) if isinstance(other, Tensor) or dtypes_number(other) else NotImplemented

    return method


def _foreign(method: Callable, self: Tensor, other: object) -> object:
    """NotImplemented, so that Python tries the other operand, unless its class overrides functions."""
    return overrides.again(method, (self, other), {}) if overrides.appears((other,)) else NotImplemented


def dtypes_number(value: object) -> bool:
    """Whether a value can be the scalar operand of a tensor."""
    try:
        dtypes.scalar_category(type(value))
    except TypeError:
        return False
    return True


def _reflected_by_function(function: Callable) -> Callable:
    """The reflected method of an operator that a function computes."""
    return lambda self, other: (
        function(other, self) if isinstance(other, Tensor) or dtypes_number(other) else NotImplemented
    )


def _by_function(function: Callable) -> Callable:
    """The method of an operator that a function computes."""

    def method(self: Tensor, other: object) -> Tensor:
        if isinstance(other, Tensor) or dtypes_number(other):
            return function(self, other)
        return function(self, values.as_tensor(other)) if isinstance(other, ndarray) else _foreign(method, self, other)

    return method


def _in_place(function: Callable) -> Callable:
    """The method of an in-place operator."""

    def method(self: Tensor, other: object) -> Tensor:
        try:
            return function(self, other)
        except TypeError:
            if isinstance(other, Tensor) or dtypes_number(other):
                raise
            return _foreign(method, self, other)

    return method


for _name, _formula in {
    "add": t.add,
    "mul": t.mul,
    "truediv": t.div,
    "lt": t.lt,
    "le": t.le,
    "gt": t.gt,
    "ge": t.ge,
    "eq": t.eq,
    "ne": t.ne,
    "and": t.bitwise_and,
    "or": t.bitwise_or,
    "xor": t.bitwise_xor,
    "lshift": t.bitwise_left_shift,
    "rshift": t.bitwise_right_shift,
}.items():
    setattr(Tensor, f"__{_name}__", _operator(_formula))
    if _formula.result != "bool":
        setattr(Tensor, f"__r{_name}__", _reflected(_formula))
for _name, _function in {
    "sub": f.sub,
    "floordiv": f.floor_divide,
    "mod": f.remainder,
    "pow": f.pow,
    "matmul": f.matmul,
}.items():
    setattr(Tensor, f"__{_name}__", _by_function(_function))
    setattr(Tensor, f"__r{_name}__", _reflected_by_function(_function))
for _name, _target in {
    "add": "add_",
    "sub": "sub_",
    "mul": "mul_",
    "truediv": "div_",
    "floordiv": "floor_divide_",
    "mod": "remainder_",
    "pow": "pow_",
    "and": "bitwise_and_",
    "or": "bitwise_or_",
    "xor": "bitwise_xor_",
    "lshift": "bitwise_left_shift_",
    "rshift": "bitwise_right_shift_",
}.items():
    setattr(Tensor, f"__i{_name}__", _in_place(getattr(Tensor, _target)))


def _kind(tensor: Tensor) -> str:
    """The caption of a tensor in a notebook."""
    sizes = " x ".join(map(str, tensor.shape)) or "one number"
    return f"{type(tensor).__name__}, {sizes}, {str(tensor.dtype).rpartition('.')[2]}, {tensor.device}"


Tensor.__rdiv__ = Tensor.__rtruediv__
Tensor.__matmul__ = _by_function(f.matmul)
Tensor.__neg__, Tensor.__abs__, Tensor.__pos__ = unary(t.neg), unary(t.abs), lambda self: self
Tensor.__invert__ = f.invert
Tensor.__repr__ = lambda self: format_tensor(self, dtypes.get_default_dtype().name)
Tensor._repr_html_ = lambda self: notebook.preformatted(repr(self), _kind(self))
Tensor.__format__ = lambda self, spec: (
    self.item().__format__(spec)
    if self.ndim == 0 and not self.is_meta
    else object.__format__(self, spec)
    if spec
    else repr(self)
)


def _contains(self: Tensor, value: object) -> bool:
    if not (isinstance(value, Tensor) or dtypes_number(value)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}.")
    return bool((self == value).any())


def _truth(self: Tensor) -> bool:
    if self.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if not self.numel()
            else "Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()"
        )
    return bool(transfer.value(self, "the truth of a tensor (in `if`, `while`, `and`, bool())"))


def _only(self: Tensor, kind: str) -> float:
    """The only element as a Python number, for a conversion by `kind`."""
    if self.numel() != 1:
        raise ValueError(
            f"only one element tensors can be converted to Python scalars, got shape {tuple(self.shape)}; use .tolist()"
        )
    value = transfer.value(self, f"{kind}() of a tensor")
    return dtypes.fitting(value, dtypes.float64) if value.__class__ is complex and kind != "complex" else value


def _index(self: Tensor) -> int:
    if self.numel() != 1 or self.dtype.is_floating_point:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(transfer.value(self, "a tensor as an index, a size or the bound of a slice or range"))


def _float(self: Tensor) -> float:
    warn_of_gradient(self)
    return float(_only(self, "float"))


def _complex(self: Tensor) -> complex:
    warn_of_gradient(self)
    return complex(_only(self, "complex"))


def _iterate(self: Tensor) -> object:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


Tensor.__contains__ = _contains
Tensor.__reversed__ = lambda self: f.flip(self, 0) if self.ndim else self
Tensor.__bool__, Tensor.__index__, Tensor.__iter__ = _truth, _index, _iterate
Tensor.__int__, Tensor.__float__ = lambda self: int(_only(self, "int")), _float
Tensor.__complex__ = _complex
Tensor.__setattr__ = object.__setattr__
