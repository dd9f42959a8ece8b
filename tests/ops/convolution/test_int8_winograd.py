"""The convolution of bytes by Winograd's method, against sums of integers by NumPy."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import numod
from numod.core.apply import apply
from numod.device import target
from numod.kernel.any_size import for_all_sizes
from numod.kernel.registers import byte_tiles, byte_winograd
from numod.kernel.registers.primitives import byte_winograd as plain
from numod.kernel.registers.vectors import host
from numod.ops.convolution import int8, int8_winograd
from numod.ops.convolution.int8_winograd import pack_byte_winograd, transformed_tap

pytestmark = pytest.mark.skipif(not byte_winograd.runs(), reason="for processors with AVX2 or AVX-512")
CASES = {  # images (N, H, W, C), filters, padding
    "whole tiles": ((1, 16, 16, 32), 64, (1, 1)),
    "parts of tiles": ((2, 13, 14, 64), 64, (1, 1)),
    "without padding": ((1, 19, 18, 32), 128, (0, 0)),
    "wide padding": ((1, 13, 12, 32), 64, (2, 3)),
    "several blocks": ((3, 12, 12, 96), 64, (1, 1)),
}


def example(name, dtype, extreme=False):
    random, (images, filters, padding) = np.random.default_rng(0), CASES[name]
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    shape = filters, 3, 3, images[3]
    x = random.integers(low, high + 1, images).astype(dtype)
    weight = random.integers(-128, 128, shape).astype("int8")
    if extreme:
        x, weight = random.choice([low, high], images).astype(dtype), random.choice([-128, 127], shape).astype("int8")
        x[0], weight[:2] = low if dtype == "int8" else high, [[[[-128]]], [[[127]]]]
    offset = random.integers(-1000, 1000, filters).astype("int32")
    inputs = x, weight, offset, (random.random(filters) * 0.001).astype("float32")
    return inputs, ((1, 1), padding, (1, 1), 1, low + 5, low + 10, low + 7, high - 3)


def reference(x, weight, offset, multiplier, _, padding, __, ___, fill, zero, low, high):
    wide = np.pad(x.astype("int64"), ((0, 0), *((pad, pad) for pad in padding), (0, 0)), constant_values=fill)
    windows = sliding_window_view(wide, (3, 3), (1, 2))
    total = np.einsum("nyxcij,oijc->nyxo", windows, weight.astype("int64")) + offset
    return np.clip(np.rint(total.astype("float32") * multiplier) + zero, low, high)


def transformed(inputs, attributes):
    tensors = tuple(map(numod.from_numpy, inputs))
    packed = apply(pack_byte_winograd, (tensors[1],), ())
    return apply(int8.winograd_byte_convolution, (*tensors, packed), attributes).numpy()


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_integers_are_exact(name, dtype, extreme):
    inputs, attributes = example(name, dtype, extreme)
    assert np.array_equal(transformed(inputs, attributes), reference(*inputs, *attributes))


def test_most_channels_at_the_extremes():
    """All sums are the greatest that a tile may have; the products before them wrap around."""
    channels = byte_winograd.MOST_CHANNELS // 32 * 32
    for x, weight in ((-128, -128), (127, -128), (-128, 127)):
        inputs = (
            np.full((1, 16, 16, channels), x, "int8"), np.full((64, 3, 3, channels), weight, "int8"),
            np.zeros(64, "int32"), np.full(64, 3e-6, "float32"),
        )  # fmt: skip
        attributes = (1, 1), (1, 1), (1, 1), 1, 0, 0, -128, 127
        assert np.array_equal(transformed(inputs, attributes), reference(*inputs, *attributes))


def test_threads_share_the_tiles():
    inputs, attributes = example("several blocks", "uint8")
    before = numod.get_num_threads()
    try:
        for count in (1, 2, 5):
            numod.set_num_threads(count)
            assert np.array_equal(transformed(inputs, attributes), reference(*inputs, *attributes))
    finally:
        numod.set_num_threads(before)


def chosen(images, filters, taps=(3, 3), stride=(1, 1), padding=(1, 1), groups=1):
    x = numod.zeros(images, dtype=numod.uint8)
    weight = numod.zeros((filters, *taps, images[3] // groups), dtype=numod.int8)
    return int8.byte_convolution.prepack((x._layout, weight._layout), (stride, padding, (1, 1), groups, 0, 0, 0, 255))


def test_shapes_for_which_it_is_chosen():
    assert chosen((1, 32, 32, 64), 64).product is int8.winograd_byte_convolution
    assert chosen((1, 32, 32, 64), 64).exported.product is int8.packed_byte_convolution
    others = [
        chosen((1, 32, 32, 64), 60), chosen((1, 32, 32, 60), 64), chosen((1, 32, 32, 256), 64),
        chosen((1, 4, 4, 64), 64), chosen((1, 32, 32, 64), 64, stride=(2, 2)), chosen((1, 32, 32, 64), 64, (1, 3)),
        chosen((1, 32, 32, 128), 128, groups=2), chosen((1, 5, 5, 64), 64), chosen((1, 16, 16, 224), 512),
    ]  # fmt: skip
    assert all(packing.product is int8.packed_byte_convolution for packing in others)
    token = for_all_sizes.set(True)
    try:
        assert chosen((1, 32, 32, 64), 64).product is int8.packed_byte_convolution
    finally:
        for_all_sizes.reset(token)


@pytest.mark.parametrize("dilation", [(1, 1), (1, 2)])  # Winograd's method, and patches
def test_memory_is_for_as_many_workers_as_run(monkeypatch, dilation):
    """Another thread may set the number of threads between the two."""
    (x, weight, *others), (*geometry, _, _, _, zero, low, high) = example("several blocks", "uint8")
    fill = 77  # of no other test: a plan keeps the function that allocates
    tensors, attributes = tuple(map(numod.from_numpy, (x, weight))), (*geometry, dilation, 1, fill, zero, low, high)
    backend, before, memories, guard = tensors[0]._layout.device.backend, numod.get_num_threads(), [], 1 << 18

    def scratch(parts):
        sizes = [count * dtype.itemsize for count, dtype in parts]
        memories[:] = [np.full(size + guard, 165, "uint8") for size in sizes]
        numod.set_num_threads(2)
        return [memory[:size].view(dtype) for memory, size, (_, dtype) in zip(memories, sizes, parts)]

    packing = int8.byte_convolution.prepack(tuple(tensor._layout for tensor in tensors), attributes)
    packed = apply(packing.op, tensors[1:], packing.attributes)
    monkeypatch.setattr(backend, "scratch", scratch)
    try:
        numod.set_num_threads(1)
        apply(packing.product, (*tensors, *map(numod.from_numpy, others), packed), attributes)
    finally:
        numod.set_num_threads(before)
    assert memories and all((memory[-guard:] == 165).all() for memory in memories)


@pytest.mark.parametrize(
    "kind, pixels, channels, filters, is_faster",
    [
        ("vnni", (1, 24, 24), 32, 64, True), ("vnni", (1, 20, 20), 32, 64, False), ("vnni", (1, 12, 12), 64, 512, False),
        ("vnni", (1, 14, 14), 128, 128, True), ("vnni", (1, 14, 14), 64, 256, False), ("vnni", (0, 9, 9), 64, 64, False),
        ("pairs", (1, 24, 24), 16, 16, True), ("pairs", (1, 16, 16), 16, 16, False), ("pairs", (1, 8, 8), 16, 128, True),
        ("pairs", (1, 8, 8), 32, 32, False), ("pairs", (1, 4, 8), 128, 128, False), ("pairs", (1, 9, 9), 64, 64, False),
    ],
)  # fmt: skip
def test_small_images_and_few_channels_have_direct_sums(monkeypatch, kind, pixels, channels, filters, is_faster):
    """Where Winograd's method took 1.0 to 1.6 times as long."""
    monkeypatch.setattr(byte_tiles, "products", lambda: kind)
    assert int8_winograd._is_faster(pixels, channels, filters) is is_faster


def test_the_functions_in_plain_python():
    """One tile through all three, beside direct sums; the last row and column of outputs are missing."""
    random, lanes, filters = np.random.default_rng(1), host().lanes(2), byte_winograd.panel()
    x, weight = random.integers(-128, 128, (6, 6, lanes)), random.integers(-128, 128, (filters, 3, 3, lanes))
    tiles, sums = np.zeros((36, lanes), "int16"), np.zeros((36, byte_winograd.ROWS, filters), "int32")
    plain.byte_winograd_tile(x.astype("int8").ravel(), 0, 6 * lanes, lanes, tiles.ravel(), 0, lanes)
    for point, tile in enumerate(tiles):
        lines = [transformed_tap(*(weight[:, k, j] for j in range(3)), point % 6) for k in range(3)]
        taps = transformed_tap(*lines, point // 6).astype("int16").reshape(filters, lanes // 2, 2)
        words = np.ascontiguousarray(taps.transpose(1, 0, 2)).view("int32").ravel()
        plain.byte_winograd_product(tile, 0, lanes, words, 0, sums[point].ravel(), 0, lanes // 2, 1)
    count, step = host().lanes(4), sums[0].size
    out, added, scales = np.full((4, 4, count), 99), np.arange(count), np.full(count, 1e-4, "float32")
    plain.byte_winograd_outputs(
        sums.ravel(), 0, step, added, 0, scales, 0, out.ravel(), 0, 4 * count, count, 3, 3, -90, 90, 5
    )  # fmt: skip
    windows = sliding_window_view(x, (3, 3), (0, 1))
    total = np.einsum("yxcij,oijc->yxo", windows, weight[:count]) + added
    expected = np.clip(np.rint(total.astype("float32") * scales), -90, 90) + 5
    assert np.array_equal(out[:3, :3], expected[:3, :3])
    assert (out[3] == 99).all() and (out[:, 3] == 99).all()


AVX2 = """
import numpy as np, numod
from numod.core.apply import apply
from numod.ops.convolution import int8, int8_winograd
random = np.random.default_rng(0)
x, weight = random.choice([0, 255], (1, 16, 15, 48)), random.choice([-128, 127], (48, 3, 3, 48))
x[0, :8], weight[:2] = 255, -128
wide, total = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=9), 0
for y, column in np.ndindex(3, 3):
    total = total + wide[:, y : y + 16, column : column + 15] @ weight[:, y, column].T
tensors = [numod.tensor(x.astype("uint8")), numod.tensor(weight.astype("int8"))]
packed = apply(int8_winograd.pack_byte_winograd, (tensors[1],), ())
tensors += [numod.zeros(48, dtype=numod.int32), numod.full((48,), 1e-5), packed]
result = apply(int8.winograd_byte_convolution, tensors, ((1, 1), (1, 1), (1, 1), 1, 9, 128, 0, 255)).numpy()
expected = np.rint(total.astype("float32") * np.float32(1e-5)) + 128
assert np.array_equal(result, np.clip(expected, 0, 255))
"""


@pytest.mark.skipif("+avx2" not in target.features().split(","), reason="needs AVX2")
def test_with_avx2():
    environment = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": target.LEVELS["x86-64-v3"]}
    subprocess.run([sys.executable, "-c", AVX2], env=environment, check=True)
