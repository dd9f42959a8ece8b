"""`numod.array_api`: the standard's names and signatures, and what differs from PyTorch's functions."""

from __future__ import annotations

import inspect
import math

import pytest

import numod
import numod.array_api as xp

# the standard's functions of 2023.12, without those of its extensions
FUNCTIONS = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
    bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast
    ceil clip concat conj copysign cos cosh cumulative_sum divide empty empty_like equal exp expand_dims expm1 eye finfo
    flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag isdtype isfinite isinf
    isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative nonzero not_equal ones ones_like
    permute_dims positive pow prod real reciprocal remainder repeat reshape result_type roll round searchsorted sign
    signbit sin sinh sort sqrt square squeeze stack std subtract sum take tan tanh tensordot tile tril triu trunc
    unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like
    __array_namespace_info__
""".split()
LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv
    qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT = "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn".split()
X = numod.tensor([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])


def test_the_namespace_is_whole() -> None:
    assert [name for name in FUNCTIONS if not callable(getattr(xp, name))] == []
    assert [name for name in LINALG if not callable(getattr(xp.linalg, name))] == []
    assert [name for name in FFT if not callable(getattr(xp.fft, name))] == []
    assert (xp.e, xp.pi, xp.inf, xp.newaxis, xp.__array_api_version__) == (math.e, math.pi, math.inf, None, "2023.12")
    assert math.isnan(xp.nan) and xp.float32 is numod.float32 and xp.bool is numod.bool


def test_a_tensor_names_its_namespace() -> None:
    assert X.__array_namespace__() is X.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="numod has versions 2021.12, 2022.12, 2023.12, got '2030.12'"):
        X.__array_namespace__(api_version="2030.12")
    assert X.to_device("cpu") is X


def test_arguments_have_the_names_of_the_standard() -> None:
    for function, names in (
        (xp.sum, "axis dtype keepdims"), (xp.std, "axis correction keepdims"), (xp.sort, "axis descending stable"),
        (xp.concat, "axis"), (xp.argmax, "axis keepdims"), (xp.eye, "k dtype device"), (xp.fft.fft, "n axis norm"),
        (xp.linalg.vector_norm, "axis keepdims ord"), (xp.cumulative_sum, "axis dtype include_initial"),
    ):  # fmt: skip
        parameters = inspect.signature(function).parameters.values()
        assert [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY] == names.split()


def test_results_that_differ_from_pytorchs() -> None:
    assert xp.sort(X, descending=True).tolist() == [[3, 2, 1], [6, 5, 4]]
    assert xp.max(X, axis=0).tolist() == [5, 4, 6] and xp.max(X).item() == 6
    assert xp.std(X).item() == pytest.approx(1.707825) and xp.std(X, correction=1).item() == pytest.approx(1.870829)
    assert xp.prod(X, axis=(0, 1), keepdims=True).tolist() == [[720]]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]] and xp.eye(2, k=9).tolist() == [[0, 0], [0, 0]]
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.arange(3, 1).shape == (0,) and xp.concat([X, X], axis=None).shape == (12,)
    assert xp.cumulative_sum(X, axis=1, include_initial=True).tolist() == [[0, 3, 4, 6], [0, 5, 9, 15]]
    assert [part.tolist() for part in xp.nonzero(X > 4)] == [[1, 1], [0, 2]]
    assert [grid.tolist() for grid in xp.meshgrid(X[0, :2], X[0, :1])] == [[[3, 1]], [[3, 3]]]
    result = xp.unique_all(xp.asarray([3, 1, 3]))
    assert [part.tolist() for part in result] == [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    assert xp.take(X, xp.asarray([2, 0]), axis=1).tolist() == [[2, 3], [6, 5]]
    assert xp.repeat(X[0], xp.asarray([2, 0, 1], dtype=xp.int8)).tolist() == [3, 3, 2]
    assert xp.flip(X).tolist() == [[6, 4, 5], [2, 1, 3]] and xp.tile(X, (1, 2)).shape == (2, 6)


def test_dtypes() -> None:
    assert xp.isdtype(xp.int8, "integral") and not xp.isdtype(xp.int8, ("bool", "real floating"))
    assert xp.isdtype(xp.int8, (xp.int8, "bool")) and xp.result_type(xp.int8, xp.uint8) is numod.int16
    assert xp.result_type(X, xp.float64, 1) is numod.float64 and xp.result_type(xp.int8, 1.0) is numod.float32
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["indexing"] is numod.int64 and set(info.dtypes(kind="bool")) == {"bool"}
    with pytest.raises(ValueError, match="isdtype: kind must be one of 'bool'"):
        xp.isdtype(xp.int8, "integer")


def test_arguments_outside_the_standard_are_refused() -> None:
    with pytest.raises(ValueError, match=r"squeeze: axis 0 of shape \(2, 3\) is not of size 1"):
        xp.squeeze(X, axis=0)
    with pytest.raises(ValueError, match="cumulative_sum: axis must be given"):
        xp.cumulative_sum(X)
    with pytest.raises(ValueError, match="reshape"):
        xp.reshape(X.T, (6,), copy=False)
    with pytest.raises(ValueError, match="vecdot: axis -1 has 3 and 1 elements"):
        xp.vecdot(X, X[:, :1])
    with pytest.raises(ValueError, match="nonzero: expected an array"):
        xp.nonzero(X[0, 0])
    with pytest.raises(IndexError, match="axis 2 of an array of 2 dimensions"):
        xp.sum(X, axis=2)


def test_reductions_over_nothing_and_steps_of_zero() -> None:
    assert xp.prod(xp.zeros((0, 3)), axis=(1,)).shape == (0,)
    with pytest.raises(ValueError, match="step must not be 0"):
        xp.arange(0, 5, 0)


def test_unsigned_integers() -> None:
    x = numod.tensor([1, 2, 3], dtype=numod.uint8)
    assert (xp.sum(x).dtype, xp.prod(x).dtype, xp.cumulative_sum(x).dtype) == (numod.uint64,) * 3
    assert xp.sum(x, dtype=xp.uint16).dtype is numod.uint16 and xp.sum(X, dtype=xp.uint32).tolist() == 21
    assert xp.arange(1, 4, dtype=xp.uint32).tolist() == [1, 2, 3]
    assert xp.can_cast(xp.uint8, xp.uint16) and xp.can_cast(xp.uint32, xp.int64) and not xp.can_cast(xp.int8, xp.uint16)
    assert not xp.can_cast(xp.uint64, xp.int64) and not xp.can_cast(xp.uint16, xp.complex64)
    assert xp.isdtype(xp.uint64, "unsigned integer")
    assert xp.__array_namespace_info__().dtypes(kind="unsigned integer").keys() == {
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    }


def test_cross_products_broadcast() -> None:
    e = numod.eye(3)
    assert xp.linalg.cross(e, e[0]).tolist() == [[0, 0, 0], [0, 0, -1], [0, 1, 0]]
