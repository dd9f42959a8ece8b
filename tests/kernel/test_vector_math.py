"""The vectorised elementary functions against wider arithmetic, over the whole range of float32 and float64, and that
their loops are vectors.
"""

import math
import os
import platform
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import numod
from numod.device import cpu
from numod.kernel import bind, build
from numod.kernel.registers import tiles

WIDE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
}  # fmt: skip
WIDE |= {"sin": np.sin, "cos": np.cos, "tan": np.tan}
WIDE |= {
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
WIDE |= {"erf": np.vectorize(math.erf, [np.float64]), "erfc": np.vectorize(math.erfc, [np.float64])}
# units in the last place, 2 for those not named
MOST = {"exp": 1, "log": 1, "log1p": 1, "exp2": 1, "erf": 1, "erfc": 5, "sinh": 2.5, "tanh": 2.4, "asin": 2.5, "tan": 4}
EDGES = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, 5e-324, -5e-324, 1e-45, -1e-45, 1e-310, 1.2e-38,
    3.4e38, -3.4e38, 1.7e308, -1.7e308,
]  # fmt: skip


def arguments(dtype):
    """Numbers of every magnitude, many of the usual ones, and the edges of the format."""
    random = np.random.default_rng(5)
    kind = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    anything = random.integers(0, np.iinfo(kind).max, 20_000, dtype=kind, endpoint=True).view(dtype)
    usual = [random.uniform(-most, most, 10_000).astype(dtype) for most in (0.01, 1.0, 10.0, 110.0, 800.0)]
    with np.errstate(over="ignore"):
        return np.concatenate([anything, *usual, np.array(EDGES).astype(dtype)])


def errors(got, wanted):
    """Distance of results from the wanted numbers, in units in the last place of these; 0 for equal infinities and
    NaN.
    """
    with np.errstate(all="ignore"):
        nearest = wanted.astype(got.dtype)
        unit = np.spacing(np.abs(np.where(np.isfinite(nearest), nearest, 1)))
        distance = np.abs(got.astype(wanted.dtype) - wanted) / unit
    return np.where((got == nearest) | (np.isnan(got) & np.isnan(nearest)), 0, np.nan_to_num(distance, nan=np.inf))


@pytest.mark.parametrize("name", WIDE)
def test_float32_against_float64(name):
    x = arguments(np.float32)
    with np.errstate(all="ignore"):
        wanted = WIDE[name](x.astype(np.float64))
    got = getattr(numod, name)(numod.from_numpy(x)).numpy()
    # the tenth is needed by exp and erf on processors without FMA
    assert errors(got, wanted).max() <= MOST.get(name, 2) + 0.1
    assert (np.signbit(got) == np.signbit(wanted))[(wanted == 0) | np.isinf(wanted)].all()


def test_float32_without_fma():
    code = (
        "import math, numod\nprint([abs(getattr(numod, name)(numod.tensor(42781604.0)).item() / getattr(math, "
        "name)(42781604.0) - 1) < 3e-7 for name in ('sin', 'cos', 'tan')])"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment).stdout
        == "[True, True, True]\n"
    )


@pytest.mark.parametrize("name", WIDE)
def test_float64_against_long_double(name):
    if name not in ("erf", "erfc") and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("this machine has no wider float")
    x = arguments(np.float64)
    with np.errstate(all="ignore"):
        # the C library's erf is good to one unit itself
        wanted = WIDE[name](x if name in ("erf", "erfc") else x.astype(np.longdouble))
    got = getattr(numod, name)(numod.from_numpy(x)).numpy()
    assert errors(got, wanted).max() <= MOST.get(name, 2) + (1 if name in ("erf", "erfc") else 0.05)
    assert (np.signbit(got) == np.signbit(wanted))[(wanted == 0) | np.isinf(wanted)].all()


@pytest.mark.parametrize(
    "kind, wide, lift, least", [("float32", np.float64, 25, -104.6), ("float64", np.longdouble, 55, -746.0)]
)
def test_lifted_exp(kind, wide, lift, least):
    if np.finfo(wide).nmant < 52 or (wide is np.longdouble and np.finfo(wide).nmant < 63):
        pytest.skip("this machine has no wider float")
    random = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        x = -np.abs(
            np.concatenate([random.uniform(0, most, 20_000) for most in (1e-3, 1, 90, 110, 750)] + [EDGES])
        ).astype(kind)
        wanted = np.where(x < np.array(least, kind), 0, np.exp(x.astype(wide)) * 2.0**lift)
    source = "def kernel(x, out):\n    for k in range(out.shape[0]):\n        out[k] = lifted_exp(x[k])\n"
    got = np.empty_like(x)
    build.build(cpu, "lifted_exp", bind.headed(source, cpu), f"{kind}[], {kind}[]").launch(x, got)
    assert errors(got, wanted).max() <= 1.01 and not np.signbit(got[got == 0]).any()
    assert got[x == 0].tolist() == [2.0**lift] * int((x == 0).sum())


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin"])
def test_loops_are_vectors_without_calls(name, monkeypatch):
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    source = f"def kernel(x, out):\n    for k in range(out.shape[0]):\n        out[k] = {name}(x[k])\n"
    kernel = build.build(cpu, name, bind.headed(source, cpu), "float32[], float32[]")
    text = kernel.translate().library.get_llvm_str()
    assert re.search(r"fmul.*<\d+ x float>", text)
    assert not re.search(rf"call .*@{name}f?\(", text)


@pytest.mark.parametrize("kind, size", [("float", 4), ("double", 8)])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_functions_with_branches_are_called_for_registers(name, kind, size, monkeypatch):
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    source = f"def kernel(x, out):\n    for k in range(out.shape[0]):\n        out[k] = {name}(x[k]) + x[k]\n"
    kernel = build.build(cpu, name, bind.headed(source, cpu), ", ".join([f"float{8 * size}[]"] * 2))
    text = kernel.translate().library.get_llvm_str()
    lanes = tiles.host().lanes(size)
    assert re.search(rf"call .*<{lanes} x {kind}> @numod_{name}_{lanes}_{kind}_whole\(<{lanes} x {kind}> %wide", text)


PROCESSORS = [
    "haswell", "znver3", "znver4", "znver5", "skylake-avx512", "cascadelake", "icelake-server", "rocketlake",
    "sapphirerapids", "graniterapids",
]  # fmt: skip
COMPILED_FOR_EACH = """
import re, sys
import numba
from numod.device import cpu
from numod.kernel.registers import vectors
from numod.kernel import bind, build

source = "def kernel(x, out):\\n    for k in range(out.shape[0]):\\n        out[k] = sin(x[k]) + x[k]\\n"
for name in sys.argv[1:]:
    wide = name not in ("haswell", "znver3")
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = name, "+avx2,+fma" + ",+avx512f,+avx512bw,+avx512dq,+avx512vl" * wide
    vectors.host.cache_clear()
    text = build.build(cpu, "sin", bind.headed(source, cpu), "float32[], float32[]").translate().library.get_llvm_str()
    lanes = 16 if wide else 8
    print(name, bool(re.search(rf"call .*<{lanes} x float> @numod_sin_{lanes}_float_whole\\(<{lanes} x float> %wide", text)))
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="processors of another architecture")
def test_functions_with_branches_are_called_for_registers_on_every_processor() -> None:
    """LLVM prefers 256-bit loops for some of them.

    In a process of its own, which compiles for processors that it need not have and runs nothing.
    """
    completed = subprocess.run(
        [sys.executable, "-c", COMPILED_FOR_EACH, *PROCESSORS],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMOD_CACHE_DIR": ""},
    )
    assert completed.stdout.splitlines() == [f"{name} True" for name in PROCESSORS], completed.stderr


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_near_multiples_of_a_quarter_turn(name):
    """Where a reduced argument loses most digits, on both sides of 2^16, where its reduction changes."""
    x = (np.arange(-50_000, 50_000) * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf))])
    wanted = getattr(np, name)(x.astype(np.float64))
    got = getattr(numod, name)(numod.from_numpy(x)).numpy()
    assert (np.abs(got - wanted) / np.spacing(np.abs(wanted).astype(np.float32))).max() <= MOST.get(name, 2)


@pytest.mark.parametrize("dtype, most", [(np.float32, 5), (np.float64, 6)])
def test_erfinv(dtype, most):
    """By how far erf of the result, or erfc near one, is from the argument, in units of the result's last place."""
    random = np.random.default_rng(9)
    x = np.concatenate(
        [random.uniform(-1, 1, 5000), 10 ** random.uniform(-30, 0, 2000), 1 - 10 ** random.uniform(-18, 0, 2000)]
    ).astype(dtype)
    x = x[np.abs(x) < 1]
    got = numod.erfinv(numod.from_numpy(x)).numpy()
    y = got.astype(np.float64)
    rest = [
        math.erf(b) - a if abs(a) < 0.5 else math.copysign(1, a) * ((1 - abs(a)) - math.erfc(abs(b)))
        for a, b in zip(x.astype(np.float64), y)
    ]
    assert (np.abs(rest) * (math.sqrt(math.pi) / 2) * np.exp(y * y) / np.spacing(np.abs(got))).max() <= most
    ends = numod.tensor([1.0, -1.0, 1.5, math.nan, 0.0, -0.0], dtype=numod.dtypes.from_numpy(dtype)).erfinv().numpy()
    np.testing.assert_array_equal(ends, np.array([np.inf, -np.inf, np.nan, np.nan, 0, 0]))
    assert np.signbit(ends[5])


@pytest.mark.parametrize("dtype, wide", [(np.float32, np.float64), (np.float64, np.longdouble)])
def test_atan2(dtype, wide):
    if np.finfo(wide).nmant < 52 or (wide is np.longdouble and np.finfo(wide).nmant < 63):
        pytest.skip("this machine has no wider float")
    random = np.random.default_rng(8)
    pairs = [
        (random.normal(0, 1, 20_000), random.normal(0, 1, 20_000)),
        (np.exp(random.uniform(-80, 80, 20_000)), -np.exp(random.uniform(-80, 80, 20_000))),
    ]
    pairs.append([grid.ravel() for grid in np.meshgrid(EDGES, EDGES)])
    with np.errstate(all="ignore"):
        y, x = (np.concatenate(pair).astype(dtype) for pair in zip(*pairs))
        wanted = np.arctan2(y.astype(wide), x.astype(wide))
    got = numod.atan2(numod.from_numpy(y), numod.from_numpy(x)).numpy()
    assert errors(got, wanted).max() <= 2.01
    assert (np.signbit(got) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.parametrize("dtype, wide, most", [(np.float32, np.float64, 0.51), (np.float64, np.longdouble, 0.9)])
def test_power(dtype, wide, most):
    if np.finfo(wide).nmant < 52 or (wide is np.longdouble and np.finfo(wide).nmant < 63):
        pytest.skip("this machine has no wider float")
    random = np.random.default_rng(6)
    far = 80 if dtype is np.float32 else 700
    pairs = [
        (np.exp(random.uniform(-far, far, 20_000)), random.uniform(-2, 2, 20_000)),
        (random.uniform(0, 3, 20_000), random.uniform(-far, far, 20_000)),
    ]
    special = np.array(
        [
            *EDGES,
            3,
            -3,
            2.5,
            -2.5,
            16777215,
            -16777215,
            33554432,
            2.0**53 - 1,
            -(2.0**53 - 1),
            2.0**53,
            1e300,
            -1e300,
            1 - 2.0**-53,
        ]
    )
    pairs.append([grid.ravel() for grid in np.meshgrid(special, special)])
    with np.errstate(all="ignore"):
        x, y = (np.concatenate(pair).astype(dtype) for pair in zip(*pairs))
        wanted = np.power(x.astype(wide), y.astype(wide))
    got = numod.pow(numod.from_numpy(x), numod.from_numpy(y)).numpy()
    assert errors(got, wanted).max() <= most
    with np.errstate(over="ignore", under="ignore"):
        assert (np.signbit(got) == np.signbit(wanted.astype(dtype)))[~np.isnan(wanted)].all()


def pairs_of(dtype):
    """Pairs of numbers of every magnitude, of usual ones, of whole ones and of edges."""
    random, kind = np.random.default_rng(4), {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    anything = random.integers(0, np.iinfo(kind).max, (2, 5000), dtype=kind, endpoint=True).view(dtype)
    usual = np.stack([random.normal(0, 100, 5000), random.normal(0, 1, 5000)]).astype(dtype)
    whole = random.integers(-100, 100, (2, 5000)).astype(dtype)
    with np.errstate(over="ignore"):
        edges = np.stack([grid.ravel() for grid in np.meshgrid(EDGES, EDGES)]).astype(dtype)
    return np.concatenate([anything, usual, whole, edges], axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype):
    x, y = pairs_of(dtype)
    with np.errstate(all="ignore"):
        part = np.fmod(x, y)  # of the C library, which is exact
        wanted = np.where((part != 0) & (np.signbit(part) != np.signbit(y)), part + y, part)
    for name, numbers in (("fmod", part), ("remainder", wanted)):
        got = getattr(numod, name)(numod.from_numpy(x), numod.from_numpy(y)).numpy()
        np.testing.assert_array_equal(got, numbers)
        assert (np.signbit(got) == np.signbit(numbers))[~np.isnan(numbers)].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floor_divide(dtype):
    x, y = pairs_of(dtype)
    got = numod.floor_divide(numod.from_numpy(x), numod.from_numpy(y)).numpy()
    for a, b, quotient in zip(x.tolist(), y.tolist(), got.tolist()):
        if b and math.isfinite(a) and math.isfinite(b) and abs(Fraction(a) / Fraction(b)) < 2**20:
            assert quotient == Fraction(a) // Fraction(b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got[y == 0], (x / y)[y == 0])


@pytest.mark.parametrize("dtype, wide", [(np.float32, np.float64), (np.float64, np.longdouble)])
def test_hypot(dtype, wide):
    if np.finfo(wide).nmant < 52 or (wide is np.longdouble and np.finfo(wide).nmant < 63):
        pytest.skip("this machine has no wider float")
    x, y = pairs_of(dtype)
    with np.errstate(all="ignore"):
        wanted = np.hypot(x.astype(wide), y.astype(wide))
    assert errors(numod.hypot(numod.from_numpy(x), numod.from_numpy(y)).numpy(), wanted).max() <= 1.2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round(dtype):
    x = np.concatenate([arguments(dtype), np.arange(-50, 50).astype(dtype) / 2])
    got = numod.round(numod.from_numpy(x)).numpy()
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        np.testing.assert_array_equal(got, np.rint(x))
    assert (np.signbit(got) == np.signbit(x))[~np.isnan(x)].all()


def test_roundings_of_a_loop_vectorised_by_two() -> None:
    """18 rows of 2: the rest of such a loop has vectors of two, which `llvm.canonicalize` cannot be compiled for."""
    x, y = numod.randn(18, 2, generator=numod.Generator().manual_seed(1)), numod.tensor([1.5, 2.5])

    def rounded(x: numod.Tensor) -> numod.Tensor:
        return (x * y).floor().clamp(-1, 1) + (x + y).round().clamp(0, 9) + (x - y).ceil() + (x / y).trunc()

    compiled = numod.compile(rounded)
    compiled(x)
    assert numod.equal(compiled(x), rounded(x))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_roundings_keep_the_sign_of_zero(dtype: str) -> None:
    values = np.array([-0.0, 0.0, -0.5, 0.5, -0.3, 0.3, 1.5, -2.5, np.inf, -np.inf, np.nan] * 3, dtype)
    for name, reference in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("round", np.rint)):
        result, expected = getattr(numod.from_numpy(values), name)().numpy(), reference(values)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
