"""Freezing: which values are computed once, and that results follow every write to the weights."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selection import diagonals

import numod
from numod import nn
from numod.graph import verify
from numod.graph.passes.freezing import Frozen
from numod.nn import functional as F
from numod.serialization.program import save_program


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    numod.manual_seed(0)
    with numod.no_grad():
        yield


def freeze(model: object, linked: bool | None = None, **kwargs: object) -> object:
    return numod.compile(model, options={"freezing": True, **({} if linked is None else {"linked": linked})}, **kwargs)


def mlp(*sizes: int) -> nn.Module:
    return nn.Sequential(*(layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU()))).eval()


def same(model: nn.Module, frozen: object, x: numod.Tensor, calls: int = 3) -> None:
    """Products with packed weights may add in another order than those with plain weights."""
    for _ in range(calls):
        np.testing.assert_allclose(frozen(x).numpy(), model(x).numpy(), rtol=1e-5, atol=1e-5)


def steps(frozen: object) -> list[str]:
    verify(frozen.graph)
    return [step.op.name for step in frozen.graph.steps]


@pytest.mark.parametrize(
    ("sizes", "rows", "dtype", "linked"),
    [
        ((40, 300, 10), 33, numod.float32, True),
        ((600, 50, 17), 8, numod.float32, False),
        ((5, 4, 3), 2, numod.float32, True),
        ((1100, 64), 70, numod.float64, False),
    ],
)
def test_products_of_packed_weights(sizes: tuple, rows: int, dtype: numod.dtype, linked: bool) -> None:
    """Widths and rows that are not multiples of a panel's or tile's size, and depths of several blocks."""
    model = mlp(*sizes).to(dtype)
    frozen = freeze(model, linked)
    same(model, frozen, numod.randn(rows, sizes[0], dtype=dtype))
    assert any("packed_linear" in step for step in steps(frozen)) == (rows >= 8)


def test_without_bias_and_with_other_uses_of_the_weight() -> None:
    layer = nn.Linear(64, 48, bias=False)
    same(lambda x: layer(x) + layer.weight.sum(), freeze(lambda x: layer(x) + layer.weight.sum()), numod.randn(32, 64))


@pytest.mark.parametrize("columns", [48, 300])
@pytest.mark.parametrize("transposed", [True, False])
def test_matrix_products(transposed: bool, columns: int) -> None:
    weight, bias = numod.randn(*((columns, 64) if transposed else (64, columns))), numod.randn(columns)
    function = lambda x: F.relu(x @ (weight.T if transposed else weight) + bias)  # noqa: E731
    frozen = freeze(function)
    same(function, frozen, numod.randn(130, 64))
    # small matrices are not packed
    assert any("packed_matmul" in step for step in steps(frozen)) == (transposed or columns == 300)


# weights transformed before the tiles, and after them
@pytest.mark.parametrize(("channels", "features", "size"), [(64, 32, 12), (192, 176, 8)])
def test_transformed_weights_of_convolutions(channels: int, features: int, size: int) -> None:
    model = nn.Sequential(nn.Conv2d(channels, features, 3, 1, 1), nn.ReLU()).eval()
    frozen, x = freeze(model), numod.randn(3, channels, size, size)
    assert numod.equal(frozen(x), model(x)) and any("winograd_convolution" in step for step in steps(frozen))
    x[0, 0, 0, 0] = numod.inf
    assert numod.equal(frozen(x).isnan(), model(x).isnan())
    model[0].weight.mul_(2)
    x[0, 0, 0, 0] = 1
    assert numod.equal(frozen(x), model(x))


def test_programs_of_packed_weights_are_not_saved(tmp_path: Path) -> None:
    """Panels differ between processors."""
    frozen = freeze(nn.Linear(40, 48))
    for _ in range(2):
        frozen(numod.randn(16, 40))
    with pytest.raises(
        ValueError, match="packed_linear has no name in the file format; save the program as it was recorded"
    ):
        save_program(frozen.graph, tmp_path / "program")


def test_batch_norm_is_scale_and_shift() -> None:
    model = nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU()).eval()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    frozen, x = freeze(model), numod.randn(2, 3, 9, 9)
    for _ in range(3):
        assert numod.equal(frozen(x), model(x))
    assert [step for step in steps(frozen) if step not in ("view", "reshape", "unsqueeze")] == [
        "convolution_addcmul_relu"
    ]
    assert "Frozen: 2 values, 48 bytes" in frozen.explain()
    model[1].running_var.fill_(4.0)
    assert numod.equal(frozen(x), model(x))


def written(model: nn.Module) -> list:
    """Each way of changing weights, as a function."""
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = numod.ones_like(parameter)
        optimizer.step()

    other = {name: value + 1 for name, value in model.state_dict().items()}
    return [
        step, lambda: model.load_state_dict(other), lambda: model.load_state_dict(other, assign=True),
        lambda: model[0].weight.copy_(numod.randn(48, 64)),
        lambda: model[0].weight[3].fill_(2.0), lambda: model[0].weight.data.mul_(2),
        lambda: setattr(model[0], "weight", nn.Parameter(numod.randn(48, 64))),
        lambda: setattr(model[0].weight, "data", numod.randn(48, 64)), lambda: model.double().float(),
    ]  # fmt: skip


@pytest.mark.parametrize("number, linked", diagonals(range(9), [True, False], 2, others=pytest.mark.fuzz))
def test_results_follow_the_weights(number: int, linked: bool) -> None:
    model = mlp(64, 48, 20)
    frozen, x = freeze(model, linked), numod.randn(16, 64)
    same(model, frozen, x)
    before = frozen(x).clone()
    change = written(model)[number]
    for _ in range(2):
        change()
        same(model, frozen, x)
    assert number == 8 or not numod.allclose(frozen(x), before)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_writes_through_numpy_are_seen(linked: bool, early: bool) -> None:
    layer = nn.Linear(40, 300)  # so wide that its weight is packed, with registers of 256 bits as well
    array = layer.weight.detach().numpy() if early else None
    frozen, x = freeze(layer, linked), numod.randn(33, 40)
    same(layer, frozen, x)
    array = layer.weight.detach().numpy()
    for number in (0, 2, 3):
        array[3:5] = number
        same(layer, frozen, x)
    same(layer, frozen, x)
    del array
    layer.weight.detach().numpy()[...] = 1
    same(layer, frozen, x)
    layer.weight.fill_(2)
    same(layer, frozen, x)


def test_writes_through_arrays_of_another_dtype_are_seen() -> None:
    layer, x = nn.Linear(40, 300), numod.randn(33, 40)
    frozen = freeze(layer)
    same(layer, frozen, x)
    array = layer.weight.detach().view(numod.int32).numpy()
    same(layer, frozen, x)
    array[...] = 0
    same(layer, frozen, x)


def test_writes_through_data_of_other_tensors_compute_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, other, runs = nn.Linear(40, 300), numod.ones(3), []
    frozen, x = freeze(layer), numod.randn(33, 40)
    same(layer, frozen, x)
    computed = Frozen._computed
    monkeypatch.setattr(Frozen, "_computed", lambda value: runs.append(value) or computed(value))
    for _ in range(3):
        frozen(x)
        other.data.add_(1)
    assert not runs
    layer.weight.data.add_(1)
    same(layer, frozen, x)
    assert len(runs) == 1


def test_tied_weights_are_packed_once() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)).eval()
    model[1].weight = model[0].weight
    frozen, x = freeze(model), numod.randn(16, 32)
    same(model, frozen, x)
    assert "Frozen: 1 values" in frozen.explain()
    model[0].weight.mul_(-1)
    same(model, frozen, x)


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_share_what_is_frozen(dynamic: bool | None) -> None:
    model = mlp(64, 48, 40)
    frozen = freeze(model, dynamic=dynamic)
    for rows in (9, 17, 30, 64, 9):
        same(model, frozen, numod.randn(rows, 64))
    values = [
        tuple(version.executable.frozen) for versions in frozen.compiled.versions.values() for version in versions
    ]
    assert len(values) == 4 and len(set(values)) == 1
    model[0].weight.mul_(-1)
    for rows in (9, 64):
        same(model, frozen, numod.randn(rows, 64))


def test_written_tensors_are_not_frozen() -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6)).train()
    eager, x = copy.deepcopy(model), numod.randn(16, 8)
    frozen = freeze(model)
    for _ in range(4):
        np.testing.assert_allclose(frozen(x).numpy(), eager(x).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model[1].running_var.numpy(), eager[1].running_var.numpy(), rtol=1e-6)


def test_results_are_new_at_every_call() -> None:
    weight = numod.randn(5)
    frozen = freeze(lambda x: (weight * 2, weight * 3 + x))
    first = frozen(numod.zeros(5))[0]
    first.zero_()
    assert numod.equal(frozen(numod.zeros(5))[0], weight * 2)


def test_tensors_of_nothing_but_numbers() -> None:
    frozen, x = freeze(lambda x: x @ numod.ones(6, 6).tril()), numod.randn(4, 6)
    same(lambda x: x @ numod.ones(6, 6).tril(), frozen, x)
    assert "tril" not in str(frozen.graph)


def test_gradients_freeze_nothing_and_say_so() -> None:
    model = mlp(64, 48)
    frozen, x = freeze(model), numod.randn(16, 64)
    with numod.enable_grad():
        for _ in range(2):
            model.zero_grad()
            frozen(x).sum().backward()
            assert model[0].weight.grad is not None
            numod.optim.SGD(model.parameters(), lr=0.1).step()
        np.testing.assert_allclose(frozen(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    assert "Frozen: nothing, because the calls record gradients" in frozen.explain()
    same(model, frozen, x)
    assert "Frozen: 1 values" in frozen.explain()


def test_weights_without_gradients_are_frozen_in_any_mode() -> None:
    model = mlp(64, 48).requires_grad_(False)
    frozen, x = freeze(model), numod.randn(16, 64)
    with numod.enable_grad():
        same(model, frozen, x)
    assert "Frozen: 1 values" in frozen.explain()


def test_results_that_need_gradients_all_the_same() -> None:
    weight, x = numod.randn(32, 32).requires_grad_(), numod.randn(16, 32)

    @numod.enable_grad()
    def function(x: numod.Tensor) -> numod.Tensor:
        return F.linear(x, weight * 2)

    frozen = freeze(function)
    for _ in range(3):
        result = frozen(x)
        with numod.enable_grad():
            (gradient,) = numod.autograd.grad(result.sum(), weight)
        np.testing.assert_allclose(gradient.numpy(), np.tile(2 * x.sum(0).numpy(), (32, 1)), rtol=1e-5, atol=1e-5)


def test_inference_mode() -> None:
    model = mlp(64, 48)
    frozen, x = freeze(model), numod.randn(16, 64)
    with numod.inference_mode():
        same(model, frozen, x)
    model[0].weight.mul_(2)
    with numod.inference_mode():
        same(model, frozen, x)
    same(model, frozen, x)


def test_casts_and_factorizations_are_frozen() -> None:
    weight = numod.randn(6, 6, dtype=numod.float64)
    function = lambda x: x @ numod.linalg.inv(weight).float()  # noqa: E731
    frozen, x = freeze(function), numod.randn(4, 6)
    same(function, frozen, x)
    assert steps(frozen) == ["matmul"]
    weight.add_(numod.eye(6, dtype=numod.float64) * 5)
    same(function, frozen, x)


def test_copies_keep_the_option() -> None:
    frozen, x = freeze(mlp(64, 48)), numod.randn(16, 64)
    for copied in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        same(frozen, copied, x)
        assert "packed_linear" in str(copied.graph)


def test_modes_and_options_are_pytorchs() -> None:
    function = lambda x: F.relu(x)  # noqa: E731
    numod.compile(function, mode="max-autotune", fullgraph=True, backend="inductor", isolate_recompiles=True)
    numod.compile(function, options={"triton.cudagraphs": True, "max_autotune": True})
    for kwargs, message in [
        ({"mode": "fast"}, "Unrecognized mode=fast, should be one of: default"), ({"options": {"freeze": True}}, "Unexpected optimization option freeze, known options are"),
        ({"options": {"sparsity": True}}, "The option sparsity needs freezing"),
        ({"options": {"freezing": 1}}, "Unexpected type of attr freezing, got int should be bool"), ({"mode": "default", "options": {}}, "Either mode or options can be specified"),
    ]:  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            numod.compile(function, **kwargs)
