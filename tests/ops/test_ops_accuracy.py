"""Values and gradients of pointwise rows against mpmath at difficult points, within the bars of `shared/accuracy` and
`shared/two_inputs`. mpmath takes most of the time.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import numod
from accuracy import ROOTS, UNARY, around, exact, ulps
from cases import check
from numod.ops.pointwise import rows
from selection import diagonals
from two_inputs import BINARY

INF, NAN = float("inf"), float("nan")
SIXTEEN_BITS = numod.float16, numod.bfloat16


@pytest.mark.parametrize("name, dtype", diagonals(list(UNARY), [np.float32, np.float64], 2, others=pytest.mark.fuzz))
def test_row(name, dtype):
    row, wide = UNARY[name], dtype is np.float64
    points, values, slopes = exact(name, dtype)
    x = numod.tensor(points, requires_grad=row.gradient is not None)
    actual = rows[name](x, *row.numbers)
    off = {point: ulps(result, right, dtype) for point, result, right in zip(points, actual.tolist(), values)}
    assert max(off.values()) <= row.value[wide], max(off.items(), key=lambda item: item[1])
    if row.gradient is None:
        return
    (gradient,) = numod.autograd.grad(actual, x, numod.ones_like(actual))
    off = {
        point: ulps(slope, right, dtype, row.slack) for point, slope, right in zip(points, gradient.tolist(), slopes)
    }
    assert max(off.values()) <= row.gradient[wide], max(off.items(), key=lambda item: item[1])


@pytest.mark.parametrize("name, dtype", diagonals(list(BINARY), [np.float32, np.float64], 2, others=pytest.mark.fuzz))
def test_row_of_two_inputs(name, dtype):
    check(BINARY[name], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter_is_exact(dtype):
    limits = np.finfo(dtype)
    points = [0.0, -0.0, limits.smallest_subnormal, limits.tiny, 1.0, 1.0 + limits.eps, 2.0, limits.max, INF, NAN]
    points = np.array([*points, *(-x for x in points)], dtype)
    x, y = np.repeat(points, len(points)), np.tile(points, len(points))
    with np.errstate(over="ignore"):
        expected = np.nextafter(x, y)
    actual = numod.nextafter(numod.tensor(x), numod.tensor(y)).numpy()
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual)[expected == 0], np.signbit(expected)[expected == 0])


@pytest.mark.parametrize("name", ROOTS)
def test_digits_near_roots(name):
    points = [x for root in ROOTS[name] for x in around(root)]
    result = rows[name](numod.tensor(points, dtype=numod.float64)).tolist()
    with mp.workdps(60):
        off = {x: ulps(number, UNARY[name].exact(mp.mpf(x)), np.float64) for x, number in zip(points, result)}
    assert max(off.values()) <= 8, max(off.items(), key=lambda item: item[1])


def test_digamma_near_roots_below_zero():
    points = np.linspace(-9.99, -0.01, 400)
    points = points[np.abs(points - np.round(points)) > 0.2]
    for x, actual in zip(points.tolist(), rows["digamma"](numod.tensor(points)).tolist()):
        assert abs(actual - mp.digamma(x)) < 2e-15, (x, actual)


def fits_sixteen_bits(x):
    """Whether a point is in range, and does not become 1 by rounding (a pole or the end of a domain)."""
    return 1e-3 <= abs(x) < 1e3 and not (0.99 < abs(x) < 1.002 and abs(x) != 1.0)


def check_rounded_once(call, exact, rows_of_points, dtype):
    """The result is the float next to the exact value of the rounded inputs; 0.502 lets float32 round in between."""
    columns = [numod.tensor(column, dtype=dtype) for column in zip(*rows_of_points)]
    limit = float(numod.finfo(dtype).max)
    for actual, *point in zip(call(*columns).tolist(), *[column.tolist() for column in columns]):
        with mp.workdps(60):
            right = exact(*map(mp.mpf, point))
        assert abs(right) > limit or ulps(actual, right, dtype) <= 0.502, (point, actual, right)


@pytest.mark.parametrize("name, dtype", diagonals(list(UNARY), SIXTEEN_BITS, 4, others=pytest.mark.fuzz))
def test_sixteen_bit_rows_round_once(name, dtype):
    row = UNARY[name]
    points = [(x,) for x in row.points if fits_sixteen_bits(x)]
    check_rounded_once(lambda x: rows[name](x, *row.numbers), row.exact, points, dtype)


@pytest.mark.parametrize(
    "name, dtype",
    diagonals(
        [name for name in BINARY if "of order" not in name and name != "multigammaln"],
        SIXTEEN_BITS,
        2,
        others=pytest.mark.fuzz,
    ),
)
def test_sixteen_bit_rows_of_two_inputs_round_once(name, dtype):
    case = BINARY[name]
    points = [row for row in case.points if all(map(fits_sixteen_bits, row))]
    check_rounded_once(case.call, case.exact, points, dtype)


def gradients(function, *values):
    points = [numod.tensor(value, dtype=numod.float32, requires_grad=True) for value in values]
    return [gradient.tolist() for gradient in numod.autograd.grad(function(*points).sum(), points)]


def test_cross_entropy_with_logits_keeps_small_losses_and_gradients():
    x = numod.tensor([-20.0, 20.0, -80.0, 80.0, 0.5], requires_grad=True)
    target = numod.tensor([0.0, 1.0, 0.0, 1.0, 0.25])
    loss = numod.nn.functional.binary_cross_entropy_with_logits(x, target, reduction="none")
    np.testing.assert_allclose(
        loss.tolist(),
        [np.log1p(np.exp(-20.0))] * 2 + [np.exp(-80.0)] * 2 + [0.75 * 0.5 + np.log1p(np.exp(-0.5))],
        rtol=1e-6,
    )
    (gradient,) = numod.autograd.grad(loss.sum(), x)
    tail, far = np.exp(-20.0) / (1 + np.exp(-20.0)), np.exp(-80.0)
    np.testing.assert_allclose(gradient.tolist(), [tail, -tail, far, -far, 1 / (1 + np.exp(-0.5)) - 0.25], rtol=1e-6)


def test_angles_of_tiny_and_huge_numbers():
    result = gradients(numod.atan2, [1e-30, 1e30, INF, 1.0, 0.0, 3.0], [2e-30, 2e30, 1.0, INF, 0.0, 4.0])
    np.testing.assert_allclose(result, [[4e29, 4e-31, 0, 0, 0, 0.16], [-2e29, -2e-31, 0, 0, 0, -0.12]], rtol=1e-6)


def test_running_log_sums_beside_masked_and_infinite_values():
    one = lambda values: gradients(lambda x: x.logcumsumexp(0), values)[0]  # noqa: E731
    np.testing.assert_allclose(one([-3.4e38, 1.0]), [1, 1])
    np.testing.assert_allclose(one([-INF, -INF, 1.0]), [0, 0, 1])
    np.testing.assert_allclose(one([1.0, INF, 2.0]), [1, NAN, 0])
    np.testing.assert_allclose(one([0.0, 0.0]), [1.5, 0.5], rtol=1e-6)
    x = numod.randn(3, 5, 2, dtype=numod.float64, requires_grad=True)
    assert numod.autograd.gradgradcheck(lambda x: x.logcumsumexp(1), x, fast_mode=True)


def test_gradients_that_are_zero_where_a_logarithm_is_infinite():
    assert gradients(lambda x, y: numod.xlogy(x, y), [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradients(lambda x: rows["i1"](x), [100.0]) == [[INF]]
    assert gradients(lambda x: numod.nn.functional.gelu(x, approximate="tanh"), [1e30, -1e30]) == [[1.0, 0.0]]


@pytest.mark.parametrize("dtype", [numod.float16, numod.bfloat16])
def test_sixteen_bit_floats_are_compared_with_rounded_numbers(dtype):
    x = numod.full((3,), 0.1, dtype=dtype)
    for other in (0.1, numod.tensor(0.1, dtype=numod.float64)):
        assert (
            (x == other).all()
            and (x <= other).all()
            and (x >= other).all()
            and not (x > other).any()
            and not (x != other).any()
        )
    assert (numod.full((1,), 2048.0, dtype=numod.float16) == numod.tensor([2049])).all()
