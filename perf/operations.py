"""Rows of single operations: pointwise, reductions, products, convolutions, layers. numod and PyTorch run them eagerly,
JAX and ONNX Runtime as functions of one op.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

import numpy as np

from . import quantized
from .networks import draw
from .peers import expression, network
from .row import Bar, Row, Timed

SIZES = {"1 k": 1000, "64 k": 64_000, "1 M": 1_000_000, "16 M": 16_000_000}


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers in [0, 1), float32."""
    return np.random.default_rng(seed).random(shape, np.float32)


def signed(*shape: int, seed: int = 0) -> np.ndarray:
    """Bytes, all values of int8."""
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def whole(below: int, *shape: int) -> np.ndarray:
    """Whole numbers below a limit, int64."""
    return np.random.default_rng(0).integers(0, below, shape)


POINTWISE = {  # name: what numod and PyTorch say, what JAX says, what NumPy says
    "add": ("x + y", "x + y", "x + y"), "mul": ("x * y", "x * y", "x * y"),
    "relu": ("x.relu()", "jax.nn.relu(x)", "np.maximum(x, 0)"),
    "exp": ("x.exp()", "jnp.exp(x)", "np.exp(x)"), "tanh": ("x.tanh()", "jnp.tanh(x)", "np.tanh(x)"),
    "gelu": ("F.gelu(x)", "jax.nn.gelu(x, approximate=False)", ""),
    "sigmoid": ("x.sigmoid()", "jax.nn.sigmoid(x)", ""),
}  # fmt: skip


def pointwise() -> list[Row]:
    """Each at each size; additions of 32 floats show what a call costs."""
    rows = []
    for name, (text, jax, numpy) in POINTWISE.items():
        for size, count in {"32": 32, **SIZES}.items() if name == "add" else SIZES.items():
            arrays = {
                letter: partial(draw, count, seed=seed) for seed, letter in enumerate("xy" if "y" in text else "x")
            }
            bar = Bar(1.6, 2e-6, "PyTorch") if count == 32 else Bar(1.0)
            rows.append(Row(f"{name}, {size} floats", expression(text, arrays, jax, numpy), bar))
    return rows


def reductions() -> list[Row]:
    """Over rows, over columns, over all of a million floats.

    `max` is of values alone, as in NumPy; with places it is beside PyTorch, which has that too.
    """
    kinds = {"of rows, 1000×1000": ("1", "1"), "of columns, 1000×1000": ("0", "0"), "1000×1000": ("", "None")}
    array = {"x": partial(draw, 1000, 1000)}
    rows = [
        Row(f"{name} {where}",
            expression(f"x.{'amax' if name == 'max' else name}({mine})", array, f"x.{name}({axis})",
                f"x.{name}({axis})"), Bar(1.0))
        for name in ("sum", "max", "argmax", "mean") for where, (mine, axis) in kinds.items()
    ]  # fmt: skip
    for where, (mine, _) in list(kinds.items())[:2]:
        both = expression(f"x.max({mine})[0]", array)
        rows.append(Row(f"max with places {where}", {name: both[name] for name in ("numod", "PyTorch")}))
    return rows


def products() -> list[Row]:
    """Products of matrices, and those with bias and ReLU compiled."""
    sizes = [(size, size, size) for size in (256, 512, 1024, 2048)] + [(128, 784, 256), (32, 64, 128), (1, 1024, 1024)]
    rows = []
    for m, k, n in sizes:
        arrays = {"a": partial(uniform, m, k), "b": partial(uniform, k, n, seed=1)}
        rows.append(Row(f"product {m}×{k}×{n}", expression("a @ b", arrays, "a @ b", "a @ b"), Bar(1.05)))
    arrays = {"a": partial(uniform, 1024, 1024), "b": partial(uniform, 1024, 1024, seed=1)}
    rows.append(
        Row("product 1024×1024×1024, a transposed", expression("a.T @ b", arrays, "a.T @ b", "a.T @ b"), Bar(1.05))
    )
    for m, k, n in [*sizes, (16, 512, 512)]:
        arrays = {"x": partial(draw, m, k), "w": partial(draw, n, k, seed=1), "b": partial(draw, n, seed=2)}
        contenders = expression(
            "F.relu(F.linear(x, w, b))", arrays, "jax.nn.relu(x @ w.T + b)", "np.maximum(x @ w.T + b, 0)", compiled=True
        )
        rows.append(Row(f"compiled product {m}×{k}×{n}, bias, ReLU", contenders, Bar(0.95)))
    arrays = {"a": partial(signed, 1024, 1024), "b": partial(signed, 1024, 1024, seed=1)}
    return [*rows, Row("product of bytes 1024×1024×1024", expression("torch._int_mm(a, b)", arrays, onnx=False))]


def backward(function: str, *arrays: Callable[[], np.ndarray], **options: object) -> dict[str, Callable[[], Timed]]:
    """The functional `function` of `arrays` and its gradients of all that are floats, eagerly."""

    def of(library: str) -> Timed:
        torch = importlib.import_module(library)
        call = getattr(torch.nn.functional, function)
        inputs = [
            torch.tensor(tensor, requires_grad=tensor.dtype == np.float32) for tensor in (make() for make in arrays)
        ]
        g = torch.tensor(draw(*call(*inputs, **options).shape, seed=9))

        def both() -> list:
            for input in inputs:
                input.grad = None
            call(*inputs, **options).backward(g)
            return [input.grad.numpy() for input in inputs if input.requires_grad]

        return Timed("both()", {"both": both}, both, both if library == "numod" else None)

    return {"numod": lambda: of("numod"), "PyTorch": lambda: of("torch")}


def convolutions() -> list[Row]:
    """The layers of known networks, forward and with gradients."""
    layers = {
        "3×3, 64→64 at 56², N=1": ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        "3×3, 64→64 at 56², N=8": ((8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        "1×1, 256→64 at 56²": ((1, 256, 56, 56), (64, 256, 1, 1), {}),
        "11×11/4, 3→64 at 224²": ((1, 3, 224, 224), (64, 3, 11, 11), {"stride": 4, "padding": 2}),
        "depthwise 3×3, 128 at 56²": ((1, 128, 56, 56), (128, 1, 3, 3), {"padding": 1, "groups": 128}),
    }
    rows = []
    for name, (x, weight, options) in layers.items():
        arrays = {"x": partial(draw, *x), "w": partial(draw, *weight, seed=1)}
        stride, padding, groups = options.get("stride", 1), options.get("padding", 0), options.get("groups", 1)
        order = f"dimension_numbers=('NCHW', 'OIHW', 'NCHW'), feature_group_count={groups}"
        jax = f"lax.conv_general_dilated(x, w, ({stride}, {stride}), [({padding}, {padding})] * 2, {order})"
        text = f"F.conv2d(x, w, stride={stride}, padding={padding}, groups={groups})"
        rows.append(Row(f"conv2d {name}, forward", expression(text, arrays, jax), Bar(1.0)))
        rows.append(Row(f"conv2d {name}, forward+backward", backward("conv2d", *arrays.values(), **options), Bar(1.0)))
    return rows


def recurrent(gradients: bool) -> dict[str, Callable[[], Timed]]:
    """LSTM(128, 128) over 32 steps of 8 sequences."""

    def of(library: str) -> Timed:
        torch = importlib.import_module(library)
        layer, _ = network(lambda torch: (torch.nn.LSTM(128, 128), ()), library)
        x = torch.tensor(draw(32, 8, 128))

        def forward() -> list:
            with torch.no_grad():
                return [layer(x)[0].numpy()]

        def both() -> list:
            layer.zero_grad()
            layer(x)[0].sum().backward()
            return [parameter.grad.numpy() for parameter in layer.parameters()]

        call = both if gradients else forward
        return Timed("call()", {"call": call}, call, call if library == "numod" else None)

    return {"numod": lambda: of("numod"), "PyTorch": lambda: of("torch")}


def layers() -> list[Row]:
    """Softmax, norms, losses, pools, recurrent layers, attention, embedding, sorting."""
    images = {"x": partial(draw, 8, 64, 56, 56)}
    logits = {"x": partial(draw, 128, 1000), "y": partial(whole, 1000, 128)}
    q = {"x": partial(draw, 4, 8, 128, 32)}
    table, at = {"table": partial(draw, 10_000, 128)}, {"at": partial(whole, 10_000, 4000)}
    maximum = "lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), 'VALID')"
    normed = "(x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)"
    over = "(0, 2, 3), keepdims=True"
    return [
        Row("softmax 256×1000", expression("x.softmax(1)", {"x": partial(draw, 256, 1000)}, "jax.nn.softmax(x)"),
            Bar(0.9)),
        Row("layer_norm 512×768", expression("F.layer_norm(x, (768,))", {"x": partial(draw, 512, 768)}, normed),
            Bar(0.9)),
        Row("batch_norm, training, 8×64×56×56", expression(
            "F.batch_norm(x, None, None, training=True)", images,
            f"(x - x.mean({over})) * lax.rsqrt(x.var({over}) + 1e-5)", onnx=False), Bar(0.9)),
        Row("batch_norm, training, forward+backward",
            backward("batch_norm", images["x"], running_mean=None, running_var=None, training=True), Bar(0.9)),
        Row("cross_entropy 128×1000", expression(
            "F.cross_entropy(x, y)", logits, "-jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()"),
            Bar(0.9)),
        Row("max_pool2d 3×3/2, 8×64×56×56", expression("F.max_pool2d(x, 3, 2)", images, maximum), Bar(0.3)),
        Row("avg_pool2d 2×2, 8×64×56×56", expression("F.avg_pool2d(x, 2)", images)),
        Row("LSTM(128, 128), T=32 B=8, forward", recurrent(False), Bar(0.9)),
        Row("LSTM(128, 128), T=32 B=8, forward+backward", recurrent(True), Bar(0.9)),
        Row("attention 4×8×128×32", expression(
            "F.scaled_dot_product_attention(x, x, x)", q, "jax.nn.softmax(x @ x.swapaxes(2, 3) * 32 ** -0.5) @ x"),
            Bar(0.9)),
        Row("embedding 10 k × 128, 4 k indices",
            expression("F.embedding(at, table)", table | at, "table[at]", "table[at]"), Bar(0.9)),
        Row("embedding, forward+backward", backward("embedding", at["at"], table["table"]), Bar(0.9)),
        Row("sort, 1 M floats",
            expression("x.sort()[0]", {"x": partial(uniform, 1_000_000)}, "jnp.sort(x)", "np.sort(x)", onnx=False)),
        Row("topk, 1000 of 1 M floats",
            expression("x.topk(1000)[0]", {"x": partial(uniform, 1_000_000)}, "lax.top_k(x, 1000)[0]", onnx=False)),
    ]  # fmt: skip


OPERATIONS = (*pointwise(), *reductions(), *products(), *quantized.rows(), *convolutions(), *layers())
