"""Inputs with a dimension of SIZE examples."""

from __future__ import annotations

import numod

SIZE = 3


def floats(*shape: int, seed: int = 0, dtype: numod.dtype = numod.float64) -> numod.Tensor:
    return numod.randn(*shape, generator=numod.Generator().manual_seed(seed), dtype=dtype)


def indices(*shape: int, below: int) -> numod.Tensor:
    return numod.randint(0, below, shape, generator=numod.Generator().manual_seed(1))


def made(shapes: tuple) -> list[numod.Tensor]:
    args = []
    for seed, shape in enumerate(shapes):
        args.append(
            indices(SIZE, *shape[0], below=shape[1])
            if shape and isinstance(shape[0], tuple)
            else floats(SIZE, *shape, seed=seed)
        )
    return args
