"""Pointwise rows without tensor inputs: constants, ranges, and random numbers against Philox in Python integers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.ops.pointwise import rows

pytestmark = pytest.mark.on_cuda(simulator=False)


def constant(name, inputs, shape, dtype=numod.float64):
    return apply(rows[name], inputs, (dtype, numod.device("cpu"), shape)).numpy()


def philox(seed, counter, block=0):
    """Philox4x32-10 (Salmon et al., 2011) in Python integers: four words for a 64-bit key and the counter (counter,
    block).
    """
    mask = 0xFFFFFFFF
    key, words = [seed & mask, seed >> 32 & mask], [counter & mask, counter >> 32 & mask, block, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(b >> 32) ^ words[1] ^ key[0], b & mask, (a >> 32) ^ words[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return words


def unit(high, low, wide=True):
    """A number in [0, 1): 53 bits of two words, or 24 of the first."""
    return (high << 21 | low >> 11) / 2**53 if wide else (high >> 8) / 2**24


def words(seed, offset, k):
    """Those of element k: its lane of four blocks, which it shares with three neighbours."""
    return [philox(seed, offset + k // 4, group)[k % 4] for group in range(4)]


def uniforms(seed, offset, count, wide=True):
    return np.array([unit(*words(seed, offset, k)[:2], wide) for k in range(count)])


def normals(seed, offset, count, wide=True):
    """Box and Muller, 1958."""
    pairs = [(unit(w[0], w[1], wide), unit(w[2], w[3], wide)) for w in (words(seed, offset, k) for k in range(count))]
    return np.array([math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v) for u, v in pairs])


def belows(seed, offset, bound, count):
    """64 bits times the bound, over 2^64; of a bound beyond 32 bits 63 bits modulo the bound."""
    numbers = [high << 32 | low for high, low, *_ in (words(seed, offset, k) for k in range(count))]
    return np.array([number * bound >> 64 if bound < 1 << 32 else (number >> 1) % bound for number in numbers])


def test_philox_known_answers():
    """From the authors' Random123, kat_vectors."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_index_counts_in_row_major_order():
    np.testing.assert_array_equal(constant("index", (), (2, 3), numod.int64), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("dtype", [numod.float32, numod.int64, numod.uint8, numod.bool])
def test_fill(dtype):
    np.testing.assert_array_equal(constant("fill", (1,), (2, 3), dtype), np.ones((2, 3), dtype.numpy))


def test_arange_row():
    np.testing.assert_allclose(constant("arange", (0.5, 0.25), (5,)), np.arange(5) * 0.25 + 0.5)


def test_linspace_row():
    np.testing.assert_allclose(
        constant("linspace", (-1.0, 3.0, 4.0 / 6, 3, 6), (7,)), np.linspace(-1, 3, 7), rtol=1e-15
    )


SEED = 0x1234_5678_9ABC


@pytest.mark.parametrize("offset", [0, 5, 2**32 - 1])
def test_random_uniform(offset):
    np.testing.assert_array_equal(constant("random_uniform", (SEED, offset), (11,)), uniforms(SEED, offset, 11))


def test_random_numbers_of_float32():
    """24 bits, exact; the same leading bits as in float64."""
    np.testing.assert_array_equal(
        constant("random_uniform", (SEED, 5), (11,), numod.float32), uniforms(SEED, 5, 11, False).astype(np.float32)
    )
    np.testing.assert_allclose(
        constant("random_normal", (SEED, 5), (11,), numod.float32), normals(SEED, 5, 11, False), rtol=2e-5, atol=1e-6
    )


def test_random_normal():
    np.testing.assert_allclose(
        constant("random_normal", (SEED, 7), (11,)), normals(SEED, 7, 11), rtol=1e-12, atol=1e-14
    )


def test_random_below():
    np.testing.assert_array_equal(constant("random_below", (SEED, 7, 10), (11,), numod.int64), belows(SEED, 7, 10, 11))


@pytest.mark.parametrize("bound", [1, 2**32 - 1, 2**32, 2**62 + 1])
def test_random_below_of_any_bound(bound):
    np.testing.assert_array_equal(
        constant("random_below", (SEED, 7, bound), (11,), numod.int64), belows(SEED, 7, bound, 11)
    )


@pytest.mark.parametrize("dtype", [numod.float32, numod.float64])
@pytest.mark.parametrize("shape", [(1,), (255,), (257,), (1030,), (3, 5), (5, 301), (2, 3, 259)])
def test_strips_of_random_numbers(dtype, shape):
    """A processor's loop draws them for many elements at once, whose first need not begin a block: rows of any length,
    broadcast inputs.
    """
    count, wide = math.prod(shape), dtype is numod.float64
    mean, std = numod.arange(shape[-1]).to(dtype), numod.ones((*shape[:-1], 1), dtype=dtype) * 2
    expected = normals(SEED, 3, count, wide).reshape(shape) * 2 + np.arange(shape[-1])
    np.testing.assert_allclose(
        apply(rows["normal"], (SEED, 3, mean, std), (None,)).numpy(), expected, rtol=1e-12 if wide else 2e-5, atol=1e-5
    )
    np.testing.assert_array_equal(
        constant("random_uniform", (SEED, 5), shape, dtype), uniforms(SEED, 5, count, wide).reshape(shape)
    )
    survives = apply(rows["dropout"], (numod.ones(shape, dtype=dtype), 0.3, SEED, 6), (None,)).numpy() != 0
    np.testing.assert_array_equal(
        survives, uniforms(SEED, 6, count, wide).reshape(shape) >= np.asarray(0.3, dtype.numpy)
    )


def test_uniform_row():
    np.testing.assert_allclose(
        constant("uniform", (SEED, 3, -2.0, 4.0), (2, 5)),
        uniforms(SEED, 3, 10).reshape(2, 5) * 6 - 2,
        rtol=1e-14,
        atol=1e-14,
    )
    np.testing.assert_allclose(
        constant("exponential", (SEED, 3, 2.0), (2, 5)), -np.log1p(-uniforms(SEED, 3, 10)).reshape(2, 5) / 2, rtol=1e-13
    )


def test_normal_row():
    np.testing.assert_allclose(
        constant("normal", (SEED, 3, 1.0, 2.0), (2, 5)),
        normals(SEED, 3, 10).reshape(2, 5) * 2 + 1,
        rtol=1e-12,
        atol=1e-13,
    )


def test_randint_row():
    np.testing.assert_array_equal(constant("randint", (SEED, 3, -4, 9), (10,), numod.int64), belows(SEED, 3, 9, 10) - 4)


def test_bernoulli_row():
    p = np.linspace(0, 1, 12).reshape(3, 4)
    result = rows["bernoulli"](numod.tensor(p), SEED, 3).numpy()
    np.testing.assert_array_equal(result, uniforms(SEED, 3, 12).reshape(3, 4) < p)


def test_bernoulli_of_a_transposed_tensor_counts_in_row_major_order():
    p = np.full((3, 4), 0.5)
    result = rows["bernoulli"](numod.tensor(p).t(), SEED, 3).numpy()
    np.testing.assert_array_equal(result, uniforms(SEED, 3, 12).reshape(4, 3) < 0.5)


def test_dropout_row_and_gradient():
    x = numod.tensor(np.arange(1.0, 13.0), requires_grad=True)
    result = rows["dropout"](x, 0.25, SEED, 3)
    survives = uniforms(SEED, 3, 12) >= 0.25
    np.testing.assert_allclose(result.detach().numpy(), np.where(survives, np.arange(1.0, 13.0) / 0.75, 0.0))
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), survives / 0.75)


def test_rows_of_any_order_and_runs_are_addressed_right():
    draw = random.Random(1)
    for _ in range(60):
        shape = [draw.choice([1, 2, 3, 5, 9, 17]) for _ in range(draw.randint(2, 4))]
        order = draw.sample(range(len(shape)), len(shape))
        x, y = np.random.default_rng(0).standard_normal((2, *shape))
        cut = tuple(slice(draw.randint(0, 1), None, draw.randint(1, 2)) for _ in shape)
        transposed, plain = numod.tensor(x).permute(order)[cut], numod.tensor(y.transpose(order)[cut].copy())
        assert np.array_equal((transposed * plain).numpy(), x.transpose(order)[cut] * y.transpose(order)[cut])
        target = numod.zeros(*shape, dtype=numod.float64).permute(order)[cut]
        assert np.array_equal(target.copy_(plain).numpy(), y.transpose(order)[cut])
