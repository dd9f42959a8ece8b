"""Orthogonal parametrizations: orthonormal whatever is learned, against NumPy, with gradients."""

import numpy as np
import pytest

import numod
from numod import nn
from numod.autograd import gradcheck
from numod.nn.utils import parametrize
from numod.nn.utils.orthogonal import _MAPS
from numod.nn.utils.parametrizations import orthogonal

MAPS = ["matrix_exp", "cayley", "householder"]


def gram(weight):
    weight = weight.detach().numpy()
    tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.swapaxes(-1, -2)
    return tall.swapaxes(-1, -2) @ tall


@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6), (2, 3, 2)], ids=str)
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("trivial", [True, False])
def test_orthonormal_before_and_after_training(shape, kind, trivial):
    module = nn.Module()
    module.weight = nn.Parameter(numod.tensor(np.random.default_rng(0).standard_normal(shape)))
    orthogonal(module, orthogonal_map=kind, use_trivialization=trivial)
    target = numod.tensor(np.random.default_rng(1).standard_normal(shape))
    optimizer, losses = numod.optim.SGD(module.parameters(), lr=0.1), []
    for _ in range(5):
        np.testing.assert_allclose(
            gram(module.weight), np.broadcast_to(np.eye(min(shape[-2:])), gram(module.weight).shape), atol=1e-9
        )
        optimizer.zero_grad()
        loss = (module.weight - target).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    value = module.weight.detach()
    parametrize.remove_parametrizations(module, "weight")
    assert isinstance(module.weight, nn.Parameter) and module.weight.tolist() == value.tolist()


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2)], ids=str)
def test_gradients(kind, shape):
    x = numod.tensor(np.random.default_rng(0).standard_normal(shape), requires_grad=True)
    if kind == "householder":  # the diagonal gives only signs, and no gradient
        below, diagonal = numod.tensor(np.tril(np.ones(shape), -1)), numod.eye(*shape, dtype=x.dtype)
        assert gradcheck(lambda x: _MAPS[kind](x * below + diagonal), (x,))
    else:
        assert gradcheck(_MAPS[kind], (x,))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_the_exponential_of_a_rotation(scale):
    matrix = numod.tensor([[0.0, 0.0], [scale, 0.0]], dtype=numod.float64)
    expected = [[np.cos(scale), -np.sin(scale)], [np.sin(scale), np.cos(scale)]]
    np.testing.assert_allclose(_MAPS["matrix_exp"](matrix).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(_MAPS["matrix_exp"](matrix.float()).numpy(), expected, atol=2e-5)
    zero = numod.zeros(0, 0)
    assert _MAPS["matrix_exp"](zero).shape == (0, 0)


@pytest.mark.parametrize("kind", MAPS)
def test_an_orthogonal_start_and_assignment_are_kept(kind):
    first, second = (
        numod.tensor(np.linalg.qr(np.random.default_rng(seed).standard_normal((5, 3)))[0]) for seed in (0, 1)
    )
    module = nn.Module()
    module.weight = nn.Parameter(first.clone())
    orthogonal(module, orthogonal_map=kind)
    np.testing.assert_allclose(module.weight.detach().numpy(), first.numpy(), atol=1e-9)
    module.weight = second
    np.testing.assert_allclose(module.weight.detach().numpy(), second.numpy(), atol=1e-9)
    assert "parametrizations.weight.0.base" in module.state_dict()


def test_the_default_map():
    for shape, kind in (((3, 3), "matrix_exp"), ((3, 2), "householder")):
        layer = orthogonal(nn.Linear(shape[1], shape[0]))
        assert layer.parametrizations.weight[0].orthogonal_map == kind
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices. Got a tensor of 1 dimensions."):
        orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(NotImplementedError, match="use_trivialization=False"):
        orthogonal(nn.Linear(2, 2), use_trivialization=False).weight = numod.ones(2, 2)
