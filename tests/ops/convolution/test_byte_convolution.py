"""The convolution of bytes with a requantizing epilogue, against sums of integers by NumPy."""

import numpy as np
import pytest
from selection import diagonals

import numod
from numod.core.apply import apply
from numod.device import target
from numod.kernel.registers import byte_tiles
from numod.kernel.registers.primitives import integers as primitives
from numod.ops.convolution import int8, int8_depthwise
from numod.ops.convolution.int8 import byte_convolution

CASES = {  # images (N, H, W, C), filters (O, KH, KW), stride, padding, dilation, groups
    "whole words": ((2, 9, 11, 8), (16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "rows apart": ((1, 9, 8, 4), (5, 3, 1), (1, 2), (2, 0), (2, 1), 1),
    "several panels": ((1, 5, 8, 3), (70, 3, 2), (2, 1), (1, 0), (1, 2), 1),
    "depthwise": ((2, 6, 5, 20), (20, 3, 3), (2, 1), (1, 1), (1, 1), 20),
    "depthwise, several registers": ((1, 7, 8, 150), (150, 5, 3), (1, 1), (0, 1), (1, 2), 150),
    "depthwise, one register": ((1, 5, 5, 64), (64, 3, 3), (1, 2), (1, 1), (2, 1), 64),
    "groups": ((2, 6, 6, 8), (12, 3, 3), (1, 2), (1, 1), (1, 1), 4),
    "line": ((1, 1, 30, 5), (7, 1, 3), (1, 2), (0, 1), (1, 1), 1),
    "panels of two vectors": ((1, 6, 9, 7), (30, 2, 3), (1, 2), (0, 1), (2, 1), 1),
    "a line of one word": ((2, 4, 5, 2), (6, 3, 1), (1, 1), (1, 1), (1, 1), 1),
    "many rows of few filters": ((1, 3, 40, 3), (17, 3, 5), (1, 1), (1, 2), (1, 1), 1),
    "one channel": ((1, 5, 5, 1), (1, 5, 5), (1, 1), (2, 2), (1, 1), 1),
}


def example(name, dtype):
    """(the inputs, the attributes) of a case."""
    random = np.random.default_rng(0)
    images, (filters, *taps), *settings = CASES[name]
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    x = random.integers(low, high + 1, images).astype(dtype)
    weight = random.integers(-128, 128, (filters, *taps, images[3] // settings[3])).astype("int8")
    offset = random.integers(-1000, 1000, filters).astype("int32")
    return (x, weight, offset, (random.random(filters) * 0.01).astype("float32")), (*settings, 5, 10, 10, high)


def reference(x, weight, offset, multiplier, stride, padding, dilation, groups, fill, zero, low, high):
    wide = np.pad(x.astype("int64"), ((0, 0), *((pad, pad) for pad in padding), (0, 0)), constant_values=fill)
    sizes = [
        (size - gap * (tap - 1) - 1) // step + 1
        for size, tap, gap, step in zip(wide.shape[1:3], weight.shape[1:3], dilation, stride)
    ]
    total = np.zeros((len(x), *sizes, len(weight)), "int64") + offset
    depth, filters = weight.shape[3], len(weight) // groups
    for ky, kx in np.ndindex(*weight.shape[1:3]):
        rows, columns = (
            slice(k * gap, k * gap + (size - 1) * step + 1, step)
            for k, gap, size, step in zip((ky, kx), dilation, sizes, stride)
        )
        for group in range(groups):
            part, outputs = slice(group * depth, (group + 1) * depth), slice(group * filters, (group + 1) * filters)
            total[..., outputs] += wide[:, rows, columns, part] @ weight[outputs, ky, kx].astype("int64").T
    return np.clip(np.rint(total.astype("float32") * multiplier) + zero, low, high)


@pytest.mark.parametrize("name, dtype", diagonals(list(CASES), ["uint8", "int8"], 2, others=pytest.mark.fuzz))
def test_integers_are_exact(name, dtype):
    inputs, attributes = example(name, dtype)
    result = apply(byte_convolution, tuple(map(numod.from_numpy, inputs)), attributes)
    assert result.dtype is getattr(numod, dtype)
    assert np.array_equal(result.numpy(), reference(*inputs, *attributes))
    tensors = tuple(map(numod.from_numpy, inputs))
    packing = byte_convolution.prepack([tensor._layout for tensor in tensors], attributes)
    assert (packing is None) == name.startswith("depthwise")
    if packing is not None:
        packed = apply(packing.op, (tensors[1],), packing.attributes)
        assert (apply(packing.product, (*tensors, packed), attributes) == result).all()


def test_words_of_two_numbers(monkeypatch):
    """Processors without VNNI multiply 16-bit numbers."""
    monkeypatch.setattr(byte_tiles, "products", lambda compact=False: byte_tiles.PAIRS)
    a, b, out = np.array([0xFFFF0003], "uint32"), np.zeros(byte_tiles.shape(1).panel, "uint32"), np.zeros(1, "int64")
    b[0] = 0x0002FFFB  # 3 * -5 + -1 * 2
    primitives.byte_rows[1](a, 0, 1, 0, b, 0, [7], 0, [0.5], 0, out, 0, 1, 1, 1, 1, 1, -100, 100, 20)
    assert out[0] == 15


def test_depthwise_sums_without_words_of_bytes(monkeypatch):
    """The path of processors without VNNI."""
    monkeypatch.setattr(int8_depthwise.depthwise_words, "runs", lambda: False)
    inputs, attributes = example("depthwise", "int8")
    result = apply(int8.ByteConvolution("plain_depthwise"), tuple(map(numod.from_numpy, inputs)), attributes)
    assert np.array_equal(result.numpy(), reference(*inputs, *attributes))


def test_the_vector_form_of_a_pixel_is_the_plain_one():
    lanes = int8_depthwise.depthwise_words.lanes()
    random = np.random.default_rng(3)
    x, words = random.integers(0, 256, 2 * lanes).astype("uint8"), random.integers(0, 1 << 32, lanes).astype("uint32")
    out, added, scales = np.zeros(lanes, "int64"), np.arange(lanes), np.full(lanes, 0.001, "float32")
    taps = np.array([0, lanes, 5, 1])
    primitives.depthwise_bytes(x, 0, taps, 0, 1, words, 0, added, 0, scales, 0, out, 0, 7, -100, 100, 3)
    for channel in range(7):
        number = next(
            k
            for k in range(lanes)
            if int8_depthwise.depthwise_words.channel_of(k // (lanes // 4), k % (lanes // 4)) == channel
        )
        weights = words[number : number + 1].view("int8").astype(int)
        total = (weights * x[channel + taps].astype(int)).sum() + number
        assert abs(out[channel] - 3 - min(max(total * 0.001, -100), 100)) <= 0.51
    assert not out[7:].any()


def test_wrong_calls_are_refused():
    inputs, attributes = example("groups", "uint8")
    with pytest.raises(RuntimeError, match="larger than the padded input"):
        small = numod.from_numpy(inputs[0][:, :1, :1].copy())
        apply(byte_convolution, (small, *map(numod.from_numpy, inputs[1:])), ((1, 1), (0, 0), *attributes[2:]))
    sizes = {"c": 8, "d": 3, "o": 12}
    assert "do not fit" in byte_convolution.check(tuple(map(numod.from_numpy, inputs)), attributes, sizes)


@pytest.mark.parametrize("has_floats", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_without_vectors(name, has_floats, monkeypatch):
    monkeypatch.setattr(target, "has_vectors", lambda: False)
    monkeypatch.setattr(target, "has_floats", lambda: has_floats)
    inputs, attributes = example(name, "uint8")
    op = int8.ByteConvolution(f"byte_convolution_without_vectors_{has_floats}")
    result = apply(op, tuple(map(numod.from_numpy, inputs)), attributes)
    assert np.array_equal(result.numpy(), reference(*inputs, *attributes))
