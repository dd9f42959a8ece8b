"""Tensor's methods and operators: a table from names to functions. Nothing is computed here."""

from __future__ import annotations

import functools
from collections.abc import Callable

from numpy import ndarray

from .. import dtypes
from ..device.device import Device
from ..formats import preserve_format
from ..ops import special, table as t  # noqa: F401  special adds its rows
from . import creation, functions as f, transfer  # transfer adds its methods
from .apply import apply, apply_into, state
from .arguments import wrong_argument
from .printing import format_tensor
from .tensor import Tensor

# rows that become a method and a function unchanged: public name -> name in the table
POINTWISE = {
    name: name for name in """abs neg square reciprocal exp exp2 expm1 log log2 log10 log1p logaddexp sqrt rsqrt xlogy sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh hypot sinc deg2rad rad2deg erf erfc erfinv sigmoid sign floor ceil trunc frac copysign heaviside isnan isfinite isinf isposinf
    isneginf signbit maximum minimum fmax fmin clamp_min clamp_max lerp addcmul addcdiv mul eq ne lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and
    bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift relu logaddexp2 lgamma digamma i0 nextafter gcd lcm angle""".split()
}
ALIASES = {
    "absolute": "abs", "negative": "neg", "multiply": "mul", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "fix": "trunc",
    "expit": "sigmoid",
}
def row_function(row: object) -> Callable:
    """A pointwise row as a function with `out`."""

    def function(*inputs: object, out: Tensor | None = None, **named: object) -> Tensor:
        if len(inputs) == 4 and row.name in ("addcmul", "addcdiv"):  # the deprecated order of arguments: the number before the factors
            inputs = (inputs[0], *inputs[2:], inputs[1])
        inputs = _with_named(row, inputs, named) if named else inputs
        return row(*inputs) if out is None else f.write_out(row, inputs, out)

    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = f"{row.name}({', '.join(row.inputs)}), element by element, with broadcasting and type promotion."
    return function


def _with_named(row: object, inputs: tuple, named: dict) -> tuple:
    """The inputs, including those given by name; PyTorch calls x and y `input` and `other`."""
    names = [{"x": "input", "y": "other"}.get(name, name) for name in row.inputs]
    for name in names[len(inputs) :]:
        if name not in named:
            break
        inputs += (named.pop(name),)
    if named:
        raise TypeError(f"{row.name}() got an unexpected keyword argument '{next(iter(named))}'; it takes {', '.join(names)}")
    return inputs


def _unary(row: object) -> Callable:
    """The method of a row with one input, with the least possible overhead."""

    def method(self: Tensor) -> Tensor:
        return apply(row, (self,))

    method.__name__, method.__doc__ = row.name, f"{row.name} of every element."
    return method


def _in_place(row: object) -> Callable:
    """`tensor.row_(...)`: the result overwrites the tensor."""

    def method(self: Tensor, *others: object, **named: object) -> Tensor:
        others = _with_named(row, (self, *others), named)[1:] if named else others
        missing = len(row.inputs) - 1 - len(others)
        if missing:
            if not 0 < missing <= len(row.defaults):
                raise TypeError(f"{row.name}_() takes ({', '.join(row.inputs[1:])}), got {len(others)} arguments")
            others += row.defaults[-missing:]
        apply_into(row, (self, *others), (self,))
        return self

    method.__name__, method.__doc__ = f"{row.name}_", f"In-place {row.name}."
    return method


def checked(name: str, function: Callable, of_tensor: bool = False) -> Callable:
    """The public function: where it fails on an argument of a wrong type, the error is PyTorch's. `of_tensor`: its first argument is looked at before."""

    @functools.wraps(function)
    def answered(*arguments: object, **named: object) -> object:
        if of_tensor and arguments and not isinstance(arguments[0], Tensor):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(arguments[0]).__name__}")
        try:
            return function(*arguments, **named)
        except Exception as error:
            wrong = wrong_argument(name, function, arguments, named)
            if wrong is None:
                raise
            raise wrong from error

    return answered


def with_out(function: Callable) -> Callable:
    """The function with an argument `out`: a tensor, or a tuple of as many as there are results, filled with the results."""

    @functools.wraps(function)
    def filled(*arguments: object, out: Tensor | tuple[Tensor, ...] | None = None, **named: object) -> object:
        result = function(*arguments, **named)
        return result if out is None else f.write_result(function.__name__, result, out)

    return filled


def _with_axis(function: Callable) -> Callable:
    """The function with NumPy's argument names as well: `axis` for dim, `keepdims` for keepdim."""

    @functools.wraps(function)
    def renamed(*arguments: object, **named: object) -> object:
        if "axis" in named or "keepdims" in named:
            named = {{"axis": "dim", "keepdims": "keepdim"}.get(name, name): value for name, value in named.items()}
        return function(*arguments, **named)

    return renamed


def _via_copy(function: Callable) -> Callable:
    """An in-place form that computes and copies, for ops whose kernel cannot overwrite its input."""

    def method(self: Tensor, *arguments: object, **named: object) -> Tensor:
        source = f.clone(self) if state.grad_enabled and self.requires_grad else self  # values saved for backward must not be overwritten
        result = function(source, *arguments, **named)
        f.expect_cast(result.dtype, self.dtype)
        return f.copy_(self, result)

    return method


def _names(home: object, kind: str) -> dict[str, Callable]:
    """The functions a file of `core` lists under BOTH, FUNCTIONS, METHODS or IN_PLACE, by their public names ("name" or "name=its own name")."""
    pairs = [each.partition("=") for each in getattr(home, kind, "").split()]
    return {name: getattr(home, own or name) for name, _, own in pairs}


def _takes_another(function: Callable) -> bool:
    """Whether a method takes a further tensor, which may be of another type; the others save the time of checking."""
    return any("Tensor" in str(kind) for name, kind in function.__annotations__.items() if name not in ("input", "self", "return", "out"))


functions: dict[str, Callable] = {name: row_function(t.rows[row]) for name, row in (POINTWISE | ALIASES).items()}
for _name, _source in (POINTWISE | ALIASES).items():
    _formula = t.rows[_source]
    setattr(Tensor, _name, _unary(_formula) if len(_formula.inputs) == 1 else functions[_name])
    if _formula.result != "bool":
        setattr(Tensor, f"{_name}_", _in_place(_formula))
    elif len(_formula.inputs) > 1 or _source == "logical_not":
        setattr(Tensor, f"{_name}_", _via_copy(functions[_name]))  # tells the tape that none of the old values remain
for _home in f.HOMES:
    functions |= {_name: checked(_name, _function) for _name, _function in _names(_home, "FUNCTIONS").items()}
    functions |= {_name: checked(_name, _function, True) for _name, _function in _names(_home, "BOTH").items()}
    for _name, _function in _names(_home, "BOTH").items():
        setattr(Tensor, _name, functions[_name] if _takes_another(_function) else _function)
    for _name, _function in _names(_home, "METHODS").items():
        setattr(Tensor, _name, _function)
    for _name, _function in _names(_home, "IN_PLACE").items():
        setattr(Tensor, f"{_name}_", _via_copy(_function))

# ---- in-place forms that take more than the row


def _scaled(row: object, sign: int) -> Callable:
    def method(self: Tensor, other: Tensor | float, *, alpha: float = 1) -> Tensor:
        if alpha == 1:
            apply_into(row, (self, other), (self,))
        else:
            apply_into(t.add_scaled, (self, other, sign * alpha), (self,))
        return self

    return method


def _divide(self: Tensor, other: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    row = {None: t.div, "floor": t.floor_divide, "trunc": t.trunc_divide}[rounding_mode]
    apply_into(row, (self, other if rounding_mode is None else f._divisor(self, other)), (self,))
    return self


def _clamp(self: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    if min is None and max is None:
        raise RuntimeError("numod.clamp: At least one of 'min' or 'max' must not be None")
    if min is not None:
        apply_into(t.clamp_min, (self, min), (self,))
    if max is not None:
        apply_into(t.clamp_max, (self, max), (self,))
    return self


def _round(self: Tensor, *, decimals: int = 0) -> Tensor:
    if decimals:
        return f.copy_(self, f.round(self, decimals=decimals))
    apply_into(t.round, (self,), (self,))
    return self


def _fill(self: Tensor, value: Tensor | float) -> Tensor:
    """Fill with `value`."""
    apply_into(t.fill, (value,), (self,), (self.dtype, self.device, tuple(self.shape)))
    return self


def _masked_fill(self: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Write `value` where mask is true."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    f.check_fill(value)
    apply_into(t.where, (mask, value, self), (self,), (self.dtype,))
    return self


def _addcmul(row: object) -> Callable:
    def method(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        apply_into(row, (self, tensor1, tensor2, value), (self,))
        return self

    return method


def _functional(name: str) -> Callable:
    """The out-of-place form of an in-place function: applied to a copy."""

    def function(input: Tensor, *arguments: object, **named: object) -> Tensor:
        return getattr(apply(t.row_major, (input,)), f"{name}_")(*arguments, **named)

    function.__name__, function.__doc__ = name, f"A copy of `input` after {name}_."
    return function


_IN_PLACE = {
    "add_": _scaled(t.add, 1), "sub_": _scaled(t.sub, -1), "div_": _divide, "clamp_": _clamp, "clip_": _clamp, "fill_": _fill, "masked_fill_": _masked_fill,
    "addcmul_": _addcmul(t.addcmul), "addcdiv_": _addcmul(t.addcdiv), "round_": _round, "subtract_": _scaled(t.sub, -1), "divide_": _divide, "true_divide_": _divide,
    "floor_divide_": lambda self, other: _divide(self, other, rounding_mode="floor"),
    "remainder_": lambda self, other: _in_place(t.remainder)(self, f._divisor(self, other)), "fmod_": lambda self, other: _in_place(t.fmod)(self, f._divisor(self, other)),
    "zero_": lambda self: _fill(self, 0),
}
for _name, _function in _IN_PLACE.items():
    setattr(Tensor, _name, _function)
for _home in f.HOMES:
    for _name in getattr(_home, "COPYING", "").split():
        functions[_name] = _functional(_name)
        setattr(Tensor, _name, functions[_name])
for _home in f.HOMES:
    functions |= {_name: with_out(functions[_name]) for _name in getattr(_home, "OUT", "").split()}
    for _name in getattr(_home, "AXIS", "").split():
        functions[_name] = _with_axis(functions[_name])
        setattr(Tensor, _name, _with_axis(getattr(Tensor, _name)))

for _name, _function in list(vars(Tensor).items()):
    if _name.endswith("_") and not _name.startswith("_") and not _function.__doc__:
        _function.__doc__ = f"In-place {_name[:-1]}."
for _name in ("selu", "celu", "hardshrink", "fill", "detach"):
    functions[_name] = row_function(t.rows[_name]) if _name not in ("fill", "detach") else checked(_name, getattr(Tensor, _name, _functional(_name)), True)
Tensor.hardshrink, Tensor.selu_, Tensor.celu_ = functions["hardshrink"], _in_place(t.selu), _in_place(t.celu)
for _name in """abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max clamp_min clip cos cosh deg2rad detach erf erfc
    exp exp2 expm1 fill fix floor frac gcd i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc
    sinh sqrt square tan tanh trunc xlogy zero selu celu""".split():
    functions[f"{_name}_"] = checked(f"{_name}_", getattr(Tensor, f"{_name}_"), True)

# ---- operators


def _operator(row: object) -> Callable:
    def method(self: Tensor, other: object) -> Tensor:
        try:
            return apply(row, (self, other))
        except TypeError:
            if isinstance(other, (Tensor, int, float, bool, complex)) or dtypes_number(other):
                raise
            return apply(row, (self, creation.as_tensor(other))) if isinstance(other, ndarray) else NotImplemented

    return method


def _reflected(row: object) -> Callable:
    def method(self: Tensor, other: object) -> Tensor:
        return apply(row, (other, self)) if dtypes_number(other) else NotImplemented

    return method


def dtypes_number(value: object) -> bool:
    """Whether a value can be the scalar operand of a tensor."""
    try:
        dtypes.scalar_category(type(value))
    except TypeError:
        return False
    return True


def _other_way(function: Callable) -> Callable:
    return lambda self, other: function(other, self) if isinstance(other, Tensor) or dtypes_number(other) else NotImplemented


def _same_way(function: Callable) -> Callable:
    def method(self: Tensor, other: object) -> Tensor:
        if isinstance(other, Tensor) or dtypes_number(other):
            return function(self, other)
        return function(self, creation.as_tensor(other)) if isinstance(other, ndarray) else NotImplemented

    return method


for _name, _formula in {
    "add": t.add, "mul": t.mul, "truediv": t.div, "lt": t.lt, "le": t.le, "gt": t.gt, "ge": t.ge, "eq": t.eq, "ne": t.ne,
    "and": t.bitwise_and, "or": t.bitwise_or, "xor": t.bitwise_xor, "lshift": t.bitwise_left_shift, "rshift": t.bitwise_right_shift,
}.items():
    setattr(Tensor, f"__{_name}__", _operator(_formula))
    if _formula.result != "bool":
        setattr(Tensor, f"__r{_name}__", _reflected(_formula))
for _name, _function in {"sub": f.sub, "floordiv": f.floor_divide, "mod": f.remainder, "pow": f.pow, "matmul": f.matmul}.items():
    setattr(Tensor, f"__{_name}__", _same_way(_function))
    setattr(Tensor, f"__r{_name}__", _other_way(_function))
for _name, _target in {"add": "add_", "sub": "sub_", "mul": "mul_", "truediv": "div_", "floordiv": "floor_divide_", "mod": "remainder_", "pow": "pow_",
                       "and": "bitwise_and_", "or": "bitwise_or_", "xor": "bitwise_xor_", "lshift": "bitwise_left_shift_", "rshift": "bitwise_right_shift_"}.items():
    setattr(Tensor, f"__i{_name}__", getattr(Tensor, _target))

Tensor.__matmul__ = _same_way(f.matmul)
Tensor.__neg__, Tensor.__abs__, Tensor.__pos__ = _unary(t.neg), _unary(t.abs), lambda self: self
Tensor.__invert__ = f.invert
Tensor.__repr__ = lambda self: format_tensor(self, dtypes.get_default_dtype().name)
Tensor.__format__ = lambda self, spec: self.item().__format__(spec) if self.ndim == 0 else object.__format__(self, spec) if spec else repr(self)


def _contains(self: Tensor, value: object) -> bool:
    if not (isinstance(value, Tensor) or dtypes_number(value)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(value)}.")
    return bool((self == value).any())


def _truth(self: Tensor) -> bool:
    if self.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous" if not self.numel() else "Boolean value of Tensor with more than one value is ambiguous; use .any() or .all()"
        )
    return bool(transfer.value(self, "the truth of a tensor (in `if`, `while`, `and`, bool())"))


def _only(self: Tensor, kind: str) -> float:
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return transfer.value(self, f"{kind}() of a tensor")


def _index(self: Tensor) -> int:
    if self.numel() != 1 or self.dtype.is_floating_point:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(transfer.value(self, "a tensor as an index, a size or the bound of a slice or range"))


def _iterate(self: Tensor) -> object:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


Tensor.__contains__ = _contains
Tensor.__reversed__ = lambda self: f.flip(self, 0) if self.ndim else self
Tensor.__bool__, Tensor.__index__, Tensor.__iter__ = _truth, _index, _iterate
Tensor.__int__, Tensor.__float__ = lambda self: int(_only(self, "int")), lambda self: float(_only(self, "float"))
Tensor.__complex__ = lambda self: complex(_only(self, "complex"))
Tensor.__setattr__ = object.__setattr__

# ---- small conveniences


def _conversion(kind: dtypes.dtype) -> Callable:
    def method(self: Tensor, memory_format: object = preserve_format) -> Tensor:
        return f.to(self, kind, memory_format=memory_format)

    method.__doc__ = f"Converted to {kind.name}; the tensor itself if it has that dtype."
    return method


for _name, _kind in {"float": "float32", "double": "float64", "long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
                     "half": "float16", "bfloat16": "bfloat16", "cfloat": "complex64", "cdouble": "complex128"}.items():
    setattr(Tensor, _name, _conversion(dtypes.ALL[_kind]))
Tensor.T = property(lambda self: f.permute(self, *range(self.ndim - 1, -1, -1)), doc="All dimensions in reverse order; a view.")
Tensor.mT = property(lambda self: f.transpose(self, -2, -1), doc="The last two dimensions swapped; a view.")


def _cpu(self: Tensor) -> Tensor:
    """The tensor on the CPU; itself if it is there."""
    return f.to(self, device="cpu")


def _cuda(self: Tensor, device: Device | str | int | None = None, non_blocking: bool = False, **named: object) -> Tensor:
    """The tensor on a CUDA device; itself if it is there. From pinned memory with `non_blocking` the program does not wait for the copy."""
    return f.to(self, device="cuda" if device is None else device, non_blocking=non_blocking, **named)


def _view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of `other`."""
    return f.view(self, other.shape)


def _reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of `other`."""
    return f.reshape(self, other.shape)


def _where(self: Tensor, condition: Tensor, other: Tensor | float) -> Tensor:
    """The tensor where condition is true, else `other`."""
    return f.where(condition, self, other)


def _type(self: Tensor, dtype: object = None, non_blocking: bool = False) -> str | Tensor:
    """`type()`: the tensor type's name, such as "numod.FloatTensor". `type(dtype)`: the tensor converted to a dtype or to a type by name."""
    if dtype is None:
        return f"numod.{self.dtype.short}Tensor"
    dtype = dtypes.get_default_dtype() if dtype is Tensor else getattr(dtype, "dtype", dtype)  # of a constructor such as numod.FloatTensor
    named = {f"numod.{each.short}Tensor": each for each in dtypes.ALL.values()}
    if isinstance(dtype, str) and "." in dtype:
        dtype = f"numod.{dtype.rpartition('.')[2]}"  # also "torch.FloatTensor"
    if isinstance(dtype, str) and dtype not in named:
        raise ValueError(f"invalid type: {dtype!r}; there are {', '.join(named)}")
    return f.to(self, named.get(dtype, dtype) if isinstance(dtype, str) else dtype)


Tensor.cpu, Tensor.cuda, Tensor.view_as, Tensor.reshape_as, Tensor.where, Tensor.type = _cpu, _cuda, _view_as, _reshape_as, _where, _type
