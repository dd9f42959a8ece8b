"""numod.special: special values, accuracy far out (against values of mpmath to 50 digits), arguments refused, names."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

import numod
from numod import special

pytestmark = pytest.mark.on_cuda(simulator=False)

INF, NAN = math.inf, math.nan

FAR = [  # function, arguments, value
    ("gammaln", (10000000000.0,), 220258509288.81058),
    ("gammaln", (-100.5,), -364.90096830942736),
    ("digamma", (100000000.0,), 18.420680738952367),
    ("digamma", (-40.25,), 6.84907358253225),
    ("polygamma", (1, -10.3), 14.986887065722637),
    ("polygamma", (4, 60.0), -4.786093547771085e-07),
    ("polygamma", (3, 0.001), 6000000000006.469),
    ("zeta", (30.0, 0.25), 1.152921504606847e18),
    ("zeta", (1.5, 1000000.0), 0.002000000500000125),
    ("erfcx", (-20.0,), 1.0442939379528289e174),
    ("erfcx", (200.0,), 0.0028209126572120466),
    ("ndtr", (-3.0,), 0.0013498980316300946),
    ("log_ndtr", (-200.0,), -20006.21728089819),
    ("log_ndtr", (5.0,), -2.866516129637636e-07),
    ("ndtri", (1e-300,), -37.0470962993612),
    ("i0", (30.0,), 781672297823.9775),
    ("i0", (700.0,), 1.5295933476718737e302),
    ("i1e", (1000000.0,), 0.0003989421307980308),
    ("bessel_j0", (100.0,), 0.019985850304223122),
    ("bessel_j1", (10000.0,), 0.0036474507555295803),
    ("bessel_y0", (4.5,), -0.19470500862950454),
    ("bessel_y1", (1e-05,), -63661.97727536548),
    ("modified_bessel_k0", (1e-06,), 13.93144207362642),
    ("modified_bessel_k1", (300.0,), 3.7298958583323724e-132),
    ("scaled_modified_bessel_k1", (100000.0,), 0.003963342160036932),
    ("airy_ai", (0.75,), 0.17933630547864524),
    ("airy_ai", (-0.9,), 0.5319599456109739),
    ("airy_ai", (1.5,), 0.07174949700810541),
    ("airy_ai", (60.0,), 2.7831487094969354e-136),
    ("airy_ai", (-4.5,), 0.2921527810559595),
    ("airy_ai", (-12.0,), -0.06655517505437313),
]


@pytest.mark.parametrize("name, arguments, wanted", FAR, ids=lambda parameter: str(parameter))
def test_values_far_out(name, arguments, wanted):
    result = (
        getattr(special, name)(*arguments[:-1], numod.tensor(arguments[-1], dtype=numod.float64))
        if len(arguments) > 1
        else getattr(special, name)(numod.tensor(arguments[0], dtype=numod.float64))
    )
    assert result.item() == pytest.approx(wanted, rel=2e-14, abs=0.0)


@pytest.mark.parametrize("name, values, wanted", [
    ("gammaln", [0.0, -1.0, 1.0, 2.0, INF, -INF, NAN], [INF, INF, 0.0, 0.0, INF, INF, NAN]),
    ("digamma", [0.0, -0.0, -1.0, INF, NAN], [-INF, INF, NAN, INF, NAN]),
    ("erfcx", [0.0, -INF, INF, -30.0, NAN, 1e300], [1.0, INF, 0.0, INF, NAN, 5.641895835477563e-301]),
    ("ndtri", [0.0, 1.0, 0.5, -0.1, 1.1, NAN], [-INF, INF, 0.0, NAN, NAN, NAN]),
    ("log_ndtr", [INF, -INF, NAN], [0.0, -INF, NAN]),
    ("entr", [0.0, -1.0, INF, 1.0, NAN], [0.0, -INF, -INF, -0.0, NAN]),
    ("i0", [0.0, 800.0, NAN], [1.0, INF, NAN]),
    ("i1", [-0.0, -800.0], [-0.0, -INF]),
    ("bessel_j0", [INF, 0.0, NAN], [0.0, 1.0, NAN]),
    ("bessel_y0", [0.0, -1.0, NAN], [-INF, NAN, NAN]),
    ("modified_bessel_k0", [0.0, -1.0, 1e4, NAN], [INF, NAN, 0.0, NAN]),
])  # fmt: skip
def test_special_values(name, values, wanted):
    np.testing.assert_allclose(
        getattr(special, name)(numod.tensor(values, dtype=numod.float64)).numpy(), wanted, rtol=3e-16
    )


@pytest.mark.parametrize(
    "a, x, lower",
    [
        (0.0, 1.0, 1.0),
        (0.0, 0.0, NAN),
        (1.0, 0.0, 0.0),
        (1.0, INF, 1.0),
        (INF, 1.0, 0.0),
        (INF, INF, NAN),
        (-1.0, 1.0, NAN),
        (1.0, -1.0, NAN),
    ],
)
def test_special_values_of_the_incomplete_gamma_function(a, x, lower):
    a, x = numod.tensor(a), numod.tensor(x)
    np.testing.assert_array_equal([special.gammainc(a, x).item(), special.gammaincc(a, x).item()], [lower, 1 - lower])


@pytest.mark.parametrize(
    "s, q, wanted",
    [
        (1.0, 2.0, INF),
        (0.5, 2.0, NAN),
        (2.0, 0.0, INF),
        (2.0, -3.0, INF),
        (2.5, -0.5, NAN),
        (2.0, -0.5, 4 + math.pi**2 / 2),
    ],
)
def test_special_values_of_zeta(s, q, wanted):
    np.testing.assert_allclose(special.zeta(numod.tensor(s, dtype=numod.float64), q).item(), wanted, rtol=1e-15)


def test_a_far_negative_argument_takes_no_longer():
    """The terms below zero are summed in closed form, not one by one."""
    assert special.polygamma(1, numod.tensor(-1e12 + 0.5, dtype=numod.float64)).item() == pytest.approx(
        math.pi**2, rel=1e-11
    )


def test_float32_is_as_good_as_rounded_float64():
    x = numod.linspace(-20, 20, 101, dtype=numod.float64)
    for name in ("gammaln", "digamma", "erfcx", "log_ndtr", "i0e", "bessel_j1"):
        narrow = x.float()
        wide = getattr(special, name)(narrow.double()).float()
        np.testing.assert_array_equal(getattr(special, name)(narrow).numpy(), wide.numpy())


def test_refused_arguments():
    x = numod.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="does not support negative n"):
        special.polygamma(-1, x)
    with pytest.raises(TypeError, match="must be int, not float"):
        special.polygamma(1.0, x)
    with pytest.raises(RuntimeError, match="greater than or equal to 1"):
        special.multigammaln(x, 0)
    for function in (special.gammainc, special.gammaincc, special.zeta):
        with pytest.raises(NotImplementedError, match="the derivative for '.*' is not implemented"):
            function(x, numod.ones(2)).sum().backward()
        assert function(x.detach() + 1, x).requires_grad
        with numod.no_grad():
            assert not function(x, x).requires_grad


def test_names():
    for name in special.__all__:
        assert callable(getattr(special, name))
    assert numod.special is special


_ANGLE = np.linspace(0.1, 3.0, 7)
_CHEBYSHEV = {  # of cos t
    "t": lambda n, t: np.cos(n * t), "u": lambda n, t: np.sin((n + 1) * t) / np.sin(t), "v": lambda n,
    t: np.cos((n + 0.5) * t) / np.cos(t / 2), "w": lambda n, t: np.sin((n + 0.5) * t) / np.sin(t / 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials_by_angles(kind):
    x, n = numod.tensor(np.cos(_ANGLE)), numod.arange(8).unsqueeze(1)
    wanted = _CHEBYSHEV[kind](np.arange(8)[:, None], _ANGLE)
    np.testing.assert_allclose(getattr(special, f"chebyshev_polynomial_{kind}")(x, n).numpy(), wanted, atol=1e-12)
    np.testing.assert_allclose(
        getattr(special, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, n).numpy(), wanted, atol=1e-12
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("hermite_polynomial_h", "hermite"),
        ("hermite_polynomial_he", "hermite_e"),
        ("laguerre_polynomial_l", "laguerre"),
        ("legendre_polynomial_p", "legendre"),
    ],
)
def test_polynomials_beside_numpys(name, module):
    home = importlib.import_module(f"numpy.polynomial.{module}")
    value = getattr(
        home, {"hermite": "hermval", "hermite_e": "hermeval", "laguerre": "lagval", "legendre": "legval"}[module]
    )
    x = np.linspace(-2, 2, 9)
    for n in range(6):
        np.testing.assert_allclose(
            getattr(special, name)(numod.tensor(x), n).numpy(), value(x, [0] * n + [1]), atol=1e-12
        )
    assert (
        getattr(special, name)(numod.tensor([2, 3]), -1).tolist() == [0, 0]
        and getattr(special, name)(1, numod.tensor([0, 1])).dtype is numod.float32
    )


def test_spherical_bessel_function():
    assert special.spherical_bessel_j0(
        numod.tensor([0.0, np.inf, np.pi / 2], dtype=numod.float64)
    ).tolist() == pytest.approx([1, 0, 2 / np.pi])


def test_polygamma_near_its_poles() -> None:
    for x in (-1e-8, -1e-3, -3 + 1e-7, -3 - 1e-7):
        nearest = x - round(x)
        for n in (1, 2, 3):
            expected = (-1) ** (n + 1) * math.factorial(n) * nearest ** -(n + 1)
            actual = special.polygamma(n, numod.tensor(x, dtype=numod.float64)).item()
            assert actual == pytest.approx(expected, rel=1e-8 if x > -0.1 and abs(nearest) < 1e-5 else 1e-5)
    assert special.polygamma(2, numod.tensor(-1e-8, dtype=numod.float64)).item() == pytest.approx(2e24, rel=1e-14)
