"""Each rule of numod.onnx.writer: the model that is written passes ONNX's checker with full_check and gives numod's
results in ONNX Runtime.

About 30 s on two cores with compiled kernels: cases share shapes, so that they share kernels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import numod as torch
from numod import nn

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx
F = nn.functional


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, POSITIVE = made(3, 4), made(3, 4, seed=1), made(3, 4, seed=2).abs() + 0.1
CUBE, IMAGE, SIGNAL, VOLUME = made(2, 3, 4), made(2, 4, 9, 8), made(2, 3, 7), made(1, 2, 4, 5, 6)
INTEGERS = torch.tensor([[-5, 3, 0, 2], [1, -1, 4, 5], [7, -3, 2, -2]])
DIVISORS = torch.tensor([2, -3, 4, 5])
TARGET, PLACES = torch.tensor([1, 0, 3]), torch.tensor([[0, 1, 2, 3], [2, 0, 1, 3], [1, 0, 2, 3]])
ROW = torch.tensor([2, 0])
INFINITY = float("inf")

POINTWISE = (
    "relu sigmoid tanh exp exp2 sin cos tan asinh atan sinh cosh abs neg sign floor ceil round trunc frac square erf erfc "
    "expm1 rad2deg logical_not isnan isinf isfinite signbit sinc"
).split()
OF_POSITIVE = "log log2 log10 log1p sqrt rsqrt reciprocal".split()
PAIRS = (
    "add sub mul div maximum minimum atan2 fmod remainder floor_divide hypot fmax fmin lt le gt ge eq ne copysign "
    "logaddexp xlogy"
).split()
ACTIVATIONS = (
    "elu selu celu gelu silu mish softplus softsign hardswish hardsigmoid hardtanh relu6 leaky_relu logsigmoid tanhshrink "
    "softshrink hardshrink glu softmin"
).split()


def written(x: torch.Tensor) -> tuple:
    """Writes in place to views of several kinds."""
    z = x.clone()
    z[0] = 1
    z[:, 1:3] *= 2
    z[:, ::2] += 1
    flat = z.view(-1)
    flat[3] = 9
    z.t()[1] -= 1
    z.relu_()
    z.diagonal().add_(2)
    z[z > 1] = 0.5
    return z, flat


def written_deeper(x: torch.Tensor) -> tuple:
    """Writes to views of views, and with other strides."""
    z = x.clone()
    z[1:][:, 1:].zero_()
    z.T[1].fill_(7)
    z[None, :, None][0, 1].mul_(2)
    z.as_strided((2, 2), (4, 1), 1).sub_(1)
    z[:, 1::2].add_(3)
    return z, z[1:].sum()


def copied(x: torch.Tensor) -> torch.Tensor:
    """Writes in place that convert and broadcast."""
    z = torch.zeros(3, 4, dtype=torch.float64)
    z.copy_(x)
    z.add_(x, alpha=2)
    z[1:].fill_(3)
    z[:, 0] = z.diagonal()[:3]
    return z.mul_(x[0])


CASES: dict[str, tuple[Callable, tuple]] = {
    **{name: (lambda x, name=name: getattr(torch, name)(x), (X,)) for name in POINTWISE},
    **{name: (lambda x, name=name: getattr(torch, name)(x), (POSITIVE,)) for name in OF_POSITIVE},
    **{name: (lambda x, y, name=name: getattr(torch, name)(x, y), (X, POSITIVE)) for name in PAIRS},
    **{name: (lambda x, name=name: getattr(F, name)(x), (X,)) for name in ACTIVATIONS},
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,)),
    "prelu": (nn.PReLU(4), (X,)),
    "softplus beta": (lambda x: F.softplus(x, 2.0, 5.0), (X,)),
    "powers": (lambda x: (x**2 + x**3 + x**0.5, 2**x, torch.float_power(x, 2)), (POSITIVE,)),
    "integers": (lambda x, y: (x // y, x % y, x / y, torch.fmod(x, y), x * 2 + 1), (INTEGERS, DIVISORS)),
    "integer functions": (lambda x: (x.clamp(0, 3), x.abs(), x.relu(), x.sign(), x.sum(1), x.prod(1)), (INTEGERS,)),
    "bits": (lambda x: (x & 3, x | 5, x ^ 6, ~x, x << 2, x >> 1), (INTEGERS,)),
    "truth": (lambda x, y: ((x & y) | ~x ^ y, x.float() * 2, x.sum(), x.any(), y.all(1)), (X > 0, Y > 0)),
    "where": (lambda m, x, y: (torch.where(m, x, y), x.masked_fill(m, -1.0)), (X > 0, X, Y)),
    "clamp": (lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.2), x.clamp(y, y + 1)), (X, Y)),
    "composed": (lambda x, y: (x.lerp(y, 0.3), x.addcmul(y, y, value=0.5), torch.heaviside(x, y)), (X, Y)),
    "nan_to_num": (lambda x: (torch.nan_to_num(x / 0 * (x > 0)), (x / 0).nansum()), (X,)),
    "casts": (lambda x: (x.long(), x.int(), x.bool(), x.double(), x.half()), (X,)),
    "half": (lambda x: (x * 2 + x.relu()).softmax(-1), (X.half(),)),
    "double": (lambda x: x.sin() @ x.T, (X.double(),)),
    "reductions": (
        lambda x: (x.sum(), x.mean(1), x.amax(-1, True), x.amin(1), x.prod(1), x.norm(), x.norm(1, 1)),
        (CUBE,),
    ),
    "variance": (lambda x: (x.std(1), x.var(), x.std(unbiased=False), x.logsumexp(1)), (CUBE,)),
    "extrema": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True), *x.max(1), *x.min(0), x.max()), (X,)),
    "scans": (lambda x: (x.cumsum(1), x.cumprod(1), x.cummax(1).values, x.logcumsumexp(1)), (X,)),
    "logcumsumexp of a wide range": (
        lambda x: x.logcumsumexp(1),
        (torch.tensor([[-200.0, 0.0, -300.0, 1.0], [-INFINITY, -INFINITY, 5.0, 500.0], [1e4, INFINITY, 0.0, -1e30]]),),
    ),
    "integer scan": (lambda x: x.cumsum(0), (INTEGERS,)),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(-1), x.softmax(0)), (CUBE,)),
    "sorting": (lambda x: (*x.sort(1), *x.sort(0, descending=True), *x.topk(2), x.argsort(1)), (X,)),
    "ranks": (lambda x: (*x.kthvalue(2), x.median(1).values, x.median()), (X,)),
    "searchsorted": (
        lambda x: (torch.bucketize(x, x[0].sort()[0], right=True), torch.bucketize(x, x[0].sort()[0])),
        (X,),
    ),
    "products": (lambda x, y: (x @ y.T, x.mv(y[0]), x[0].dot(y[0]), x[0].outer(y[1]), torch.kron(x, y)), (X, Y)),
    "batched products": (lambda x: (x @ x.mT, torch.bmm(x, x.mT), torch.baddbmm(x @ x.mT, x, x.mT)), (CUBE,)),
    "einsum": (lambda x, y: (torch.einsum("ij,kj->ik", x, y), torch.einsum("ij,ij->i", x, y)), (X, Y)),
    "integer products": (lambda x: x @ x.T, (INTEGERS,)),
    "linear": (nn.Linear(4, 5), (CUBE,)),
    "bilinear": (nn.Bilinear(4, 4, 3), (X, Y)),
    "conv1d": (nn.Conv1d(3, 4, 3, padding=1, stride=2), (SIGNAL,)),
    "conv2d": (nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding=(1, 2)), (IMAGE,)),
    "conv2d same": (nn.Conv2d(4, 6, 4, padding="same", bias=False), (IMAGE,)),
    "conv2d reflect": (nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), (IMAGE,)),
    "conv3d": (nn.Conv3d(2, 3, 2), (VOLUME,)),
    "transposed 1d": (nn.ConvTranspose1d(3, 2, 3, stride=2, output_padding=1), (SIGNAL,)),
    "transposed 2d": (nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), (IMAGE,)),
    "transposed dilated": (nn.ConvTranspose2d(4, 2, 3, dilation=2), (IMAGE,)),
    "max pools": (
        lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.max_pool2d(x, 2, dilation=2)),
        (IMAGE,),
    ),
    "max pool indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,)),
    "average pools": (
        lambda x: (
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x, 2, divisor_override=3),
        ),
        (IMAGE,),
    ),
    "adaptive pools": (
        lambda x: (
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (3, 4)),
            F.adaptive_avg_pool2d(x, (5, 3)),
            F.adaptive_max_pool2d(x, (5, 3)),
        ),
        (IMAGE,),
    ),
    "pools of signals": (lambda x: (F.max_pool1d(x, 2), F.avg_pool1d(x, 3, 1), F.max_pool1d(x[0], 2)), (SIGNAL,)),
    "pools of volumes": (lambda x: (F.max_pool3d(x, 2), F.avg_pool3d(x, 2)), (VOLUME,)),
    "interpolation": (
        lambda x: (
            F.interpolate(x, size=(5, 13)),
            F.interpolate(x, size=(5, 13), mode="bilinear"),
            F.interpolate(x, size=(5, 13), mode="bilinear", align_corners=True),
            F.interpolate(x, size=(5, 13), mode="bicubic"),
            F.interpolate(x, size=(5, 13), mode="bicubic", align_corners=True),
            F.interpolate(x, size=(5, 13), mode="bilinear", antialias=True),
            F.interpolate(x, size=(5, 13), mode="nearest-exact"),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
        ),
        (IMAGE,),
    ),
    "embedding": (nn.Embedding(6, 3), (torch.tensor([[1, 2], [0, 5]]),)),
    "bags": (nn.EmbeddingBag(6, 3), (torch.tensor([[1, 2], [0, 5]]),)),
    "bags by offsets": (nn.EmbeddingBag(6, 3, mode="sum"), (torch.tensor([1, 2, 0, 5]), torch.tensor([0, 3]))),
    "batch norm": (nn.BatchNorm2d(4), (IMAGE,)),
    "batch norm of rows": (nn.BatchNorm1d(4, affine=False), (X,)),
    "batch norm without statistics": (nn.BatchNorm2d(4, track_running_stats=False), (IMAGE,)),
    "layer norm": (nn.LayerNorm((3, 4)), (CUBE,)),
    "layer norm without weights": (nn.LayerNorm(4, elementwise_affine=False), (CUBE,)),
    "rms norm": (nn.RMSNorm(4), (CUBE,)),
    "group norm": (nn.GroupNorm(2, 4), (IMAGE,)),
    "group norm without weights": (nn.GroupNorm(2, 4, affine=False), (IMAGE,)),
    "instance norm": (nn.InstanceNorm1d(3, affine=True), (SIGNAL,)),
    "response norm": (nn.LocalResponseNorm(3), (IMAGE,)),
    "losses of classes": (
        lambda x, t: (
            F.cross_entropy(x, t),
            F.cross_entropy(x, t, reduction="none"),
            F.nll_loss(x.log_softmax(1), t),
            F.cross_entropy(x, t, label_smoothing=0.1),
            F.cross_entropy(x, t, weight=x[0].exp(), ignore_index=0),
        ),
        (X, TARGET),
    ),
    "losses": (
        lambda x, y: (
            F.mse_loss(x, y),
            F.smooth_l1_loss(x, y),
            F.binary_cross_entropy_with_logits(x, y.sigmoid()),
            F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
            F.cosine_similarity(x, y),
            F.triplet_margin_loss(x, y, x + 1),
        ),
        (X, Y),
    ),
    "indexing": (lambda x, i: (x[i], x[:, i], x[1], x[:, 1:3], x[::2], x[:, -1], x[..., None], x[i, i]), (X, ROW)),
    "gather": (lambda x, i: (x.gather(1, i), x.take_along_dim(i, 1), x.index_select(0, i[0, :3])), (X, PLACES)),
    "scatter": (
        lambda x, i, y: (
            x.scatter(1, i, y),
            x.scatter(1, i, 5.0),
            x.scatter_add(1, i, y),
            x.scatter_reduce(1, i, y, "amax"),
            x.index_add(0, i[:, 0], y),
            x.index_fill(1, i[0, :2], 7.0),
        ),
        (X, PLACES, Y),
    ),
    "index_put": (lambda x, i, y: (x.index_put((i,), y[:2]), x.index_copy(0, i, y[:2])), (X, ROW, Y)),
    "in place": (written, (X,)),
    "in place, deeper": (written_deeper, (X,)),
    "in place, converted": (copied, (X,)),
    "joining": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], 1), *x.chunk(2, 1), *x.unbind(0)), (X, Y)),
    "padding": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, -1)), F.pad(x, (1, 1, 1, 0), value=3.0)), (X,)),
    "padding modes": (
        lambda x: tuple([F.pad(x, (1, 2), mode=m) for m in ("reflect", "replicate", "circular")]),
        (SIGNAL,),
    ),
    "flips": (lambda x: (x.flip(0), x.flip(0, 1), x.roll(1, 0), x.roll((1, 2), (0, 1)), x.roll(2), x.rot90()), (X,)),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-1), (x > 0).tril(), x.long().triu()), (X,)),
    "shapes": (
        lambda x: (
            x.reshape(4, 3),
            x.flatten(),
            x[:, None],
            x.T,
            x.expand(2, 3, 4),
            x.repeat(2, 1),
            x.unflatten(1, (2, 2)),
        ),
        (X,),
    ),
    "diagonals": (lambda x: (x.diagonal(), torch.diag_embed(x), torch.diag(x[0]), x[:, :3].trace()), (X,)),
    "patches": (lambda x: (F.unfold(x, 3, padding=1, stride=2), x.unfold(2, 3, 2)), (IMAGE,)),
    "fold": (lambda x: F.fold(x, (4, 5), 2), (made(2, 8, 12),)),
    "shuffles": (
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[:, :, :8], 2), F.channel_shuffle(x, 2)),
        (IMAGE,),
    ),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, made(2, 3, 3, 2).clamp(-1, 1))),
    "distances": (lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1), F.pdist(x)), (X, Y)),
    "cross": (lambda x, y: (torch.cross(x[:, :3], y[:, :3], dim=1), torch.linalg.det(x[:, :3])), (X, Y)),
    "made": (
        lambda x: (torch.arange(4) * x, torch.linspace(0, 1, 5), torch.full((2,), x.shape[0]), torch.eye(3)),
        (X,),
    ),
    "one_hot": (lambda t: F.one_hot(t, 5), (TARGET,)),
    "fake quantization": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), (X,)),
    **{
        f"{cell} {layout}": (getattr(nn, cell)(3, 5, **options), (made(4, 2, 3),))
        for cell in ("LSTM", "GRU", "RNN")
        for layout, options in (
            ("plain", {}),
            ("deep", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
            ("without bias", {"bias": False}),
        )
    },
    "RNN relu": (nn.RNN(3, 5, nonlinearity="relu"), (made(4, 2, 3),)),
    "LSTM with states": (nn.LSTM(3, 5), (made(4, 2, 3), (made(1, 2, 5), made(1, 2, 5)))),
    "GRU with a state": (nn.GRU(3, 5), (made(4, 2, 3), made(1, 2, 5))),
    "LSTM projected": (nn.LSTM(3, 5, proj_size=2), (made(4, 2, 3),)),
    "LSTM unbatched": (nn.LSTM(3, 5), (made(4, 3),)),
    "cells": (nn.LSTMCell(3, 5), (made(2, 3),)),
    "GRU cell": (nn.GRUCell(3, 5), (made(2, 3),)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (made(2, 3, 16, 32),)),
    "attention, causal": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (made(2, 3, 6, 8),)),
    "attention, masked": (
        lambda x, m: F.scaled_dot_product_attention(x, x, x, attn_mask=m),
        (made(2, 3, 6, 8), torch.ones(6, 6).tril(-1).bool()),
    ),
    "multi-head attention": (nn.MultiheadAttention(8, 2, batch_first=True), (made(2, 3, 8),) * 3),
    "dropout": (nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2)), (X,)),
    "results": (lambda x: {"a": x + 1, "b": (x, x * 2)}, (X,)),
}
OTHER_OPSETS = {  # what is written otherwise in other versions
    17: ("reductions", "softmax", "interpolation", "LSTM deep", "mish", "padding modes"),
    19: ("average pools", "padding modes"),
    20: ("gelu", "gelu tanh", "grid_sample"),
    21: ("group norm", "group norm without weights"),
    22: ("conv2d", "max pools", "GRU deep"),
    23: ("rms norm", "attention", "attention, causal", "attention, masked"),
}


def _export(name: str, opset: int) -> None:
    function, args = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers, about their arguments
        program = torch.onnx.export(function, args, opset_version=opset, verify=True)
    onnx.checker.check_model(program.model_proto, full_check=True)


@pytest.mark.parametrize("name", CASES)
def test_op(name: str) -> None:
    _export(name, 18)


@pytest.mark.parametrize(("opset", "name"), [(opset, name) for opset, names in OTHER_OPSETS.items() for name in names])
def test_op_in_another_opset(opset: int, name: str) -> None:
    _export(name, opset)
