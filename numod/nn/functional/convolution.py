"""Convolutions and transposed convolutions over one to three dimensions, with PyTorch's arguments and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core import functions as f
from ...core.tensor import Tensor
from ...errors import plain_sizes
from ...ops.convolution import convolution as op
from .linear import linear
from .padding import pad

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def spread(name: str, value: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """A number, or one per dimension, as a tuple of `ndim` numbers."""
    values = plain_sizes(name, value)
    if isinstance(values, int):
        return (values,) * ndim
    if len(values) == 1:
        return values * ndim
    if len(values) != ndim:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {ndim} values to match the convolution "
            f"dimensions, but got {name}={list(values)}"
        )
    return values


def _checked(
    name: str, x: Tensor, weight: Tensor, bias: Tensor | None, channels: int, features: int, groups: int, ndim: int
) -> None:
    """Raise RuntimeError, with PyTorch's messages, for shapes that do not match."""
    if weight.ndim != ndim + 2:
        if weight.ndim < 3:
            raise RuntimeError(f"{name}: weight should have at least three dimensions, but got {list(weight.shape)}")
        shapes = f"weight{list(weight.shape)}, but got {x.ndim}-dimensional input of size {list(x.shape)} instead"
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional {shapes}; {name} expects a weight "
            f"of {ndim + 2} dimensions"
        )
    if x.ndim not in (ndim + 1, ndim + 2):
        raise RuntimeError(
            f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x.shape)}"
        )
    if 0 in weight.shape[2:]:
        raise RuntimeError(f"kernel size should be greater than zero, but got: {list(weight.shape[2:])}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight.shape)} instead"
        )
    if x.shape[-ndim - 1] != channels:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} "
            f"to have {channels} channels, but got {x.shape[-ndim - 1]} channels instead"
        )
    if bias is not None and tuple(bias.shape) != (features,):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional "
            f"with {features} elements, but got bias of size {list(bias.shape)} instead"
        )
    if bias is not None and bias.dtype is not x.dtype:
        raise RuntimeError(
            f"Input type ({x.dtype}) and bias type ({bias.dtype}) should be the same; convert one with .to()"
        )


def check_steps(stride: tuple, dilation: tuple, padding: tuple | str) -> None:
    """Raise RuntimeError for an invalid stride, dilation or padding, with which kernels would leave their memory."""
    if min(stride) <= 0:
        raise RuntimeError(f"non-positive stride is not supported, got {stride}")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, got {dilation}")
    if not isinstance(padding, str) and min(padding) < 0:
        raise RuntimeError(f"negative padding is not supported, got {padding}")


def _with_bias(result: Tensor, bias: Tensor | None, ndim: int, batched: bool) -> Tensor:
    if bias is not None:
        result = result + f.reshape(bias, (-1,) + (1,) * ndim)
    return result if batched else f.in_shape(result, *result.shape[1:])


def _same_padding(kernel: tuple, stride: tuple, dilation: tuple) -> list[tuple[int, int]]:
    if any(step != 1 for step in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    return [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for k, d in zip(kernel, dilation)]


def _is_product(x: Tensor, weight: Tensor, sizes: tuple, padding: tuple, dilation: tuple, groups: int) -> bool:
    """Whether a single window covers all of `sizes`, so that the convolution is a matrix product."""
    return (
        groups == 1
        and tuple(sizes) == tuple(weight.shape[2:])
        and not any(padding)
        and (max(dilation) == 1 or max(sizes) == 1)
        and 0 not in weight.shape
        and x.dtype is weight.dtype
        and x.dtype.is_floating_point
        and x.device == weight.device
    )


def _convolve(x: Tensor, weight: Tensor, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> Tensor:
    """The convolution, after dimensions that a single window covers are merged into the channels.

    Examples are whole word vectors and all electrodes; a kernel would loop over windows of one position.
    """
    covered = [
        k
        for k, size in enumerate(x.shape[2:])
        if weight.shape[k + 2] == size > 1 and not padding[k] and dilation[k] == 1
    ]
    covered = covered[len(covered) == x.ndim - 2 :]
    for k in reversed(covered):
        order = (0, 1, k + 2, *range(2, k + 2), *range(k + 3, x.ndim))
        x, weight = (f.flatten(f.permute(tensor, order) if k else tensor, 1, 2) for tensor in (x, weight))
    stride, padding, dilation = (
        tuple(value for k, value in enumerate(values) if k not in covered) for values in (stride, padding, dilation)
    )
    # a longer stride has the same effect, and scratch memory depends on it
    stride = tuple(min(s, max(n + 2 * p, 1)) for s, n, p in zip(stride, x.shape[2:], padding))
    result = op.convolution.apply((f.contiguous(x), f.contiguous(weight)), (stride, padding, dilation, groups, None))
    for k in covered:
        result = f.unsqueeze(result, k + 2)
    return result


def _convolution(ndim: int) -> Callable:
    """The function of a convolution over `ndim` spatial dimensions."""
    name = f"conv{ndim}d"

    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor:
        stride, dilation = spread("stride", stride, ndim), spread("dilation", dilation, ndim)
        check_steps(stride, dilation, padding if isinstance(padding, str) else spread("padding", padding, ndim))
        _checked(
            name,
            input,
            weight,
            bias,
            weight.shape[1] * groups if weight.ndim > 1 else 0,
            weight.shape[0] if weight.ndim else 0,
            groups,
            ndim,
        )
        kernel = tuple(weight.shape[2:])
        x = input if input.ndim == ndim + 2 else f.unsqueeze(input, 0)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise RuntimeError(f"Invalid padding string: '{padding}'; expected 'same' or 'valid'")
            sides = _same_padding(kernel, stride, dilation) if padding == "same" else [(0, 0)] * ndim
            padding = tuple(low for low, _ in sides)
            if any(low != high for low, high in sides):
                x = pad(x, [size for low, high in reversed(sides) for size in (0, high - low)])
        padding = spread("padding", padding, ndim)
        extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        if any(n + 2 * p < r for n, p, r in zip(x.shape[2:], padding, extents)):
            sizes = " x ".join(str(n + 2 * p) for n, p in zip(x.shape[2:], padding))
            raise RuntimeError(
                f"Calculated padded input size per channel: ({sizes}). Kernel size: "
                f"({' x '.join(map(str, extents))}). Kernel size can't be greater than actual input size"
            )
        if _is_product(x, weight, x.shape[2:], padding, dilation, groups):
            return f.in_shape(
                linear(f.flatten(x, 1), f.flatten(weight, 1), bias),
                *input.shape[: -ndim - 1],
                weight.shape[0],
                *(1,) * ndim,
            )
        return _with_bias(_convolve(x, weight, stride, padding, dilation, groups), bias, ndim, input.ndim == ndim + 2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Cross-correlation of input (N, C, *{ndim} sizes) with weight (O, C / groups, *kernel) -> (N, "
        'O, *sizes). `padding` may be "same" or "valid".\n\nExample:\n\n'
        f"    >>> F.{name}(torch.ones(1, 2{', 5' * ndim}), torch.ones(4, 2{', 3' * ndim})).shape\n"
        f"    numod.Size([1, 4{', 3' * ndim}])\n"
    )
    return function


def _transposed(ndim: int) -> Callable:
    """The function of a transposed convolution over `ndim` spatial dimensions."""
    name = f"conv_transpose{ndim}d"

    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        dilation: int | Sequence[int] = 1,
    ) -> Tensor:
        features = weight.shape[1] * groups if weight.ndim > 1 else 0
        _checked(name, input, weight, bias, weight.shape[0] if weight.ndim else 0, features, groups, ndim)
        stride = spread("stride", stride, ndim)
        padding = spread("padding", padding, ndim)
        dilation = spread("dilation", dilation, ndim)
        extra = spread("output_padding", output_padding, ndim)
        check_steps(stride, dilation, padding)
        if min(extra) < 0:
            raise RuntimeError("negative output_padding is not supported")
        if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got "
                f"output_padding: {list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
            )
        x = input if input.ndim == ndim + 2 else f.unsqueeze(input, 0)
        sizes = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(x.shape[2:], stride, padding, dilation, weight.shape[2:], extra)
        )
        if any(n <= 0 for n in sizes):
            raise RuntimeError(
                f"Given input size per channel: {tuple(x.shape[2:])}. Calculated output size per channel: {sizes}. "
                "Output size is too small"
            )
        shape = (x.shape[0], features, *sizes)
        if max(x.shape[2:]) == 1 and _is_product(x, weight, sizes, padding, dilation, groups):
            return _with_bias(
                f.in_shape(f.matmul(f.flatten(x, 1), f.flatten(weight, 1)), *shape), bias, ndim, input.ndim == ndim + 2
            )
        result = op.convolution_input.apply(
            (f.contiguous(x), f.contiguous(weight)), (stride, padding, dilation, groups, shape)
        )
        return _with_bias(result, bias, ndim, input.ndim == ndim + 2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The transpose of conv{ndim}d: input (N, C, *{ndim} sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."
        "\n\nExample:\n\n"
        f"    >>> F.{name}(torch.ones(1, 2{', 3' * ndim}), torch.ones(2, 4{', 3' * ndim})).shape\n"
        f"    numod.Size([1, 4{', 5' * ndim}])\n"
    )
    return function


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed, (1, 2, 3))


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d with time first: input (T, N, C), weight (K, C, O), bias (O,) -> (T + 2 pad - K + 1, N, O).

    Example:

        >>> F.conv_tbc(torch.ones(5, 1, 2), torch.ones(3, 2, 4), torch.zeros(4)).shape
        numod.Size([3, 1, 4])
    """
    if not (input.ndim == weight.ndim == 3 and bias.ndim == 1):
        raise RuntimeError(
            f"conv_tbc: expected input and weight of 3 dimensions and bias of 1, got {input.ndim}, {weight.ndim} and "
            f"{bias.ndim}"
        )
    return f.permute(conv1d(f.permute(input, (1, 2, 0)), f.permute(weight, (2, 1, 0)), bias, padding=pad), (2, 0, 1))
