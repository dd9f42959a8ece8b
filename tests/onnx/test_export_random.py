"""Random numbers in exported models: the runtime draws them, with the same distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import numod as torch
from numod import nn

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx
F = nn.functional
X = torch.rand(400, 50, generator=torch.Generator().manual_seed(0))

DRAWS: dict[str, tuple[Callable, float, float]] = {  # with the mean and the standard deviation
    "rand_like": (torch.rand_like, 0.5, 12**-0.5),
    "randn_like": (lambda x: torch.randn_like(x) * 2 + 1, 1.0, 2.0),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(2, 4), 3.0, 2 * 12**-0.5),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.3), 0.3, 0.21**0.5),
    "bernoulli": (lambda x: torch.bernoulli(x * 0 + 0.2), 0.2, 0.4),
    "normal": (lambda x: torch.normal(x * 0 + 3, 2.0), 3.0, 2.0),
    "dropout": (lambda x: F.dropout(x * 0 + 1, 0.25, training=True), 1.0, 3**-0.5),
    "channels": (lambda x: F.dropout1d(x[:, :, None] * 0 + 1, 0.25, training=True), 1.0, 3**-0.5),
    "half": (lambda x: torch.rand_like(x.half()), 0.5, 12**-0.5),
    "randint_like": (lambda x: torch.randint_like(x, 3, 9), 5.5, (35 / 12) ** 0.5),
    "multinomial": (lambda x: torch.multinomial(x * 0 + 1, 50, replacement=True), 24.5, (2499 / 12) ** 0.5),
}


def drawn(program: object, *inputs: torch.Tensor) -> list[np.ndarray]:
    """Two runs of a model in one session."""
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    values = {name: x.numpy() for name, x in zip(program.input_names, inputs)}
    return [session.run(None, values)[0] for _ in range(2)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_distributions_are_those_of_numod(name: str, dynamic: bool) -> None:
    function, mean, deviation = DRAWS[name]
    program = torch.onnx.export(
        function, (X,), input_names=["x"], dynamic_axes={"x": {0: "batch"}} if dynamic else None, verify=True
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    one, two = drawn(program, X)
    assert not np.array_equal(one, two) and one.dtype.name == function(X).dtype.name
    for sample in (one, torch.onnx.load(program.model_proto)(X).detach().numpy()):
        sample = sample.astype(np.float64)
        count = len(sample) if name == "channels" else sample.size
        assert abs(sample.mean() - mean) < 6 * deviation / math.sqrt(count)
        assert abs(sample.std() - deviation) < 0.1 * deviation
    if dynamic:
        assert drawn(program, X[:3])[0].shape[0] == 3


def test_permutations_and_two_draws_of_one_shape() -> None:
    program = torch.onnx.export(lambda x: x[torch.randperm(50)], (X[0],), verify=True)
    assert sorted(drawn(program, X[0])[0].tolist()) == sorted(X[0].tolist())
    program = torch.onnx.export(lambda x: torch.rand_like(x) - torch.rand_like(x), (X,), verify=True)
    assert drawn(program, X)[0].std() > 0.3


def test_verification_draws_no_numbers_of_the_user_and_knows_no_difference() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    program = torch.onnx.export(lambda x: (x + torch.rand_like(x), x + 1), (X,))
    program.verify()
    torch.manual_seed(3)
    state = torch.get_rng_state()
    differences = program.verify()
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(torch.rand(3), expected)
    assert math.isnan(differences["output_0"]) and differences["output_1"] < 1e-6


def test_a_network_in_training_drops_at_random() -> None:
    net = nn.Sequential(nn.Linear(50, 4), nn.Dropout(0.5), nn.ReLU()).train()
    mode = torch.onnx.TrainingMode.PRESERVE
    axes = {"input": {0: "batch"}}
    program = torch.onnx.export(net, (X,), input_names=["input"], dynamic_axes=axes, training=mode, verify=True)
    one, two = drawn(program, X)
    assert not np.array_equal(one, two)
    dense = net[0](X).relu().detach().numpy()
    for result in (one, two):
        chosen = result != 0
        np.testing.assert_allclose(result[chosen], 2 * dense[chosen], rtol=1e-5)


def test_distributions_that_onnx_lacks_are_reported() -> None:
    with pytest.raises(torch.export.ExportError, match="no random numbers of poisson"):
        torch.onnx.export(torch.poisson, (X,))
    with pytest.raises(torch.export.ExportError, match="more than 63 bits"):
        torch.onnx.export(lambda x: torch.randint(-(2**63), 2**63 - 1, (3,)), (X,))
