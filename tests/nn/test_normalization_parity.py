"""Normalisation layers beside PyTorch's: repr, state, outputs, gradients, running statistics, errors."""

from __future__ import annotations

import numpy as np
import pytest
from parity import same_error, torch

import numod
from numod import nn

pytestmark = pytest.mark.parity

CASES = [
    ("BatchNorm1d", (6,), {}, (8, 6)), ("BatchNorm1d", (6,), {"momentum": None}, (8, 6, 5)),
    ("BatchNorm2d", (6,), {}, (3, 6, 5, 4)), ("BatchNorm2d", (6,), {"affine": False}, (3, 6, 5, 4)),
    ("BatchNorm2d", (6,), {"track_running_stats": False}, (3, 6, 5, 4)),
    ("BatchNorm3d", (4,), {"eps": 1e-3, "momentum": 0.3}, (2, 4, 3, 2, 5)), ("InstanceNorm1d", (6,), {}, (3, 6, 7)),
    ("InstanceNorm2d", (6,), {"affine": True}, (3, 6, 5, 4)),
    ("InstanceNorm2d", (6,), {"track_running_stats": True}, (3, 6, 5, 4)),
    ("InstanceNorm3d", (4,), {"affine": True, "track_running_stats": True}, (2, 4, 3, 2, 5)),
    ("InstanceNorm2d", (6,), {}, (6, 5, 4)), ("LayerNorm", (7,), {}, (3, 4, 7)),
    ("LayerNorm", ((4, 7),), {"eps": 1e-3}, (3, 4, 7)), ("LayerNorm", (7,), {"bias": False}, (3, 7)),
    ("LayerNorm", (7,), {"elementwise_affine": False}, (7,)), ("LayerNorm", (700,), {}, (40, 700)),
    ("GroupNorm", (3, 6), {}, (2, 6, 5)), ("GroupNorm", (1, 6), {"affine": False}, (2, 6, 5, 4)),
    ("GroupNorm", (6, 6), {}, (2, 6, 5, 4)),
    ("RMSNorm", (7,), {}, (3, 7)), ("RMSNorm", ((4, 7),), {"eps": 1e-2}, (3, 4, 7)),
    ("RMSNorm", (7,), {"elementwise_affine": False}, (3, 7)),
    ("LocalResponseNorm", (3,), {}, (2, 6, 5, 4)),
    ("LocalResponseNorm", (2,), {"alpha": 0.5, "beta": 0.5, "k": 2.0}, (2, 6, 5)),
    ("SyncBatchNorm", (6,), {}, (3, 6, 5, 4)),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, options, shape", CASES, ids=str)
def test_layers(name: str, arguments: tuple, options: dict, shape: tuple) -> None:
    rng = np.random.default_rng(0)
    theirs = getattr(torch.nn, name)(*arguments, **options).double()
    ours = getattr(nn, name)(*arguments, **options).double()
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape)))
    ours.load_state_dict({key: numod.tensor(value.numpy()) for key, value in theirs.state_dict().items()})
    if name == "SyncBatchNorm":
        theirs.eval(), ours.eval()  # theirs trains on GPUs only
    for turn in range(4):
        if turn == 3:
            ours.eval(), theirs.eval()
        x, weight = rng.standard_normal(shape) * 2 + 1, rng.standard_normal(shape)
        mine, other = numod.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        actual, expected = ours(mine), theirs(other)
        np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), atol=1e-10)
        ours.zero_grad(), theirs.zero_grad()
        (actual * numod.tensor(weight)).sum().backward()
        (expected * torch.tensor(weight)).sum().backward()
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), atol=1e-9)
        for a, b in zip(ours.parameters(), theirs.parameters()):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-9)
        for key, value in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), atol=1e-10, err_msg=key)


@pytest.mark.parametrize("call", [
    lambda t: t.nn.BatchNorm2d(3)(t.zeros(2, 3)), lambda t: t.nn.BatchNorm1d(3)(t.zeros(1, 3)), lambda t: t.nn.BatchNorm1d(3)(t.zeros(4, 5)), lambda t: t.nn.LayerNorm(4)(t.zeros(2, 5)), lambda t: t.nn.GroupNorm(2, 5),
    lambda t: t.nn.functional.group_norm(t.zeros(2, 5), 2), lambda t: t.nn.functional.layer_norm(t.zeros(2, 5), (5,), t.zeros(4)), lambda t: t.nn.InstanceNorm2d(3)(t.zeros(2, 3)), lambda t: t.nn.InstanceNorm1d(3)(t.zeros(2, 3, 1)),
    lambda t: t.nn.functional.batch_norm(t.zeros(2, 3), None, None), lambda t: t.nn.functional.local_response_norm(t.zeros(2, 3), 2),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)


@pytest.mark.parametrize(
    "name, shape",
    [("LazyBatchNorm1d", (3, 5)), ("LazyBatchNorm2d", (3, 5, 2, 2)), ("LazyInstanceNorm2d", (3, 5, 2, 2))],
)
def test_lazy_forms(name: str, shape: tuple) -> None:
    ours, theirs = getattr(nn, name)(affine=True), getattr(torch.nn, name)(affine=True)
    assert repr(ours) == repr(theirs)
    ours(numod.rand(shape)), theirs(torch.rand(shape))
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())


def _native(t, name: str, x, weight, bias, options: dict) -> tuple:
    if name == "native_layer_norm":
        return t.native_layer_norm(x, (weight if weight is not None else x[0, 0]).shape[-1:], weight, bias, 1e-3)
    if name == "native_group_norm":
        return t.native_group_norm(x, weight, bias, x.shape[0], x.shape[1], x[0, 0].numel(), 3, 1e-3)
    running = (
        (t.full((6,), 0.5, dtype=t.float64), t.full((6,), 2.0, dtype=t.float64))
        if options.get("running", True)
        else (None, None)
    )
    return (*t.native_batch_norm(x, weight, bias, *running, options["training"], 0.3, 1e-3), *running)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name, options", [
    ("native_layer_norm", {}), ("native_group_norm", {}), ("native_batch_norm", {"training": True}), ("native_batch_norm", {"training": False}),
    ("native_batch_norm", {"training": True, "running": False}),
])  # fmt: skip
def test_native_forms(name: str, options: dict, affine: bool) -> None:
    """Results, statistics and which of them can be differentiated, and gradients through all of those."""
    rng, outcomes = np.random.default_rng(0), []
    values = (
        rng.standard_normal((4, 6, 5)),
        *(rng.standard_normal(5 if name == "native_layer_norm" else 6) for _ in range(2)),
    )
    for t in (numod, torch):
        leaves = [t.tensor(value).requires_grad_() for value in values[: 3 if affine else 1]]
        results = _native(t, name, leaves[0], *(leaves[1:] or (None, None)), options)
        sum(
            (result * result.detach().cos()).sum() for result in results if result is not None and result.requires_grad
        ).backward()
        seen = [result.detach() for result in results if result is not None] + [leaf.grad for leaf in leaves]
        outcomes.append(
            ([result is not None and result.requires_grad for result in results], [tensor.numpy() for tensor in seen])
        )
    assert outcomes[0][0] == outcomes[1][0]
    for mine, theirs in zip(outcomes[0][1], outcomes[1][1], strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
