"""The linear map as a function. `ops.matmul` has the products."""

from __future__ import annotations

from math import prod

from ...core import functions as f, overrides
from ...core.apply import apply
from ...core.arguments import wrong_argument
from ...core.tensor import Tensor
from ...ops.matmul import matmul as mm

__all__ = ["bilinear", "linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input (..., in) @ weight (out, in) transposed + bias (out,) -> (..., out).

    Raises RuntimeError if sizes or dtypes do not match.

    Example:

        >>> F.linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
        tensor([[11., 17.]])
    """
    if out is not None:
        return f.write_result("linear", linear(input, weight, bias), out)
    try:
        if weight._layout.ndim == 2 and input._layout.ndim >= 2:
            if bias is not None and not bias._layout.dense:
                bias = f.contiguous(bias)
            return apply(mm.linear, (input if input._layout.dense else f.contiguous(input), weight, bias))
    except AttributeError as error:
        if overrides.appears((input, weight, bias)):
            return overrides.again(linear, (input, weight, bias), {})
        raise wrong_argument("linear", linear, (input, weight, bias), {}) or error from None
    except RuntimeError:
        if (
            bias is None
            or bias.ndim == 1
            or f.broadcast_shapes(bias.shape, result := (*input.shape[:-1], weight.shape[0])) != result
        ):
            raise
        return linear(input, weight) + bias  # PyTorch broadcasts the bias
    if weight.ndim == 1:
        result = f.matmul(input, weight)
        return result if bias is None else result + bias
    if input.ndim == 0 or weight.ndim != 2:
        raise RuntimeError(
            f"linear: expected input (..., in) and weight (out, in), got {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    return f.in_shape(linear(f.reshape(input, (1, -1)), weight, bias), weight.shape[0])


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Sums of weight[k, i, j] input1[i] input2[j] -> (..., out).

    input1 is (..., a), input2 is (..., b), and weight is (out, a, b).

    Example:

        >>> F.bilinear(torch.ones(5, 2), torch.ones(5, 3), torch.ones(4, 2, 3)).shape
        numod.Size([5, 4])
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    if weight.ndim != 3 or input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise RuntimeError(
            f"bilinear(): weight {tuple(weight.shape)} (out, in1, in2) does not fit inputs {tuple(input1.shape)} and "
            f"{tuple(input2.shape)}"
        )
    if not input1.dtype is input2.dtype is weight.dtype:
        raise RuntimeError(
            f"All tensors must have the same dtype, got input1: {input1.dtype.short}, input2: {input2.dtype.short}, "
            f"weight: {weight.dtype.short}"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {tuple(bias.shape)} but expected "
            f"{(weight.shape[0],)}"
        )
    rows, (out, first, second) = prod(input1.shape[:-1]), weight.shape
    left = f.matmul(f.reshape(input1, (rows, first)), f.reshape(f.transpose(weight, 0, 1), (first, out * second)))
    result = f.reshape(
        f.sum(f.reshape(left, (rows, out, second)) * f.reshape(input2, (rows, 1, second)), 2), (*input1.shape[:-1], out)
    )
    return result if bias is None else result + bias
