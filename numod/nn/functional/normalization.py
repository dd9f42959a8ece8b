"""Batch, layer, group, instance, root-mean-square and local response normalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import dtypes
from ...autograd import no_grad
from ...core import functions as f
from ...core.apply import apply, apply_into
from ...core.resolve import resolved
from ...core.tensor import Tensor
from ...device import Layout
from ...errors import SINGLE_INT
from ...ops.norm import normalization as op
from ...ops import table as t, view
from ...ops.norm.group_norm import group_norm as group_norm_op
from .pooling import avg_pool2d, avg_pool3d

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes are `normalized_shape`.

    Ba, Kiros and Hinton, 2016.

    Example:

        >>> F.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
        tensor([[-1.0000,  1.0000]])
    """
    if normalized_shape.__class__ is tuple:
        if _ready(
            input._layout,
            None if weight is None else weight._layout,
            None if bias is None else bias._layout,
            *normalized_shape,
        ):
            return op.row_norm.apply((input, weight, bias), (eps,))[0]
    shape = _normalized("layer_norm", input, normalized_shape, weight, bias)
    rows = _shaped(_with_common_dtype(input, weight, bias), (input.numel() // max(prod(shape), 1), prod(shape)))
    out, _, _ = op.row_norm.apply(
        (rows, *(None if tensor is None else _shaped(tensor, (prod(shape),)) for tensor in (weight, bias))), (eps,)
    )
    return f.in_shape(out, *input.shape).to(input.dtype)


@resolved
def _ready(x: Layout, weight: Layout | None, bias: Layout | None, *shape: int) -> bool:
    """Whether the kernel can read the tensors directly: contiguous, of one dtype, one normalized dimension."""
    matches = all(
        tuple(tensor.shape) == shape and tensor.dtype is x.dtype and tensor.dense
        for tensor in (weight, bias)
        if tensor is not None
    )
    return matches and len(shape) == 1 and x.ndim > 0 and x.shape[-1:] == shape and x.dense and x.size > 0


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x as a contiguous tensor of this shape."""
    return f.contiguous(x) if tuple(x.shape) == shape else f.reshape(f.contiguous(x), shape)


def _with_common_dtype(x: Tensor, *others: Tensor | None) -> Tensor:
    """x itself, or as float32 if it has 16 bits and the others are float32.

    Raises RuntimeError for other mixtures of dtypes.
    """
    dtypes_ = {tensor.dtype for tensor in others if tensor is not None} - {x.dtype}
    if not dtypes_:
        return x
    if (
        dtypes_ != {dtypes.float32}
        or x.dtype not in (dtypes.float16, dtypes.bfloat16)
        or any(tensor.dtype is x.dtype for tensor in others if tensor is not None)
    ):
        raise RuntimeError(
            f"mixed dtype: expected weight, bias and statistics of the input's {x.dtype} "
            f"(or float32 with 16-bit input), got {', '.join(sorted(map(str, dtypes_)))}"
        )
    return x.to(dtypes.float32)


def _normalized(
    name: str, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None
) -> tuple[int, ...]:
    """`shape` as a tuple. Raises unless the last dimensions of x and the weights have it."""
    if isinstance(shape, SINGLE_INT):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not {type(shape).__name__}"
        )
    shape = tuple(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            f"normalized_shape = {list(shape)}"
        )
    for kind, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != shape:
            raise RuntimeError(
                f"Expected {kind} to be of same shape as normalized_shape, but got {kind} of shape "
                f"{list(tensor.shape)} and normalized_shape = {list(shape)}"
            )
    if x.ndim < len(shape) or tuple(x.shape[x.ndim - len(shape) :]) != shape:
        wanted = "".join(f", {n}" for n in shape)
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(shape)}, expected input with shape [*{wanted}], but got input of "
            f"size{list(x.shape)}"
        )
    return shape


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dimensions; eps defaults to the dtype's.

    Zhang and Sennrich, 2019.

    Example:

        >>> F.rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
        tensor([[0.8485, 1.1314]])
    """
    if input.ndim == 0:
        raise ValueError("Input tensor must have at least 1 dimensions, but got 0")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"rms_norm\" not implemented for '{input.dtype.short}'; convert first, for example with "
            ".to(numod.float32)"
        )
    epsilon = dtypes.finfo(input.dtype.compute).eps if eps is None else eps
    if normalized_shape.__class__ is tuple and _ready(
        input._layout, None if weight is None else weight._layout, None, *normalized_shape
    ):
        return op.rms_norm.apply((input, weight, None), (epsilon,))[0]
    shape = _normalized("rms_norm", input, normalized_shape, weight, None)
    scale = None if weight is None or weight.dtype is not input.dtype else _shaped(weight, (prod(shape),))
    rows = _shaped(
        input if weight is None or scale is not None else input.to(input.dtype.compute),
        (input.numel() // max(prod(shape), 1), prod(shape)),
    )
    out = f.in_shape(op.rms_norm.apply((rows, scale, None), (epsilon,))[0], *input.shape)
    return (out if weight is None or scale is not None else out * weight).to(input.dtype)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize groups of channels of (N, C, ...), then scale and shift each channel. Wu and He, 2018.

    Example:

        >>> F.group_norm(torch.ones(1, 4, 3), num_groups=2).shape
        numod.Size([1, 4, 3])
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    channels = input.shape[1]
    if num_groups == 0:
        raise ZeroDivisionError("group_norm: num_groups must not be 0")
    if num_groups < 0 or channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    if input.numel() == num_groups:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(input.shape)}")
    x = input
    if not _is_direct(input, weight, bias):
        _expect_channels(channels, weight=weight, bias=bias)
        x = _with_common_dtype(input, weight, bias)
    out, _, _ = group_norm_op.apply(tuple(map(_dense, (x, weight, bias))), (num_groups, eps))
    return out.to(input.dtype)


def _is_direct(x: Tensor, *others: Tensor | None) -> bool:
    """Whether x is floating and the others have one element per channel and its dtype, so that no check is needed."""
    return _are_direct(x._layout, *[None if tensor is None else tensor._layout for tensor in others])


@resolved
def _are_direct(x: Layout, *others: Layout | None) -> bool:
    return (
        x.ndim > 1
        and x.dtype.is_floating_point
        and all(layout is None or (layout.shape == x.shape[1:2] and layout.dtype is x.dtype) for layout in others)
    )


def _expect_channels(channels: int, **tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and tuple(tensor.shape) != (channels,):
            raise RuntimeError(f"{name} should contain {channels} elements not {tensor.numel()}")


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * weight + bias for each channel."""
    if weight is not None and bias is not None:
        return t.addcmul(_by_channel(bias, x), x, _by_channel(weight, x), 1)
    x = x if weight is None else x * _by_channel(weight, x)
    return x if bias is None else x + _by_channel(bias, x)


def _by_channel(vector: Tensor, x: Tensor) -> Tensor:
    """A vector with an element per channel, shaped to broadcast along x (N, C, ...)."""
    layout, ndim = vector._layout, x._layout.ndim
    return vector if ndim == 2 else apply(view.reshape, (vector,), ((layout.size, *(1,) * (ndim - 2)),))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize the channels of (N, C, ...) by the batch's statistics in training, otherwise by the running ones.

    Training updates the running statistics. Ioffe and Szegedy, 2015. Raises ValueError for one value per channel in
    training, RuntimeError for shapes that do not match.

    Example:

        >>> F.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    if eps < 0 or (training and eps <= 0):
        raise ValueError(
            f"batch_norm eps must be {'positive during training' if training else 'non-negative'}, but got {eps}"
        )
    x = input
    if not _is_direct(input, running_mean, running_var, weight, bias):
        if input.ndim < 2:
            raise IndexError(f"batch_norm: expected at least 2 dimensions (N, C, ...), got {list(input.shape)}")
        _expect_channels(input.shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
        if not input.dtype.is_floating_point:
            raise NotImplementedError(
                f"\"batch_norm\" not implemented for '{input.dtype.short}'; convert first, for example with "
                ".to(numod.float32)"
            )
        x = _with_common_dtype(input, running_mean, running_var, weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
        scale = t.inverse_deviation(running_var, 1 if weight is None else weight, eps)
        # the gradient of the scale is sum(g * (x - mean)); the form below would subtract large sums
        # if the mean is large
        if scale.requires_grad:
            return _scaled(x - _by_channel(running_mean, x), scale, bias).to(input.dtype)
        return _scaled(x, scale, t.addcmul(0 if bias is None else bias, running_mean, scale, -1)).to(input.dtype)
    if x.numel() == 0:
        return _scaled(x, weight, bias).to(input.dtype)
    count = x.numel() // x.shape[1]
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    out, mean, var = op.channel_norm.apply(tuple(map(_dense, (x, weight, bias))), (eps,))
    with no_grad():
        _update_running(running_mean, mean, momentum)
        _update_running(running_var, var, momentum, count / (count - 1))
    return out.to(input.dtype)


def _update_running(running: Tensor | None, statistic: Tensor, momentum: float, unbiased: float = 1.0) -> None:
    """running = (1 - momentum) * running + momentum * unbiased * statistic, if there is a running statistic."""
    if running is not None:
        apply_into(
            t.weighted_sum, (running, statistic.to(running.dtype), 1 - momentum, momentum * unbiased), (running,)
        )


def _dense(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else f.contiguous(tensor)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of each image separately. Ulyanov, Vedaldi and Lempitsky, 2016.

    Example:

        >>> F.instance_norm(torch.ones(2, 3, 4)).shape
        numod.Size([2, 3, 4])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    x = _with_common_dtype(input, weight, bias)
    images, channels = x.shape[:2]
    _expect_channels(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    count = x.numel() // max(images * channels, 1)
    if x.numel() == 0:
        return _scaled(x, weight, bias).to(input.dtype)
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    out, mean, rstd = group_norm_op.apply(tuple(map(_dense, (x, weight, bias))), (channels, eps))
    with no_grad():
        if running_mean is not None:
            _update_running(running_mean, f.mean(f.reshape(mean, (images, channels)), 0), momentum)
        if running_var is not None:
            _update_running(
                running_var,
                f.mean(f.reshape(1 / (rstd * rstd) - eps, (images, channels)), 0),
                momentum,
                count / (count - 1),
            )
    return out.to(input.dtype)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta. Krizhevsky et al., 2012.

    Example:

        >>> F.local_response_norm(torch.ones(1, 4, 3, 3), size=2).shape
        numod.Size([1, 4, 3, 3])
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    squares = f.unsqueeze(input * input, 1)
    sides = (size // 2, (size - 1) // 2)
    if input.ndim == 3:
        means = f.squeeze(avg_pool2d(f.pad_constant(squares, (0, 0, *sides)), (size, 1), stride=1), 1)
    else:
        flat = f.reshape(squares, (input.shape[0], 1, input.shape[1], input.shape[2], -1))
        means = f.reshape(avg_pool3d(f.pad_constant(flat, (0, 0, 0, 0, *sides)), (size, 1, 1), stride=1), input.shape)
    return input / f.pow(means * alpha + k, beta)
