"""Tables of Tensor's methods and the public functions: adds those of rows and of the files of `core` to Tensor.

`forms` defines the forms. `tensor.pyi` lists the methods with the files that define them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ..ops import quantize, special, table as t  # noqa: F401  quantize and special add their rows
from . import functions as f, row_texts
from .convert import transfer  # noqa: F401  transfer and random_fills add their methods
from .create import random_fills  # noqa: F401
from .arguments import strict_of
from .forms import checked, functional, in_place, row_function, unary, via_copy, view_copy, with_out
from .tensor import Tensor

# rows that are a method and a function: public name -> name of the row
POINTWISE = {
    name: name
    for name in """abs neg square reciprocal exp exp2 expm1 log log2 log10 log1p logaddexp sqrt rsqrt xlogy sin
        cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot sinc deg2rad rad2deg erf erfc erfinv
        sigmoid sign floor ceil trunc frac copysign heaviside isnan isfinite isinf isposinf isneginf signbit
        maximum minimum fmax fmin clamp_min clamp_max lerp addcmul addcdiv mul eq ne lt le gt ge logical_and
        logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift
        bitwise_right_shift relu logaddexp2 lgamma digamma i0 nextafter gcd lcm angle""".split()
}
ALIASES = {
    "absolute": "abs", "negative": "neg", "multiply": "mul", "not_equal": "ne", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "fix": "trunc", "expit": "sigmoid",
}  # fmt: skip


def _names(home: object, kind: str) -> dict[str, Callable]:
    """The functions that a file of `core` lists under BOTH, FUNCTIONS, METHODS or IN_PLACE, by public name.

    An item of the list is "name" or "public_name=name".
    """
    pairs = [word.partition("=") for word in getattr(home, kind, "").split()]
    return {name: getattr(home, internal_name or name) for name, _, internal_name in pairs}


def _further(function: Callable) -> list[str]:
    """The annotations of a method's further arguments. A method without further tensors is not wrapped in checks."""
    return [
        str(kind) for name, kind in function.__annotations__.items() if name not in ("input", "self", "return", "out")
    ]


def _has_axis(function: Callable) -> bool:
    """Whether a method has an argument `dim`, which NumPy calls `axis`."""
    return "dim" in function.__annotations__


def _is_checked(function: Callable) -> bool:
    """Whether a method has an argument that `checked` checks: a dimension, another int or a bool."""
    return _has_axis(function) or bool(strict_of(inspect.unwrap(function)))


# methods that check their arguments themselves: they are called too often for another call around them, or, `set_`,
# take storages too
_UNCHECKED = frozenset("to copy_ view expand set_".split())
functions: dict[str, Callable] = {name: row_function(t.rows[row]) for name, row in (POINTWISE | ALIASES).items()}
for _name, _source in (POINTWISE | ALIASES).items():
    _formula = t.rows[_source]
    setattr(Tensor, _name, unary(_formula) if len(_formula.inputs) == 1 else row_function(_formula))
    if _formula.result != "bool":
        setattr(Tensor, f"{_name}_", in_place(_formula))
    elif len(_formula.inputs) > 1 or _source == "logical_not":
        setattr(Tensor, f"{_name}_", via_copy(functions[_name]))  # for the tape, a copy overwrites all old values
for _home in f.HOMES:
    functions |= {_name: checked(_name, _function) for _name, _function in _names(_home, "FUNCTIONS").items()}
    functions |= {_name: checked(_name, _function, True) for _name, _function in _names(_home, "BOTH").items()}
    for _name, _function in _names(_home, "BOTH").items():
        setattr(
            Tensor,
            _name,
            checked(_name, _function)
            if _is_checked(_function) or any("Tensor" in kind for kind in _further(_function))
            else _function,
        )
    for _name, _function in _names(_home, "METHODS").items():
        setattr(
            Tensor,
            _name,
            checked(_name, _function)
            if _name not in _UNCHECKED and (_is_checked(_function) or "Tensor" in _further(_function))
            else _function,
        )
    for _name, _function in _names(_home, "IN_PLACE").items():
        setattr(Tensor, f"{_name}_", via_copy(checked(_name, _function)))

for _home in f.HOMES:
    for _name in getattr(_home, "COPYING", "").split():
        functions[_name] = functional(_name)
        setattr(Tensor, _name, functional(_name))
for _home in f.HOMES:
    functions |= {_name: with_out(functions[_name]) for _name in getattr(_home, "OUT", "").split()}

for _name, _function in list(vars(Tensor).items()):
    if _name.endswith("_") and not _name.startswith("_") and not _function.__doc__:
        _text = row_texts.method_text(_name[:-1], is_in_place=True)
        if _text is None and _name[:-1] in functions:
            _text = row_texts.in_place_text(_name[:-1], functions[_name[:-1]].__doc__ or "")
        _function.__doc__ = _text or row_texts.in_place_sentence(_name[:-1], functions.get(_name[:-1]))
for _name in ("selu", "celu", "hardshrink", "fill", "detach"):
    functions[_name] = (
        row_function(t.rows[_name])
        if _name not in ("fill", "detach")
        else checked(_name, getattr(Tensor, _name, functional(_name)), True)
    )
Tensor.hardshrink, Tensor.selu_, Tensor.celu_ = row_function(t.rows["hardshrink"]), in_place(t.selu), in_place(t.celu)
for _name in "uniform_ normal_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_".split():
    setattr(Tensor, _name, checked(_name, getattr(Tensor, _name)))
for _name in """abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp
    clamp_max clamp_min clip conj_physical cos cosh deg2rad detach erf erfc exp exp2 expm1 fill fix floor frac gcd
    i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid
    sin sinc sinh sqrt square tan tanh trunc xlogy zero selu celu""".split():
    functions[f"{_name}_"] = checked(f"{_name}_", getattr(Tensor, f"{_name}_"), True)
for _name in """as_strided detach diagonal expand permute select split split_with_sizes squeeze t transpose unbind
    unfold unsqueeze view view_as_complex view_as_real""".split():
    functions[f"{_name}_copy"] = checked(
        f"{_name}_copy", view_copy(_name, functions.get(_name) or getattr(Tensor, _name)), True
    )
functions["alias_copy"] = checked("alias_copy", view_copy("alias", lambda input: input), True)
