"""Slopes against NumPy's; the rest of `cumulative` is in the files of its functions."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)

Y = np.random.default_rng(0).standard_normal((4, 5))
AT = [np.array([0.0, 1.0, 3.0, 4.0]), np.array([0.0, 0.5, 3.0, 4.0, 6.0])]


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("spacing", [(), (2.0,), (2.0, 0.5), AT])
def test_gradient(spacing, edge_order: int) -> None:
    spacing_argument = (
        1
        if not len(spacing)
        else spacing[0]
        if len(spacing) == 1
        else [
            numod.tensor(coordinates) if isinstance(coordinates, np.ndarray) else coordinates for coordinates in spacing
        ]
    )
    result = numod.gradient(numod.tensor(Y), spacing=spacing_argument, edge_order=edge_order)
    for mine, theirs in zip(result, np.gradient(Y, *spacing, edge_order=edge_order)):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-12)


def test_gradient_along_one_dimension_of_integers_and_its_own() -> None:
    assert numod.gradient(numod.arange(5) ** 2)[0].tolist() == [1, 2, 4, 6, 7] and numod.gradient(numod.tensor([1, 4]))[
        0
    ].tolist() == [3, 3]
    (along,) = numod.gradient(numod.tensor(Y), dim=-1)
    np.testing.assert_allclose(along.numpy(), np.gradient(Y, axis=1))
    assert gradcheck(lambda x: numod.gradient(x, edge_order=2), [numod.tensor(Y, requires_grad=True)])


@pytest.mark.parametrize(
    "options, text",
    [
        ({"edge_order": 3}, "edge_order=1 and edge_order=2"),
        ({"spacing": [1.0]}, "list of length"),
        ({"dim": 0, "edge_order": 2}, "at least edge_order"),
    ],
)
def test_invalid_arguments_of_gradient(options: dict, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        numod.gradient(numod.ones(2, 3), **options)


def test_gradient_by_a_complex_step():
    y = np.array([1 + 2j, 3 - 1j, 0.5j])
    np.testing.assert_allclose(numod.gradient(numod.tensor(y), spacing=2 + 1j)[0].numpy(), np.gradient(y) / (2 + 1j))
