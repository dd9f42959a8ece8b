"""Functions of layers: what modules compute, on tensors, with PyTorch's names. No kernels: rows and ops come from below."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod

from .. import dtypes
from ..core import functions as f, random
from ..core.apply import apply
from ..core.tensor import Tensor
from ..ops import matmul as mm, reduction as r, softmax as sm, table as t

# ---- linear


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002
    """input (..., in) @ weight (out, in) transposed + bias (out,) -> (..., out). Raises RuntimeError where sizes or dtypes differ."""
    if input._layout.ndim == 2 and weight._layout.ndim == 2:
        if bias is not None and not bias._layout.dense:
            bias = f.contiguous(bias)
        return apply(mm.linear, (input if input._layout.dense else f.contiguous(input), weight, bias))
    if weight.ndim == 1:
        result = f.matmul(input, weight)
        return result if bias is None else result + bias
    if input.ndim == 0 or weight.ndim != 2:
        raise RuntimeError(f"linear: expected input (..., in) and weight (out, in), got {tuple(input.shape)} and {tuple(weight.shape)}")
    rows = f.reshape(input, (prod(input.shape[:-1]), input.shape[-1]))
    return f.reshape(linear(rows, weight, bias), (*input.shape[:-1], weight.shape[0]))


# ---- activations


def relu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """max(x, 0)."""
    return input.relu_() if inplace else apply(t.relu, (input,))


def _activation(row: object, *defaults: object) -> object:
    """A row with its defaults as a function, with `inplace`."""
    names = row.inputs[1:]

    def function(input: Tensor, *values: object, inplace: bool = False, **named: object) -> Tensor:  # noqa: A002
        if len(values) > len(names):
            *values, inplace = values
        numbers = [*values, *(named.pop(name, default) for name, default in list(zip(names, defaults))[len(values) :])]
        if named:
            raise TypeError(f"{row.name}() got an unexpected keyword argument '{next(iter(named))}'; it takes {', '.join((*names, 'inplace'))}")
        if inplace:
            return f.copy_(input, row(input, *numbers))
        return row(input, *numbers)

    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = f"{row.name} of every element; {', '.join(f'{n}={d}' for n, d in zip(names, defaults)) or 'no parameters'}."
    return function


leaky_relu = _activation(t.leaky_relu, 0.01)
elu = _activation(t.elu, 1.0)
selu = _activation(t.selu)
celu = _activation(t.celu, 1.0)
silu = _activation(t.silu)
mish = _activation(t.mish)
hardswish = _activation(t.hardswish)
hardsigmoid = _activation(t.hardsigmoid)
hardtanh = _activation(t.hardtanh, -1.0, 1.0)
threshold = _activation(t.threshold)
softplus = _activation(t.softplus, 1.0, 20.0)
softshrink = _activation(t.softshrink, 0.5)
hardshrink = _activation(t.hardshrink, 0.5)
softsign, tanhshrink, logsigmoid, tanh, sigmoid = t.softsign, t.tanhshrink, t.logsigmoid, t.tanh, t.sigmoid


def relu6(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:  # noqa: A002
    """x times the normal distribution function of x; `approximate="tanh"` its approximation. Hendrycks and Gimpel, 2016."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return (t.gelu if approximate == "none" else t.gelu_tanh)(input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:  # noqa: A002
    """x where positive, else weight * x; one weight, or one per channel (dimension 1)."""
    if weight.numel() == 1:
        return t.prelu(input, weight.reshape(()) if input.ndim == 0 else weight.reshape([1] * input.ndim))
    if input.ndim < 2 or weight.numel() != input.shape[1]:
        raise RuntimeError(f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and channel size = {input.shape[1] if input.ndim > 1 else 1}.")
    return t.prelu(input, weight.reshape([1, -1] + [1] * (input.ndim - 2)))


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:  # noqa: A002
    """leaky_relu with a random slope per element in training, the mean slope otherwise."""
    slope = random.rand(input.shape, dtype=input.dtype, device=input.device) * (upper - lower) + lower if training else (lower + upper) / 2
    result = t.leaky_relu(input, slope)
    return f.copy_(input, result) if inplace else result


def glu(input: Tensor, dim: int = -1) -> Tensor:  # noqa: A002
    """First half times sigmoid of the second half of a dimension."""
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    first, second = f.chunk(input, 2, dim)
    return first * second.sigmoid()


def _softmax_dim(name: str, ndim: int) -> int:
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.", stacklevel=3)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:  # noqa: A002
    """exp(x) / sum(exp(x)) along a dimension."""
    return f.softmax(input, _softmax_dim("softmax", input.ndim) if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:  # noqa: A002
    """Logarithm of softmax."""
    return f.log_softmax(input, _softmax_dim("log_softmax", input.ndim) if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Tensor:  # noqa: A002
    """softmax of -x."""
    return softmax(-input, dim, dtype=dtype)


# ---- dropout, normalisation, padding, embedding


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
    """Each element 0 with probability p, else divided by 1 - p; in evaluation unchanged. Srivastava et al., 2014."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    result = t.dropout(f.contiguous(input), float(p), *random.default_generator.draw(input.numel()))
    return f.copy_(input, result) if inplace else result


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:  # noqa: A002
    """Divided by its norm along a dimension, or by eps where that is greater."""
    return input / t.clamp_min(f.norm(input, p, dim, True), eps)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:  # noqa: A002
    """Borders of a constant around the last dimensions: (left, right, top, bottom, ...)."""
    if mode != "constant":
        raise ValueError(f"pad: mode must be 'constant', got {mode!r}")
    return f.pad_constant(input, pad, 0.0 if value is None else value)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:  # noqa: A002
    """Rows of weight (count, size) at indices of any shape -> (..., size). Row `padding_idx` gets no gradient. Raises IndexError outside."""
    if not weight.ndim == 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got numod.{input.dtype.short}Tensor instead")
    flat = f.reshape(input, -1).to(dtypes.int64)
    rows = f.index_select(weight, 0, f.check_bounds("embedding()", flat, weight.shape[0], 0))
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
        rows = f.where((flat == padding_idx).unsqueeze(1), rows.detach(), rows)
    return f.reshape(rows, (*input.shape, weight.shape[1]))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (..., num_classes): 1 at the index, else 0."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}")
    if tensor.numel() and int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    highest = int(tensor.max()) if tensor.numel() else -1
    if num_classes == -1:
        num_classes = highest + 1
    if highest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == tensor.new_arange(num_classes)).to(dtypes.int64)


# ---- losses


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return f.mean(loss)
    if reduction == "sum":
        return f.sum(loss)
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss


def _elementwise(row: object, input: Tensor, target: Tensor, reduction: str, weight: Tensor | None, *numbers: float) -> Tensor:  # noqa: A002
    if isinstance(target, Tensor) and target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.", stacklevel=3,
        )
    tensors = [each for each in (input, target, *numbers) if isinstance(each, Tensor)]
    if reduction in ("mean", "sum") and weight is None and input.numel() and all(each._layout.dense and each.shape == input.shape for each in tensors):
        return apply(r.closing(row), (input, target, *numbers), (1.0 / input.numel() if reduction == "mean" else 1,))
    loss = row(input, target, *numbers)
    return _reduced(loss if weight is None else loss * weight, reduction)


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # noqa: A002
    """Mean (or sum) of squared differences."""
    return _elementwise(t.squared_error, input, target, reduction, weight)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:  # noqa: A002
    """Mean (or sum) of absolute differences."""
    return _elementwise(t.absolute_error, input, target, reduction, weight)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:  # noqa: A002
    """Squared below `beta`, absolute above. Girshick, Fast R-CNN, 2015."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return l1_loss(input, target, reduction) if beta == 0 else _elementwise(t.smooth_l1, input, target, reduction, None, beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:  # noqa: A002
    """Half the square below `delta`, linear above. Huber, 1964."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _elementwise(t.huber, input, target, reduction, weight, delta)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:  # noqa: A002
    """-(target log x + (1 - target) log(1 - x)), logarithms not below -100. Raises ValueError for other shapes, RuntimeError for x outside [0, 1]."""
    if target.shape != input.shape:
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. Please ensure they have the same size.")
    if not bool(((input >= 0) & (input <= 1)).all()):
        raise RuntimeError("all elements of input should be between 0 and 1; for logits use binary_cross_entropy_with_logits")
    return _elementwise(t.binary_cross_entropy, input, target, reduction, weight)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,  # noqa: A002
) -> Tensor:
    """binary_cross_entropy of sigmoid(x), without its rounding; `pos_weight` multiplies the loss of positive targets."""
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _elementwise(t.binary_cross_entropy_with_logits, input, target, reduction, weight, 1.0 if pos_weight is None else pos_weight)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:  # noqa: A002
    """target * (log target - input), input being log-probabilities; reduction "batchmean" divides the sum by the batch size."""
    loss = t.exp(target) * (target - input) if log_target else t.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return f.sum(loss) / input.shape[0]
    return _reduced(loss, reduction)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:  # noqa: A002
    """-input[target] for log-probabilities (N, C, ...) or (C,) and class indices; the mean is weighted by the classes' weights."""
    return _class_loss(input, target, weight, ignore_index, reduction, lambda x, safe: -f.gather(x, 1, safe.unsqueeze(1)).squeeze(1))


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,  # noqa: A002
) -> Tensor:
    """Cross-entropy of logits (N, C, ...) or (C,) and class indices (N, ...) or probabilities (N, C, ...).

    Raises IndexError for a class outside [0, C), RuntimeError for shapes or dtypes that do not fit.
    """
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if label_smoothing == 0.0:
        return _class_loss(input, target, weight, ignore_index, reduction, lambda x, safe: apply(sm.cross_entropy, (f.contiguous(x), f.contiguous(safe)), (-(1 << 62),)))
    logits = log_softmax(input, 1 if input.ndim > 1 else 0)
    classes = logits.shape[1 if input.ndim > 1 else 0]
    exact = nll_loss(logits, target, weight, ignore_index, reduction)
    spread = _class_loss(logits, target, weight, ignore_index, reduction, lambda x, safe: _spread(x, weight, classes), uniform=True)
    return (1.0 - label_smoothing) * exact + label_smoothing * spread


def _spread(x: Tensor, weight: Tensor | None, classes: int) -> Tensor:
    """Mean over classes of the (weighted) negative log-probabilities."""
    weighted = x if weight is None else x * weight.reshape([1, -1] + [1] * (x.ndim - 2))
    return -f.sum(weighted, 1) / classes


def _class_loss(x: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: str, loss_of: object, uniform: bool = False) -> Tensor:
    """The shared part of losses with class indices: checks, ignored targets, class weights, reduction."""
    if x.ndim == 1:
        return _reduced_one(_class_loss(x.unsqueeze(0), target.reshape(1), weight, ignored, reduction, loss_of, uniform), reduction)
    if x.shape[0] != target.shape[0] if target.ndim else True:
        raise ValueError(f"Expected input batch_size ({x.shape[0]}) to match target batch_size ({target.shape[0] if target.ndim else 0}).")
    if target.dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long for class indices but found {target.dtype.short}; convert with .long()")
    if x.shape[:1] + x.shape[2:] != target.shape:
        raise RuntimeError(f"expected target of shape {tuple(x.shape[:1] + x.shape[2:])} for input {tuple(x.shape)}, got {tuple(target.shape)}")
    found = apply(r.closing(t.class_bounds), (f.contiguous(target), x.shape[1], ignored), (1,))._observe() if target.numel() else 0
    if found >= 1 << 32:
        wrong = f.masked_fill(target, target == ignored, 0)
        low, high = wrong.min().item(), wrong.max().item()
        raise IndexError(f"Target {low if low < 0 else high} is out of bounds for {x.shape[1]} classes.")
    ignores = found > 0
    safe = f.masked_fill(target, target == ignored, 0) if ignores else target
    loss = loss_of(x, safe)
    if weight is None and not ignores:
        return _reduced(loss, reduction)
    share = f.reshape(f.index_select(weight, 0, f.reshape(safe, -1)), safe.shape) if weight is not None else (target == target).to(x.dtype)
    share = f.masked_fill(share, target == ignored, 0.0) if ignores else share
    loss = f.masked_fill(loss, target == ignored, 0.0) if ignores else loss
    loss = loss if uniform else loss * share
    return f.sum(loss) / f.sum(share) if reduction == "mean" else _reduced(loss, reduction)


def _reduced_one(loss: Tensor, reduction: str) -> Tensor:
    return loss.reshape(()) if reduction == "none" else loss


def _soft_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    """Cross-entropy with probabilities as target."""
    if target.shape != x.shape:
        raise RuntimeError(f"expected target probabilities of shape {tuple(x.shape)}, got {tuple(target.shape)}")
    dim = 1 if x.ndim > 1 else 0
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / x.shape[dim]
    logits = log_softmax(x, dim)
    if weight is not None:
        logits = logits * weight.reshape([-1] if x.ndim == 1 else [1, -1] + [1] * (x.ndim - 2))
    loss = -f.sum(logits * target, dim)
    return f.sum(loss) / (x.numel() // x.shape[dim]) if reduction == "mean" else _reduced(loss, reduction)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (|x1| |x2|) along a dimension, norms not below eps."""
    return f.sum(x1 * x2, dim) / (t.clamp_min(f.norm(x1, 2, dim), eps) * t.clamp_min(f.norm(x2, 2, dim), eps))


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Norm of x1 - x2 + eps along the last dimension."""
    return f.norm(x1 - x2 + eps, p, -1, keepdim)
