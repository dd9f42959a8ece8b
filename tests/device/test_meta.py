"""The device `meta`: shapes, dtypes and gradients' shapes without memory; and the default device."""

from __future__ import annotations

import pytest

import numod
import numod as torch
from numod import nn


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 10),
        nn.LayerNorm(10),
    )


def test_a_network_has_shapes_and_no_values() -> None:
    with torch.device("meta"):
        model, x = network(), torch.randn(2, 3, 8, 8)
    out = model(x)
    assert (out.shape, out.dtype, out.device.type, out.requires_grad) == ((2, 10), torch.float32, "meta", True)
    out.sum().backward()
    assert (
        model[0].weight.grad.shape == (8, 3, 3, 3)
        and model[0].weight.is_meta
        and isinstance(model[0].weight, nn.Parameter)
    )
    for kind in (torch.optim.Adam, torch.optim.SGD):
        kind(model.parameters(), lr=0.1).step()
    for read in (out.sum().item, out.tolist, out.detach().cpu, lambda: model.to("cpu"), lambda: bool(out.sum() > 0)):
        with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
            read()


def test_a_network_gets_its_values_later() -> None:
    model = nn.Linear(3, 2, device="meta")
    assert repr(model.weight) == "Parameter containing:\ntensor(..., device='meta', size=(2, 3), requires_grad=True)"
    source = nn.Linear(3, 2)
    with pytest.warns(UserWarning, match="no-op"):
        model.load_state_dict(source.state_dict())
    model.load_state_dict(source.state_dict(), assign=True)
    assert torch.equal(model.weight, source.weight) and model.weight.requires_grad
    empty = nn.Linear(3, 2, device="meta").to_empty(device="cpu")
    empty.reset_parameters()
    assert empty(torch.ones(1, 3)).isfinite().all()


@pytest.mark.parametrize(("call", "shape"), [
    (lambda a: a @ a.T + 1, (3, 3)), (lambda a: a.sum(0).exp().softmax(0), (4,)), (lambda a: torch.cat([a, a]), (6, 4)), (lambda a: a.topk(2)[1], (3, 2)),
    (lambda a: a.sort()[0], (3, 4)), (lambda a: a.cumsum(0), (3, 4)), (lambda a: a[1:, ::2], (2, 2)), (lambda a: a.half(), (3, 4)), (lambda a: a > 0, (3, 4)),
    (lambda a: nn.LSTM(4, 5, device="meta")(a)[0], (3, 5)), (lambda a: nn.TransformerEncoderLayer(4, 2, device="meta")(a), (3, 4)), (lambda a: a.uniform_(), (3, 4)),
    (lambda a: a.fill_(2).add_(1).copy_(torch.ones(3, 4)), (3, 4)), (lambda a: nn.init.kaiming_uniform_(a), (3, 4)), (lambda a: a.gather(0, (a > 0).long()), (3, 4)),
])  # fmt: skip
def test_ops_give_shapes(call: object, shape: tuple) -> None:
    result = call(torch.empty(3, 4, device="meta"))
    assert result.shape == shape and result.is_meta


def test_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError):
        torch.ones(3) + torch.ones(3, device="meta")


def test_the_default_device() -> None:
    torch.set_default_device("meta")
    try:
        assert (
            torch.zeros(2).is_meta
            and torch.tensor([1.0]).is_meta
            and torch.get_default_device() == torch.device("meta")
        )
        with torch.device("cpu"):
            assert torch.arange(2).device.type == "cpu"
        assert torch.from_numpy(torch.zeros(1, device="cpu").numpy()).device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"
    assert torch.device("meta")(torch.ones)(3).is_meta


def test_ops_with_memory_of_their_own_have_shapes():
    x = torch.empty(4, 64, 33, 33, device="meta")
    assert (
        nn.functional.max_pool2d(x, 3, 2).shape == (4, 64, 16, 16)
        and nn.functional.max_pool2d(x, 3, 2, return_indices=True)[1].dtype is torch.int64
    )
    assert nn.functional.conv2d(x, torch.empty(8, 64, 3, 3, device="meta")).shape == (4, 8, 31, 31)
    assert (x @ x).shape == x.shape and nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape


def test_complex_numbers_are_viewed_as_pairs():
    x = numod.ones(2, 3, dtype=numod.complex64, device="meta")
    assert (
        numod.view_as_real(x).shape,
        x.imag.dtype,
        numod.view_as_complex(numod.ones(4, 2, device="meta")).shape,
    ) == ((2, 3, 2), numod.float32, (4,))
    assert numod.ones(4, device="meta").view(numod.int16).shape == (8,)
