"""Products of bytes against NumPy's of 64-bit integers, also at the extremes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.device import target
from numod.kernel.registers import byte_tiles
from numod.ops.matmul.int8 import ByteProduct

SHAPES = [(1, 1, 1), (3, 5, 2), (17, 64, 49), (9, 131, 100), (40, 30, 48), (65, 258, 7)]


def _bytes(shape, dtype, seed=0):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("rows", "inner", "columns"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_bytes_is_exact(dtype, rows, inner, columns, transposed):
    a, b = _bytes((rows, inner), dtype), _bytes((columns, inner) if transposed else (inner, columns), "int8", 1)
    x, y = numod.tensor(a), numod.tensor(b)
    result = numod._int_mm(x, y.T if transposed else y)
    assert result.dtype is numod.int32
    np.testing.assert_array_equal(result.numpy(), a.astype("int64") @ (b.T if transposed else b).astype("int64"))


@pytest.mark.parametrize("left", [-128, 127])
@pytest.mark.parametrize("right", [-128, 127])
def test_extremes_do_not_saturate(left, right):
    a, b = numod.full((20, 1030), left, dtype=numod.int8), numod.full((1030, 70), right, dtype=numod.int8)
    assert (numod._int_mm(a, b) == left * right * 1030).all()


def test_views_with_any_steps_and_a_given_result():
    a, b = _bytes((60, 90), "int8"), _bytes((180, 110), "int8", 1)
    x, y, out = numod.tensor(a), numod.tensor(b), numod.empty(45, 55, dtype=numod.int32)
    assert numod._int_mm(x[:, ::2].T, y[:180:3, ::2], out=out) is out
    np.testing.assert_array_equal(out.numpy(), a[:, ::2].T.astype("int64") @ b[:180:3, ::2].astype("int64"))


def test_threads_share_it_alike():
    a = numod.tensor(_bytes((70, 300), "int8"))
    b = numod.tensor(_bytes((300, 500), "int8", 1))
    before = numod.get_num_threads()
    try:
        result = []
        for count in (1, 2):
            numod.set_num_threads(count)
            result.append(numod._int_mm(a, b))
    finally:
        numod.set_num_threads(before)
    assert (result[0] == result[1]).all()


def test_empty_products_and_refusals():
    a = numod.ones(3, 4, dtype=numod.int8)
    assert numod._int_mm(a[:0], a.T).shape == (0, 3)
    assert (numod._int_mm(a[:, :0], a.T[:0]) == 0).all()
    for arguments, words in [((a, a), "self.size\\(1\\) needs to match mat2.size\\(0\\) but got 4 and 3"), ((a.float(), a.T), "self dtype to be int8 or uint8"),
                             ((a, a.T.int()), "mat2 dtype to be of type int8"),
                             ((a[0], a.T), "self to be of dimension 2 but got 1")]:  # fmt: skip
        with pytest.raises(RuntimeError, match=words):
            numod._int_mm(*arguments)


def test_words_follow_the_features():
    products_of = byte_tiles.products_of
    assert products_of(["+avx512f", "+avx512bw", "+avx512vnni", "+avx512vl"], 64) == byte_tiles.VNNI
    assert products_of(["+avx2", "+avxvnni"], 32) == byte_tiles.VNNI
    assert products_of(["+avx2"], 32, compact=True) == byte_tiles.SATURATING
    assert products_of(["+avx512f", "+avx512bw"], 64) == byte_tiles.SATURATING
    assert products_of(["+avx2"], 32) == byte_tiles.PAIRS
    assert products_of(["+avx512f"], 64) == products_of(["+neon"], 16) == byte_tiles.PAIRS


@pytest.mark.usefixtures("without_vnni")
def test_pairs_of_sixteen_bits_give_the_same():
    a, b = numod.tensor(_bytes((21, 67), "int8")), numod.tensor(_bytes((67, 60), "int8", 1))
    expected = a.numpy().astype("int64") @ b.numpy().astype("int64")
    np.testing.assert_array_equal(apply(ByteProduct("_int_mm_pairs"), (a, b)).numpy(), expected)


SATURATING = """
import numpy as np
import numod
from numod.core.apply import apply
from numod.kernel.registers import byte_tiles
from numod.ops.matmul import int8_linear

assert (byte_tiles.products(), byte_tiles.products(compact=True)) == (byte_tiles.PAIRS, byte_tiles.SATURATING)
random = np.random.default_rng(0)
inner, columns = 100, 70
for rows in (1, 5, 37):
    for most, least in ((127, -128), (127, 127), (128, 127), (255, 127), (255, -128)):
        x = np.full((rows, inner), most, "uint8")
        x[:, ::7] = random.integers(0, most, x[:, ::7].shape)
        w = np.full((columns, inner), least, "int8")
        w[:, ::5] = random.integers(-128, 128, w[:, ::5].shape)
        sums = x.astype("int64") @ w.T.astype("int64")
        assert (numod._int_mm(numod.tensor(x), numod.tensor(w).T).numpy() == sums).all()
        layer = numod.ao.nn.quantized.Linear(inner, columns, bias_=False)
        layer.set_weight_bias(numod._make_per_tensor_quantized_tensor(numod.tensor(w), 1.0, 0), None)
        layer.scale, layer.zero_point = 2.0**14, 128
        q = layer(numod._make_per_tensor_quantized_tensor(numod.tensor(x), 1.0, 0))
        expected = np.clip(np.rint(sums / 2.0**14) + 128, 0, 255)
        assert (q.int_repr().numpy() == expected).all()
    x = random.choice([0, 127, 128, 255], (rows, inner)).astype("uint8")
    w = random.choice([-128, -127, 127], (columns, inner)).astype("int8")
    sums = x.astype("int64") @ w.T.astype("int64")
    for op in (int8_linear.packed_byte_linear, int8_linear.packed_byte_row):
        packed = apply(int8_linear.pack_bytes, (numod.tensor(w),), byte_tiles.packed_format(columns, op.compact))
        ends = numod.zeros(columns, dtype=numod.int32), numod.full((columns,), 2.0**-14)
        q = apply(op, (numod.tensor(x), numod.tensor(w), *ends, packed), (100, 0, 255))
        assert (q.numpy() == np.clip(np.rint(sums / 2.0**14) + 100, 0, 255)).all()
    floats, scale = x.astype("float32") - 128, numod.ones(columns)
    floats[0, :2] = -128, 127  # so that a step of the range is 1
    for op in (int8_linear.dynamic_linear, int8_linear.packed_dynamic_linear):
        packed = apply(int8_linear.pack_bytes, (numod.tensor(w),), byte_tiles.packed_format(columns, compact=True))
        packed = (packed,)[: len(op.inputs) - 4]
        y = apply(op, (numod.tensor(floats), numod.tensor(w), scale, 0 * scale, *packed), (255,))
        assert (y.numpy() == floats.astype("int64") @ w.T.astype("int64")).all()
    for byte, place in ((128, 0), (255, inner - 1), (200, 64)):  # one great byte in a tile
        x = np.full((rows, inner), 127, "uint8")
        x[rows // 2, place] = byte
        w = np.full((columns, inner), 127, "int8")
        sums = x.astype("int64") @ w.T.astype("int64")
        assert (numod._int_mm(numod.tensor(x), numod.tensor(w).T).numpy() == sums).all()
x = random.integers(0, 256, (1, 8, 9, 9)).astype("uint8")
convolution = numod.nn.Conv2d(8, 12, 3, padding=1, bias=False).requires_grad_(False)
convolution.weight.copy_(numod.tensor(random.integers(-128, 128, (12, 8, 3, 3)).astype("float32")))
layer = numod.ao.nn.quantized.Conv2d(8, 12, 3, padding=1, bias=False)
layer.set_weight_bias(numod.quantize_per_tensor(convolution.weight, 1.0, 0, numod.qint8), None)
layer.scale, layer.zero_point = 2.0**12, 100
for most in (127, 255):
    values = np.minimum(x, most)
    q = layer(numod._make_per_tensor_quantized_tensor(numod.tensor(values), 1.0, 0)).int_repr().numpy()
    expected = np.rint(convolution(numod.tensor(values.astype("float32"))).numpy() / 2.0**12) + 100
    assert (q == np.clip(expected, 0, 255)).all()
"""


@pytest.mark.skipif("+avx2" not in target.features().split(","), reason="needs AVX2")
def test_products_that_saturate_are_exact():
    """AVX2 adds two products of bytes in 16 bits: exact for bytes up to 127, else by 16-bit numbers.

    Static products of several rows have words of 16-bit numbers, single rows and dynamic ones words of bytes.
    """
    features = target.LEVELS["x86-64-v3"]
    environment = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features}
    subprocess.run([sys.executable, "-c", SATURATING], env=environment, check=True)
