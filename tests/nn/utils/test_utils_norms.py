"""Weight norm and spectral norm, as parametrizations and as hooks, against NumPy."""

import copy

import numpy as np
import pytest

import numod
from numod import nn
from numod.autograd import gradcheck
from numod.nn import utils
from numod.nn.utils import parametrizations, parametrize
from numod.nn.utils.weight_norm import norm_except_dim, weight_from

pytestmark = pytest.mark.filterwarnings("ignore:`nn.utils.weight_norm` is deprecated:FutureWarning")
BLOCK = np.random.default_rng(0).standard_normal((2, 3, 4))


@pytest.mark.parametrize("dim", [0, 1, 2, -2, -1])
def test_norms_except_a_dimension(dim):
    axes = tuple(axis for axis in range(3) if axis != dim % 3)
    expected = np.sqrt((BLOCK**2).sum()) if dim == -1 else np.sqrt((BLOCK**2).sum(axis=axes, keepdims=True))
    np.testing.assert_allclose(norm_except_dim(numod.tensor(BLOCK), 2, dim).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dim", [0, 2, -1])
def test_gradients_of_weight_norm(dim):
    v = numod.tensor(BLOCK, requires_grad=True)
    g = (norm_except_dim(v, 2, dim) * 0.7).detach().requires_grad_()
    assert gradcheck(lambda v, g: weight_from(v, g, dim), (v, g))


@pytest.mark.parametrize("normalize, remove", [
    (utils.weight_norm, utils.remove_weight_norm), (utils.spectral_norm, utils.remove_spectral_norm),
    (parametrizations.weight_norm, lambda module: parametrize.remove_parametrizations(module, "weight")),
    (parametrizations.spectral_norm, lambda module: parametrize.remove_parametrizations(module, "weight")),
])  # fmt: skip
def test_a_normalized_layer_trains_is_copied_saved_and_restored(normalize, remove):
    numod.manual_seed(0)
    layer = nn.Linear(3, 4)
    before = set(layer.state_dict())
    assert normalize(layer) is layer
    optimizer = numod.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(numod.ones(2, 3)).square().sum().backward()
        optimizer.step()
    layer.eval()
    twin = copy.deepcopy(layer)
    other = normalize(nn.Linear(3, 4)).eval()
    other.load_state_dict(layer.state_dict())
    expected = layer(numod.ones(2, 3)).tolist()
    assert twin(numod.ones(2, 3)).tolist() == expected == other(numod.ones(2, 3)).tolist()
    remove(layer)
    assert set(layer.state_dict()) == before and isinstance(layer.weight, nn.Parameter)
    np.testing.assert_allclose(layer(numod.ones(2, 3)).tolist(), expected, rtol=1e-5)
    assert not layer._forward_pre_hooks


@pytest.mark.parametrize("normalize", [utils.spectral_norm, parametrizations.spectral_norm])
def test_the_largest_singular_value_becomes_one(normalize):
    numod.manual_seed(0)
    layer = normalize(nn.Linear(5, 4, dtype=numod.float64), n_power_iterations=20)
    for _ in range(5):
        layer(numod.ones(1, 5, dtype=numod.float64))
    np.testing.assert_allclose(np.linalg.svd(layer.weight.detach().numpy())[1][0], 1.0, rtol=1e-6)


def test_spectral_norm_of_an_evaluation_keeps_its_vectors():
    layer = parametrizations.spectral_norm(nn.Linear(5, 4)).eval()
    before = [buffer.tolist() for buffer in layer.buffers()]
    layer(numod.ones(1, 5))
    assert [buffer.tolist() for buffer in layer.buffers()] == before
    layer.train()(numod.ones(1, 5))
    assert [buffer.tolist() for buffer in layer.buffers()] != before


def test_a_transposed_convolution_counts_its_outputs_second():
    class ConvTranspose1d(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(numod.tensor(BLOCK))

    assert [buffer.shape for buffer in parametrizations.spectral_norm(ConvTranspose1d()).buffers()] == [(3,), (8,)]
    assert [buffer.shape for buffer in utils.spectral_norm(ConvTranspose1d()).buffers()] == [(3,), (8,)]


def test_an_old_state_of_spectral_norm_gives_the_weight_it_had():
    layer = utils.spectral_norm(nn.Linear(3, 4, dtype=numod.float64)).eval()
    matrix = numod.tensor(np.random.default_rng(1).standard_normal((4, 3)))
    old = {
        "weight_orig": matrix,
        "weight": matrix / 1.7,
        "weight_u": numod.ones(4, dtype=numod.float64) / 2,
        "bias": layer.bias.detach(),
    }
    state = dict(old)
    layer.load_state_dict(old)
    layer(numod.ones(1, 3, dtype=numod.float64))
    np.testing.assert_allclose(layer.weight.detach().numpy(), matrix.numpy() / 1.7, rtol=1e-6)
    assert old == state


def test_invalid_arguments_are_refused():
    layer = utils.weight_norm(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks on the same parameter weight"):
        utils.weight_norm(layer)
    with pytest.raises(ValueError, match="weight_norm of 'bias' not found in Linear"):
        utils.remove_weight_norm(layer, "bias")
    with pytest.raises(ValueError, match="can't have uninitialized parameters"):
        utils.weight_norm(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)


def test_spectral_norm_of_complex_weights():
    """The power iteration takes the adjoint: with the transpose it followed something else, and weights were divided by
    that.
    """
    layer = parametrizations.spectral_norm(nn.Linear(3, 2, dtype=numod.complex64), n_power_iterations=50)
    assert abs(numod.linalg.svdvals(layer.weight.detach())[0].item() - 1) < 1e-4
