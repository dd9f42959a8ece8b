"""Pooling of bytes with channels innermost, against loops over windows in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from selection import pairwise

import numod
from numod.core.apply import apply
from numod.device import target
from numod.ops import contract
from numod.ops.image import byte_pooling

CASES = {  # images (N, H, W, C), kernel, stride, padding, dilation, sizes
    "halves": ((2, 6, 8, 3), (2, 2), (2, 2), (0, 0), (1, 1), (3, 4)),
    "overlapping, padded": ((1, 7, 9, 70), (3, 2), (2, 1), (1, 1), (1, 1), (4, 10)),
    "one channel": ((3, 5, 33, 1), (3, 3), (1, 2), (1, 1), (1, 1), (5, 17)),
    "adaptive": ((1, 7, 5, 6), (4, 3), (0, 0), (0, 0), (1, 1), (2, 3)),
    "whole": ((2, 7, 7, 65), (7, 7), (7, 7), (0, 0), (1, 1), (1, 1)),
    "apart": ((1, 9, 9, 4), (2, 3), (1, 1), (1, 1), (3, 2), (8, 7)),
    "padding only": ((2, 1, 3, 2), (2, 2), (1, 1), (1, 1), (2, 2), (1, 3)),
    "no image": ((0, 4, 4, 3), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)),
}
BY_STEPS = [name for name in CASES if name not in ("apart", "padding only")]


def example(name, dtype):
    (shape, *attributes), random = CASES[name], np.random.default_rng(1)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True), tuple(attributes)


def bounds(o, n, out, kernel, stride, pad, step):
    """(the elements of a window inside the image, its size with the border)."""
    if not stride:
        elements = range(o * n // out, -(-(o + 1) * n // out))
        return list(elements), len(elements)
    elements = range(o * stride - pad, o * stride - pad + kernel * step, step)
    return [k for k in elements if 0 <= k < n], len([k for k in elements if k < n + pad])


def windows(x, kernel, stride, padding, dilation, sizes):
    """The elements (N, count, C) of each window as int64, with its size with the border."""
    for oh, ow in np.ndindex(*sizes):
        rows, columns = (
            bounds(o, *arguments)
            for o, *arguments in zip((oh, ow), x.shape[1:3], sizes, kernel, stride, padding, dilation)
        )
        part = x[:, rows[0]][:, :, columns[0]].astype("int64")
        yield (oh, ow), part.reshape(len(x), len(rows[0]) * len(columns[0]), x.shape[3]), rows[1] * columns[1]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_maxima(name, dtype):
    x, attributes = example(name, dtype)
    result = apply(byte_pooling.max_pool_bytes, (numod.from_numpy(x),), (*attributes, False, 0, 0))
    assert result.dtype is getattr(numod, dtype) and result.shape == (len(x), *attributes[4], x.shape[3])
    for (oh, ow), part, _ in windows(x, *attributes):
        lowest = np.iinfo(dtype).min  # of a window without elements
        np.testing.assert_array_equal(result.numpy()[:, oh, ow], part.max(1, initial=lowest))


@pytest.mark.parametrize("name, dtype, counts, has_floats", pairwise(
    list(BY_STEPS), ["uint8", "int8"], [(True, 0), (False, 0), (True, 3)], [True, False], others=pytest.mark.fuzz
))  # fmt: skip
def test_means_are_those_of_values(name, dtype, counts, has_floats, monkeypatch):
    counts_borders, divisor = counts
    monkeypatch.setattr(target, "has_floats", lambda: has_floats)
    (x, attributes), zero = example(name, dtype), 101 if dtype == "uint8" else -7
    op = byte_pooling.BytePool(f"average_bytes_{has_floats}", byte_pooling.mean_kernel, np.dtype("int32"))
    result = apply(op, (numod.from_numpy(x),), (*attributes, counts_borders, divisor, zero)).numpy()
    limits = np.iinfo(dtype)
    for (oh, ow), part, size in windows(x, *attributes):
        count = divisor or (size if counts_borders else part.shape[1])
        expected = np.rint((part - zero).sum(1) / count + zero)  # a half goes to the even integer
        np.testing.assert_array_equal(result[:, oh, ow], np.clip(expected, limits.min, limits.max))


def test_quantized_images_are_pooled_as_integers():
    q = numod.quantize_per_tensor(numod.randn(2, 5, 6, 7), 0.05, 90, numod.quint8)
    images = q.contiguous(memory_format=numod.channels_last)
    functions = numod.nn.functional
    for function, *arguments in (
        (functions.avg_pool2d, 3, 2, 1),
        (functions.adaptive_avg_pool2d, (2, 3)),
        (functions.adaptive_avg_pool2d, 1),
        (functions.max_pool2d, 3, 2, 1),
    ):
        expected = function(q.dequantize(), *arguments)
        for source in (q, images):
            result = function(source, *arguments)
            assert (result.q_scale(), result.q_zero_point()) == (q.q_scale(), q.q_zero_point())
            assert (result.dequantize() - expected).abs().max() <= 0.05 * 0.501
        single = function(q[0], *arguments)  # without a batch: through floats
        assert (single.dequantize() - expected[0]).abs().max() <= 0.05 * 0.501


@pytest.mark.parametrize("zero", [3, 4])
@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_halves_go_where_floats_would(zero, dtype):
    integers = numod.arange(0, 96, dtype=getattr(numod, dtype[1:])).reshape(2, 3, 4, 4)
    q = numod._make_per_tensor_quantized_tensor(integers, 0.5, zero)
    expected = numod.quantize_per_tensor(
        numod.nn.functional.avg_pool2d(q.dequantize(), (2, 1)), 0.5, zero, getattr(numod, dtype)
    )
    assert numod.nn.functional.avg_pool2d(q, (2, 1)).int_repr().equal(expected.int_repr())


def test_results_of_channels_last_images_stay_so():
    q = numod.quantize_per_tensor(numod.randn(2, 5, 6, 8), 0.05, 90, numod.quint8)
    images = q.contiguous(memory_format=numod.channels_last)
    result = numod.nn.functional.max_pool2d(images, 2)
    assert result.int_repr().is_contiguous(memory_format=numod.channels_last)


def test_calls_that_do_not_fit_are_refused_in_programs():
    x, attributes = example("halves", "uint8")
    layouts = [numod.from_numpy(x)._layout]
    contract.check(byte_pooling.max_pool_bytes, layouts, (*attributes, False, 0, 0))
    with pytest.raises(ValueError, match="zero must be an integer"):
        contract.check(byte_pooling.average_pool_bytes, layouts, (*attributes, False, 0, -1))
    with pytest.raises(ValueError, match="must fit windows"):
        contract.check(byte_pooling.max_pool_bytes, layouts, (*attributes[:4], (9, 9), False, 0, 0))
    with pytest.raises(ValueError, match="exceed 32-bit sums"):
        contract.check(byte_pooling.average_pool_bytes, layouts, (*attributes, True, 1 << 32, 0))
    with pytest.raises(ValueError, match="int8 or uint8"):
        contract.check(byte_pooling.max_pool_bytes, [numod.zeros(2, 6, 8, 3)._layout], (*attributes, False, 0, 0))
