"""New tensors: values, dtypes, memory shared with other libraries, and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import numod

pytestmark = pytest.mark.on_cuda

ALL = [numod.bool, numod.uint8, numod.int8, numod.int16, numod.int32, numod.int64, numod.float32, numod.float64]


# ---- tensor


@pytest.mark.parametrize("data, dtype", [
    (1, numod.int64), (True, numod.bool), (1.5, numod.float32), ([1, 2], numod.int64), ([1, 2.5], numod.float32), ([True, 2], numod.int64), ([[True], [False]], numod.bool),
    ([], numod.float32), ([[], []], numod.float32), ((1, (2)), numod.int64), (range(3), numod.int64), (2**62, numod.int64), (math.nan, numod.float32),
    (np.float64(1.5), numod.float64), (np.int8([1]), numod.int8), (np.array([1.5]), numod.float64), ([np.float32(1.0), 2], numod.float32),
])  # fmt: skip
def test_dtype_of_data(data, dtype):
    result = numod.tensor(data)
    assert result.dtype is dtype
    np.testing.assert_array_equal(result.numpy(), np.asarray(data, dtype.numpy))


@pytest.mark.parametrize("dtype", ALL)
def test_dtype_argument(dtype):
    result = numod.tensor([0, 1, 1], dtype=dtype)
    assert result.dtype is dtype
    assert result.tolist() == np.array([0, 1, 1], dtype.numpy).tolist()


def test_nested_tensors():
    assert numod.tensor([numod.tensor(1), numod.tensor(2)]).tolist() == [1, 2]
    assert numod.tensor([[numod.tensor(1.5), 2], [3, 4]]).tolist() == [[1.5, 2.0], [3.0, 4.0]]
    assert numod.tensor([numod.ones(1), numod.ones(1, 1), 2]).tolist() == [1.0, 1.0, 2.0]  # of any number of dimensions
    with pytest.raises(ValueError, match="only one element tensors .* shape \\(2,\\)"):
        numod.tensor([numod.ones(2), numod.ones(2)])


def test_data_is_copied():
    array = np.zeros(2)
    result = numod.tensor(array)
    array[0] = 1
    assert result.tolist() == [0.0, 0.0]
    with pytest.warns(UserWarning, match="clone"):
        copy = numod.tensor(result)
    copy[0] = 5
    assert result.tolist() == [0.0, 0.0]


def test_requires_grad():
    assert numod.tensor([1.0], requires_grad=True).requires_grad
    assert numod.zeros(2, requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match="floating point"):
        numod.tensor([1], requires_grad=True)


def test_truncation_towards_zero():
    assert numod.tensor([1.9, -1.9], dtype=numod.int64).tolist() == [1, -1]
    assert numod.tensor([0.0, 0.5, math.nan], dtype=numod.bool).tolist() == [False, True, True]


@pytest.mark.parametrize("data, dtype", [
    ([np.ones(2), np.ones(2)], numod.float64), ([[1, 2], np.ones(2, "f4")], numod.float32), ([np.float64(1), 2], numod.float64), ([np.int32(1)], numod.int32),
    ([np.int8(1), 2.5], numod.float32), ([numod.tensor(1.0, dtype=numod.float64), 2], numod.float64), ([numod.tensor(1.5, dtype=numod.bfloat16)], numod.bfloat16),
    (((7, 5), (9, np.array(5.0))), numod.float64), ([np.uint16(1)], numod.uint16), ([np.complex64(1), 1.0], numod.complex64), ([np.zeros(0)], numod.float64),
])  # fmt: skip
def test_arrays_and_tensors_in_lists_keep_their_dtype(data, dtype):
    assert numod.tensor(data).dtype is dtype


def test_a_list_that_holds_itself_is_refused():
    data = []
    data.append(data)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        numod.tensor(data)


@pytest.mark.parametrize("data, exception, message", [
    ([[1, 2], [3]], ValueError, "expected sequence"), ("text", TypeError, "invalid data type 'str'"), ([1, "a"], TypeError, "invalid data type 'str'"), (["a"], ValueError, "too many dimensions 'str'"),
    (None, RuntimeError, "NoneType"), ([1, None], RuntimeError, "NoneType"), ([2**70], (RuntimeError, ValueError), "(?i)overflow"),
    (object(), RuntimeError, "object"), (np.array(["a"]), TypeError, "numpy"),
    (np.zeros(2, np.clongdouble), TypeError, "longdouble|complex256"), ({}, RuntimeError, "dict"),
])  # fmt: skip
def test_bad_data(data, exception, message):
    with pytest.raises(exception, match=message):
        numod.tensor(data)


def test_text_is_refused_where_a_dtype_is_given():
    with pytest.raises(ValueError, match="there is text in the data"):
        numod.tensor(["1"], dtype=numod.float32)


def test_values_that_do_not_fit():
    with pytest.raises(RuntimeError, match="overflow"):
        numod.tensor([300], dtype=numod.uint8)


# ---- constants


@pytest.mark.parametrize("dtype", ALL)
def test_zeros_ones_full(dtype):
    np.testing.assert_array_equal(numod.zeros(2, 3, dtype=dtype).numpy(), np.zeros((2, 3), dtype.numpy))
    np.testing.assert_array_equal(numod.ones((2, 3), dtype=dtype).numpy(), np.ones((2, 3), dtype.numpy))
    np.testing.assert_array_equal(numod.full([2], 1, dtype=dtype).numpy(), np.ones(2, dtype.numpy))
    assert numod.empty(4, dtype=dtype).dtype is dtype


@pytest.mark.parametrize(
    "value, dtype",
    [
        (1, numod.int64),
        (True, numod.bool),
        (1.5, numod.float32),
        (math.inf, numod.float32),
        (np.float32(1), numod.float32),
        (-(2**63), numod.int64),
    ],
)
def test_full_infers_the_dtype(value, dtype):
    result = numod.full((2,), value)
    assert result.dtype is dtype
    assert result.tolist() == [value, value]


def test_full_of_a_tensor():
    assert numod.full((2,), numod.tensor(3)).tolist() == [3, 3]


def test_sizes():
    assert numod.zeros(()).shape == numod.zeros([]).shape == ()
    assert numod.zeros(numod.Size([2, 0])).shape == numod.zeros((2, 0)).shape == (2, 0)
    assert numod.zeros(np.int64(2), np.int32(3)).shape == (2, 3)
    assert numod.zeros(3).stride() == (1,)
    assert numod.zeros(2, 3, 4).stride() == (12, 4, 1)
    assert numod.zeros(2, 0, 4).stride() == (4, 4, 1)


def test_like():
    x = numod.zeros(2, 3, dtype=numod.int32)
    for make in (numod.zeros_like, numod.ones_like, numod.empty_like):
        assert (make(x).shape, make(x).dtype) == (x.shape, numod.int32)
    assert numod.full_like(x, 7).tolist() == [[7] * 3] * 2
    assert numod.ones_like(x, dtype=numod.float64).dtype is numod.float64


def test_new():
    x = numod.zeros(2, dtype=numod.float64)
    assert (
        x.new_zeros(3).dtype
        is x.new_ones((1, 2)).dtype
        is x.new_empty(2).dtype
        is x.new_full((2,), 1).dtype
        is x.new_tensor([1]).dtype
        is numod.float64
    )
    assert x.new_tensor([1, 2]).tolist() == [1.0, 2.0]
    assert x.new_ones(2, dtype=numod.int8).dtype is numod.int8


@pytest.mark.parametrize("call, exception, message", [
    (lambda: numod.zeros(-1), RuntimeError, "negative dimension"), (lambda: numod.zeros(2.0), TypeError, "must be int"), (lambda: numod.rand(True), TypeError, "must be int"),
    (lambda: numod.zeros("a"), TypeError, "must be int"), (lambda: numod.zeros(1 << 40, 1 << 40), RuntimeError, "(?i)storage|memory"),
    (lambda: numod.zeros(2, device="moon"), RuntimeError, "(?i)device"), (lambda: numod.zeros(2, dtype="float32"), TypeError, "dtype"),
    (lambda: numod.zeros(2, dtype=numod.int64, requires_grad=True), RuntimeError, "floating point"),
])  # fmt: skip
def test_bad_sizes(call, exception, message):
    with pytest.raises(exception, match=message):
        call()


# ---- ranges


@pytest.mark.parametrize(
    "bounds",
    [(5,), (2, 7), (1, 10, 3), (7, 0, -2), (0,), (3, 3), (0.0, 1.0, 0.25), (1, 2.5, 0.5), (5, 1, -1.5), (-3, 3)],
)
def test_arange(bounds):
    result = numod.arange(*bounds)
    reference = np.arange(*bounds)
    assert result.dtype is (numod.int64 if all(isinstance(bound, int) for bound in bounds) else numod.float32)
    assert result.shape == reference.shape
    np.testing.assert_allclose(result.numpy(), reference, rtol=1e-6)


def test_arange_names_and_dtype():
    assert numod.arange(start=1, end=4).tolist() == [1, 2, 3]
    assert numod.arange(3, dtype=numod.float64).tolist() == [0.0, 1.0, 2.0]
    assert numod.arange(0, 1, step=0.5).tolist() == [0.0, 0.5]
    assert numod.arange(2**62, 2**62 + 2).tolist() == [2**62, 2**62 + 1]
    assert numod.arange(numod.tensor(3)).tolist() == [0, 1, 2]


def test_ranges_of_integers_have_whole_bounds():
    assert numod.arange(0.0, -8.5, -4.0, dtype=numod.int64).tolist() == [0, -4] and numod.arange(
        1.5, dtype=numod.int16
    ).tolist() == [0, 1]
    assert numod.linspace(4.3, 0, 3, dtype=numod.int64).tolist() == [4, 2, 0] and numod.logspace(
        2.9, 1, 2, dtype=numod.int32
    ).tolist() == [100, 10]
    assert numod.linspace(4.5, 0, 3, dtype=numod.complex64).real.tolist() == [4.5, 2.25, 0]


@pytest.mark.on_cuda(simulator=False)
def test_arange_of_large_bounds_has_the_exact_length():
    start = 2**62
    assert len(numod.arange(start, start + 3)) == 3
    assert len(numod.arange(-(2**60), -(2**60) + 7, 2)) == 4


@pytest.mark.parametrize("call, exception, message", [
    (lambda: numod.arange(0, 5, 0), RuntimeError, "step must be nonzero"), (lambda: numod.range(0, 5, 0), RuntimeError, "step must be nonzero"), (lambda: numod.arange(0, 5, -1), RuntimeError, "bound"),
    (lambda: numod.arange(), TypeError, "arange"), (lambda: numod.arange(1, 2, 3, 4), TypeError, "arange"),
])  # fmt: skip
def test_bad_ranges(call, exception, message):
    with pytest.raises(exception, match=message):
        call()


@pytest.mark.parametrize(
    "start, end, steps",
    [(0, 1, 5), (-2.5, 4, 10), (3, -3, 7), (1, 2, 1), (1, 2, 0), (5, 5, 3), (0, 1, 2), (0, 10, 101)],
)
def test_linspace(start, end, steps):
    result = numod.linspace(start, end, steps)
    np.testing.assert_allclose(result.numpy(), np.linspace(start, end, steps), rtol=1e-6, atol=1e-6)
    assert steps < 2 or (result[0].item(), result[-1].item()) == (start, end)


def test_linspace_bad_steps():
    with pytest.raises(RuntimeError, match="non-negative"):
        numod.linspace(0, 1, -1)


@pytest.mark.parametrize("n, m", [(3, None), (2, 4), (4, 2), (0, None)])
def test_eye(n, m):
    np.testing.assert_array_equal(numod.eye(n, m).numpy(), np.eye(n, m))


def test_eye_dtype():
    assert numod.eye(2, dtype=numod.int64).tolist() == [[1, 0], [0, 1]]


# ---- NumPy and DLPack


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", ALL)
def test_from_numpy_shares_memory(dtype):
    array = np.zeros((2, 3), dtype.numpy)
    result = numod.from_numpy(array)
    array[1, 2] = 1
    assert result[1, 2].item() == 1
    result[0, 0] = 1
    assert array[0, 0] == 1
    assert np.shares_memory(result.numpy(), array)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "cut",
    [
        np.transpose,
        lambda a: a[1:, ::2],
        lambda a: a[:, 1],
        lambda a: a[:0],
        lambda a: np.broadcast_to(a[:1], (3, 4)).copy(),
        lambda a: a[2, 3, ...],
    ],
)
def test_from_numpy_of_strided_arrays(cut):
    array = np.arange(12.0).reshape(3, 4)
    part = np.asarray(cut(array))
    result = numod.from_numpy(part)
    np.testing.assert_array_equal(result.numpy(), part)
    assert (result * 2).tolist() == (part * 2).tolist()


@pytest.mark.cpu_only
def test_numpy_of_a_view():
    x = numod.arange(12).reshape(3, 4)
    view = x.t()[1:, ::2].numpy()
    view[0, 1] = -1
    assert x[2, 1].item() == -1


@pytest.mark.cpu_only
def test_from_numpy_keeps_the_array_alive():
    result = numod.from_numpy(np.full(1000, 3.0))
    del _garbage()[:]
    assert result.sum().item() == 3000.0


def _garbage():
    return [np.zeros(1000) for _ in range(20)]


def test_read_only_arrays_are_copied():
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="array is not writable"):
        result = numod.from_numpy(array)
    result[0] = 1.0
    assert array[0] == 0.0
    with pytest.warns(UserWarning, match="buffer is not writable"):
        assert numod.frombuffer(b"ab", dtype=numod.uint8).tolist() == [97, 98]


def test_foreign_byte_order_and_misaligned_arrays():
    assert numod.from_numpy(np.array([1, 2], ">i4")).tolist() == [1, 2]
    record = np.zeros(3, np.dtype([("a", np.int8), ("b", np.float32)]))
    record["b"] = [1, 2, 3]
    assert numod.from_numpy(record["b"]).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("call, exception, message", [
    (lambda: numod.from_numpy([1]), TypeError, "expected np.ndarray"), (lambda: numod.from_numpy(np.zeros(3)[::-1]), ValueError, "negative"),
    (lambda: numod.from_numpy(np.zeros(2, np.clongdouble)), TypeError, "longdouble|complex256"),
    (lambda: numod.from_numpy(np.array([None])), TypeError, "object"),
])  # fmt: skip
def test_bad_arrays(call, exception, message):
    with pytest.raises(exception, match=message):
        call()


@pytest.mark.cpu_only
def test_numpy_protocol():
    x = numod.tensor([[1.0, 2.0]])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype=np.float64).tolist() == [[1.0, 2.0]]
    assert np.add(np.asarray(x), 1).tolist() == [[2.0, 3.0]]
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())


@pytest.mark.cpu_only
def test_numpy_refuses_gradients():
    x = numod.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\)"):
        x.numpy()
    assert x.detach().numpy().tolist() == x.numpy(force=True).tolist() == [1.0, 1.0]


def test_array_beside_a_tensor():
    x = numod.tensor([1.0, 2.0])
    assert isinstance(np.float64(2.0) * x, numod.Tensor)
    assert (np.float64(2.0) * x).tolist() == [2.0, 4.0]
    assert (x * np.float32(2.0)).dtype is numod.float32


def test_as_tensor():
    array = np.zeros(2)
    assert np.shares_memory(numod.as_tensor(array).numpy(), array)
    x = numod.zeros(2)
    assert numod.as_tensor(x) is x
    assert numod.as_tensor(x, dtype=numod.int8).dtype is numod.int8
    assert numod.as_tensor([1, 2]).tolist() == [1, 2]


def test_asarray():
    array = np.zeros(2)
    assert np.shares_memory(numod.asarray(array).numpy(), array)
    assert not np.shares_memory(numod.asarray(array, copy=True).numpy(), array)
    with pytest.raises(ValueError, match="can't alias"):
        numod.asarray([1, 2], copy=False)


@pytest.mark.cpu_only
def test_dlpack_both_ways():
    x = numod.arange(6).reshape(2, 3)
    array = np.from_dlpack(x.t())
    array[2, 1] = 50
    assert x[1, 2].item() == 50
    array = np.arange(4.0)
    result = numod.from_dlpack(array)
    result[0] = 9.0
    assert array[0] == 9.0
    assert numod.from_dlpack(x).data_ptr() == x.data_ptr()


@pytest.mark.cpu_only
def test_dlpack_refuses_gradients():
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(numod.ones(2, requires_grad=True))


# ---- out of tensors


@pytest.mark.parametrize(
    "dtype, kind", [(numod.float32, float), (numod.int8, int), (numod.bool, bool), (numod.float64, float)]
)
def test_item(dtype, kind):
    assert type(numod.tensor([[1]], dtype=dtype).item()) is kind


def test_item_of_several():
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        numod.ones(2).item()


def test_conversion_to_python_numbers():
    assert (int(numod.tensor(2.7)), float(numod.tensor(2)), bool(numod.tensor([0.0]))) == (2, 2.0, False)
    assert [10, 20, 30][numod.tensor(1)] == 20
    with pytest.raises(TypeError, match="only integer tensors"):
        [1][numod.tensor(0.0)]
    for many in (numod.ones(2), numod.ones(0)):
        with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
            bool(many)


def test_old_constructor():
    assert numod.Tensor(2, 3).shape == (2, 3)
    assert numod.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert numod.Tensor().shape == (0,)


@pytest.mark.parametrize("value", [-0.0, float("nan"), float("-inf"), 3, True])
def test_full_keeps_every_value(value):
    result = numod.full((3,), value)
    np.testing.assert_array_equal(result.numpy(), np.full(3, value))
    assert (
        (np.signbit(result.numpy()) == np.signbit(np.full(3, value))).all()
        if isinstance(value, float)
        else result.dtype in (numod.int64, numod.bool)
    )


@pytest.mark.parametrize(
    "number, kind",
    [
        (float("nan"), "int64"),
        (float("inf"), "int32"),
        (1e10, "int32"),
        (-0.5, "uint8"),
        (300, "uint8"),
        (2**40, "int32"),
    ],
)
def test_numbers_that_integers_do_not_hold(number, kind):
    for data in (number, [1, number]):
        with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
            numod.tensor(data, dtype=getattr(numod, kind))


def test_integers_below_zero_are_taken_modulo_the_range_of_bytes():
    assert numod.tensor([-1, 2], dtype=numod.uint8).tolist() == [255, 2]
    assert numod.tensor(np.array([300, -1]), dtype=numod.uint8).tolist() == [44, 255]


def test_numbers_taken_from_tensors_lose_their_gradient():
    x = numod.ones((), requires_grad=True)
    for take in (lambda: numod.tensor([[x, 2.0]]), lambda: complex(x)):
        numod.set_warn_always(True)
        with pytest.warns(UserWarning, match="requires_grad=True to a scalar"):
            take()
        numod.set_warn_always(False)


def test_a_range_that_does_not_fit_its_output():
    with pytest.warns(UserWarning, match="does not match the computed number of elements 3"):
        assert numod.arange(3, out=numod.ones(2)).tolist() == [0, 1, 2]
