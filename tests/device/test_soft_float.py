"""Floating point of integer instructions, compiled for this machine and compared with NumPy's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from numod.device import helpers, soft_float

COUNT = 500
TYPES = {32: ctypes.c_uint32, 64: ctypes.c_uint64}
FORMATS = {"f": (np.float32, np.uint32, 32, "f32"), "d": (np.float64, np.uint64, 64, "f64")}


@pytest.fixture(scope="module")
def function() -> Callable[[str], Callable]:
    """The machine code of a helper, by name."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly("")
    for name in soft_float._BY_NAME:
        module.link_in(llvm.parse_assembly(helpers.text_of(name, 64)))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()

    def get(name: str) -> Callable:
        kinds, result, _ = soft_float._BY_NAME[name]
        kind = ctypes.CFUNCTYPE(TYPES[result], *[TYPES[operand] for operand in kinds])
        call = kind(engine.get_function_address(name))
        return lambda *arrays: np.array([call(*map(int, operands)) for operands in zip(*arrays)], np.uint64)

    get.engine = engine  # which owns the code
    return get


def samples(kind: str, seed: int) -> np.ndarray:
    """Bits: any, of common numbers, of subnormal ones, and special ones."""
    number, word, width, _ = FORMATS[kind]
    random = np.random.default_rng(seed)
    any_ = random.integers(0, (1 << width) - 1, COUNT, dtype=np.uint64)
    common = (random.standard_normal(COUNT) * 10.0 ** random.integers(-3, 3, COUNT)).astype(number).view(word)
    small = random.integers(0, 1 << (width // 2), COUNT // 4, dtype=np.uint64)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3], number).view(word)
    special = np.repeat(special, 8) if seed else np.tile(special, 8)
    return np.concatenate([words.astype(word) for words in (any_, common, small, special)])


def agree(bits: np.ndarray, want: np.ndarray) -> bool:
    """Whether these are the bits of the numbers; all NaN are alike."""
    word = np.uint32 if want.itemsize == 4 else np.uint64
    got = bits.astype(word)
    return bool(((got == want.view(word)) | (np.isnan(got.view(want.dtype)) & np.isnan(want))).all())


@pytest.mark.parametrize("kind", FORMATS)
@np.errstate(all="ignore")
def test_arithmetic_and_comparisons_are_ieee(kind: str, function: Callable) -> None:
    number, _, _, name = FORMATS[kind]
    x, y = samples(kind, 0), samples(kind, 1)
    a, b = x.view(number), y.view(number)
    for word, reference in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
        assert agree(function(f"__aeabi_{kind}{word}")(x, y), reference(a, b)), word
    assert agree(function(f"numod_root_{name}")(x), np.sqrt(a))
    pairs = ("eq", np.equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)
    for word, reference in pairs:
        want = reference(a, b)
        assert np.array_equal(function(f"__aeabi_{kind}cmp{word}")(x, y), want), word
        sign = function(f"__{word}{'sf' if kind == 'f' else 'df'}2")(x, y).astype(np.uint32).view(np.int32)
        assert np.array_equal(reference(sign, 0), want), word


@pytest.mark.parametrize("kind", FORMATS)
@np.errstate(all="ignore")
def test_conversions_are_those_of_numpy(kind: str, function: Callable) -> None:
    number, word, _, _ = FORMATS[kind]
    x = samples(kind, 0)
    a = x.view(number)
    for name, integer in (("i", np.int32), ("l", np.int64), ("ui", np.uint32), ("ul", np.uint64)):
        limits = np.iinfo(integer)
        whole = np.random.default_rng(0).integers(limits.min, limits.max, COUNT, dtype=integer)
        whole = np.concatenate([whole, np.array([0, 1, 3, limits.max, limits.min], integer)])
        bits = whole.view(np.uint32 if whole.itemsize == 4 else np.uint64)
        assert agree(function(f"__aeabi_{name}2{kind}")(bits), whole.astype(number)), name
        inside = a[np.isfinite(a) & (np.abs(a) < 2**31 - 200)]
        inside = np.abs(inside) if name.startswith("u") else inside
        got = function(f"__aeabi_{kind}2{name}z")(inside.view(word)).astype(bits.dtype).view(integer)
        assert np.array_equal(got, inside.astype(integer)), name
    other = np.float64 if kind == "f" else np.float32
    assert agree(function("__aeabi_f2d" if kind == "f" else "__aeabi_d2f")(x), a.astype(other))


def test_integers_of_64_bits_by_parts(function: Callable) -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, (1 << 64) - 1, (2, COUNT), dtype=np.uint64)
    shift = random.integers(0, 64, COUNT, dtype=np.uint64)
    assert np.array_equal(function("__aeabi_lmul")(x, y), x * y)
    assert np.array_equal(function("__aeabi_llsl")(x, shift), x << shift)
    assert np.array_equal(function("__aeabi_llsr")(x, shift), x >> shift)
    signed = (x.view(np.int64) >> shift.astype(np.int64)).view(np.uint64)
    assert np.array_equal(function("__aeabi_lasr")(x, shift), signed)
    bits = np.array([0, 1, 5, 1 << 31, 1 << 20], np.uint64)
    assert function("__clzsi2")(bits).tolist() == [32, 31, 29, 0, 11]
