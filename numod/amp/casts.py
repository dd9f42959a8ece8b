"""Which functions cast their tensors under `autocast`, and to what:

PyTorch's lists. They are given other code while a thread is inside one, so nobody else pays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

from ..core.math import complexes, cumulative, distances, reductions, statistics
from ..core.linalg import contractions, decompositions, linear_algebra, products
from ..core.shape import triangles
from ..core.apply import listeners, state
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..dtypes import dtype as DType
from ..dtypes import float32, float64
from ..nn import functional as F
from ..nn.recurrent import GRU, RNNBase
from ..profiler.exchange import Exchange

_POOLS = "avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_unpool2d max_unpool3d"
_LOSSES = """mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss binary_cross_entropy
    binary_cross_entropy_with_logits kl_div cosine_embedding_loss ctc_loss hinge_embedding_loss poisson_nll_loss
    margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss"""
LOW = {  # to the dtype of the context
    products: "matmul mm_ bmm addmm",
    contractions: "baddbmm addbmm",
    linear_algebra: "vecdot",
    F: "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d prelu "
    "scaled_dot_product_attention",
}
WIDE = {  # 16-bit floats to float32
    F: f"{_LOSSES} {_POOLS} grid_sample",
    reductions: "prod_",
    statistics: "quantile nanquantile",
    distances: "cdist",
    triangles: "trace",
    linear_algebra: "inv det slogdet solve pinv lstsq solve_triangular cholesky_solve cholesky_inverse lu_solve",
    decompositions: "cholesky qr svd svdvals eigh eigvalsh lu lu_factor lu_factor_ex",
}
WIDE_CUDA = {
    F: "softmax log_softmax layer_norm group_norm cosine_similarity",
    products: "softmax log_softmax",
    reductions: "sum norm logsumexp",
    cumulative: "cumsum cumprod",
}
LOW_CUDA = {products: "mv", contractions: "addmv addr"}
# not cast, nor what they call
PLAIN = {products: "dot outer", complexes: "vdot", F: "bilinear", linear_algebra: "matrix_exp"}


def enter(casts: tuple[tuple[str, DType], ...]) -> tuple[tuple[str, DType], ...]:
    """From now on this thread casts so, per device type; not at all for (). Gives what was before."""
    before, state.autocast = state.autocast, casts
    type(state).special = True
    if bool(before) != bool(casts):
        with _lock:
            _count(1 if casts else -1)
    return before


def forget() -> None:
    """Drop the casts of parameters that are kept."""
    vars(_kept).clear()


extensions.provide(enter_autocast=enter)
_lock, _exchange, _inside = threading.Lock(), Exchange(), 0
_codes: dict[FunctionType, CodeType] = {}  # what functions are given
_kept = threading.local()  # id of a parameter -> (a reference to it, its version, grad mode, the dtype, the cast)


class _Here(threading.local):
    """Per thread: whether casts of parameters are kept."""

    caching = True


here = _Here()


def _count(step: int) -> None:
    """Exchange the functions for the first thread inside, and take that back after the last."""
    global _inside
    _inside += step
    if _inside == 0:
        _exchange.undo()
    elif _inside == 1 and step == 1:
        for function, code in _codes.items():
            _exchange.exchange_code(function, code)
        if not _codes:
            _exchange_first()


def _exchange_first() -> None:
    """The same for the first time, when the codes are made."""
    for rule, homes in _RULES:
        for home, names in homes.items():
            for function in (getattr(home, name) for name in names.split()):
                _codes[function] = _exchange.recode(function, _body, run=rule)


def _body(*arguments: Any, **named: Any) -> Any:
    return run(plain, arguments, named)  # noqa: F821  given by the exchange


def _target(arguments: tuple) -> tuple[str, DType] | None:
    """The (device type, dtype) that holds for these arguments, by the first tensor among them."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            return next((cast for cast in state.autocast if cast[0] == argument.device.type), None)
    return None


def _casting(to: Callable[[str, DType], DType | None]) -> Callable:
    """A rule: casts to what `to` says for (device type, dtype of the context), then runs the function without autocast;
    None for neither.
    """

    def rule(plain: Callable, arguments: tuple, named: dict) -> Any:
        target = _target((*arguments, *named.values())) if state.autocast else None
        dtype = None if target is None else to(*target)
        if dtype is None:
            return plain(*arguments, **named)
        arguments = tuple([_cast(argument, dtype) for argument in arguments])
        named = {name: _cast(each, dtype) for name, each in named.items()}
        before, state.autocast = state.autocast, ()
        try:
            return plain(*arguments, **named)
        finally:
            state.autocast = before

    return rule


def _cast(each: Any, dtype: DType) -> Any:
    """A floating tensor in `dtype`; float64 stays, and so does all else. To float32 only 16-bit floats need to go."""
    if not isinstance(each, Tensor):
        return type(each)([_cast(part, dtype) for part in each]) if type(each) in (list, tuple) else each
    if not each.is_floating_point() or each.dtype is dtype or each.dtype is float64:
        return each
    if (
        here.caching
        and each.dtype is float32
        and each.requires_grad
        and each.is_leaf
        and each._base is None
        and not listeners
    ):
        return _cast_once(each, dtype)
    return each.to(dtype)


def _cast_once(parameter: Tensor, dtype: DType) -> Tensor:
    """The cast of a parameter, kept until the outermost autocast ends, the parameter is written to, or the grad mode
    changes.
    """
    kept = vars(_kept).setdefault("casts", {})
    where = (parameter._version, state.grad_enabled, dtype)
    found = kept.get(id(parameter))
    if found is None or found[0]() is not parameter or found[1] != where:
        found = kept[id(parameter)] = (ref(parameter), where, parameter.to(dtype))
    return found[2]


def _plainly(plain: Callable, arguments: tuple, named: dict) -> Any:
    before, state.autocast = state.autocast, ()
    try:
        return plain(*arguments, **named)
    finally:
        state.autocast = before


def _layers(plain: Callable, arguments: tuple, named: dict) -> Any:
    """Recurrent layers run in the context's dtype; but GRU, which PyTorch has on no list: only its products do."""
    target = _target(arguments) if state.autocast else None
    if target is None or isinstance(arguments[0], GRU):
        return plain(*arguments, **named)
    return plain(*[_cast(argument, target[1]) for argument in arguments], **named)


def _run_layer(plain: Callable, arguments: tuple, named: dict) -> Any:
    """A layer of GRU goes by steps, where products and states may have two dtypes."""
    layer, x, sizes, start, suffix = arguments
    if not state.autocast or not isinstance(layer, GRU):
        return plain(*arguments, **named)
    return layer._run_by_step(
        x, sizes, start, {name: getattr(layer, name + suffix) for name in layer._names()}, **named
    )


def _weights(plain: Callable, arguments: tuple, named: dict) -> dict[str, Tensor]:
    """Those of a recurrent layer, in the dtype its input was cast to."""
    found = plain(*arguments, **named)
    target = _target(tuple(found.values())) if state.autocast and not isinstance(arguments[0], GRU) else None
    return found if target is None else {name: _cast(each, target[1]) for name, each in found.items()}


def _low_on_cuda(plain: Callable, arguments: tuple, named: dict) -> Any:
    target = _target((*arguments, *named.values())) if state.autocast else None
    return (_low if target is not None and target[0] == "cuda" else _plainly)(plain, arguments, named)


_low, _wide = _casting(lambda device, dtype: dtype), _casting(lambda device, dtype: float32)
_RULES = (
    (_low, LOW),
    (_wide, WIDE),
    (_plainly, PLAIN),
    (_layers, {RNNBase: "_layers"}),
    (_weights, {RNNBase: "_weights"}),
    (_run_layer, {RNNBase: "_run"}),
    (_casting(lambda device, dtype: float32 if device == "cuda" else None), WIDE_CUDA),
    (_low_on_cuda, LOW_CUDA),
)
