"""Pooling and padding layers beside PyTorch's: reprs, values, indices, gradients, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from parity import compare, random, same_error, torch

import numod
from numod import nn
from numod.nn import functional as F

pytestmark = pytest.mark.parity
TF = torch.nn.functional
SIZES = (9, 8, 7)


def data(ndim: int, lead: tuple = (2, 3)) -> np.ndarray:
    return random(*lead, *SIZES[:ndim])


WINDOWS = [case for case in itertools.product((1, 2, 3), (2, 3), (None, 1, 2, 3), (0, 1), (1, 2), (False, True))]


@pytest.mark.parametrize("ndim, kernel, stride, padding, dilation, ceil", WINDOWS, ids=str)
def test_max_pool(ndim: int, kernel: int, stride: int | None, padding: int, dilation: int, ceil: bool) -> None:
    compare(lambda t, x: getattr(t.nn, f"MaxPool{ndim}d")(kernel, stride, padding, dilation, True, ceil)(x), data(ndim))


@pytest.mark.parametrize(
    "ndim, kernel, stride, padding, dilation, ceil", [case for case in WINDOWS if case[4] == 1], ids=str
)
def test_avg_and_lp_pool(ndim: int, kernel: int, stride: int | None, padding: int, dilation: int, ceil: bool) -> None:
    for count in (True, False):
        compare(
            lambda t, x, count=count: getattr(t.nn, f"AvgPool{ndim}d")(kernel, stride, padding, ceil, count)(x),
            data(ndim),
        )
    if ndim > 1:
        compare(lambda t, x: getattr(t.nn, f"AvgPool{ndim}d")(kernel, stride, padding, ceil, True, 5)(x), data(ndim))
    if not padding:
        compare(lambda t, x: getattr(t.nn, f"LPPool{ndim}d")(2, kernel, stride, ceil)(x), np.abs(data(ndim)) + 0.1)


@pytest.mark.parametrize("ndim, size", list(itertools.product((1, 2, 3), (1, 3, 5, 7, 12))))
def test_adaptive_pools(ndim: int, size: int) -> None:
    compare(lambda t, x: getattr(t.nn, f"AdaptiveAvgPool{ndim}d")(size)(x), data(ndim))
    compare(lambda t, x: getattr(t.nn, f"AdaptiveMaxPool{ndim}d")(size, True)(x), data(ndim))
    compare(lambda t, x: getattr(t.nn, f"AdaptiveAvgPool{ndim}d")(size)(x), data(ndim, (3,)))


def test_adaptive_sizes_of_none() -> None:
    compare(lambda t, x: t.nn.AdaptiveAvgPool2d((None, 3))(x), data(2))
    compare(lambda t, x: t.nn.AdaptiveMaxPool2d((4, None))(x), data(2))


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_unpooling(ndim: int) -> None:
    def function(t, x):
        pool, unpool = getattr(t.nn, f"MaxPool{ndim}d")(2, return_indices=True), getattr(t.nn, f"MaxUnpool{ndim}d")(2)
        values, indices = pool(x)
        return unpool(values, indices, output_size=x.shape)

    compare(function, data(ndim))


@pytest.mark.parametrize("ndim", [2, 3])
def test_fractional(ndim: int) -> None:
    u = np.random.default_rng(1).random((2, 3, ndim))
    compare(
        lambda t, x: getattr(t.nn, f"FractionalMaxPool{ndim}d")(
            2, output_size=(4, 3, 3)[:ndim], return_indices=True, _random_samples=t.tensor(u)
        )(x),
        data(ndim),
    )
    assert (
        getattr(nn, f"FractionalMaxPool{ndim}d")(2, output_ratio=0.5)(numod.rand(2, 3, *SIZES[:ndim])).shape
        == (2, 3, 4, 4, 3)[: 2 + ndim]
    )


def test_nan_wins() -> None:
    x = data(2)
    x[0, 0, 3, 3] = np.nan
    actual = F.max_pool2d(numod.tensor(x), 2, return_indices=True)
    expected = TF.max_pool2d(torch.tensor(x), 2, return_indices=True)
    np.testing.assert_array_equal(actual[0].numpy(), expected[0].numpy())
    assert actual[1].tolist() == expected[1].tolist()


MAKERS = [
    lambda n: n.MaxPool2d(3, 2, 1), lambda n: n.MaxPool1d(2), lambda n: n.AvgPool2d((2, 3)), lambda n: n.AvgPool1d(2),
    lambda n: n.LPPool2d(2, 3, stride=2), lambda n: n.AdaptiveAvgPool2d((5, 7)),
    lambda n: n.AdaptiveMaxPool3d(2), lambda n: n.MaxUnpool2d(2), lambda n: n.FractionalMaxPool2d(3, output_size=2),
    lambda n: n.ZeroPad2d(2), lambda n: n.ConstantPad1d((1, 2), 3.5),
    lambda n: n.ReflectionPad3d(1), lambda n: n.ReplicationPad2d((1, 2, 0, 1)), lambda n: n.CircularPad2d(2),
    lambda n: n.AvgPool3d(2), lambda n: n.MaxPool3d((2, 2, 1)),
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_reprs(make) -> None:
    assert repr(make(nn)) == repr(make(torch.nn))


@pytest.mark.parametrize(
    "kind, ndim", list(itertools.product(("Zero", "Reflection", "Replication", "Circular"), (1, 2, 3)))
)
def test_padding_layers(kind: str, ndim: int) -> None:
    for padding in (2, (1, 2, 0, 3, 1, 0)[: 2 * ndim]):
        compare(lambda t, x, padding=padding: getattr(t.nn, f"{kind}Pad{ndim}d")(padding)(x), data(ndim))
        compare(lambda t, x, padding=padding: getattr(t.nn, f"{kind}Pad{ndim}d")(padding)(x), data(ndim, (3,)))
    if kind != "Reflection":
        compare(
            lambda t, x: t.nn.functional.pad(
                x, (-1, 2), {"Zero": "constant", "Replication": "replicate", "Circular": "circular"}[kind]
            ),
            data(1),
        )
    compare(lambda t, x: t.nn.ConstantPad1d((2, -1), 1.5)(x), data(1))


@pytest.mark.parametrize("call", [
    lambda t: t.nn.functional.max_pool2d(t.zeros(4, 4), 2), lambda t: t.nn.functional.max_pool2d(t.zeros(1, 1, 4, 4), 2, padding=2), lambda t: t.nn.functional.max_pool2d(t.zeros(1, 1, 2, 2), 3),
    lambda t: t.nn.functional.max_pool2d(t.zeros(1, 1, 4, 4), 2, stride=0), lambda t: t.nn.functional.avg_pool2d(t.zeros(1, 1, 4, 4), 2, divisor_override=0), lambda t: t.nn.functional.adaptive_avg_pool2d(t.zeros(4), 2),
    lambda t: t.nn.functional.pad(t.zeros(1, 1, 3), (3, 0), "reflect"), lambda t: t.nn.functional.pad(t.zeros(1, 1, 3), (4, 0), "circular"), lambda t: t.nn.functional.pad(t.zeros(1, 1, 3), (1, 0), "other"),
    lambda t: t.nn.functional.pad(t.zeros(3), (1, 0), "reflect"), lambda t: t.nn.FractionalMaxPool2d(2), lambda t: t.nn.functional.max_pool2d(t.zeros(1, 1, 4, 4), (2, 2, 2)),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(call)
