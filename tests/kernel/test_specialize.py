"""Specialisation of kernels over their syntax tree: each kind of value, and the errors."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from numod.kernel import scalar
from numod.kernel.specialize import arguments, inlined_call, parameters, specialized, template

FIRST = 3


def strips(x, out, geometry, n, *, STRIP, number, join, change):
    """This docstring is no part of the source."""
    for k in range(0, n, STRIP):
        out[k] = join(number(x[k]), 0.5 * geometry.stride)
        out[k] = change(out[k], n + 1)
        clear(out, geometry, n)


def larger_half(a, b):
    return a if a > b else 0.5 * b


def several(a, b):
    c = a + b
    return c


VALUES = {
    "STRIP": 64,
    "number": np.dtype("int32"),
    "join": scalar.functions["larger"],
    "change": larger_half,
    "geometry": ("stride", "pad"),
}


def test_each_kind_of_value() -> None:
    assert (
        specialized(strips, **VALUES)
        == """@inlined_function
def clear(out, n):
    for k in range(64 + 3):
        out[k] = n

def kernel(x, out, stride, pad, n):
    for k in range(0, n, 64):
        out[k] = larger(int32(x[k]), real(0.5) * stride)
        out[k] = out[k] if out[k] > n + 1 else real(0.5) * (n + 1)
        clear(out, stride, pad, n)
"""
    )


def test_values_can_be_given_in_turn() -> None:
    some = partial(strips, STRIP=8, number=np.dtype("float32"))
    assert parameters(some)[:2] == ("join", "change") and "STRIP" not in parameters(some)
    rest = {name: value for name, value in VALUES.items() if name not in ("STRIP", "number")}
    assert specialized(some, **rest) == specialized(strips, **{**VALUES, "STRIP": 8, "number": np.dtype("float32")})


@template
def clear(out, n, *, STRIP):
    for k in range(STRIP + FIRST):
        out[k] = n


def clearing(out, n):
    clear(out, n)


def test_templates_come_first_with_the_values_of_the_kernel() -> None:
    text = specialized(clearing, STRIP=64)
    assert text.startswith(
        "@inlined_function\ndef clear(out, n):\n    for k in range(64 + 3):\n        out[k] = n\n\ndef kernel(out, n):"
    )


@pytest.mark.parametrize(
    "values, message",
    [
        ({"STEP": 1}, "strips has no parameter STEP to be specialised; it has STRIP, change"),
        ({"n": 3}, "a positional one a tuple of names, got n=3"),
        ({"STRIP": (1, 2)}, "a compile-time parameter takes a value"),
        ({"STRIP": "64"}, "specialised by numbers, dtypes, functions and tuples of names, got '64'"),
        ({"change": several}, "several is to be inlined: it must be one return"),
        ({"geometry": ("pad",)}, "geometry has no stride; it has pad"),
    ],
)
def test_invalid_values_raise(values: dict, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        specialized(strips, **{**VALUES, **values})


def test_a_value_is_needed_for_every_parameter() -> None:
    with pytest.raises(TypeError, match="needs a value for STRIP"):
        specialized(strips, **{name: value for name, value in VALUES.items() if name != "STRIP"})
    with pytest.raises(TypeError, match="assigns its compile-time parameter STRIP"):
        specialized(assigns, STRIP=3)


def assigns(out, *, STRIP):
    STRIP = out[0]
    out[1] = STRIP


class Size(NamedTuple):
    height: int
    width: int
    stride: int


class Lines(NamedTuple):
    stride: int
    width: int


def copy_lines(x, out, n, lines: Lines):
    out[n] = x[n * lines.stride + lines.width]


def images(x, out, size: Size, lines, *, LANES):
    for k in range(size.height * size.stride):
        copy_lines(x, out, k, size)
        clear(out, size, lines)
    out[LANES] = size.width


def test_fields_of_a_named_tuple() -> None:
    """They become parameters, and a called function receives those that it reads, in its order."""
    assert arguments(images) == ("x", "out", "height", "width", "stride", "lines")
    text = specialized(images, LANES=4, STRIP=1).partition("\ndef kernel")[2]
    assert (
        text
        == """(x, out, height, width, stride, lines):
    for k in range(height * stride):
        copy_lines(x, out, k, stride, width)
        clear(out, height, width, stride, lines)
    out[4] = width
"""
    )
    assert specialized(copy_lines, name="copy_lines").startswith(
        "def copy_lines(x, out, n, stride, width):\n    out[n] = x[n * stride + width]"
    )


def test_a_field_with_a_value_is_a_constant() -> None:
    text = specialized(images, LANES=4, STRIP=1, stride=2)
    assert (
        "kernel(x, out, height, width, stride, lines)" in text
        and "range(height * 2)" in text
        and "copy_lines(x, out, k, 2, width)" in text
    )


def clashing(x, size: Size):
    width = x[0]
    x[1] = width + size.width


def missing(x, lines: Lines):
    images(x, x, lines, 1)
    x[0] = lines.height


def test_wrong_fields_raise() -> None:
    with pytest.raises(TypeError, match="width is a variable and a field of size; rename the variable"):
        specialized(clashing)
    with pytest.raises(TypeError, match="lines has no height, which images reads"):
        specialized(missing)
    with pytest.raises(TypeError, match="images has no parameter depth to be specialised"):
        specialized(images, LANES=4, STRIP=1, depth=3)


def renamed(x, out, n):
    for k in range(n):
        largest = max(x[k], 0)
        out[k] = pivot + largest  # noqa: F821  as after a renaming that forgot this line


@template
def renamed_template(x):
    return pivots[x]  # noqa: F821


def calling(x, out):
    out[0] = renamed_template(x)


def test_names_that_do_not_resolve_raise() -> None:
    with pytest.raises(NameError, match="test_specialize.renamed: pivot is no variable or parameter"):
        specialized(renamed)
    with pytest.raises(NameError, match="renamed_template: pivots is no variable"):
        specialized(calling)


def test_generated_lines_replace_a_call() -> None:
    source = "def helper(x):\n    pass\n\ndef kernel(x, n):\n    for i in range(n):\n        EPILOGUE(i, n - 1)\n"
    text = inlined_call(source, "EPILOGUE", lambda i, last: [f"x[{i}] = z", f"y[{last}] = z"], ["y", "a"], ["z = a"])
    assert text == (
        "def helper(x):\n    pass\n\ndef kernel(x, n, y, a):\n    z = a\n    for i in range(n):\n"
        "        x[i] = z\n        y[n - 1] = z\n"
    )
