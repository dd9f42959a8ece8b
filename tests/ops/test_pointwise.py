"""Every pointwise row against a NumPy reference: layouts, dtypes, special values, gradients to second order.

A row needs a compiled kernel per dtype and layout class, so each test adds at most one.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from selection import diagonals, every, second_orders

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.ops.pointwise import rows
from references import (
    BINARY,
    CONSTANT,
    FIRST_IS_CONSTANT,
    FLOATING,
    HELPERS,
    INF,
    INTEGRAL,
    NAMES,
    NAN,
    POINTS,
    QUANTIZED,
    RANDOM,
    REFERENCES,
    check,
    expected,
    sample,
    tensors_of,
)

pytestmark = pytest.mark.on_cuda

SPECIAL = [
    NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 7.25, 40.0, -40.0, 1e-40, -1e-40, 1e-30,
    3e38, -3e38,
]  # fmt: skip


def test_every_row_has_a_reference():
    assert set(rows) - set(REFERENCES) == CONSTANT | RANDOM | QUANTIZED | set(HELPERS)


def test_every_reference_has_a_row():
    assert not set(REFERENCES) - set(rows)


# ---- values and layouts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FLOATING)
def test_dense(name, dtype):
    arrays, numbers = sample(name, [(3, 7)] * tensors_of(name), dtype), REFERENCES[name].numbers
    result = rows[name](*map(numod.tensor, arrays), *numbers)
    assert result.dtype is (numod.bool if rows[name].result == "bool" else numod.dtypes.from_numpy(dtype))
    check(name, result, expected(name, arrays, numbers))


@pytest.mark.parametrize("name", every(3, FLOATING, others=pytest.mark.fuzz))
def test_transposed_sliced_and_broadcast(name):
    """The first input transposed and sliced with a step, the second a sliced row, the third a column."""
    wholes = sample(name, [(9, 8), (9,), (4, 1)][: tensors_of(name)])
    take = [lambda x: x.T[::2, 1::3], lambda x: x[::3], lambda x: x]
    arrays = [cut(whole) for cut, whole in zip(take, wholes)]
    places = [lambda x: x.T[::2, 1::3], lambda x: x[::3], lambda x: x]
    inputs = [cut(numod.tensor(whole)) for cut, whole in zip(places, wholes)]
    assert not inputs[0].is_contiguous()
    result = rows[name](*inputs, *REFERENCES[name].numbers)
    check(name, result, expected(name, arrays, REFERENCES[name].numbers))


@pytest.mark.parametrize("name", FLOATING)
def test_empty(name):
    inputs = [numod.zeros(2, 0, 3)] * tensors_of(name)
    result = rows[name](*inputs, *REFERENCES[name].numbers)
    assert result.shape == (2, 0, 3)
    assert rows[name](*[input.permute(2, 0, 1) for input in inputs], *REFERENCES[name].numbers).shape == (3, 2, 0)


@pytest.mark.parametrize("name", FLOATING)
def test_zero_dimensional(name):
    arrays, numbers = sample(name, [()] * tensors_of(name)), REFERENCES[name].numbers
    result = rows[name](*map(numod.tensor, arrays), *numbers)
    assert result.shape == ()
    check(name, result, expected(name, arrays, numbers))


@pytest.mark.parametrize("name", BINARY)
def test_number_as_second_input(name):
    (x, y) = sample(name, [(6,), ()])
    result = rows[name](numod.tensor(x), float(y))
    assert result.dtype in (numod.float32, numod.bool)
    check(name, result, expected(name, [x, np.full(6, y, np.float32)]))


@pytest.mark.parametrize("name", ["add", "sub", "div", "pow", "lt", "atan2", "maximum", "fmod"])
def test_number_as_first_input(name):
    (x, y) = sample(name, [(), (6,)])
    check(name, rows[name](float(x), numod.tensor(y)), expected(name, [np.full(6, x, np.float32), y]))


def test_packed_inputs_keep_their_strides():
    x = numod.tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3)).t()
    assert (x + x).stride() == x.stride() == (1, 3)


def test_broadcast_over_new_dimensions():
    x, y = np.arange(12.0, dtype=np.float32).reshape(3, 1, 4), np.arange(10.0, dtype=np.float32).reshape(2, 1, 5, 1)
    np.testing.assert_array_equal((numod.tensor(x) * numod.tensor(y)).numpy(), x * y)


def test_sizes_that_do_not_broadcast():
    with pytest.raises(
        RuntimeError, match=r"size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1"
    ):
        numod.ones(2, 3) + numod.ones(2, 4)


def test_no_tensor():
    with pytest.raises(TypeError, match="at least one Tensor"):
        rows["add"](1.0, 2.0)


def test_missing_input():
    with pytest.raises(TypeError, match=r"clamp\(\) takes inputs \(x, min, max\)"):
        rows["clamp"](numod.ones(2))


@pytest.mark.on_cuda(simulator=False)
def test_parallel_loop_equals_serial_loop():
    """Past the threshold of work a kernel runs on threads; dense and strided."""
    x = np.random.default_rng(0).standard_normal((1200, 900)).astype(np.float32)
    a = numod.tensor(x)
    np.testing.assert_array_equal((a * a).numpy(), x * x)
    np.testing.assert_array_equal(
        (a.t() * numod.tensor(x[:1].repeat(900, 0)[:, :900].copy()[:, :1])).numpy(), x.T * x[:1].repeat(900, 0)[:, :1]
    )


# ---- special values


def special_inputs(name, dtype):
    """NaN, infinities, zeros of both signs, subnormal and huge values; all pairs where there are two inputs."""
    values = np.array(SPECIAL, dtype)
    if tensors_of(name) == 1:
        return [values]
    first, second = (grid.ravel() for grid in np.meshgrid(values, values))
    return [first, second] if tensors_of(name) == 2 else [first, second, second[::-1].copy()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in FLOATING if REFERENCES[name].special])
def test_special_values(name, dtype):
    arrays, numbers = special_inputs(name, dtype), REFERENCES[name].numbers
    result = rows[name](*map(numod.tensor, arrays), *numbers).numpy()
    kind = result.dtype
    with np.errstate(all="ignore"):
        reference = expected(name, arrays, numbers).astype(kind)
        alone = np.asarray(REFERENCES[name].reference(*arrays, *(np.asarray(n, dtype) for n in numbers))).astype(kind)
    rtol = 1e-5 if kind == np.float32 else 1e-12
    agrees = np.isclose(result, reference, rtol=rtol, atol=1e-6, equal_nan=True) | np.isclose(
        result, alone, rtol=rtol, atol=1e-6, equal_nan=True
    )
    wrong = np.flatnonzero(~agrees)[:5]
    assert not wrong.size, [
        ([float(array[k]) for array in arrays], float(result[k]), float(reference[k])) for k in wrong
    ]
    if REFERENCES[name].special == "exact":
        zeros = np.flatnonzero((reference == 0) & (np.signbit(result) != np.signbit(reference)))[:5]
        assert not zeros.size, [
            ([float(array[k]) for array in arrays], float(result[k]), float(reference[k])) for k in zeros
        ]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize(
    "name",
    [
        "sigmoid",
        "softplus",
        "logsigmoid",
        "silu",
        "mish",
        "elu",
        "selu",
        "logaddexp",
        "tanh",
        "gelu",
        "celu",
        "hardswish",
    ],
)
def test_gradient_is_finite_where_the_function_is_flat(name):
    """The part of a formula that is not chosen must not overflow into the gradient."""
    x = numod.tensor([-200.0, -50.0, 0.0, 50.0, 200.0], requires_grad=True)
    others = (numod.zeros(5),) if name == "logaddexp" else REFERENCES[name].numbers
    rows[name](x, *others).sum().backward()
    assert bool(numod.isfinite(x.grad).all())


def test_binary_cross_entropy_is_clamped():
    loss = rows["binary_cross_entropy"](numod.tensor([0.0, 1.0, 0.0, 1.0]), numod.tensor([1.0, 0.0, 0.0, 1.0]))
    assert loss.tolist() == [100.0, 100.0, 0.0, 0.0]


def test_with_logits_does_not_overflow():
    loss = rows["binary_cross_entropy_with_logits"](
        numod.tensor([-1000.0, 1000.0, 1000.0]), numod.tensor([0.0, 1.0, 0.0])
    )
    assert loss.tolist() == [0.0, 0.0, 1000.0]


def test_lerp_meets_both_ends():
    x, end = numod.tensor([0.1, 1e8]), numod.tensor([0.7, 1.0])
    assert rows["lerp"](x, end, 0.0).tolist() == x.tolist()
    assert rows["lerp"](x, end, 1.0).tolist() == end.tolist()


# ---- integers and bool


def integers(name, dtype):
    """Small integers (nonzero in divisors, shifts and exponents within range), and some of the greatest."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    low = 0 if dtype == np.uint8 else -9
    values = [generator.integers(low, 10, 24).astype(dtype) for _ in range(tensors_of(name))]
    if name in ("floor_divide", "trunc_divide", "remainder", "fmod"):
        values[1] = np.where(values[1] == 0, 3, values[1]).astype(dtype)
    if "shift" in name or name == "pow":
        values[1] = np.abs(values[1]) % 5
    return values


def expected_of_integers(name, arrays):
    row, case = rows[name], REFERENCES[name]
    if row.result == "float":
        return expected(name, [array.astype(np.float32) for array in arrays], case.numbers)
    with np.errstate(all="ignore"):
        return np.asarray((case.integer or case.reference)(*arrays, *case.numbers))


@pytest.mark.parametrize("name, dtype", diagonals(INTEGRAL, [np.int64, np.uint8], 2, others=pytest.mark.fuzz))
def test_integers(name, dtype):
    if dtype == np.uint8 and REFERENCES[name].numbers and name != "threshold":
        pytest.skip("its numbers do not fit in uint8")
    if name == "nan_to_num":
        pytest.skip("the public function returns integers unchanged")
    if name == "signbit" and dtype == np.uint8:
        pytest.skip("NumPy has no sign bit of an unsigned integer; see test_signbit_of_unsigned")
    arrays = integers(name, dtype)
    result = rows[name](*map(numod.tensor, arrays), *REFERENCES[name].numbers)
    numod_dtype = numod.dtypes.from_numpy(dtype)
    wanted = {"bool": numod.bool, "float": numod.float32, "same": numod_dtype, "number": numod_dtype}[rows[name].result]
    assert result.dtype is wanted
    check(name, result, expected_of_integers(name, arrays), 4.0)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
@pytest.mark.parametrize("name", ["add", "floor_divide", "lt", "exp"])
def test_other_integers(name, dtype):
    arrays = integers(name, dtype)
    check(name, rows[name](*map(numod.tensor, arrays)), expected_of_integers(name, arrays), 4.0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_integer_arithmetic_wraps(dtype):
    x, y = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 3], dtype), np.array([2, 1, 5], dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal((numod.tensor(x) + numod.tensor(y)).numpy(), x + y)
        np.testing.assert_array_equal((numod.tensor(x) - numod.tensor(y)).numpy(), x - y)
        np.testing.assert_array_equal((numod.tensor(x) * numod.tensor(y)).numpy(), x * y)


@pytest.mark.on_cuda(simulator=False)
def test_large_integers_are_exact():
    x = numod.tensor([2**62, -(2**53) - 1])
    assert (x + 1).tolist() == [2**62 + 1, -(2**53)]
    assert (x // 3).tolist() == [2**62 // 3, (-(2**53) - 1) // 3]
    assert (x == numod.tensor([2**62, -(2**53)])).tolist() == [True, False]


@pytest.mark.parametrize("name, wanted", [
    ("add", [True, True, True, False]), ("mul", [True, False, False, False]), ("maximum", [True, True, True, False]), ("minimum", [True, False, False, False]),
    ("eq", [True, False, False, True]), ("lt", [False, False, True, False]), ("logical_xor", [False, True, True, False]), ("bitwise_and", [True, False, False, False]),
    ("bitwise_or", [True, True, True, False]), ("bitwise_xor", [False, True, True, False]),
])  # fmt: skip
def test_bool(name, wanted):
    result = rows[name](numod.tensor([True, True, False, False]), numod.tensor([True, False, True, False]))
    assert result.dtype is numod.bool
    assert result.tolist() == wanted


@pytest.mark.parametrize("name", ["exp", "sigmoid", "sqrt"])
def test_bool_to_float(name):
    check(name, rows[name](numod.tensor([True, False])), expected(name, [np.array([1.0, 0.0])]))


def test_signbit_of_unsigned():
    assert rows["signbit"](numod.tensor([0, 255], dtype=numod.uint8)).tolist() == [False, False]


REFUSED = [(name, kind) for name in NAMES if name in rows for kind in "buif" if kind not in rows[name].accepts]


@pytest.mark.parametrize("name, kind", REFUSED)
def test_refuses_other_dtypes(name, kind):
    dtype = {"b": numod.bool, "u": numod.uint8, "i": numod.int64, "f": numod.float32}[kind]
    numbers = (True,) * len(REFERENCES[name].numbers) if kind == "b" else (1,) * len(REFERENCES[name].numbers)
    words = (
        "Negation, .* on a bool tensor is not supported"
        if (name, kind) == ("neg", "b")
        else f"\"{name}\" not implemented for '{dtype.short}'"
    )
    with pytest.raises(RuntimeError, match=words):
        rows[name](*[numod.ones(2, dtype=dtype)] * tensors_of(name), *numbers)


# ---- gradients

DIFFERENTIABLE = [name for name in FLOATING if rows[name].differentiable]


def gradient_inputs(name):
    case, count = REFERENCES[name], tensors_of(name)
    points = case.points
    if points is None:
        thirds = [(case.low[min(k, len(case.low) - 1)], case.high[min(k, len(case.high) - 1)]) for k in range(count)]
        usual = case.low == (-3.0,) and case.high == (3.0,)
        points = (
            POINTS
            if usual
            else [
                [low + (high - low) * share for share in (0.21 + 0.1 * k, 0.47 - 0.1 * k, 0.83)]
                for k, (low, high) in enumerate(thirds)
            ]
        )
    return [numod.tensor(point, dtype=numod.float64) for point in points[:count]]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name, twice", second_orders(4, DIFFERENTIABLE, others=pytest.mark.fuzz))
def test_gradients_to_second_order(name, twice):
    inputs = gradient_inputs(name)
    if name == "where":
        inputs[0] = numod.tensor([True, False, True])
    inputs = [
        input.requires_grad_(input.is_floating_point() and not (k == 0 and name in FIRST_IS_CONSTANT))
        for k, input in enumerate(inputs)
    ]

    def function(*args):
        return rows[name](*args, *REFERENCES[name].numbers)

    assert gradcheck(function, inputs)
    assert not twice or gradgradcheck(function, inputs)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name", ["mul", "div", "atan2", "prelu"])
def test_gradients_of_broadcast_and_strided_inputs(name):
    x = numod.tensor(np.linspace(0.3, 2.1, 12).reshape(3, 4), requires_grad=True)
    y = numod.tensor(np.linspace(0.5, 1.7, 6), requires_grad=True)
    assert gradcheck(lambda x, y: rows[name](x.t(), y[::2]), (x, y))


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name, x, wanted", [
    ("abs", [0.0, -0.0], [0.0, 0.0]), ("relu", [0.0, -0.0], [0.0, 0.0]), ("sign", [0.0, 2.0], [0.0, 0.0]), ("sinc", [0.0], [0.0]),
    ("hardsigmoid", [-3.0, 3.0], [0.0, 0.0]), ("hardswish", [-3.0, 3.0], [0.0, 1.0]), ("softsign", [0.0], [1.0]), ("silu", [0.0], [0.5]),
])  # fmt: skip
def test_gradient_at_a_kink(name, x, wanted):
    x = numod.tensor(x, requires_grad=True)
    rows[name](x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted)


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize("name, wanted", [("maximum", 0.5), ("minimum", 0.5)])
def test_gradient_of_equal_values_is_shared(name, wanted):
    x, y = numod.tensor([2.0], requires_grad=True), numod.tensor([2.0], requires_grad=True)
    rows[name](x, y).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (wanted, wanted)


@pytest.mark.on_cuda(simulator=False)
def test_gradient_of_clamp_at_its_bounds():
    x = numod.tensor([-1.0, 2.0, 3.0], requires_grad=True)
    x.clamp(-1.0, 2.0).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.on_cuda(simulator=False)
@pytest.mark.parametrize(
    "x, y, wanted",
    [
        (0.0, 0.0, (0.0, 0.0)),
        (0.0, 1.0, (1.0, 0.0)),
        (0.0, 2.0, (0.0, 0.0)),
        (0.0, -1.0, (-INF, -INF)),
        (-2.0, 3.0, (12.0, NAN)),
    ],
)
def test_gradient_of_pow_at_zero_and_below(x, y, wanted):
    x, y = numod.tensor(x, requires_grad=True), numod.tensor(y, requires_grad=True)
    (x**y).backward()
    np.testing.assert_array_equal([x.grad.item(), y.grad.item()], wanted)


@pytest.mark.on_cuda(simulator=False)
def test_where_stops_the_gradient_of_the_other_side():
    """A NaN in the part not chosen must not reach the gradient of the chosen one."""
    x = numod.tensor([0.0, 4.0], requires_grad=True)
    numod.where(x > 0, x.detach().sqrt() * x, x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# ---- in place and out=


@pytest.mark.parametrize("name", ["exp", "neg", "sigmoid", "relu", "floor"])
def test_in_place_unary(name):
    (x,) = sample(name, [(5,)])
    tensor = numod.tensor(x)
    assert getattr(tensor, f"{name}_")() is tensor
    check(name, tensor, expected(name, [x]))


def test_in_place_on_a_slice():
    x = numod.zeros(3, 4)
    x[:, 1::2].add_(numod.tensor([1.0, 2.0]))
    assert x.tolist() == [[0.0, 1.0, 0.0, 2.0]] * 3


def test_in_place_reads_before_it_writes():
    """An input that overlaps the target is read as it was."""
    x = numod.arange(6)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7, 9]


def test_in_place_does_not_broadcast_the_target():
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        numod.ones(3).add_(numod.ones(2, 3))


def test_in_place_does_not_lower_the_category():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        numod.ones(3, dtype=numod.int64).add_(numod.ones(3))


def test_in_place_refuses_expanded_targets():
    with pytest.raises(RuntimeError, match="single memory location"):
        numod.zeros(1).expand(3).add_(1)


def test_out():
    out = numod.empty(3)
    assert numod.exp(numod.zeros(3), out=out) is out
    assert out.tolist() == [1.0, 1.0, 1.0]
