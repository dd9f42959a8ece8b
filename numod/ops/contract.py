"""What each op takes, in a notation of one line, and the check of a call against it.

Programs from files are checked so before anything is planned.

An op's `takes` names its inputs, a semicolon, and its attributes in the order of `Op.parameters`:

    "x[n c *s] grid[n *t _]; mode=bilinear|nearest corners=flag orders=0..3^s"

An input is a dense tensor of these dimensions: a name is one size, the same wherever it stands, `*name` any number of
sizes, a number that size, `_` any size. All tensors have one dtype. After a colon stand its kinds (letters of
`dtypes.dtype.kind`), or a dtype of the input's own, or `any`. Marks: `?` the input may be None; `#` it may be a number;
`#i` it is an int; `~` it need not be dense; `<n` its values are indices below the size of that name, or below the size
along that axis; `*[...]` describes all inputs of an op that takes any number.

An attribute is a `flag`, an `int`, a range of ints `low..high` (either may be left out), a `float`, `number`, `dtype`,
`device`, an `axis` of the first tensor, or one of some words `a|b`. Marks: `?` it may be None; `^s` a tuple with an
entry for each size of `*s` (or with as many entries as size `s`); `^2` a pair; `^*` a tuple of any length. Attributes
after `/` may be left out.
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

_LARGEST = 1 << 62  # of an attribute: sums and products of two sizes stay integers of 64 bits
_MAX_TUPLE = 1 << 16
_INPUT = re.compile(r"(\w+|\*)(\?)?(#i?)?(?:\[([^\]]*)\])?(~)?(?::(\w+))?(?:<(\w+))?")
_ATTRIBUTE = re.compile(r"(\w+)=([^?^]+)(\?)?(?:\^(\w+|\*))?(\?)?")
_RANGE = re.compile(r"(-?\d*)\.\.(-?\d*)")


class Input(NamedTuple):
    """What an op takes for one input."""

    name: str
    optional: bool
    number: str  # "" if it cannot be one
    dims: tuple[str, ...] | None  # None if it cannot be a tensor
    strided: bool
    dtype: str
    below: str


class Attribute(NamedTuple):
    """What an op takes for one attribute. `count` is "" unless it is a tuple."""

    name: str
    kind: str
    optional: bool
    count: str
    may_lack: bool  # whether the whole tuple may be None


class Contract(NamedTuple):
    """A parsed `takes`. The first `needed` attributes must be there."""

    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    needed: int
    any_count: bool


class Sizes(dict):
    """The sizes that a call gives to the names in a contract: an int, or a tuple for `*name`."""


@cache
def parse(takes: str) -> Contract:
    """The contract that a text describes."""
    inputs, _, attributes = takes.partition(";")
    needed, _, further = attributes.partition("/")
    found = tuple(_parse_input(each) for each in re.findall(r"[^\s\[]+(?:\[[^\]]*\]\S*)?", inputs))
    named = [_parse_attribute(word) for word in needed.split()]
    return Contract(
        found, (*named, *map(_parse_attribute, further.split())), len(named), any(each.name == "*" for each in found)
    )


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
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no part of a contract")
    return found.groups()


def check(op: Any, arguments: Sequence, attributes: tuple) -> Sizes:
    """The sizes of a call; `arguments` are layouts, and numbers as they are.

    Raises ValueError, naming the op and what it takes, where they do not fit.
    """
    contract, sizes = parse(op.takes), Sizes()
    if not contract.any_count and len(arguments) != len(contract.inputs):
        _refuse(op, f"takes {len(contract.inputs)} inputs", f"{len(arguments)}")
    if contract.any_count and not arguments:
        _refuse(op, "takes at least one input", "none")
    if not contract.needed <= len(attributes) <= len(contract.attributes):
        _refuse(
            op,
            f"has {len(contract.attributes)} attributes ({', '.join(each.name for each in contract.attributes)})",
            f"{len(attributes)}",
        )
    takes = contract.inputs * (len(arguments) if contract.any_count else 1)
    for each, given in zip(takes, arguments):
        _check_input(op, each, given, sizes)
    first = next((argument for argument in arguments if isinstance(argument, Layout)), None)
    for attribute, given in zip(contract.attributes, attributes):
        _check_attribute(op, attribute, given, sizes, first)
    problem = op.misfit(tuple(arguments), attributes, sizes)
    if problem:
        raise ValueError(f"{op.name}: {problem}")
    return sizes


def index_limits(op: Any, arguments: Sequence, attributes: tuple) -> dict[int, int]:
    """For the inputs of a checked call that hold indices, by position, the size that their values must be below."""
    contract, sizes = parse(op.takes), check(op, arguments, attributes)
    named = {attribute.name: given for attribute, given in zip(contract.attributes, attributes)}
    first = next((argument for argument in arguments if isinstance(argument, Layout)), None)
    found = {}
    for k, (input, given) in enumerate(zip(contract.inputs, arguments)):
        if input.below and isinstance(given, Layout):
            found[k] = sizes[input.below] if input.below in sizes else (first.shape or (1,))[named[input.below]]
    return {**found, **op.further_limits(tuple(arguments), attributes, sizes)}


def _check_input(op: Any, each: Input, given: object, sizes: Sizes) -> None:
    if isinstance(given, Layout) and each.dims is not None:
        _check_tensor(op, each, given, sizes)
    elif given is None:
        _expect(each.optional, op, each.name, "a tensor" if each.dims is not None else "a number", given)
    elif isinstance(given, Layout):
        _expect(False, op, each.name, "a number", given)
    else:
        kinds = (int,) if each.number == "#i" else (bool, int, float, complex)
        _expect(
            each.number and type(given) in kinds,
            op,
            each.name,
            "an int" if each.number == "#i" else "a number" if each.number else "a tensor",
            given,
        )
        _expect(type(given) is not int or -(1 << 63) <= given < 1 << 64, op, each.name, "an int of 64 bits", given)


def _check_tensor(op: Any, each: Input, given: Layout, sizes: Sizes) -> None:
    _expect(each.strided or given.dense, op, each.name, "a dense tensor", given)
    _check_dtype(op, each, given, sizes)
    star = next((k for k, name in enumerate(each.dims) if name[0] == "*"), None)
    expected = f"a tensor of shape ({' '.join(each.dims)})"
    many = given.ndim - len(each.dims) + 1
    _expect(given.ndim == len(each.dims) if star is None else many >= 0, op, each.name, expected, given)
    shape = tuple(given.shape)
    found = shape if star is None else (*shape[:star], shape[star : star + many], *shape[star + many :])
    for name, size in zip(each.dims, found):
        name = name.removeprefix("*")
        if name.isdigit():
            _expect(size == int(name), op, each.name, expected, given)
        elif name not in ("_", ""):
            held = sizes.setdefault(name, size)
            _expect(held == size, op, each.name, f"{expected} where {name} is {held}", given)


def _check_dtype(op: Any, each: Input, given: Layout, sizes: Sizes) -> None:
    if each.dtype in dtypes.ALL:
        _expect(given.dtype is dtypes.ALL[each.dtype], op, each.name, f"a tensor of {each.dtype}", given)
    elif each.dtype != "any":
        common = sizes.setdefault("dtype of all", given.dtype)
        _expect(given.dtype is common, op, each.name, f"a tensor of {common}, as another input", given)
        _expect(
            not each.dtype or given.dtype.kind in each.dtype,
            op,
            each.name,
            f"a tensor of a dtype of kind {each.dtype}",
            given,
        )


def _check_attribute(op: Any, each: Attribute, given: object, sizes: Sizes, first: Layout | None) -> None:
    if given is None and (each.may_lack if each.count else each.optional):
        return
    if not each.count:
        _expect(_fits(each, given, first), op, each.name, _worded(each.kind), given, "attribute ")
        return
    named = sizes.get(each.count, each.count)
    wanted = len(named) if isinstance(named, tuple) else int(named) if str(named).isdigit() else None
    expected = f"a tuple of {'any length' if wanted is None else wanted}, each {_worded(each.kind)}"
    right = isinstance(given, tuple) and len(given) <= _MAX_TUPLE and (wanted is None or len(given) == wanted)
    _expect(right and all(_fits(each, one, first) for one in given), op, each.name, expected, given, "attribute ")


def _fits(each: Attribute, given: object, first: Layout | None) -> bool:
    if given is None:
        return each.optional
    if each.kind == "axis":
        return type(given) is int and 0 <= given < max(first.ndim if first is not None else 0, 1)
    known = _KINDS.get(each.kind)
    if known is not None:
        return known(given)
    span = _RANGE.fullmatch(each.kind)
    if span is None:
        return type(given) is str and given in each.kind.split("|")
    low, high = int(span[1] or -_LARGEST), int(span[2] or _LARGEST)
    return type(given) is int and low <= given <= high


_KINDS: dict[str, Callable[[Any], bool]] = {
    "flag": lambda given: type(given) is bool,
    "int": lambda given: type(given) is int and abs(given) <= _LARGEST,
    "float": lambda given: type(given) is float,
    "number": lambda given: type(given) in (bool, float) or (type(given) is int and abs(given) <= _LARGEST),
    "dtype": lambda given: isinstance(given, dtypes.dtype) and given.name in dtypes.ALL,
    "device": lambda given: isinstance(given, Device),
}
_WORDS = {
    "flag": "True or False",
    "int": "an int",
    "float": "a float",
    "number": "a number",
    "dtype": "a dtype",
    "device": "a device",
    "axis": "a dimension",
}


def _worded(kind: str) -> str:
    span = _RANGE.fullmatch(kind)
    if span is not None:
        return f"an int from {span[1] or 'any'} to {span[2] or 'any'}"
    return _WORDS.get(kind) or f"one of {', '.join(map(repr, kind.split('|')))}"


def _expect(holds: object, op: Any, name: str, expected: str, given: object, what: str = "input ") -> None:
    if not holds:
        _refuse(op, f"{what}{name!r} must be {expected}", _described(given))


def _described(given: object) -> str:
    if isinstance(given, Layout):
        return f"a {'' if given.dense else 'strided '}tensor of shape {tuple(given.shape)} and {given.dtype}"
    return reprlib.repr(given)


def _refuse(op: Any, expected: str, came: str) -> NoReturn:
    raise ValueError(f"{op.name}: {expected}, got {came}")
