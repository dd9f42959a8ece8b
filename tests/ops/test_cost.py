"""Operations counted from the shapes of ops: of whole networks, of their gradients, and beside `summary`."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.profiler import profile
from numod.utils import summary


LENET = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 6 * 25 + 400 * 120 + 120 * 84 + 84 * 10  # multiply-adds


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def test_multiply_adds_of_lenet() -> None:
    net = lenet()
    with profile(with_flops=True) as prof, numod.no_grad():
        net(numod.randn(1, 1, 28, 28))
    assert sum(event.multiply_adds for event in prof.events()) == LENET == 416_520
    assert prof.key_averages().total_average().multiply_adds == LENET


def test_gradients_of_lenet_cost_twice_its_forward_but_for_the_first_input() -> None:
    net = lenet()
    with profile(with_flops=True) as prof:
        net(numod.randn(1, 1, 28, 28)).sum().backward()
    assert sum(event.multiply_adds for event in prof.events()) == 3 * LENET - 28 * 28 * 6 * 25


@pytest.mark.parametrize(("size", "batch"), [(4, 1), (6, 5), (300, 70)])
def test_gradients_of_linear_layers_of_every_size_are_counted(size: int, batch: int) -> None:
    net = nn.Sequential(nn.Linear(size, size), nn.Linear(size, size))
    with profile(with_flops=True) as prof:
        net(numod.randn(batch, size)).sum().backward()
    assert sum(event.multiply_adds for event in prof.events()) == 5 * batch * size * size


@pytest.mark.parametrize(("layer", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_gradients_of_recurrent_layers_cost_twice_their_forward(layer: type, gates: int) -> None:
    rows, size, hidden = 5 * 3, 4, 8
    net = layer(size, hidden)
    with profile(with_flops=True) as prof:
        net(numod.randn(5, 3, size))[0].sum().backward()
    assert sum(event.multiply_adds for event in prof.events()) == rows * gates * hidden * (2 * size + 3 * hidden)


def test_multiply_adds_of_alexnet() -> None:
    convolutions = (
        (3, 64, 11, 4, 2),
        (64, 192, 5, 1, 2),
        (192, 384, 3, 1, 1),
        (384, 256, 3, 1, 1),
        (256, 256, 3, 1, 1),
    )
    with numod.device("meta"):  # shapes and no values, as no more is asked
        layers = [
            [nn.Conv2d(*convolution), nn.ReLU(), *([nn.MaxPool2d(3, 2)] if k in (0, 1, 4) else [])]
            for k, convolution in enumerate(convolutions)
        ]
        net = nn.Sequential(
            *sum(layers, []),
            nn.Flatten(),
            nn.Linear(9216, 4096),
            nn.ReLU(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, 1000),
        )
        x = numod.empty(1, 3, 224, 224)
    with profile(with_flops=True) as prof, numod.no_grad():
        assert net(x).shape == (1, 1000)
    assert (
        sum(event.multiply_adds for event in prof.events())
        == summary(net, input_data=x, verbose=0).total_mult_adds
        == 714_188_480
    )


def test_flops_of_pointwise_ops_reductions_and_products() -> None:
    x, y = numod.ones(3, 4), numod.ones(4, 5)
    with profile(with_flops=True) as prof:
        x + x
        x.sum()
        x @ y
        x.t()
    results = {event.name: (event.flops, event.bytes_moved) for event in prof.events() if event.category == "op"}
    assert results["numod::add"] == (12, 3 * 48)
    assert results["numod::sum"] == (12, 48 + 4)
    assert results["numod::matmul"] == (2 * 3 * 4 * 5, 4 * (12 + 20 + 15))
    assert all(
        flops == 0
        for name, (flops, _) in results.items()
        if "add" not in name and "sum" not in name and "matmul" not in name
    )


def test_half_precision_is_counted_once() -> None:
    x = numod.ones(4, 4, dtype=numod.float16)
    with profile(with_flops=True) as prof:
        x @ x
    assert sum(event.multiply_adds for event in prof.events()) == 64
