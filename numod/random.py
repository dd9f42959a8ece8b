"""`numod.random`: the state of the random numbers. `core.create.random` has the functions that draw them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .core.create.generator import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(devices: Iterable | None = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """What is drawn inside does not move the random numbers outside. One generator serves all devices."""
    before, state = (default_generator._seed, default_generator._offset), get_rng_state()
    try:
        yield
    finally:
        if enabled and before != (default_generator._seed, default_generator._offset):
            set_rng_state(state)
