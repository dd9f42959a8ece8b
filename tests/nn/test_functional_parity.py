"""Functions of activations, dropouts, embeddings and norms beside PyTorch's: signatures, values, gradients, or the same
kind of error.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import nn
from numod.nn import functional

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)
X, CUBE, TABLE, WEIGHT = (RNG.standard_normal(shape) for shape in ((5, 4), (2, 4, 3), (6, 3), (4,)))
EDGES = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -0.5, 3.0, -3.0, 6.0, 1.0, -1.0, 20.0, 21.0, 1e4, -1e4])
INDEX, OFFSETS = np.array([1, 0, 5, 2, 2, 1, 3]), np.array([0, 2, 2, 5])
ACTIVATIONS = """
    relu relu6 elu selu celu leaky_relu gelu silu mish hardswish hardsigmoid hardtanh softplus softshrink
    hardshrink softsign tanhshrink logsigmoid tanh sigmoid
""".split()


def outcome(library: object, call: Callable, arrays: tuple) -> list | type:
    """The result and the gradients of its squares, or the type of the error."""
    inputs = [library.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    try:
        result = call(library.nn.functional, *inputs)
        if result.requires_grad:
            (result * result).sum().backward()
    except Exception as error:
        return type(error)
    return [result.detach().numpy(), *(input.grad.numpy() for input in inputs if input.grad is not None)]


def same(call: Callable, *arrays: np.ndarray) -> None:
    mine, theirs = outcome(numod, call, arrays), outcome(torch, call, arrays)
    if isinstance(theirs, type):
        assert isinstance(mine, type) and issubclass(mine, theirs), (mine, theirs)
    else:
        assert not isinstance(mine, type) and len(mine) == len(theirs), (mine, theirs)
        for a, b in zip(mine, theirs):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7 if a.dtype == np.float32 else 1e-9)


@pytest.mark.parametrize(
    "values",
    [X, np.array(-0.5), np.zeros((0, 3)), EDGES, np.array([-2, 0, 3, 8]), X.astype(np.float32)],
    ids=["rows", "0d", "empty", "edges", "int", "float32"],
)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, values: np.ndarray) -> None:
    # tanhshrink's gradient is 1 at infinities and mish(inf) is inf; PyTorch computes infinity times 0 there
    if name in ("tanhshrink", "mish"):
        values = values[np.isfinite(values)]
    same(lambda F, x: getattr(F, name)(x), values)


@pytest.mark.parametrize("numbers", [(0.3,), (0.3, 0.7), (True,), (0.3, True), (0.3, 0.7, True), (2.0, 1.0), ()])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_settings_of_activations(name: str, numbers: tuple) -> None:
    same(lambda F, x: getattr(F, name)(x.detach().clone(), *numbers), X)
    same(lambda F, x: getattr(F, name)(input=x, inplace=True), X)  # a leaf is refused, and some have no such form
    same(lambda F, x: getattr(F, name)(x, *numbers, nothing=1), X)
    same(lambda F: getattr(F, name)(*numbers[:0]))


@pytest.mark.parametrize(
    "name", ["relu_", "elu_", "selu_", "celu_", "leaky_relu_", "hardtanh_", "threshold_", "rrelu_"]
)
def test_over_the_input(name: str) -> None:
    numbers = (0.1, 0.2) if name == "threshold_" else ()
    for library in (numod, torch):
        x = library.tensor(X)
        assert getattr(library.nn.functional, name)(x, *numbers) is x
    same(lambda F, x: getattr(F, name)(x * 1, *numbers), X)


CALLS: dict[str, tuple[Callable, tuple]] = {
    "threshold": (lambda F, x: F.threshold(x, threshold=0.1, value=2), (X,)),
    "threshold of integers": (lambda F, x: F.threshold(x, -1.5, 20.7), (np.arange(-3, 3),)),
    "threshold of nothing": (lambda F, x: F.threshold(x), (X,)),
    "gelu tanh": (lambda F, x: F.gelu(x, approximate="tanh"), (X,)),
    "gelu other": (lambda F, x: F.gelu(x, approximate="x"), (X,)),
    "prelu one": (lambda F, x, w: F.prelu(x, w), (X, WEIGHT[:1])),
    "prelu channels": (lambda F, x, w: F.prelu(x, w), (CUBE, WEIGHT)),
    "prelu two": (lambda F, x, w: F.prelu(x, w), (X, WEIGHT[:2])),
    "prelu matrix": (lambda F, x, w: F.prelu(x, w), (X, WEIGHT[:1, None])),
    "prelu dtype": (lambda F, x, w: F.prelu(x, w.float()), (X, WEIGHT)), "rrelu": (lambda F, x: F.rrelu(x), (X,)),
    "rrelu drawn": (lambda F, x: F.rrelu(x, 0.2, 0.2, True), (X,)),
    "rrelu bounds": (lambda F, x: F.rrelu(x, 0.5, 0.2), (X,)),
    "softshrink negative": (lambda F, x: F.softshrink(x, -0.5), (X,)),
    "glu": (lambda F, x: F.glu(x, 0), (X[:4],)), "glu odd": (lambda F, x: F.glu(x, 0), (X,)),
    "glu scalar": (lambda F, x: F.glu(x), (np.array(1.0),)), "glu empty": (lambda F, x: F.glu(x), (np.zeros((4, 0)),)),
    "glu dim": (lambda F, x: F.glu(x, 5), (X,)),
    "softmax dtype": (lambda F, x: F.softmax(x, 0, dtype=x.float().dtype), (X,)),
    "softmin": (lambda F, x: F.softmin(x, -1), (CUBE,)), "softmax default": (lambda F, x: F.softmax(x), (CUBE,)),
    "gumbel sums": (lambda F, x: F.gumbel_softmax(x, hard=True).sum(-1), (X,)),
    "normalize": (lambda F, x: F.normalize(x, 3.0, 0), (X,)),
    "normalize out": (lambda F, x: F.normalize(x.detach(), out=x.detach() * 0), (X,)),
    "cosine of broadcast": (lambda F, x, y: F.cosine_similarity(x, y), (X, WEIGHT)),
    "cosine with integers": (lambda F, x: F.cosine_similarity(x, (x > 0).long()), (X,)),
    "cosine of zeros": (lambda F, x, y: F.cosine_similarity(x, y), (X, np.zeros((5, 4)))),
    "distance": (lambda F, x, y: F.pairwise_distance(x, y, 1, keepdim=True), (X, X[::-1].copy())),
    "one_hot": (lambda F, n: F.one_hot(n), (INDEX,)), "one_hot few": (lambda F, n: F.one_hot(n, 3), (INDEX,)),
    "one_hot float": (lambda F, x: F.one_hot(x), (X,)),
    "embedding": (lambda F, n, w: F.embedding(n, w, 2), (INDEX.reshape(7, 1), TABLE)),
    "embedding frequency": (lambda F, n, w: F.embedding(n, w, 2, scale_grad_by_freq=True), (INDEX, TABLE)),
    "embedding out": (lambda F, n, w: F.embedding(n + 1, w), (INDEX, TABLE)),
    "embedding max_norm": (lambda F, n, w: F.embedding(n, w.detach(), max_norm=1.0, norm_type=1.0), (INDEX, TABLE)),
    "embedding floats": (lambda F, x, w: F.embedding(x, w), (X, TABLE)),
    "embedding vector": (lambda F, n, w: F.embedding(n, w[0]), (INDEX, TABLE)),
    "bag max": (lambda F, n, o, w: F.embedding_bag(n, w, o, mode="max"), (INDEX, OFFSETS, TABLE)),
    "bag mean": (lambda F, n, o, w: F.embedding_bag(n, w, o), (INDEX, OFFSETS, TABLE)),
    "bag padding": (lambda F, n, o, w: F.embedding_bag(n, w, o, mode="sum", padding_idx=-4), (INDEX, OFFSETS, TABLE)),
    "bag shares": (lambda F, n, o, w, s: F.embedding_bag(n, w, o, mode="sum", per_sample_weights=s, padding_idx=1),
        (INDEX, OFFSETS, TABLE, RNG.random(7))),
        "bag shares mean": (lambda F, n, o, w, s: F.embedding_bag(n, w, o, per_sample_weights=s),
            (INDEX, OFFSETS, TABLE, RNG.random(7))),
    "bag last": (lambda F, n, o, w: F.embedding_bag(n, w, o, include_last_offset=True),
        (INDEX, np.array([0, 3, 3, 7]), TABLE)),
        "bag rows": (lambda F, n, w: F.embedding_bag(n, w, mode="max", padding_idx=1),
            (INDEX[:6].reshape(2, 3), TABLE)),
            "bag start": (lambda F, n, o, w: F.embedding_bag(n, w, o), (INDEX, OFFSETS + 1, TABLE)),
    "bag out": (lambda F, n, o, w: F.embedding_bag(n + 1, w, o), (INDEX, OFFSETS, TABLE)),
    "bag frequency": (lambda F, n, o, w: F.embedding_bag(n, w, o, mode="max", scale_grad_by_freq=True),
        (INDEX, OFFSETS, TABLE)), "bag without": (lambda F, n, w: F.embedding_bag(n, w), (INDEX, TABLE)),
    "layer_norm half": (lambda F, x, w: F.layer_norm(x.half(), (4,), w.float()).float(), (np.ones((5, 4)), WEIGHT)),
    "layer_norm mixed": (lambda F, x, w: F.layer_norm(x, (4,), w.float()), (X, WEIGHT)),
    "layer_norm empty": (lambda F, x, w: F.layer_norm(x, (4,), w), (np.zeros((0, 4)), WEIGHT)),
    "rms_norm half": (lambda F, x, w: F.rms_norm(x.half(), (4,), w.float()).float(), (np.ones((5, 4)), WEIGHT)),
    "rms_norm integers": (lambda F, n: F.rms_norm(n, (7,)), (INDEX,)),
    "rms_norm scalar": (lambda F, x: F.rms_norm(x, (1,)), (np.array(1.0),)),
    "batch_norm integers": (lambda F, n: F.batch_norm(n.reshape(7, 1), None, None, training=True), (INDEX,)),
    "batch_norm mixed": (lambda F, x, w: F.batch_norm(x, w.half(), w.half()), (X, WEIGHT**2)),
    "batch_norm empty": (lambda F, x, w: F.batch_norm(x, None, None, w, training=True), (np.zeros((0, 4)), WEIGHT)),
    "group_norm mixed": (lambda F, x, w: F.group_norm(x, 2, w.float()), (X, WEIGHT)),
    "instance_norm 1": (lambda F, x: F.instance_norm(x), (CUBE[:, :, :1],)),
    "dropout over": (lambda F, x: F.dropout(x, 1.5), (X,)), "dropout1d": (lambda F, x: F.dropout1d(x, 1.0), (CUBE,)),
    "dropout1d flat": (lambda F, x: F.dropout1d(x), (WEIGHT,)),
    "dropout2d flat": (lambda F, x: F.dropout2d(x), (WEIGHT,)),
    "dropout off": (lambda F, x: F.dropout3d(x, 0.5, False), (CUBE,)),
    "alpha all": (lambda F, x: F.alpha_dropout(x, 1.0, True), (X,)),
    "feature alpha flat": (lambda F, x: F.feature_alpha_dropout(x, 0.5, True), (WEIGHT,)),
    "dropout integers": (lambda F, n: F.dropout(n), (INDEX,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, arrays = CALLS[name]
    same(call, *arrays)


def described(value: object) -> list | None:
    """Names, kinds and defaults of parameters; None where PyTorch has no signature to compare with."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    results = [
        (
            parameter.name,
            parameter.kind,
            parameter.default if isinstance(parameter.default, (int, float, str, bool, type(None))) else None,
        )
        for parameter in parameters
    ]
    return None if [name for name, *_ in results] == ["args", "kwargs"] else results


THEMES = (
    nn.activation, nn.adaptive, nn.distance, nn.dropout, nn.embedding, nn.linear_cross_entropy, nn.loss,
    nn.normalization,
)  # fmt: skip
FILES = (
    "activation", "ctc", "distance", "dropout", "embedding", "linear_cross_entropy", "loss", "margin", "normalization",
)  # fmt: skip
FUNCTIONS = [name for file in FILES for name in importlib.import_module(f"numod.nn.functional.{file}").__all__]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_of_functions(name: str) -> None:
    expected = described(getattr(torch.nn.functional, name))
    assert expected is None or described(getattr(functional, name)) == expected


@pytest.mark.parametrize("name", sorted({name for theme in THEMES for name in theme.__all__}))
def test_signatures_of_layers(name: str) -> None:
    expected = described(getattr(torch.nn, name))
    assert expected is None or described(getattr(nn, name)) == expected
