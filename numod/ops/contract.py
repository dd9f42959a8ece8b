"""The inputs and attributes of each op in a one-line notation, and the check of a call against it.

Programs from files are checked before anything is planned. An op's `takes` lists its inputs, a semicolon, and its
attributes in the order of `Op.attributes`:

    "x[n c *s] grid[n *t _]; mode=bilinear|nearest corners=flag orders=0..3^s"

An input is a dense tensor with the dimensions in brackets. A name is one size, equal wherever it occurs; `*name` is
any number of sizes, a number that size, `_` any size. All tensors have the same dtype, unless a dtype or `any` follows
after a colon; letters there are the allowed kinds (`dtypes.dtype.kind`). Marks: `?` the input may be None; `#` it may
be a number; `#i` it is an int; `~` it need not be dense; `<n` its values are indices below the size `n`, or below the
size along the axis `n`; `*[...]` describes all inputs of an op with any number of inputs.

An attribute is a `flag`, an `int`, a range of ints `low..high` (either end may be left out), a `float`, `number`,
`dtype`, `device`, an `axis` of the first tensor, or one of the words `a|b`. Marks: `?` it may be None; `^s` a tuple
with one entry per size of `*s`, or `s` entries; `^2` a pair; `^*` a tuple of any length. Attributes after `/` may be
left out.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, NoReturn

from .. import dtypes
from ..device import Layout
from ..device.device import Device

_MAX_ATTRIBUTE = 1 << 62  # limit of attributes, so that sums of two fit 64-bit integers
_MAX_TUPLE = 1 << 16
_INPUT = re.compile(r"(\w+|\*)(\?)?(#i?)?(?:\[([^\]]*)\])?(~)?(?::(\w+))?(?:<(\w+))?")
_ATTRIBUTE = re.compile(r"(\w+)=([^?^]+)(\?)?(?:\^(\w+|\*))?(\?)?")
_RANGE = re.compile(r"(-?\d*)\.\.(-?\d*)")


class Input(NamedTuple):
    """The contract of one input."""

    name: str
    optional: bool
    number: str  # "" if it cannot be one
    dims: tuple[str, ...] | None  # None if it cannot be a tensor
    strided: bool
    dtype: str
    below: str


class Attribute(NamedTuple):
    """The contract of one attribute. `count` is "" unless it is a tuple."""

    name: str
    kind: str
    optional: bool
    count: str
    may_lack: bool  # whether the whole tuple may be None


class Contract(NamedTuple):
    """A parsed `takes`. The first `needed` attributes are required."""

    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    needed: int
    any_count: bool


class Sizes(dict):
    """The sizes of a call by name: an int, or a tuple for `*name`."""


@cache
def parse(takes: str) -> Contract:
    """Parse the `takes` of an op."""
    input_text, _, attribute_text = takes.partition(";")
    required_text, _, optional_text = attribute_text.partition("/")
    inputs = tuple(_parse_input(word) for word in re.findall(r"[^\s\[]+(?:\[[^\]]*\]\S*)?", input_text))
    required = [_parse_attribute(word) for word in required_text.split()]
    optional = [_parse_attribute(word) for word in optional_text.split()]
    return Contract(inputs, (*required, *optional), len(required), any(input.name == "*" for input in inputs))


def _parse_input(text: str) -> Input:
    name, optional, number, dims, strided, dtype, below = _matched(_INPUT, text)
    return Input(
        name,
        bool(optional),
        number or "",
        None if dims is None else tuple(dims.split()),
        bool(strided),
        dtype or "",
        below or "",
    )


def _parse_attribute(text: str) -> Attribute:
    name, kind, optional, count, lacks = _matched(_ATTRIBUTE, text)
    return Attribute(name, kind, bool(optional), count or "", bool(lacks))


def _matched(pattern: re.Pattern, text: str) -> tuple:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a valid part of a contract")
    return match.groups()


def check(op: Any, arguments: Sequence, attributes: tuple) -> Sizes:
    """Check a call and return its sizes. `arguments` are layouts and numbers.

    Raises ValueError with the op, the expected input or attribute, and the actual one.
    """
    contract, sizes = parse(op.takes), Sizes()
    if not contract.any_count and len(arguments) != len(contract.inputs):
        _refuse(op, f"takes {len(contract.inputs)} inputs", f"{len(arguments)}")
    if contract.any_count and not arguments:
        _refuse(op, "takes at least one input", "none")
    if not contract.needed <= len(attributes) <= len(contract.attributes):
        names = ", ".join(attribute.name for attribute in contract.attributes)
        _refuse(op, f"has {len(contract.attributes)} attributes ({names})", f"{len(attributes)}")
    inputs = contract.inputs * (len(arguments) if contract.any_count else 1)
    for input, argument in zip(inputs, arguments):
        _check_input(op, input, argument, sizes)
    first = next((argument for argument in arguments if isinstance(argument, Layout)), None)
    for attribute, value in zip(contract.attributes, attributes):
        _check_attribute(op, attribute, value, sizes, first)
    problem = op.check(tuple(arguments), attributes, sizes)
    if problem:
        raise ValueError(f"{op.name}: {problem}")
    return sizes


def index_limits(op: Any, arguments: Sequence, attributes: tuple) -> dict[int, int]:
    """Upper limits (exclusive) of the values of index inputs, by position."""
    contract, sizes = parse(op.takes), check(op, arguments, attributes)
    values = {attribute.name: value for attribute, value in zip(contract.attributes, attributes)}
    first = next((argument for argument in arguments if isinstance(argument, Layout)), None)
    limits = {}
    for k, (input, argument) in enumerate(zip(contract.inputs, arguments)):
        if input.below and isinstance(argument, Layout):
            limits[k] = sizes[input.below] if input.below in sizes else (first.shape or (1,))[values[input.below]]
    return {**limits, **op.further_limits(tuple(arguments), attributes, sizes)}


def _check_input(op: Any, input: Input, argument: object, sizes: Sizes) -> None:
    """Raise unless an argument fits what the op declares for this input."""
    if isinstance(argument, Layout) and input.dims is not None:
        _check_tensor(op, input, argument, sizes)
    elif argument is None:
        _expect(input.optional, op, input.name, "a tensor" if input.dims is not None else "a number", argument)
    elif isinstance(argument, Layout):
        _expect(False, op, input.name, "a number", argument)
    else:
        kinds = (int,) if input.number == "#i" else (bool, int, float, complex)
        _expect(
            input.number and type(argument) in kinds,
            op,
            input.name,
            "an int" if input.number == "#i" else "a number" if input.number else "a tensor",
            argument,
        )
        _expect(
            type(argument) is not int or -(1 << 63) <= argument < 1 << 64, op, input.name, "an int of 64 bits", argument
        )


def _check_tensor(op: Any, input: Input, tensor: Layout, sizes: Sizes) -> None:
    """Raise unless a tensor has the declared dimensions. The first tensor with a named size defines it in `sizes`."""
    _expect(input.strided or tensor.dense, op, input.name, "a dense tensor", tensor)
    _check_dtype(op, input, tensor, sizes)
    star = next((k for k, name in enumerate(input.dims) if name[0] == "*"), None)
    expected = f"a tensor of shape ({' '.join(input.dims)})"
    star_count = tensor.ndim - len(input.dims) + 1
    _expect(tensor.ndim == len(input.dims) if star is None else star_count >= 0, op, input.name, expected, tensor)
    shape = tuple(tensor.shape)
    groups = shape if star is None else (*shape[:star], shape[star : star + star_count], *shape[star + star_count :])
    for name, size in zip(input.dims, groups):
        name = name.removeprefix("*")
        if name.isdigit():
            _expect(size == int(name), op, input.name, expected, tensor)
        elif name not in ("_", ""):
            known = sizes.setdefault(name, size)
            _expect(known == size, op, input.name, f"{expected} where {name} is {known}", tensor)


def _check_dtype(op: Any, input: Input, tensor: Layout, sizes: Sizes) -> None:
    if input.dtype in dtypes.ALL:
        _expect(tensor.dtype is dtypes.ALL[input.dtype], op, input.name, f"a tensor of {input.dtype}", tensor)
    elif input.dtype != "any":
        common = sizes.setdefault("dtype of all", tensor.dtype)
        _expect(tensor.dtype is common, op, input.name, f"a tensor of {common}, as another input", tensor)
        _expect(
            not input.dtype or tensor.dtype.kind in input.dtype,
            op,
            input.name,
            f"a tensor of a dtype of kind {input.dtype}",
            tensor,
        )


def _check_attribute(op: Any, attribute: Attribute, value: object, sizes: Sizes, first: Layout | None) -> None:
    """Raise unless a value fits what the op declares for this attribute."""
    if value is None and (attribute.may_lack if attribute.count else attribute.optional):
        return
    if not attribute.count:
        _expect(_fits(attribute, value, first), op, attribute.name, _worded(attribute.kind), value, "attribute ")
        return
    count = sizes.get(attribute.count, attribute.count)
    length = len(count) if isinstance(count, tuple) else int(count) if str(count).isdigit() else None
    expected = f"a tuple of {'any length' if length is None else length}, each {_worded(attribute.kind)}"
    is_valid = isinstance(value, tuple) and len(value) <= _MAX_TUPLE and (length is None or len(value) == length)
    _expect(
        is_valid and all(_fits(attribute, entry, first) for entry in value),
        op,
        attribute.name,
        expected,
        value,
        "attribute ",
    )


def _fits(attribute: Attribute, value: object, first: Layout | None) -> bool:
    if value is None:
        return attribute.optional
    if attribute.kind == "axis":
        return type(value) is int and 0 <= value < max(first.ndim if first is not None else 0, 1)
    has_kind = _KINDS.get(attribute.kind)
    if has_kind is not None:
        return has_kind(value)
    limits = _RANGE.fullmatch(attribute.kind)
    if limits is None:
        return type(value) is str and value in attribute.kind.split("|")
    low, high = int(limits[1] or -_MAX_ATTRIBUTE), int(limits[2] or _MAX_ATTRIBUTE)
    return type(value) is int and low <= value <= high


_KINDS: dict[str, Callable[[Any], bool]] = {
    "flag": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int and abs(value) <= _MAX_ATTRIBUTE,
    "float": lambda value: type(value) is float,
    "number": lambda value: type(value) in (bool, float) or (type(value) is int and abs(value) <= _MAX_ATTRIBUTE),
    "dtype": lambda value: isinstance(value, dtypes.dtype) and value.name in dtypes.ALL,
    "device": lambda value: isinstance(value, Device),
}
_KIND_WORDS = {
    "flag": "True or False",
    "int": "an int",
    "float": "a float",
    "number": "a number",
    "dtype": "a dtype",
    "device": "a device",
    "axis": "a dimension",
}


def _worded(kind: str) -> str:
    limits = _RANGE.fullmatch(kind)
    if limits is not None:
        return f"an int from {limits[1] or 'any'} to {limits[2] or 'any'}"
    return _KIND_WORDS.get(kind) or f"one of {', '.join(map(repr, kind.split('|')))}"


def _expect(holds: object, op: Any, name: str, expected: str, value: object, what: str = "input ") -> None:
    if not holds:
        _refuse(op, f"{what}{name!r} must be {expected}", _described(value))


def _described(value: object) -> str:
    if isinstance(value, Layout):
        return f"a {'' if value.dense else 'strided '}tensor of shape {tuple(value.shape)} and {value.dtype}"
    return reprlib.repr(value)


def _refuse(op: Any, expected: str, actual: str) -> NoReturn:
    raise ValueError(f"{op.name}: {expected}, got {actual}")
