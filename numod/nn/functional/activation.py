"""Activations as functions. Most are a pointwise row with default values."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ... import dtypes
from ...core import functions as f, row_texts, signatures
from ...core.create import random
from ...core.apply import apply, apply_into
from ...core.forms import with_out
from ...core.tensor import Tensor
from ...errors import normalize_dim, warn_caller
from ...ops import table as t

__all__ = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_softmax",
    "logsigmoid", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu", "softmax", "softmin",
    "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0).

    Example:

        >>> F.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return input.relu_() if inplace else apply(t.relu, (input,))


def _activation(row: object, *defaults: float, inplace: bool = True) -> Callable:
    """A row of the table as a function.

    Its arguments are the input, the row's numbers with defaults, and `inplace` if there is an in-place form.
    """
    optional = (*defaults, False) if inplace else defaults
    most = len(row.inputs) + inplace

    def function(*arguments: object, **kwargs: object) -> Tensor:
        if kwargs and (rearranged := signatures.rearranged(function, None, arguments, kwargs)) is not None:
            arguments, kwargs = rearranged
        missing = most - len(arguments)
        if kwargs or not 0 <= missing <= len(optional):
            raise TypeError(
                f"{row.name}() takes {signatures.of(function)}, got {len(arguments)} positional arguments and "
                f"{list(kwargs)} by name"
            )
        if missing:
            arguments += optional[-missing:]
        if not inplace:
            return row(*arguments)
        *arguments, inplace_ = arguments
        if not inplace_:
            return row(*arguments)
        apply_into(row, tuple(arguments), (arguments[0],))
        return arguments[0]

    function.__name__ = function.__qualname__ = row.name
    function.__module__ = __name__
    function.__doc__ = row_texts.text(row.name, 1, has_out=False)
    return function


leaky_relu = _activation(t.leaky_relu, 0.01)
elu = _activation(t.elu, 1.0)
selu = _activation(t.selu)
silu = _activation(t.silu)
_celu = _activation(t.celu, 1.0)
mish = _activation(t.mish)
hardswish = _activation(t.hardswish)
hardsigmoid = _activation(t.hardsigmoid)
softplus, hardshrink, logsigmoid = (
    with_out(_activation(row, *rest, inplace=False))
    for row, *rest in ((t.softplus, 1.0, 20.0), (t.hardshrink, 0.5), (t.logsigmoid,))
)
softsign, tanhshrink, tanh, sigmoid = (
    _activation(row, inplace=False) for row in (t.softsign, t.tanhshrink, t.tanh, t.sigmoid)
)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(alpha (exp(x / alpha) - 1), 0). Raises RuntimeError for an alpha of 0. Barron, 2017.

    Example:

        >>> F.celu(torch.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _celu(input, alpha, inplace)


@with_out
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """sign(x) max(|x| - lambd, 0). Raises RuntimeError for a negative `lambd`.

    Example:

        >>> F.softshrink(torch.tensor([-1.0, 0.2, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise RuntimeError(
            f"lambda must be in range [0, {dtypes.finfo(input.dtype).max:g}] for input dtype {input.dtype.short}, but "
            f"found {lambd}"
        )
    return t.softshrink(input, lambd)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x clamped to [min_val, max_val]; integers stay integers. Raises ValueError if min_val > max_val.

    Example:

        >>> F.hardtanh(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if input.dtype is dtypes.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh; convert first, for example with .float()")
    limits = (min_val, max_val) if input.dtype.is_floating_point else (int(min_val), int(max_val))
    if input.dtype.kind == "u" and limits[0] < 0:
        raise RuntimeError(
            f"cannot do hardtanh on an unsigned type with negative limits, got {limits}; did you mean a minimum of 0?"
        )
    if not inplace:
        return t.hardtanh(input, *limits)
    apply_into(t.hardtanh, (input, *limits), (input,))
    return input


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is greater than `threshold`, otherwise `value`; integers stay integers.

    Example:

        >>> F.threshold(torch.tensor([0.0, 1.0]), 0.1, 20.0)
        tensor([20.,  1.])
    """
    return (f.threshold_ if inplace else f.threshold)(input, threshold, value)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    Example:

        >>> F.relu6(torch.tensor([-1.0, 2.0, 8.0]))
        tensor([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    """x times the standard normal cumulative distribution function of x, or its approximation with tanh.

    Hendrycks and Gimpel, 2016.

    Example:

        >>> F.gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}.")
    row = t.gelu if approximate == "none" else t.gelu_tanh
    return row(input) if out is None else f.write_out(row, (input,), out)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, otherwise weight * x, with one weight or one per channel (dimension 1).

    Example:

        >>> F.prelu(torch.tensor([-1.0, 2.0]), torch.tensor([0.25]))
        tensor([-0.2500,  2.0000])
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype.short} and {weight.dtype.short}; convert with "
            ".to(input.dtype)"
        )
    if input.ndim == 0 and weight.numel() > 1:
        raise RuntimeError("prelu: Not allow zero-dim input tensor.")
    if weight.numel() == 1:
        return t.prelu(input, weight.reshape(()) if input.ndim == 0 else weight)
    if input.ndim < 2 or weight.numel() != input.shape[1]:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers "
            f"= {weight.numel()} and channel size = {input.shape[1] if input.ndim > 1 else 1}."
        )
    return t.prelu(input, weight.reshape([1, -1] + [1] * (input.ndim - 2)))


Tensor.prelu = prelu  # as in PyTorch


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with a random slope per element in training, otherwise with the mean slope.

    Example:

        >>> F.rrelu(torch.tensor([-1.0, 1.0]), 0.25, 0.25)
        tensor([-0.2500,  1.0000])
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    slope = (
        random.rand(input.shape, dtype=input.dtype, device=input.device) * (upper - lower) + lower
        if training
        else (lower + upper) / 2
    )
    if inplace:
        apply_into(t.leaky_relu, (input, slope), (input,))
        return input
    return t.leaky_relu(input, slope)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second half.

    Example:

        >>> F.glu(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.shape[normalize_dim(dim, input.ndim)]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    return f.narrow(input, dim, 0, size // 2) * f.narrow(input, dim, size // 2, size // 2).sigmoid()


def _softmax_dim(name: str, ndim: int) -> int:
    warn_caller(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension.

    Example:

        >>> F.softmax(torch.tensor([[1.0, 1.0, 1.0, 1.0]]), dim=1)
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    return f.softmax(input, _softmax_dim("softmax", input.ndim) if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """The logarithm of softmax along a dimension.

    Example:

        >>> F.log_softmax(torch.zeros(1, 4), dim=1)
        tensor([[-1.3863, -1.3863, -1.3863, -1.3863]])
    """
    return f.log_softmax(input, _softmax_dim("log_softmax", input.ndim) if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:
    """softmax of -x along a dimension.

    Example:

        >>> F.softmin(torch.tensor([0.0, 1.0]), dim=0)
        tensor([0.7311, 0.2689])
    """
    return f.softmax(-input, _softmax_dim("softmin", input.ndim) if dim is None else dim, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + Gumbel noise) / tau); `hard` returns one-hot vectors with that gradient.

    Jang, Gu and Poole, 2017.

    Example:

        >>> F.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(1)
        tensor([1., 1.])
    """
    if eps != 1e-10:
        warn_caller("`eps` parameter is deprecated and has no effect.")
    noise = -t.log(-t.log(random.rand(logits.shape, dtype=logits.dtype, device=logits.device).clamp_min(1e-38)))
    soft = f.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = f.argmax(soft, dim, keepdim=True)
    one = soft.new_zeros(soft.shape).scatter(dim, index, soft.new_ones(index.shape))
    return one - soft.detach() + soft


def _over_input(function: Callable) -> Callable:
    """The in-place form of the function."""

    def in_place(input: Tensor, *values: object, **kwargs: object) -> Tensor:
        return function(input, *values, **kwargs, inplace=True)

    in_place.__name__ = in_place.__qualname__ = f"{function.__name__}_"
    in_place.__module__ = __name__
    name, text = function.__name__, inspect.getdoc(function)
    in_place.__doc__ = f"In-place {name}. {text}".replace(f"F.{name}(", f"F.{name}_(")
    return in_place


relu_, leaky_relu_, elu_, selu_, celu_, hardtanh_, threshold_, rrelu_ = map(
    _over_input, (relu, leaky_relu, elu, selu, celu, hardtanh, threshold, rrelu)
)
__all__ += ["gumbel_softmax", "relu_", "leaky_relu_", "elu_", "selu_", "celu_", "hardtanh_", "threshold_", "rrelu_"]
