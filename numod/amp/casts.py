"""Which functions cast their tensors under `autocast`, and to which dtype, as in PyTorch's lists.

The functions' code is replaced while a thread is inside an autocast, so that other code does not pay for it.
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
from ..core.apply import state
from ..core.derived import state_of
from ..core.listeners import listeners
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..dtypes import dtype as DType
from ..dtypes import float32, float64
from ..nn import functional as F
from ..nn.recurrent import GRU, RNNBase, run_by_step
from ..profiler.exchange import Exchange

_POOLS = "avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_unpool2d max_unpool3d"
_LOSSES = """mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss binary_cross_entropy
    binary_cross_entropy_with_logits kl_div cosine_embedding_loss ctc_loss hinge_embedding_loss poisson_nll_loss
    margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss"""
LOWERED = {  # to the dtype of the context
    products: "matmul mm_ bmm addmm",
    contractions: "baddbmm addbmm",
    linear_algebra: "vecdot",
    F: "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d prelu "
    "scaled_dot_product_attention",
}
RAISED = {  # 16-bit floats to float32
    F: f"{_LOSSES} {_POOLS} grid_sample",
    reductions: "prod_",
    statistics: "quantile nanquantile",
    distances: "cdist",
    triangles: "trace",
    linear_algebra: "inv det slogdet solve pinv lstsq solve_triangular cholesky_solve cholesky_inverse lu_solve",
    decompositions: "cholesky qr svd svdvals eigh eigvalsh lu lu_factor lu_factor_ex",
}
RAISED_ON_CUDA = {
    F: "softmax log_softmax layer_norm group_norm cosine_similarity",
    products: "softmax log_softmax",
    reductions: "sum norm logsumexp",
    cumulative: "cumsum cumprod",
}
LOWERED_ON_CUDA = {products: "mv", contractions: "addmv addr"}
# not cast, and neither are the functions that they call
UNCAST = {products: "dot outer", complexes: "vdot", F: "bilinear", linear_algebra: "matrix_exp"}


def enter(casts: tuple[tuple[str, DType], ...]) -> tuple[tuple[str, DType], ...]:
    """Set this thread's casts, one (device type, dtype) per device type, and return the former ones."""
    former, state.autocast = state.autocast, casts
    type(state).special = True
    if bool(former) != bool(casts):
        with _lock:
            _count(1 if casts else -1)
    return former


def forget() -> None:
    """Drop the cached casts of parameters."""
    vars(_cached_casts).clear()


extensions.provide(enter_autocast=enter)
_lock, _exchange, _threads_inside = threading.Lock(), Exchange(), 0
_codes: dict[FunctionType, CodeType] = {}  # the replacement code of each function
# id of a parameter -> (a reference to it, what the cast depends on, the cast)
_cached_casts = threading.local()


class _ThreadState(threading.local):
    """Per thread: whether casts of parameters are cached."""

    caching = True


thread_state = _ThreadState()


def _count(step: int) -> None:
    """Replace the functions' code for the first thread inside an autocast, and restore it after the last."""
    global _threads_inside
    _threads_inside += step
    if _threads_inside == 0:
        _exchange.undo()
    elif _threads_inside == 1 and step == 1:
        for function, code in _codes.items():
            _exchange.exchange_code(function, code)
        if not _codes:
            _create_codes()


def _create_codes() -> None:
    """Replace the functions' code for the first time, which creates the code."""
    for rule, homes in _RULES:
        for home, names in homes.items():
            for function in (getattr(home, name) for name in names.split()):
                _codes[function] = _exchange.replace_code(function, _body, run=rule)


def _body(*arguments: Any, **kwargs: Any) -> Any:
    return run(plain, arguments, kwargs)  # noqa: F821  given by the exchange


def _target(arguments: tuple) -> tuple[str, DType] | None:
    """The (device type, dtype) for these arguments, by the device of their first tensor."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            return next((cast for cast in state.autocast if cast[0] == argument.device.type), None)
    return None


def _casting(dtype_for: Callable[[str, DType], DType | None]) -> Callable:
    """A rule that casts the arguments and runs the function without autocast.

    `dtype_for` returns the dtype for (device type, dtype of the context), or None for no change.
    """

    def rule(plain: Callable, arguments: tuple, kwargs: dict) -> Any:
        target = _target((*arguments, *kwargs.values())) if state.autocast else None
        dtype = None if target is None else dtype_for(*target)
        if dtype is None:
            return plain(*arguments, **kwargs)
        arguments = tuple([_cast(argument, dtype) for argument in arguments])
        kwargs = {name: _cast(value, dtype) for name, value in kwargs.items()}
        return _without_autocast(plain, arguments, kwargs)

    return rule


def _cast(value: Any, dtype: DType) -> Any:
    """A float32 or 16-bit tensor cast to `dtype`. Other values are returned unchanged."""
    if not isinstance(value, Tensor):
        return type(value)([_cast(part, dtype) for part in value]) if type(value) in (list, tuple) else value
    if not value.is_floating_point() or value.dtype is dtype or value.dtype is float64:
        return value
    if (
        thread_state.caching
        and value.dtype is float32
        and value.requires_grad
        and value.is_leaf
        and value._base is None
        and not listeners
    ):
        return _cast_once(value, dtype)
    return value.to(dtype)


def _cast_once(parameter: Tensor, dtype: DType) -> Tensor:
    """The cast of a parameter, cached until the outermost autocast ends, the parameter or the grad mode changes."""
    cached = vars(_cached_casts).setdefault("casts", {})
    state_key = (state.grad_enabled, dtype, *state_of(parameter))
    entry = cached.get(id(parameter))
    if entry is None or entry[0]() is not parameter or entry[1] != state_key:
        entry = cached[id(parameter)] = (ref(parameter), state_key, parameter.to(dtype))
    return entry[2]


def _without_autocast(plain: Callable, arguments: tuple, kwargs: dict) -> Any:
    former, state.autocast = state.autocast, ()
    try:
        return plain(*arguments, **kwargs)
    finally:
        state.autocast = former


def _layers(plain: Callable, arguments: tuple, kwargs: dict) -> Any:
    """Recurrent layers run in the context's dtype, except GRU, where only the products do, as in PyTorch."""
    target = _target(arguments) if state.autocast else None
    if target is None or isinstance(arguments[0], GRU):
        return plain(*arguments, **kwargs)
    return plain(*[_cast(argument, target[1]) for argument in arguments], **kwargs)


def _run_layer(plain: Callable, arguments: tuple, kwargs: dict) -> Any:
    """Run a GRU layer step by step, since its products and states may differ in dtype."""
    layer, x, sizes, start, suffix = arguments
    if not state.autocast or not isinstance(layer, GRU):
        return plain(*arguments, **kwargs)
    weights = {name: getattr(layer, name + suffix) for name in layer._names()}
    return run_by_step(layer.mode, x, sizes, start, weights, **kwargs)


def _weights(plain: Callable, arguments: tuple, kwargs: dict) -> dict[str, Tensor]:
    """The weights of a recurrent layer, in the dtype of its cast input."""
    weights = plain(*arguments, **kwargs)
    target = _target(tuple(weights.values())) if state.autocast and not isinstance(arguments[0], GRU) else None
    return weights if target is None else {name: _cast(weight, target[1]) for name, weight in weights.items()}


def _low_on_cuda(plain: Callable, arguments: tuple, kwargs: dict) -> Any:
    target = _target((*arguments, *kwargs.values())) if state.autocast else None
    return (_low if target is not None and target[0] == "cuda" else _without_autocast)(plain, arguments, kwargs)


_low, _wide = _casting(lambda device, dtype: dtype), _casting(lambda device, dtype: float32)
_RULES = (
    (_low, LOWERED),
    (_wide, RAISED),
    (_without_autocast, UNCAST),
    (_layers, {RNNBase: "_layers"}),
    (_weights, {RNNBase: "_weights"}),
    (_run_layer, {RNNBase: "_run"}),
    (_casting(lambda device, dtype: float32 if device == "cuda" else None), RAISED_ON_CUDA),
    (_low_on_cuda, LOWERED_ON_CUDA),
)
