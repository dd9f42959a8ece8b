"""Embeddings and image functions beside PyTorch's: values and gradients over all modes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from parity import compare, random, torch

from numod import nn

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*align_corners"),
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]


@pytest.mark.parametrize("kernel, dilation, padding, stride", [(3, 1, 0, 1), ((2, 3), 2, 1, 2), (2, 1, (1, 0), (2, 1))])
def test_unfold_and_fold(kernel, dilation, padding, stride) -> None:
    compare(lambda t, x: t.nn.Unfold(kernel, dilation, padding, stride)(x), random(2, 3, 7, 8))
    columns = torch.nn.functional.unfold(torch.zeros(2, 3, 7, 8), kernel, dilation, padding, stride).shape
    compare(lambda t, x: t.nn.Fold((7, 8), kernel, dilation, padding, stride)(x), random(*columns))


def test_shuffles() -> None:
    compare(lambda t, x: t.nn.PixelShuffle(2)(x), random(2, 8, 3, 4))
    compare(lambda t, x: t.nn.PixelUnshuffle(2)(x), random(2, 3, 6, 4))
    compare(lambda t, x: t.nn.ChannelShuffle(2)(x), random(2, 6, 3, 4))


RESIZES = [
    (mode, ndim, corners)
    for mode, ndim in (
        ("nearest", 1),
        ("nearest", 2),
        ("nearest", 3),
        ("nearest-exact", 2),
        ("area", 2),
        ("linear", 1),
        ("bilinear", 2),
        ("bicubic", 2),
        ("trilinear", 3),
    )
    for corners in ((None, True) if "linear" in mode or mode == "bicubic" else (None,))
]


@pytest.mark.parametrize("mode, ndim, corners", RESIZES)
def test_interpolate(mode: str, ndim: int, corners: bool | None) -> None:
    x = random(2, 3, *(5, 6, 4)[:ndim])
    for options in (
        {"size": (8, 3, 7)[:ndim]},
        {"scale_factor": 2},
        {"scale_factor": 1.7},
        {"scale_factor": 0.6, "recompute_scale_factor": True},
    ):
        compare(
            lambda t, x, options=options: t.nn.functional.interpolate(x, mode=mode, align_corners=corners, **options), x
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias(mode: str) -> None:
    compare(
        lambda t, x: t.nn.functional.interpolate(x, size=(5, 4), mode=mode, antialias=True),
        random(1, 2, 13, 9),
        atol=1e-6,
    )


GRIDS = [
    case
    for case in itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True))
]


@pytest.mark.parametrize("mode, padding, corners", GRIDS)
def test_grid_sample(mode: str, padding: str, corners: bool) -> None:
    def sample(t, x, grid):
        return t.nn.functional.grid_sample(x, grid, mode, padding, corners)

    compare(sample, random(2, 3, 6, 7), random(2, 4, 5, 2) * 0.9)
    if mode != "bicubic":
        compare(sample, random(2, 2, 4, 5, 3), random(2, 3, 2, 4, 3) * 0.9)


@pytest.mark.parametrize("corners", [False, True])
def test_affine_grid(corners: bool) -> None:
    compare(lambda t, x: t.nn.functional.affine_grid(x, (2, 3, 4, 5), corners), random(2, 2, 3))
    compare(lambda t, x: t.nn.functional.affine_grid(x, (2, 3, 4, 5, 6), corners), random(2, 3, 4))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 2},
        {"max_norm": 1.0},
        {"scale_grad_by_freq": True},
        {"padding_idx": -1, "max_norm": 0.5, "norm_type": 1.0},
    ],
    ids=str,
)
def test_embedding(options: dict) -> None:
    weight, index = random(6, 4), np.array([[0, 2, 5], [2, 2, 1]])
    if "max_norm" in options:  # which writes to the weight
        compare(lambda t, w: t.nn.functional.embedding(t.tensor(index), w.detach(), **options).requires_grad_(), weight)
    else:
        compare(lambda t, w: t.nn.functional.embedding(t.tensor(index), w, **options), weight)
    assert repr(nn.Embedding(6, 4, **options)) == repr(torch.nn.Embedding(6, 4, **options))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"include_last_offset": True}], ids=str)
def test_embedding_bag(mode: str, options: dict) -> None:
    weight, index = random(6, 4), np.array([0, 2, 5, 2, 2, 1, 3])
    offsets = np.array([0, 3, 3, 5, 7] if options.get("include_last_offset") else [0, 3, 3, 5])
    compare(
        lambda t, w: t.nn.functional.embedding_bag(t.tensor(index), w, t.tensor(offsets), mode=mode, **options), weight
    )
    if "include_last_offset" not in options:
        compare(
            lambda t, w: t.nn.functional.embedding_bag(t.tensor(index[:6].reshape(2, 3)), w, mode=mode, **options),
            weight,
        )
    if mode == "sum":
        compare(
            lambda t, w, s: t.nn.functional.embedding_bag(
                t.tensor(index), w, t.tensor(offsets), mode=mode, per_sample_weights=s, **options
            ),
            weight,
            random(7),
        )
    assert repr(nn.EmbeddingBag(6, 4, mode=mode, **options)) == repr(torch.nn.EmbeddingBag(6, 4, mode=mode, **options))


@pytest.mark.parametrize("make", [
    lambda n: n.Upsample(scale_factor=2), lambda n: n.Upsample(size=(3, 4), mode="bilinear"), lambda n: n.UpsamplingNearest2d(scale_factor=2), lambda n: n.UpsamplingBilinear2d(size=3), lambda n: n.Fold(3, 2), lambda n: n.Unfold((2, 3), stride=2),
    lambda n: n.PixelShuffle(2), lambda n: n.PixelUnshuffle(2), lambda n: n.ChannelShuffle(2), lambda n: n.Dropout2d(0.3), lambda n: n.AlphaDropout(), lambda n: n.FeatureAlphaDropout(0.1, True), lambda n: n.CosineSimilarity(0), lambda n: n.PairwiseDistance(3.0),
])  # fmt: skip
def test_reprs(make) -> None:
    assert repr(make(nn)) == repr(make(torch.nn))
