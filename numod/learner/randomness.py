"""The state of all random numbers that training may draw: numod's, Python's, NumPy's, and those of loaders."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.create.generator import Generator, get_rng_state, set_rng_state


def random_state(*loaders: Any) -> dict[str, Any]:
    """The state as plain data. Generators of the loaders and of their samplers are part of it."""
    state = {"numod": get_rng_state(), "python": _plain(random.getstate())}
    state["loaders"] = [[generator.get_state() for generator in _generators(loader)] for loader in loaders]
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        name, keys, position, has_gauss, gauss = numpy.get_state()
        state["numpy"] = [str(name), [int(key) for key in keys], int(position), int(has_gauss), float(gauss)]
    return state


def set_random_state(state: dict[str, Any], *loaders: Any) -> None:
    """Go back to a state."""
    set_rng_state(state["numod"])
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    for states, loader in zip(state["loaders"], loaders):
        for saved, generator in zip(states, _generators(loader)):
            generator.set_state(saved)
    if "numpy" in state:
        import numpy as np

        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))


@contextmanager
def keeping_random_state(*loaders: Any) -> Iterator[None]:
    """Context manager that restores the random state at its end."""
    state = random_state(*loaders)
    try:
        yield
    finally:
        set_random_state(state, *loaders)


def _plain(state: tuple) -> list:
    return [state[0], list(state[1]), state[2]]


def _generators(loader: Any) -> list[Generator]:
    """The generators of a loader, each once."""
    parts = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    parts.append(getattr(parts[2], "sampler", None))
    generators = [getattr(part, "generator", None) for part in parts]
    unique = {id(generator): generator for generator in generators if isinstance(generator, Generator)}
    return list(unique.values())
