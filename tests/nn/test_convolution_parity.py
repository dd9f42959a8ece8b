"""Convolution layers beside PyTorch's: constructor, repr, state, outputs, gradients, errors."""

from __future__ import annotations

import itertools

import pytest
from parity import LIBRARIES, compare_modules, random, same, same_error, torch, twins

import numod
from numod import nn

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Using padding=.same.")]

SIZES = {1: (11,), 2: (9, 11), 3: (5, 6, 7)}
OPTIONS = [
    {}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": False},
    {"stride": 2, "padding": 1, "dilation": 2, "groups": 4}, {"padding": "same"},
    {"padding": "same", "dilation": 2}, {"padding": "valid"}, {"padding": 2, "padding_mode": "reflect"},
    {"padding": 2, "padding_mode": "replicate"},
    {"padding": 1, "padding_mode": "circular"}, {"padding": "same", "padding_mode": "circular"},
]  # fmt: skip
TRANSPOSED = [
    {},
    {"stride": 2},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"groups": 4, "dilation": 2},
    {"stride": 3, "bias": False},
]
CASES = [(f"Conv{n}d", n, k, o) for n, k, o in itertools.product((1, 2, 3), (1, 2, 3), OPTIONS)]
CASES += [(f"ConvTranspose{n}d", n, k, o) for n, k, o in itertools.product((1, 2, 3), (2, 3), TRANSPOSED)]


@pytest.mark.parametrize("name, ndim, kernel, options", CASES, ids=str)
def test_layers(name: str, ndim: int, kernel: int, options: dict) -> None:
    if options.get("output_padding") and kernel == 2:
        options = {**options, "output_padding": 0}
    modules = twins(lambda nn: getattr(nn, name)(4, 8, kernel, **options))
    x = random(2, 4, *SIZES[ndim])
    compare_modules(modules, lambda t, layer: (lambda x: (layer(x), [x]))(t.tensor(x, requires_grad=True)))
    same(*(layer(t.tensor(x[0])) for t, layer in zip(LIBRARIES, modules)))


def test_output_size_of_transposed_convolutions() -> None:
    ours, theirs = twins(lambda nn: nn.ConvTranspose2d(4, 8, 3, stride=2))
    x = random(2, 4, 5, 6)
    for size in ([12, 14], [2, 8, 11, 13]):
        same(ours(numod.tensor(x), output_size=size), theirs(torch.tensor(x), output_size=size))
    with pytest.raises(ValueError, match="requested an output size"):
        ours(numod.tensor(x), output_size=[20, 20])


@pytest.mark.parametrize("call", [
    lambda t, n: n.Conv2d(3, 4, 3, groups=2), lambda t, n: n.Conv2d(4, 3, 3, groups=2), lambda t, n: n.Conv2d(3, 4, 3, padding="other"), lambda t, n: n.Conv2d(3, 4, 3, stride=2, padding="same"),
    lambda t, n: n.Conv2d(3, 4, 3, padding_mode="other"), lambda t, n: n.Conv2d(3, 4, 3)(t.zeros(1, 2, 5, 5)), lambda t, n: n.Conv2d(3, 4, 3)(t.zeros(3, 5)), lambda t, n: n.Conv2d(3, 4, 7)(t.zeros(1, 3, 5, 5)),
    lambda t, n: n.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), lambda t, n: n.ConvTranspose2d(3, 4, 3, stride=2, output_padding=2)(t.zeros(1, 3, 4, 4)),
    lambda t, n: n.Conv2d(3, 4, 3, groups=0), lambda t, n: n.functional.conv2d(t.zeros(1, 3, 5, 5), t.zeros(4, 3, 3, 3), t.zeros(3)), lambda t, n: n.functional.conv2d(t.zeros(1, 3, 5, 5), t.zeros(4, 3, 3, 3), stride=0),
    lambda t, n: n.functional.conv2d(t.zeros(1, 3, 5, 5), t.zeros(4, 3, 3, 3, dtype=t.float64)), lambda t, n: n.Conv1d(3, 4, 3)(t.zeros(2, 3, 5, 5)),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(lambda t: call(t, t.nn))


@pytest.mark.parametrize("name", ["LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose2d"])
def test_lazy_forms(name: str) -> None:
    ours, theirs = getattr(nn, name)(8, 3, stride=2), getattr(torch.nn, name)(8, 3, stride=2)
    assert repr(ours) == repr(theirs)
    ndim = int(name[-2])
    ours(numod.zeros(2, 4, *SIZES[ndim]))
    theirs(torch.zeros(2, 4, *SIZES[ndim]))
    assert (
        repr(ours) == repr(theirs)
        and type(ours).__name__ == type(theirs).__name__
        and ours.weight.shape == tuple(theirs.weight.shape)
    )


def test_convolution_with_time_first():
    x, weight, bias = torch.rand(5, 2, 3), torch.rand(3, 3, 4), torch.rand(4)
    ours = numod.nn.functional.conv_tbc(*(numod.tensor(tensor.numpy()) for tensor in (x, weight, bias)), pad=1)
    torch.testing.assert_close(torch.tensor(ours.numpy()), torch.nn.functional.conv_tbc(x, weight, bias, 1))
