"""The special functions of registers against series and continued fractions in wider arithmetic, against the C library,
and by what their inverses give.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import special
from numod.device import cpu
from numod.kernel import bind, build
from numod.kernel.registers import tiles

WIDE = np.longdouble
pytestmark = pytest.mark.skipif(np.finfo(WIDE).nmant < 63, reason="this machine has no wider float")
random = np.random.default_rng(7)
POSITIVE = np.concatenate(
    [
        10 ** random.uniform(-300, -2, 500),
        random.uniform(0, 3, 3000),
        random.uniform(3, 30, 1000),
        10 ** random.uniform(1.5, 300, 500),
    ]
)


def errors(function: Callable, x: np.ndarray, wanted: np.ndarray, least: float = 0.0) -> float:
    """The greatest distance from the wanted numbers in units of their last place, or in those of `least` where they are
    smaller.
    """
    got = function(numod.from_numpy(x)).numpy()
    with np.errstate(over="ignore"):
        unit = np.spacing(np.maximum(np.abs(wanted.astype(np.float64)), least))
    return float((np.abs(got - wanted) / unit).max())


def digamma(x: np.ndarray) -> np.ndarray:
    x, total = x.astype(WIDE), np.zeros(x.shape, WIDE)
    for _ in range(40):
        total, x = total - 1 / x, x + 1
    y = 1 / (x * x)
    return (
        total
        + np.log(x)
        - 0.5 / x
        - y * (1 / WIDE(12) - y * (1 / WIDE(120) - y * (1 / WIDE(252) - y * (1 / WIDE(240) - y / 132))))
    )


def lgamma(x: np.ndarray) -> np.ndarray:
    x, total = x.astype(WIDE), np.zeros(x.shape, WIDE)
    for _ in range(40):
        total, x = total - np.log(x), x + 1
    y = 1 / (x * x)
    series = (1 / WIDE(12) - y * (1 / WIDE(360) - y * (1 / WIDE(1260) - y * (1 / WIDE(1680) - y / 1188)))) / x
    return (
        total + (x - WIDE(0.5)) * np.log(x) - x + np.log(2 * (WIDE(np.pi) + WIDE(1.2246467991473532e-16))) / 2 + series
    )


def erfcx(x: np.ndarray) -> np.ndarray:
    """Below 2 by its definition, above by the continued fraction (DLMF 7.9.1)."""
    x, fraction = x.astype(WIDE), np.zeros(x.shape, WIDE)
    for k in range(400, 0, -1):
        fraction = (k / WIDE(2)) / (x + fraction)
    near = np.exp(x * x) * np.vectorize(math.erfc, [float])(x.astype(np.float64)) if (x < 2).all() else 0
    return near if (x < 2).all() else 1 / (x + fraction) / np.sqrt(WIDE(np.pi) + WIDE(1.2246467991473532e-16))


def bessel_i(order: int, x: np.ndarray) -> np.ndarray:
    x = x.astype(WIDE)
    term = x / 2 if order else np.ones(x.shape, WIDE)
    total = term.copy()
    for k in range(1, 200):
        term = term * (x * x / 4) / (k * (k + order))
        total += term
    return total


def test_lgamma():
    assert errors(numod.lgamma, POSITIVE, lgamma(POSITIVE), 0.1) <= 8
    near = np.concatenate([random.uniform(-1e-6, 1e-6, 500), [1e-15, -1e-15]])
    exact = (1.0 + near) - 1.0  # to third order (A&S 6.1.33)
    slopes = -0.5772156649015329 * exact + 0.8224670334241132 * exact**2 - 0.40068563438653143 * exact**3
    np.testing.assert_allclose(numod.lgamma(numod.from_numpy(1.0 + near)).numpy(), slopes, rtol=2e-15)
    beyond = (2.0 + near) - 2.0
    np.testing.assert_allclose(
        numod.lgamma(numod.from_numpy(2.0 + near)).numpy(),
        0.42278433509846714 * beyond + 0.3224670334241132 * beyond**2 - 0.0673523010531981 * beyond**3,
        rtol=2e-15,
    )
    below = random.uniform(-30, 0, 2000)
    # near its zeros only the sum of two is left
    assert errors(numod.lgamma, below, np.array([math.lgamma(x) for x in below]), 1.0) <= 40
    ends = numod.lgamma(
        numod.tensor([0.0, -0.0, -1.0, -20.0, 1.0, 2.0, 3.0, math.inf, -math.inf, 1e306, 5e-324], dtype=numod.float64)
    ).tolist()
    assert ends == [math.inf] * 4 + [
        0.0,
        0.0,
        math.log(2),
        math.inf,
        math.inf,
        math.inf,
        pytest.approx(math.lgamma(5e-324)),
    ]
    assert math.isnan(numod.lgamma(numod.tensor([math.nan])).item())


def test_digamma():
    assert errors(numod.digamma, POSITIVE, digamma(POSITIVE), 1.0) <= 8
    below = random.uniform(-20, 0, 2000)
    part = (below - np.rint(below)).astype(WIDE)
    wanted = digamma(1 - below.astype(WIDE)) - WIDE(np.pi) / np.tan((WIDE(np.pi) + WIDE(1.2246467991473532e-16)) * part)
    assert errors(numod.digamma, below, wanted, 8.0) <= 12


def test_erfcx():
    for x in (random.uniform(-1.5, 1.9, 2000), random.uniform(2.5, 60, 2000), 10 ** random.uniform(2, 300, 500)):
        assert errors(special.erfcx, x, erfcx(x)) <= 8


def test_log_ndtr():
    x = random.uniform(-30, 8, 3000)
    chance = np.array(
        [
            0.5 * math.erfc(-math.sqrt(0.5) * point) if point < 0 else -0.5 * math.erfc(math.sqrt(0.5) * point)
            for point in x
        ]
    ).astype(WIDE)
    wanted = np.where(x < 0, np.log(np.where(x < 0, chance, 1)), np.log1p(np.where(x < 0, 0, chance)))
    # erfc magnifies the rounding of its argument
    np.testing.assert_allclose(special.log_ndtr(numod.from_numpy(x)).numpy(), wanted.astype(float), rtol=2e-15 * 150)


def test_ndtri():
    """By how far the chance of being below the result is from the argument, in units of the result's last place."""
    p = np.concatenate([random.uniform(0, 1, 3000), 10 ** random.uniform(-300, 0, 1000)])
    z = special.ndtri(numod.from_numpy(p)).numpy()
    rest = np.array(
        [
            math.log(0.5 * math.erfc(-math.sqrt(0.5) * b)) - math.log(a)
            if a < 0.4
            else 0.5 * math.erf(math.sqrt(0.5) * b) - (a - 0.5)
            for a, b in zip(p, z)
        ]
    )
    slope = np.array(
        [math.exp(-b * b / 2 - (math.log(a) if a < 0.4 else 0)) / math.sqrt(2 * math.pi) for a, b in zip(p, z)]
    )
    usual = p > 1e-3  # further out the logarithm's rounding is more than the result's
    assert (np.abs(rest / slope) / np.spacing(np.abs(z)))[usual].max() <= 12
    np.testing.assert_allclose((rest / slope / z)[~usual], 0, atol=1e-14)


@pytest.mark.parametrize("order", [0, 1])
def test_modified_bessel(order):
    x = np.concatenate([random.uniform(-40, 40, 2000), random.uniform(-1e-3, 1e-3, 200), random.uniform(7.9, 8.1, 200)])
    wanted = bessel_i(order, x)
    assert errors((special.i0, special.i1)[order], x, wanted) <= 8
    assert errors((special.i0e, special.i1e)[order], x, wanted * np.exp(-np.abs(x.astype(WIDE)))) <= 5
    ends = numod.tensor([math.inf, -math.inf, math.nan, 1e300], dtype=numod.float64)
    scaled = (special.i0e, special.i1e)[order](ends).tolist()
    assert (
        scaled[0] == 0
        and scaled[1] == 0
        and math.isnan(scaled[2])
        and scaled[3] == pytest.approx(1 / math.sqrt(2e300 * math.pi))
    )


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_by_its_series(order):
    x = np.concatenate([random.uniform(0, 8, 2000), 10 ** random.uniform(-30, 0, 200)])
    wide = x.astype(WIDE)
    term = wide / 2 if order else np.ones(x.shape, WIDE)
    total = term.copy()
    for k in range(1, 60):
        term = -term * (wide * wide / 4) / (k * (k + order))
        total += term
    # in units of what oscillates there
    assert errors((special.bessel_j0, special.bessel_j1)[order], x, total, 0.2) <= 25


def test_bessel_functions_have_their_wronskians():
    """J1 Y0 - J0 Y1 = 2 / (pi x) and I0 K1 + I1 K0 = 1 / x (DLMF 10.5.2, 10.28.2)."""
    x = numod.from_numpy(
        np.concatenate([random.uniform(1e-3, 8, 2000), random.uniform(8, 100, 2000), 10 ** random.uniform(2, 12, 500)])
    )
    first = special.bessel_j1(x) * special.bessel_y0(x) - special.bessel_j0(x) * special.bessel_y1(x)
    np.testing.assert_allclose((first * x).numpy(), 2 / math.pi, rtol=2e-14)
    second = special.i0e(x) * special.scaled_modified_bessel_k1(x) + special.i1e(x) * special.scaled_modified_bessel_k0(
        x
    )
    np.testing.assert_allclose((second * x).numpy(), 1, rtol=3e-15)
    ends = numod.tensor([0.0, -1.0, math.inf, math.nan], dtype=numod.float64)
    for function, at_zero in (
        (special.bessel_y0, -math.inf),
        (special.bessel_y1, -math.inf),
        (special.modified_bessel_k0, math.inf),
        (special.scaled_modified_bessel_k1, math.inf),
    ):
        np.testing.assert_array_equal(function(ends).numpy(), [at_zero, math.nan, 0, math.nan])
    np.testing.assert_array_equal(special.bessel_j0(ends).numpy()[[0, 2, 3]], [1, 0, math.nan])


def test_float32_is_float64_rounded():
    x = POSITIVE[(POSITIVE > 1e-30) & (POSITIVE < 1e30)].astype(np.float32)
    for function in (numod.lgamma, numod.digamma, special.erfcx, special.i0e, special.i1e):
        narrow, wide = function(numod.from_numpy(x)).numpy(), function(numod.from_numpy(x.astype(np.float64))).numpy()
        np.testing.assert_array_equal(narrow, wide.astype(np.float32))


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfcx", "ndtri", "bessel_i0e", "bessel_y1"])
def test_loops_call_functions_of_registers(name, monkeypatch):
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    source = f"def kernel(x, out):\n    for k in range(out.shape[0]):\n        out[k] = {name}(float64(x[k]))\n"
    kernel = build.build(cpu, name, bind.headed(source, cpu), "float32[], float32[]")
    text = kernel.translate().library.get_llvm_str()
    assert f"@numod_{name}_{tiles.host().lanes(8)}_double_whole(<{tiles.host().lanes(8)} x double>" in text
