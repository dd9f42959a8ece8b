"""`assert_close`: checks that tensors, numbers, sequences and mappings are equal up to a tolerance.

Its messages have PyTorch's format.
"""

from __future__ import annotations

import cmath
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor
from ..core.create.values import as_tensor
from ..dtypes import dtype as DType

_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
}
_NUMBERS = (int, float, complex, np.number, np.bool_)


class _Options(NamedTuple):
    """The options of a comparison."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool

    def tolerances(self, *kinds: DType) -> tuple[float, float]:
        """(rtol, atol): the given ones, or the larger ones of these dtypes."""
        if self.rtol is not None:
            return self.rtol, self.atol
        return tuple(max(values) for values in zip(*[_TOLERANCES.get(kind.real, (0.0, 0.0)) for kind in kinds]))


class _Mismatch(Exception):
    """A failed comparison: the message, and the type of exception to raise."""

    def __init__(self, message: str, kind: type[Exception] = AssertionError) -> None:
        super().__init__(message)
        self.kind, self.path = kind, ()


@contextlib.contextmanager
def _at(path: tuple) -> Iterator[None]:
    """Set the path of a _Mismatch raised in the block."""
    try:
        yield
    except _Mismatch as failure:
        failure.path = path
        raise


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| for all elements.

    Shapes, dtypes and devices must be equal. The default tolerances depend on the dtype (float32: 1.3e-6 and 1e-5;
    integers and bool: 0). `msg` replaces the message, or is a function of it. Sequences and mappings are compared entry
    by entry, Python numbers as float64 or integers. `check_layout` has no effect, since all tensors are strided. Raises
    TypeError for values that cannot be compared, and ValueError if only one tolerance is given.
    """
    if (rtol is None) is not (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    options = _Options(rtol, atol, equal_nan, allow_subclasses, check_device, check_dtype, check_stride)
    try:
        # all pairs are formed before the first comparison
        for path, actual_item, expected_item in list(_pairs(actual, expected, options, ())):
            with _at(path):
                _compare(actual_item, expected_item, options)
    except _Mismatch as failure:
        text = str(failure) + (
            "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in failure.path) if failure.path else ""
        )
        if failure.kind is AssertionError and msg is not None:
            text = msg(text) if callable(msg) else msg
        raise failure.kind(text) from None


def _pairs(actual: object, expected: object, options: _Options, path: tuple) -> Iterator[tuple[tuple, object, object]]:
    """(path, actual, expected) of all values to compare."""
    with _at(path):
        keys = _keys(actual, expected, options)
    if keys is None:
        yield path, actual, expected
        return
    for key in keys:
        yield from _pairs(actual[key], expected[key], options, (*path, key))


def _keys(actual: object, expected: object, options: _Options) -> Sequence | None:
    """The keys of two containers; None for values that are compared themselves."""
    if _are(Sequence, actual, expected) and not isinstance(actual, str) and not isinstance(expected, str):
        if len(actual) != len(expected):
            raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        return range(len(actual))
    if _are(Mapping, actual, expected):
        _check_keys(set(actual), set(expected))
        return sorted(actual) if all(isinstance(key, str) for key in actual) else list(actual)
    _check_comparable(actual, expected, options)
    return None


def _are(kind: type | tuple, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


def _check_keys(actual: set, expected: set) -> None:
    if actual != expected:
        missing, additional = sorted(expected - actual, key=str), sorted(actual - expected, key=str)
        raise _Mismatch(
            f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\nAdditional keys "
            f"in the actual mapping: {additional}"
        )


def _check_comparable(actual: object, expected: object, options: _Options) -> None:
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not options.allow_subclasses:
        related = type(actual) is type(expected)
    if (
        actual is None
        or expected is None
        or _are(_NUMBERS, actual, expected)
        or (related and _are((Tensor, np.ndarray), actual, expected))
    ):
        return
    raise _Mismatch(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", TypeError
    )


def _compare(actual: object, expected: object, options: _Options) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif _are((bool, np.bool_), actual, expected):
        if actual != expected:
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}")
    elif _are(_NUMBERS, actual, expected):
        _compare_numbers(_python(actual), _python(expected), options)
    else:
        _compare_tensors(as_tensor(actual).detach(), as_tensor(expected).detach(), options)


def _python(number: object) -> object:
    return number.item() if isinstance(number, np.generic) else number


def _compare_numbers(actual: complex, expected: complex, options: _Options) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    kinds = [dtypes.int64 if isinstance(number, int) else dtypes.float64 for number in (actual, expected)]
    rtol, atol = options.tolerances(*kinds)
    difference = abs(actual - expected)
    is_close = actual == expected or (math.isfinite(difference) and difference <= atol + rtol * abs(expected))
    if is_close or (options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    raise _Mismatch(_scalar_message(actual, expected, rtol, atol))


def _compare_tensors(actual: Tensor, expected: Tensor, options: _Options) -> None:
    _check_attributes(actual, expected, options)
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    kind = dtypes.promote_types(actual.dtype, expected.dtype)
    kind = kind if kind.differentiable else dtypes.int64
    actual, expected = actual.cpu().to(kind), expected.cpu().to(kind)
    matches = _matches(_array(actual), _array(expected), rtol, atol, options.equal_nan)
    if matches.all():
        return
    if not actual.ndim:
        raise _Mismatch(_scalar_message(actual.item(), expected.item(), rtol, atol))
    absolute = (actual - expected).abs()
    differences = [np.where(matches, 0, _array(difference)) for difference in (absolute, absolute / expected.abs())]
    raise _Mismatch(_tensor_message(matches, differences, rtol, atol))


def _check_attributes(actual: Tensor, expected: Tensor, options: _Options) -> None:
    compared = {
        "shape": (actual.shape, expected.shape, True),
        "device": (actual.device, expected.device, options.check_device),
        "dtype": (actual.dtype, expected.dtype, options.check_dtype),
        "stride()": (actual.stride(), expected.stride(), options.check_stride),
    }
    for name, (actual_value, expected_value, wanted) in compared.items():
        if wanted and actual_value != expected_value:
            raise _Mismatch(f"The values for attribute '{name}' do not match: {actual_value} != {expected_value}.")


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.to(tensor.dtype.compute).numpy() if tensor.dtype.numpy is None else tensor.numpy()


def _matches(actual: np.ndarray, expected: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        is_close = actual == expected
        if rtol or atol:
            error = np.abs(actual - expected)
            is_close |= np.isfinite(error) & (error <= atol + np.abs(rtol * expected))
        if equal_nan:
            is_close |= np.isnan(actual) & np.isnan(expected)
    return is_close


def _scalar_message(actual: complex, expected: complex, rtol: float, atol: float) -> str:
    absolute = abs(actual - expected)
    relative = absolute / abs(expected) if expected else math.inf
    return (
        f"Scalars are not {_closeness(rtol, atol)}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {absolute}{_allowed(atol, rtol, atol)}\nRelative difference: "
        f"{relative}{_allowed(rtol, rtol, atol)}"
    )


def _tensor_message(matches: np.ndarray, differences: list[np.ndarray], rtol: float, atol: float) -> str:
    wrong = int(matches.size - matches.sum())
    lines = [
        f"Tensor-likes are not {_closeness(rtol, atol)}!",
        "",
        f"Mismatched elements: {wrong} / {matches.size} ({wrong / matches.size:.1%})",
    ]
    for name, values, tolerance in zip(("absolute", "relative"), differences, (atol, rtol)):
        index = tuple(int(position) for position in np.unravel_index(np.argmax(values), values.shape))
        lines.append(
            f"Greatest {name} difference: {values[index].item()} at index {index}{_allowed(tolerance, rtol, atol)}"
        )
    return "\n".join(lines)


def _closeness(rtol: float, atol: float) -> str:
    return "close" if rtol or atol else "equal"


def _allowed(tolerance: float, rtol: float, atol: float) -> str:
    return f" (up to {tolerance} allowed)" if rtol or atol else ""
