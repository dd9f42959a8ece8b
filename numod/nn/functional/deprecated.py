"""Functions of PyTorch's top-level namespace whose arguments differ from those in `nn.functional`.

They have another order, or numeric codes for modes. This file has only adapters.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core import functions as f
from ...core.create import random
from ...core.tensor import Tensor
from ...ops.sequence import rnn_cell as op
from . import (
    activation,
    convolution as _convolution,
    ctc,
    loss,
    margin as _margin,
    normalization,
    padding as _padding,
    pooling,
    vision,
)
from .dropout import alpha_dropout, dropout, feature_alpha_dropout
from .embedding import embedding as _embedding, embedding_bag as _embedding_bag
from .linear import linear

_REDUCTIONS = ("none", "mean", "sum")  # by numeric code; PyTorch's default here is 0, none
_MODES, _BORDERS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
FUNCTIONS = """adaptive_max_pool1d affine_grid_generator alpha_dropout_ batch_norm
    binary_cross_entropy_with_logits constant_pad_nd conv_tbc convolution cosine_embedding_loss ctc_loss dropout_
    embedding embedding_bag feature_alpha_dropout_ feature_dropout feature_dropout_ grid_sampler grid_sampler_2d
    grid_sampler_3d gru_cell hinge_embedding_loss instance_norm kl_div lstm_cell margin_ranking_loss
    max_pool1d_with_indices native_batch_norm native_group_norm native_layer_norm norm_except_dim poisson_nll_loss
    rnn_relu_cell rnn_tanh_cell rrelu_ triplet_margin_loss"""
OUT = "native_batch_norm"


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.batch_norm`.

    Example:

        >>> torch.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5, False)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    return normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.instance_norm`.

    Example:

        >>> torch.instance_norm(torch.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 1e-5, False)
        tensor([[[-1.0000,  1.0000]]])
    """
    return normalization.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """`nn.functional.embedding`; -1 means no padding.

    Example:

        >>> torch.embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0, 1]))
        tensor([[3., 4.],
                [1., 2.],
                [3., 4.]])
    """
    return _embedding(
        indices,
        weight,
        None if padding_idx == -1 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor]:
    """`nn.functional.embedding_bag` with mode 0, 1 or 2 for sum, mean or max. Returns the bags in a tuple of one.

    Example:

        >>> torch.embedding_bag(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 1]), torch.tensor([0]))[0]
        tensor([[4., 6.]])
    """
    return (_embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset, padding_idx=padding_idx,
    ),)  # fmt: skip


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]), reduction=1)
        tensor(0.6931)
    """
    return loss.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=_REDUCTIONS[reduction]
    )


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]), reduction=2)
        tensor(0.1308)
    """
    return loss.kl_div(input, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.cosine_embedding_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
        tensor([1.])
    """
    return _margin.cosine_embedding_loss(input1, input2, target, margin, reduction=_REDUCTIONS[reduction])


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
        tensor(2.)
    """
    return _margin.margin_ranking_loss(input1, input2, target, margin, reduction=_REDUCTIONS[reduction])


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.hinge_embedding_loss(torch.tensor([0.5, 2.0]), torch.tensor([1.0, -1.0]))
        tensor(0.2500)
    """
    return _margin.hinge_embedding_loss(input, target, margin, reduction=_REDUCTIONS[reduction])


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.poisson_nll_loss(torch.zeros(2), torch.tensor([1.0, 2.0]), True, False, 1e-8, 1)
        tensor(1.)
    """
    return _margin.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_REDUCTIONS[reduction])


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.triplet_margin_loss` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> torch.triplet_margin_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.full((1, 2), 2.0))
        tensor([0.])
    """
    return _margin.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_REDUCTIONS[reduction]
    )


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss` with reduction 0, 1 or 2 for none, mean or sum.

    Example:

        >>> log_probs = torch.zeros(4, 1, 3).log_softmax(-1)
        >>> torch.ctc_loss(log_probs, torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
        tensor([1.6864])
    """
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[reduction], zero_infinity)


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a constant.

    Example:

        >>> torch.constant_pad_nd(torch.ones(2), (1, 2), 0.5)
        tensor([0.5000, 1.0000, 1.0000, 0.5000, 0.5000])
    """
    return _padding.pad(input, pad, "constant", value)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample` with numeric modes.

    Example:

        >>> torch.grid_sampler(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, True)
        tensor([[[[1.]]]])
    """
    return vision.grid_sample(input, grid, _MODES[interpolation_mode], _BORDERS[padding_mode], align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of images (N, C, H, W).

    Example:

        >>> torch.grid_sampler_2d(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, True)
        tensor([[[[1.]]]])
    """
    return _sampled("grid_sampler_2d", 4, input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sampler` of volumes (N, C, D, H, W).

    Example:

        >>> torch.grid_sampler_3d(torch.ones(1, 1, 2, 2, 2), torch.zeros(1, 1, 1, 1, 3), 0, 0, True)
        tensor([[[[[1.]]]]])
    """
    return _sampled("grid_sampler_3d", 5, input, grid, interpolation_mode, padding_mode, align_corners)


def _sampled(name: str, ndim: int, input: Tensor, grid: Tensor, mode: int, border: int, align_corners: bool) -> Tensor:
    if input.ndim != ndim:
        raise RuntimeError(
            f"{name}(): expected {ndim}D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.shape)}"
        )
    return grid_sampler(input, grid, mode, border, align_corners)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution along the first dimension, (T, N, C) and weight (K, C, C_out) -> (T + 2 pad - K + 1, N, C_out).

    Example:

        >>> torch.conv_tbc(torch.ones(5, 1, 2), torch.ones(3, 2, 4), torch.zeros(4)).shape
        numod.Size([3, 1, 4])
    """
    for name, tensor, ndim in (("input", input, 3), ("weight", weight, 3), ("bias", bias, 1)):
        if tensor.ndim != ndim:
            raise RuntimeError(f"conv_tbc: expected {name} to have {ndim} dimensions, got {list(tensor.shape)}")
    return f.permute(
        _convolution.conv1d(f.permute(input, (1, 2, 0)), f.permute(weight, (2, 1, 0)), bias, padding=pad), (2, 0, 1)
    )


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm, means, reciprocal standard deviations).

    The last two have size 1 in the normalized dimensions, and no gradients.

    Example:

        >>> torch.native_layer_norm(torch.tensor([1.0, 3.0]), (2,), None, None, 0.0)[0]
        tensor([-1.,  1.])
    """
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    variance, mean = f.var_mean(input.detach(), dims, correction=0, keepdim=True)
    return normalization.layer_norm(input, tuple(normalized_shape), weight, bias, eps), mean, (variance + eps).rsqrt()


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(group_norm, means (N, group), reciprocal standard deviations (N, group)).

    Example:

        >>> torch.native_group_norm(torch.tensor([[[1.0], [3.0]]]), None, None, 1, 2, 1, 1, 0.0)[0]
        tensor([[[-1.],
                 [ 1.]]])
    """
    variance, mean = f.var_mean(f.reshape(input, (N, group, C // group * HxW)), -1, correction=0)
    return normalization.group_norm(input, group, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch_norm, means, reciprocal standard deviations).

    The last two are those of the batch, without gradients, and empty unless `training`.

    Example:

        >>> torch.native_batch_norm(torch.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5)[1]
        tensor([2.])
    """
    empty = input.new_zeros(0)
    mean, scale = empty, empty
    if training:
        variance, mean = f.var_mean(input.detach(), (0, *range(2, input.ndim)), correction=0)
        scale = (variance + eps).rsqrt()
    return (
        normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps),
        mean,
        scale,
    )


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`.

    Example:

        >>> torch.affine_grid_generator(torch.eye(2, 3)[None], [1, 1, 2, 2], False).shape
        numod.Size([1, 2, 2, 2])
    """
    return vision.affine_grid(theta, size, align_corners)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolution, or transposed convolution, with a dimension for each of the weight's after its first two.

    Example:

        >>> torch.convolution(torch.ones(1, 1, 4), torch.ones(1, 1, 2), None, [1], [0], [1], False, [0], 1)
        tensor([[[2., 2., 2.]]])
    """
    ndim = weight.ndim - 2
    if transposed:
        return getattr(_convolution, f"conv_transpose{ndim}d")(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return getattr(_convolution, f"conv{ndim}d")(input, weight, bias, stride, padding, dilation, groups)


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Tensor, Tensor]:
    """(maxima, indices).

    Example:

        >>> torch.adaptive_max_pool1d(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
        (tensor([[4., 3.]]), tensor([[1, 3]]))
    """
    return pooling.adaptive_max_pool1d(input, output_size, return_indices=True)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """(maxima, indices).

    Example:

        >>> torch.max_pool1d_with_indices(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
        (tensor([[4., 3.]]), tensor([[1, 3]]))
    """
    return pooling.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout` in place.

    Example:

        >>> torch.dropout_(torch.ones(3), 0.5, False)
        tensor([1., 1., 1.])
    """
    return dropout(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero whole channels of (N, C, ...).

    Example:

        >>> torch.feature_dropout(torch.ones(1, 2, 1), 0.5, train=False)
        tensor([[[1.],
                 [1.]]])
    """
    return input * dropout(input.new_ones(tuple(input.shape[:2])), p, train).reshape(
        (*input.shape[:2], *[1] * (input.ndim - 2))
    )


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place."""
    return input.copy_(feature_dropout(input, p, train))


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` in place."""
    return alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` in place."""
    return feature_alpha_dropout(input, p, train, inplace=True)


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: random.Generator | None = None,
) -> Tensor:
    """`nn.functional.rrelu` in place."""
    if training and generator is not None:
        random_slopes = (
            random.rand(input.shape, generator=generator, dtype=input.dtype, device=input.device) * (upper - lower)
            + lower
        )
        return input.copy_(f.where(input > 0, input, input * random_slopes))
    return activation.rrelu(input, lower, upper, training, inplace=True)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norms of the slices along a dimension, which is kept; the norm of all elements for dim -1.

    Example:

        >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
        tensor([[ 5.],
                [10.]])
    """
    if v.ndim == 1 and dim != -1:
        return v.abs()
    return (
        f.norm(v, pow) if dim == -1 else f.norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], keepdim=True)
    )


def _expect_batches(input: Tensor, hx: Tensor) -> None:
    """Raise RuntimeError unless a cell's input and state have one batch size."""
    if input.shape[:-1] != hx.shape[:-1]:
        raise RuntimeError(
            f"Input batch size {input.shape[0]} doesn't match hidden0 batch size {hx.shape[0]}; expected an input "
            f"(N, C) and a state (N, H), got {tuple(input.shape)} and {tuple(hx.shape)}"
        )


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The next (h, c), (N, H) each.

    Example:

        >>> weights = torch.zeros(12, 2), torch.zeros(12, 3)
        >>> h, c = torch.lstm_cell(torch.ones(1, 2), (torch.zeros(1, 3), torch.zeros(1, 3)), *weights)
        >>> h
        tensor([[0., 0., 0.]])
    """
    _expect_batches(input, hx[0])
    return op.lstm_cell.apply((linear(input, w_ih, b_ih) + linear(hx[0], w_hh, b_hh), f.contiguous(hx[1])))


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """The next h (N, H).

    Example:

        >>> torch.gru_cell(torch.ones(1, 2), torch.zeros(1, 3), torch.zeros(9, 2), torch.zeros(9, 3))
        tensor([[0., 0., 0.]])
    """
    _expect_batches(input, hx)
    return op.gru_cell.apply((linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), f.contiguous(hx)))


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """tanh(W x + b + U h + c).

    Example:

        >>> torch.rnn_tanh_cell(torch.ones(1, 2), torch.zeros(1, 3), torch.ones(3, 2), torch.ones(3, 3))
        tensor([[0.9640, 0.9640, 0.9640]])
    """
    _expect_batches(input, hx)
    return (linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh)).tanh()


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """relu(W x + b + U h + c).

    Example:

        >>> torch.rnn_relu_cell(torch.ones(1, 2), torch.zeros(1, 3), torch.ones(3, 2), torch.ones(3, 3))
        tensor([[2., 2., 2.]])
    """
    _expect_batches(input, hx)
    return (linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh)).relu()
