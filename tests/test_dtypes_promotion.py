"""Type promotion against PyTorch's tables, written out.

Empty tensors carry the dtypes, so that no kernel is compiled for a pair.
"""

from __future__ import annotations

import operator

import pytest

import numod

pytestmark = pytest.mark.on_cuda

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"]
# torch.result_type of two tensors with dimensions: rows the first dtype, columns the second, in the order of NAMES
TENSOR_TENSOR = {
    "bool": "bool uint8 int8 int16 int32 int64 float32 float64",
    "uint8": "uint8 uint8 int16 int16 int32 int64 float32 float64",
    "int8": "int8 int16 int8 int16 int32 int64 float32 float64",
    "int16": "int16 int16 int16 int16 int32 int64 float32 float64",
    "int32": "int32 int32 int32 int32 int32 int64 float32 float64",
    "int64": "int64 int64 int64 int64 int64 int64 float32 float64",
    "float32": "float32 float32 float32 float32 float32 float32 float32 float64",
    "float64": "float64 float64 float64 float64 float64 float64 float64 float64",
}  # fmt: skip
# ... of a tensor with dimensions and a zero-dimensional one
TENSOR_SCALAR_TENSOR = {
    "bool": "bool uint8 int8 int16 int32 int64 float32 float64",
    "uint8": "uint8 uint8 uint8 uint8 uint8 uint8 float32 float64",
    "int8": "int8 int8 int8 int8 int8 int8 float32 float64",
    "int16": "int16 int16 int16 int16 int16 int16 float32 float64",
    "int32": "int32 int32 int32 int32 int32 int32 float32 float64",
    "int64": "int64 int64 int64 int64 int64 int64 float32 float64",
    "float32": "float32 float32 float32 float32 float32 float32 float32 float32",
    "float64": "float64 float64 float64 float64 float64 float64 float64 float64",
}  # fmt: skip
# ... of a tensor (of any number of dimensions) and a Python number: True, 1, 1.0
TENSOR_NUMBER = {
    "bool": "bool int64 float32",
    "uint8": "uint8 uint8 float32",
    "int8": "int8 int8 float32",
    "int16": "int16 int16 float32",
    "int32": "int32 int32 float32",
    "int64": "int64 int64 float32",
    "float32": "float32 float32 float32",
    "float64": "float64 float64 float64",
}  # fmt: skip
NUMBERS = {"bool": True, "int": 1, "float": 1.0}
PAIRS = [(first, second) for first in NAMES for second in NAMES]
MIXED = [(first, number) for first in NAMES for number in NUMBERS]


def dtype(name):
    return getattr(numod, name)


def empty(name):
    return numod.empty(0, dtype=dtype(name))


def quotient(name):
    """True division of integers gives the default dtype."""
    return name if name.startswith("float") else "float32"


@pytest.mark.parametrize("first, second", PAIRS)
def test_promote_types(first, second):
    wanted = TENSOR_TENSOR[first].split()[NAMES.index(second)]
    assert numod.promote_types(dtype(first), dtype(second)) is dtype(wanted)


@pytest.mark.parametrize("first, second", PAIRS)
def test_two_tensors(first, second):
    wanted = TENSOR_TENSOR[first].split()[NAMES.index(second)]
    a, b = empty(first), empty(second)
    assert (a + b).dtype is dtype(wanted)
    assert (a / b).dtype is dtype(quotient(wanted))
    assert (a < b).dtype is numod.bool
    assert numod.where(numod.empty(0, dtype=numod.bool), a, b).dtype is dtype(wanted)
    assert numod.cat([a.reshape(1, 0), b.reshape(1, 0)]).dtype is dtype(wanted)


def test_cat_counts_the_dtype_of_the_vectors_it_leaves_out():
    assert numod.cat([empty("int64"), numod.ones(2, dtype=numod.int8)]).dtype is numod.int64
    assert numod.cat([empty("float32"), numod.ones(2, dtype=numod.int64)]).dtype is numod.float32
    assert numod.cat([empty("uint8"), empty("int8")]).dtype is numod.int16


@pytest.mark.parametrize("first, second", PAIRS)
def test_tensor_and_zero_dimensional_tensor(first, second):
    wanted = TENSOR_SCALAR_TENSOR[first].split()[NAMES.index(second)]
    a, b = empty(first), numod.tensor(1, dtype=dtype(second))
    assert (a + b).dtype is (b + a).dtype is dtype(wanted)
    assert (a / b).dtype is dtype(quotient(wanted))
    assert (a == b).dtype is numod.bool


@pytest.mark.parametrize(
    "first, second",
    [("int8", "int64"), ("uint8", "int8"), ("float32", "float64"), ("int64", "float32"), ("bool", "uint8")],
)
def test_two_zero_dimensional_tensors(first, second):
    wanted = TENSOR_TENSOR[first].split()[NAMES.index(second)]
    assert (numod.tensor(1, dtype=dtype(first)) + numod.tensor(1, dtype=dtype(second))).dtype is dtype(wanted)


@pytest.mark.parametrize("name, number", MIXED)
def test_tensor_and_number(name, number):
    wanted = TENSOR_NUMBER[name].split()[list(NUMBERS).index(number)]
    a, b = empty(name), NUMBERS[number]
    assert (a + b).dtype is (b + a).dtype is dtype(wanted)
    assert (a / b).dtype is (b / a).dtype is dtype(quotient(wanted))
    assert (a >= b).dtype is numod.bool


@pytest.mark.parametrize(
    "name, number", [("int8", "int"), ("uint8", "float"), ("bool", "int"), ("float64", "float"), ("float32", "int")]
)
def test_zero_dimensional_tensor_and_number(name, number):
    wanted = TENSOR_NUMBER[name].split()[list(NUMBERS).index(number)]
    assert (numod.tensor(1, dtype=dtype(name)) + NUMBERS[number]).dtype is dtype(wanted)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "maximum", "pow"])
@pytest.mark.parametrize(
    "first, second", [("uint8", "int8"), ("int32", "int64"), ("int64", "float32"), ("float32", "float64")]
)
def test_other_ops(name, first, second):
    wanted = TENSOR_TENSOR[first].split()[NAMES.index(second)]
    assert getattr(numod, name)(empty(first), empty(second)).dtype is dtype(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_floating_functions_of_integers(name):
    assert numod.exp(empty(name)).dtype is dtype(quotient(name))
    assert numod.atan2(empty(name), empty(name)).dtype is dtype(quotient(name))


def test_the_default_dtype_decides():
    numod.set_default_dtype(numod.float64)
    try:
        assert (empty("int64") / 2).dtype is numod.float64
        assert (empty("int64") + 0.5).dtype is numod.float64
        assert numod.exp(empty("int32")).dtype is numod.float64
        assert (empty("float32") + 0.5).dtype is numod.float32
        assert numod.tensor(0.5).dtype is numod.zeros(1).dtype is numod.float64
    finally:
        numod.set_default_dtype(numod.float32)


def test_default_dtype_must_be_floating():
    with pytest.raises(TypeError, match="only floating-point types"):
        numod.set_default_dtype(numod.int64)


# ---- values: promoted before the operation, not after it


def test_values_of_mixed_dtypes():
    small, negative = numod.tensor([200, 255], dtype=numod.uint8), numod.tensor([-100, -1], dtype=numod.int8)
    assert (small + negative).tolist() == [100, 254]
    assert (small > negative).tolist() == [True, True]
    assert (numod.tensor([2**53 + 1]) == numod.tensor([float(2**53)], dtype=numod.float64)).tolist() == [True]
    assert (numod.tensor([True, True]) + numod.tensor([1, 2], dtype=numod.int8)).tolist() == [2, 3]


def test_integers_of_one_width_compare_exactly():
    assert (numod.tensor([2**62 + 1]) > numod.tensor([2**62])).item() is True
    assert (numod.tensor([2**62 + 1]) == 2**62).item() is False


def test_numbers_wrap_into_narrow_integers():
    assert (numod.tensor([250], dtype=numod.uint8) + 10).tolist() == [4]
    assert (numod.tensor([250], dtype=numod.uint8) - 255).tolist() == [251]


def test_comparison_with_a_number_of_a_higher_category():
    assert (numod.tensor([1, 2, 3]) > 1.5).tolist() == [False, True, True]
    assert (numod.tensor([True, False]) == 1).tolist() == [True, False]
    assert (numod.tensor([True, False]) < 2).tolist() == [True, True]


# ---- results written in place keep their dtype


@pytest.mark.parametrize(
    "target, other", [("int64", "float32"), ("bool", "int64"), ("uint8", "float64"), ("bool", "float32")]
)
@pytest.mark.parametrize("name", ["iadd", "imul", "itruediv"])
def test_in_place_refuses_a_higher_category(name, target, other):
    with pytest.raises(RuntimeError, match=r"result type \w+ can't be cast to the desired output type"):
        getattr(operator, name)(empty(target), empty(other))


@pytest.mark.parametrize(
    "target, other", [("float32", "float64"), ("float32", "int64"), ("int8", "int64"), ("uint8", "int8")]
)
def test_in_place_of_the_same_category(target, other):
    x = empty(target)
    x += empty(other)
    assert x.dtype is dtype(target)


def test_in_place_values_are_computed_wide():
    x = numod.tensor([1.0], dtype=numod.float32)
    x += numod.tensor([2.5], dtype=numod.float64)
    assert (x.item(), x.dtype) == (3.5, numod.float32)
    y = numod.tensor([100], dtype=numod.int8)
    y += numod.tensor([100], dtype=numod.int64)
    assert y.item() == -56


@pytest.mark.parametrize("from_, to, wanted", [
    ("float32", "float64", True), ("float64", "float32", True), ("int64", "float32", True), ("float32", "int64", False), ("int64", "uint8", True),
    ("bool", "uint8", True), ("uint8", "bool", False),
])  # fmt: skip
def test_can_cast(from_, to, wanted):
    assert numod.can_cast(dtype(from_), dtype(to)) is wanted


def test_can_cast_takes_dtypes():
    with pytest.raises(TypeError, match="must be numod dtypes, not Tensor"):
        numod.can_cast(numod.ones(1), numod.ones(1))


def test_stacked_tensors_promote():
    for first, second, wanted in (
        ("float16", "float32", "float32"),
        ("bfloat16", "float16", "float32"),
        ("float32", "int64", "float32"),
        ("float32", "float64", "float64"),
    ):
        x, y = numod.ones(2, dtype=dtype(first)), numod.zeros(2, dtype=dtype(second))
        assert numod.stack([x, y]).dtype is numod.stack([y, x], 1).dtype is dtype(wanted) and numod.stack(
            [y, x], 1
        ).tolist() == [[0, 1], [0, 1]]


def test_squares_of_bools_are_integers():
    x = numod.tensor([True, False])
    assert numod.square(x).dtype is numod.int64 and numod.square(x).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Bool"):
        x.square_()


def test_integers_on_the_device_meta_are_divided():
    x = numod.ones(2, dtype=numod.int8, device="meta")
    assert [tensor.dtype for tensor in (x // x, x % 3, numod.fmod(x, x))] == [numod.int8] * 3


def test_float_power_in_place_keeps_the_result_dtype():
    assert numod.tensor([1j, 2.0], dtype=numod.complex128).float_power_(2).tolist() == pytest.approx([-1, 4])
    with pytest.raises(RuntimeError, match="requires dtype ComplexDouble"):
        numod.ones(2, dtype=numod.float64).float_power_(2j)
