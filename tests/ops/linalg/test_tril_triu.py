"""The part of a matrix between two diagonals, and the indices of a triangle, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import numod

pytestmark = pytest.mark.on_cuda(simulator=False)

SHAPES = [(3, 5), (5, 3), (1, 4), (4, 1), (0, 3), (3, 0)]
DIAGONALS = [-9, -2, -1, 0, 1, 3, 9]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_and_their_indices(name: str, shape: tuple[int, int]) -> None:
    x = numod.randn(2, *shape)
    for diagonal in DIAGONALS:
        for matrix in (x, x > 0, x.half(), x.mT.contiguous().mT):
            np.testing.assert_array_equal(
                getattr(numod, name)(matrix, diagonal).numpy(), getattr(np, name)(matrix.numpy(), diagonal)
            )
        indices = getattr(numod, f"{name}_indices")(*shape, diagonal, dtype=numod.int32)
        np.testing.assert_array_equal(indices.numpy(), getattr(np, f"{name}_indices")(shape[0], diagonal, shape[1]))


@pytest.mark.parametrize("function", [lambda x: x.tril(-1), lambda x: x.mT.triu(1)], ids=["tril", "triu of transposed"])
def test_gradients(function: object) -> None:
    x = numod.randn(2, 4, 3, dtype=numod.float64, requires_grad=True)
    assert numod.autograd.gradcheck(function, (x,)) and numod.autograd.gradgradcheck(function, (x,))


def test_indices_in_a_compiled_function() -> None:
    compiled = numod.compile(lambda x: x.triu() + numod.triu_indices(3, 3).sum())
    assert numod.equal(compiled(numod.ones(3, 3)), numod.ones(3, 3).triu() + 3 + 1 + 8)


def test_indices_of_a_matrix_beyond_memory_are_refused_at_once() -> None:
    with pytest.raises(RuntimeError, match="more elements than"):
        numod.tril_indices(1 << 62, 1 << 62)
