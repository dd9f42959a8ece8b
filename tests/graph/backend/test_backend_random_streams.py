"""Random streams in compiled functions continue from call to call. Functions that reseed a generator are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pairs import compile, equal

import numod


def _seeded(x: numod.Tensor, generator: numod.Generator) -> numod.Tensor:
    numod.manual_seed(3)
    return x + numod.rand(2)


def _seeded_itself(x: numod.Tensor, generator: numod.Generator) -> numod.Tensor:
    generator.manual_seed(3)
    return x + numod.rand(2, generator=generator)


def _with_a_new_one(x: numod.Tensor, generator: numod.Generator) -> numod.Tensor:
    return x + numod.rand(2, generator=numod.Generator())


def _forked(x: numod.Tensor, generator: numod.Generator) -> numod.Tensor:
    with numod.random.fork_rng():
        x = x + numod.rand(2)
    return x + numod.rand(2)


@pytest.mark.parametrize("function", [_seeded, _seeded_itself, _with_a_new_one, _forked])
def test_random_streams_begun_anew_are_refused_never_continued(function: Callable) -> None:
    numod.manual_seed(3)
    generator = numod.Generator().manual_seed(3)
    compiled = compile(function)
    with pytest.raises(RuntimeError, match="random .* whenever it runs"):
        for _ in range(3):
            before = numod.get_rng_state(), generator.get_state()
            actual = compiled(numod.ones(2), generator)
            numod.set_rng_state(before[0])
            generator.set_state(before[1])
            assert equal(actual, function(numod.ones(2), generator))


def test_a_fork_that_draws_nothing_and_a_generator_from_outside_are_recorded() -> None:
    generator = numod.Generator().manual_seed(3)

    def function(x: numod.Tensor) -> numod.Tensor:
        with numod.random.fork_rng():
            x = x * 2
        return x + numod.rand(2) + numod.rand(2, generator=generator)

    results = []
    for variant in (function, compile(function)):
        generator.manual_seed(3)
        numod.manual_seed(4)
        results.append([variant(numod.ones(2)) for _ in range(4)])
    assert equal(*results)
