"""Random scenes (`scenes`), eager beside compiled: values, containers, classes, modules and tensors that change between
calls.

The sample takes some seconds, and with `-m fuzz` some minutes. A failure names the scene's seed.
"""

from __future__ import annotations

import pytest
from pairs import equal
from scenes import PARTS, Scene, run
from selection import every

from numod.graph import compile as compiled_natively


def check(seeds: range) -> None:
    for seed in seeds:
        scene = Scene(seed)
        expected = run(scene, lambda function: function)
        actual = run(Scene(seed), lambda function: compiled_natively(function, options={"linked": False}))
        for call, (one, two) in enumerate(zip(expected, actual, strict=True)):
            assert alike(one, two), (
                f"seed {seed}, call {call}: {[(scene.names[k], value) for k, value in scene.places]} after {scene.plan}"
            )


def alike(one: object, two: object) -> bool:
    """Whether what is shown of two calls is the same, to rounding."""
    if isinstance(one, float) and isinstance(two, float):
        return one == pytest.approx(two, rel=1e-5, abs=1e-6, nan_ok=True)
    if isinstance(one, (list, tuple)):
        return type(one) is type(two) and len(one) == len(two) and all(map(alike, one, two))
    return equal(one, two)


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("first", every(2, range(0, 80, 20), others=pytest.mark.fuzz))
def test_random_scenes(first: int) -> None:
    check(range(first, first + 20))


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("first, last", [(80, 160), *[(first, first + 250) for first in range(1000, 2000, 250)]])
def test_more_random_scenes(first: int, last: int) -> None:
    check(range(first, last))


def test_scenes_are_the_same_for_a_seed_and_use_every_part() -> None:
    one, two = Scene(3), Scene(3)
    assert one.names == two.names and one.places == two.places and one.plan == two.plan
    assert {name for seed in range(100) for name in Scene(seed).names} == PARTS.keys()
