"""Orthogonal parametrizations beside the installed PyTorch: the same matrices for the same originals, keys and errors."""

import numpy as np
import pytest
from parity import LIBRARIES, plain, same_error

import numod

pytestmark = pytest.mark.parity
SHAPES = [(3, 3), (5, 3), (3, 5), (2, 4, 3), (1, 1), (2, 1)]
MAPS = ["matrix_exp", "cayley", "householder"]


def build(lib, shape, kind, trivial, scale=1.0):
    values = np.random.default_rng(0).standard_normal(shape) * scale
    module = lib.nn.Module()
    module.weight = lib.nn.Parameter(lib.tensor(values))
    lib.nn.utils.parametrizations.orthogonal(module, orthogonal_map=kind, use_trivialization=trivial)
    return module


def state(module):
    return {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("trivial", [True, False])
def test_the_same_matrix_and_gradient(shape, kind, trivial):
    modules = [build(lib, shape, kind, trivial) for lib in LIBRARIES]
    if trivial:  # the base has random columns where the matrix is not square
        modules[0].load_state_dict({name: numod.tensor(value) for name, value in state(modules[1]).items()})
    noise = np.random.default_rng(1).standard_normal(shape)
    weights, gradients = [], []
    for lib, module in zip(LIBRARIES, modules):
        with lib.no_grad():
            module.parametrizations.weight.original.add_(lib.tensor(noise) * (0 if kind == "householder" else 1))
        (module.weight * lib.tensor(noise)).sum().backward()
        weights.append(module.weight.detach().numpy())
        gradients.append(module.parametrizations.weight.original.grad.numpy())
    assert list(state(modules[0])) == list(state(modules[1])) and plain(repr(modules[0])) == plain(repr(modules[1]))
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-9)
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)], ids=str)
@pytest.mark.parametrize("kind", MAPS)
def test_the_same_start_and_assignment(shape, kind):
    """Square matrices have no random part."""
    results = []
    for lib in LIBRARIES:
        module = build(lib, shape, kind, True)
        start, base = module.weight.detach().numpy(), state(module)
        module.weight = lib.tensor(np.linalg.qr(np.random.default_rng(2).standard_normal(shape))[0])
        results.append([start, module.weight.detach().numpy(), *base.values(), *state(module).values()])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3)], ids=str)
def test_the_same_reflections(shape):
    results = [state(build(lib, shape, "householder", False)) for lib in LIBRARIES]
    for ours, theirs in zip(*(result.values() for result in results)):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


ERRORS = {
    "no such tensor": lambda lib: lib.nn.utils.parametrizations.orthogonal(lib.nn.ReLU()),
    "vector": lambda lib: lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(2, 2), "bias"),
    "map": lambda lib: lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(2, 2), orthogonal_map="a"),
    "shape": lambda lib: setattr(build(lib, (3, 3), None, True), "weight", lib.ones(2, 2)),
    "assigned": lambda lib: setattr(build(lib, (3, 3), "cayley", False), "weight", lib.ones(3, 3)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    same_error(ERRORS[name], text=True)
