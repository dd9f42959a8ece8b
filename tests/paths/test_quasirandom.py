"""Sobol sequences: the points of the definition, their balance, and PyTorch's scrambling."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.quasirandom import SobolEngine

# m of the dimensions 2 to 4 and their primitive polynomials 3, 7, 11, in Joe and Kuo's list
FIRST = [
    [0, 0, 0, 0],
    [0.5, 0.5, 0.5, 0.5],
    [0.75, 0.25, 0.25, 0.25],
    [0.25, 0.75, 0.75, 0.75],
    [0.375, 0.375, 0.625, 0.875],
    [0.875, 0.875, 0.125, 0.375],
]


def test_first_points():
    assert SobolEngine(4).draw(6).tolist() == FIRST


def test_points_go_on_where_the_last_draw_ended():
    engine, whole = SobolEngine(40), SobolEngine(40).draw(16, dtype=numod.float64)
    parts = [
        engine.draw(1, dtype=numod.float64),
        engine.draw(4, dtype=numod.float64),
        engine.fast_forward(3).draw(8, dtype=numod.float64),
    ]
    assert numod.equal(numod.cat(parts), whole[[*range(5), *range(8, 16)]]) and engine.num_generated == 16
    assert numod.equal(engine.reset().draw(3), whole[:3].float())
    out = numod.empty(0)
    assert engine.draw(2, out=out) is out and out.shape == (2, 40)


@pytest.mark.parametrize("scramble", [False, True])
def test_each_power_of_two_fills_every_interval_once(scramble):
    points = SobolEngine(300, scramble, seed=1).draw_base2(6).numpy()
    assert all(np.array_equal(np.sort(column), np.arange(64)) for column in (points * 64).astype(int).T)


def test_scrambled_as_by_pytorch():
    result = SobolEngine(3, scramble=True, seed=9)
    assert repr(result) == "SobolEngine(dimension=3, scramble=True, seed=9)"
    np.testing.assert_array_equal(result.draw(3).numpy(), np.float32(SCRAMBLED))


SCRAMBLED = [
    [0.533116162, 0.23203969, 0.820892513],
    [0.0225325376, 0.745423555, 0.103314728],
    [0.344396532, 0.332077146, 0.517756462],
]


def test_without_a_seed_the_generator_decides():
    numod.manual_seed(3)
    first, second = (SobolEngine(2, scramble=True).draw(2) for _ in range(2))
    numod.manual_seed(3)
    assert numod.equal(SobolEngine(2, scramble=True).draw(2), first) and not numod.equal(first, second)


def test_refusals():
    with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
        SobolEngine(21202)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(
        ValueError,
        match="require n to be a power of 2. 3 points have been previously generated, then: n=3\\+2\\*\\*2=7",
    ):
        engine.draw_base2(2)


@pytest.mark.parity
@pytest.mark.parametrize("dimension, scramble", [(1, False), (5, True), (1111, True), (21201, False)])
def test_beside_pytorch(dimension, scramble):
    torch = pytest.importorskip("torch")
    ours, theirs = SobolEngine(dimension, scramble, 7), torch.quasirandom.SobolEngine(dimension, scramble, 7)
    for n in (1, 3, 50):
        np.testing.assert_array_equal(ours.draw(n).numpy(), theirs.draw(n).numpy())
