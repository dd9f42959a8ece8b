"""What little linear algebra ONNX has, and distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..symbols import Call
from .rules import advise, rule

if TYPE_CHECKING:
    from .translate import Translation

advise(
    "ONNX has no decompositions of matrices; do this step outside, and pass the result in",
    "inv inv_or_infinite solve cholesky slogdet qr geqrf svd svd_or_nan svdvals eigh eigvalsh eig pinv lstsq lu ldl "
    "ldl_solve order solve_triangular",
)
advise("Fourier transforms give complex numbers, which ONNX's operators do not take", "fft_c2c fft_r2c fft_c2r")
advise(
    "complex numbers are no type of ONNX's operators; use real and imaginary parts",
    "view_as_real view_as_complex complex real imag conj sgn angle",
)
advise("its size depends on the data; do this step outside", "runs begins longest_run")
advise("gradients are not exported; export the forward pass, or the whole step by numod.export.aot_compile",
       "linear_gradient convolution_weight cross_entropy_gradient")  # fmt: skip


@rule("det")
def det(translation: Translation, call: Call) -> str:
    """Det."""
    return translation.graph.node("Det", translation.name(call.inputs[0]))


@rule("cross")
def cross(translation: Translation, call: Call) -> str:
    """The cross product along a dimension of three."""
    graph, (dim,) = translation.graph, call.attributes
    x, y = map(translation.name, call.inputs)

    def rolled(name: str, order: list[int]) -> str:
        return graph.node("Gather", name, graph.constant(order), axis=dim)

    first = graph.node("Mul", rolled(x, [1, 2, 0]), rolled(y, [2, 0, 1]))
    second = graph.node("Mul", rolled(x, [2, 0, 1]), rolled(y, [1, 2, 0]))
    return graph.node("Sub", first, second)


@rule("cdist")
def cdist(translation: Translation, call: Call) -> str:
    """Distances of all rows of x (b, n, w) to those of y (b, m, w)."""
    graph, (x, y) = translation.graph, call.inputs
    names = graph.unsqueeze(translation.name(x), [2]), graph.unsqueeze(translation.name(y), [1])
    return _norm(translation, call, graph.node("Sub", *names), 3)


@rule("pdist")
def pdist(translation: Translation, call: Call) -> str:
    """Distances of all pairs of rows."""
    graph, (x,) = translation.graph, call.inputs
    n = translation.static_shape(x, "pdist")[0]
    rows = [graph.node("Gather", translation.name(x), graph.constant(index), axis=0) for index in np.triu_indices(n, 1)]
    return _norm(translation, call, graph.node("Sub", *rows), 1)


def _norm(translation: Translation, call: Call, name: str, dim: int) -> str:
    """The norm of order p along the last dimension."""
    graph, p, dtype = translation.graph, float(call.attributes[0]), translation.dtype(call.inputs[0])
    if p in (1.0, 2.0):
        return graph.reduce(f"ReduceL{int(p)}", name, [dim], False)
    size = graph.node("Abs", name)
    if p == float("inf"):
        return graph.reduce("ReduceMax", size, [dim], False)
    if p == 0:
        differs = graph.cast(graph.node("Greater", size, graph.constant(0.0, dtype)), dtype)
        return graph.reduce("ReduceSum", differs, [dim], False)
    total = graph.reduce("ReduceSum", graph.node("Pow", size, graph.constant(p, dtype)), [dim], False)
    return graph.node("Pow", total, graph.constant(1 / p, dtype))
