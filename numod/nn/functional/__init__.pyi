# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from ...device.layout import Size as _Size
from ...device.device import Device as _device
from ...dtypes import dtype as _dtype
from ...formats import layout as _layout, memory_format as _memory_format
from ...core import return_types
from ...core.tensor import Tensor
from .. import grad as grad

def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor:
    """Means of windows that divide the input evenly into `output_size`; None keeps a size."""
def adaptive_avg_pool2d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor:
    """Means of windows that divide the input evenly into `output_size`; None keeps a size."""
def adaptive_avg_pool3d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor:
    """Means of windows that divide the input evenly into `output_size`; None keeps a size."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | Sequence[_int], return_indices: Literal[False] = False) -> Tensor:
    """The maxima of windows that divide the input evenly into `output_size`."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: _int | Sequence[_int], *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """The maxima of windows that divide the input evenly into `output_size`."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: _int | Sequence[_int], return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """The maxima of such windows, and their indices in the plane."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | Sequence[_int], return_indices: Literal[False] = False) -> Tensor:
    """The maxima of windows that divide the input evenly into `output_size`."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: _int | Sequence[_int], *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """The maxima of windows that divide the input evenly into `output_size`."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: _int | Sequence[_int], return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """The maxima of such windows, and their indices in the plane."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | Sequence[_int], return_indices: Literal[False] = False) -> Tensor:
    """The maxima of windows that divide the input evenly into `output_size`."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: _int | Sequence[_int], *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """The maxima of windows that divide the input evenly into `output_size`."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: _int | Sequence[_int], return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """The maxima of such windows, and their indices in the plane."""
def affine_grid(theta: Tensor, size: _int | Sequence[_int], align_corners: _bool | None = None) -> Tensor:
    """The sampling grid (N, *sizes, ndim) in [-1, 1] of affine maps theta (N, ndim, ndim + 1), for `grid_sample`."""
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """Dropout that preserves the mean and variance of SELU networks. Klambauer et al., 2017."""
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The mean of each window; padding counts as zeros unless `count_include_pad` is False."""
def avg_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """The mean of each window; padding counts as zeros unless `count_include_pad` is False."""
def avg_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True, divisor_override: _int | None = None) -> Tensor:
    """The mean of each window; padding counts as zeros unless `count_include_pad` is False."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: _bool = False, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Normalize the channels of (N, C, ...) by the batch's statistics in training, otherwise by the running ones."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Sums of weight[k, i, j] input1[i] input2[j] -> (..., out)."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """-(target log x + (1 - target) log(1 - x)), with logarithms clamped to at least -100."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """binary_cross_entropy of sigmoid(x), numerically stable; `pos_weight` multiplies the loss of positive targets."""
def celu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """max(x, 0) + min(alpha (exp(x / alpha) - 1), 0). Raises RuntimeError for an alpha of 0. Barron, 2017."""
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place celu. max(x, 0) + min(alpha (exp(x / alpha) - 1), 0). Raises RuntimeError for an alpha of 0. Barron, 2017."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Channels of (N, C, ...) viewed as (groups, C / groups) and transposed. Zhang et al., ShuffleNet, 2018."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Cross-correlation of input (N, C, *1 sizes) with weight (O, C / groups, *kernel) -> (N, O, *sizes). `padding` may be "same" or "valid"."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Cross-correlation of input (N, C, *2 sizes) with weight (O, C / groups, *kernel) -> (N, O, *sizes). `padding` may be "same" or "valid"."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Cross-correlation of input (N, C, *3 sizes) with weight (O, C / groups, *kernel) -> (N, O, *sizes). `padding` may be "same" or "valid"."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """conv1d with time first: input (T, N, C), weight (K, C, O), bias (O,) -> (T + 2 pad - K + 1, N, O)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of conv1d: input (N, C, *1 sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of conv2d: input (N, C, *2 sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of conv3d: input (N, C, *3 sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """x1 . x2 / (|x1| |x2|) along a dimension after broadcasting, with norms of at least eps."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: str = 'mean', label_smoothing: _float = 0.0) -> Tensor:
    """Cross-entropy of logits (N, C, ...) or (C,) and class indices (N, ...) or probabilities (N, C, ...)."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: _int = 0, reduction: str = 'mean', zero_infinity: _bool = False) -> Tensor:
    """-log of the probability of the targets under log_probs (T, N, C) or (T, C)."""
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """In training, zero each element with probability p and divide the others by 1 - p."""
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Drop whole channels of (N, C, L) or (C, L)."""
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Drop whole channels of (N, C, H, W). Tompson et al., 2015."""
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: _bool = False) -> Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W)."""
def elu(input: Tensor, alpha: _float = 1.0, inplace: _bool = False) -> Tensor:
    """`x` for x > 0, else alpha * (exp(x) - 1). Clevert, Unterthiner and Hochreiter, 2016."""
def elu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place elu. `x` for x > 0, else alpha * (exp(x) - 1). Clevert, Unterthiner and Hochreiter, 2016."""
def embedding(input: Tensor, weight: Tensor, padding_idx: _int | None = None, max_norm: _float | None = None, norm_type: _float = 2.0, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """Rows of weight (count, size) at indices of any shape -> (..., size). Row `padding_idx` gets no gradient."""
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: _float | None = None, norm_type: _float = 2, scale_grad_by_freq: _bool = False, mode: str = 'mean', sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False, padding_idx: _int | None = None) -> Tensor:
    """The sum, mean or maximum of the rows of each bag -> (bags, size)."""
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: _bool = False) -> Tensor:
    """Alpha dropout of whole channels."""
def fold(input: Tensor, output_size: _int | Sequence[_int], kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Sum columns (N, C * taps, patches) at the positions of their patches in (N, C, *output_size)."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: _int | Sequence[_int] | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: Literal[False] = False, _random_samples: Tensor | None = None) -> Tensor:
    """The maxima of windows at random positions. Graham, Fractional max-pooling, 2014."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: _int | Sequence[_int] | None = None, output_ratio: _float | Sequence[_float] | None = None, *, return_indices: Literal[True], _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The maxima of windows at random positions. Graham, Fractional max-pooling, 2014."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], output_size: _int | Sequence[_int] | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The maxima of windows at random positions, and their indices in the plane."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: _int | Sequence[_int] | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: Literal[False] = False, _random_samples: Tensor | None = None) -> Tensor:
    """The maxima of windows at random positions. Graham, Fractional max-pooling, 2014."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], output_size: _int | Sequence[_int] | None = None, output_ratio: _float | Sequence[_float] | None = None, *, return_indices: Literal[True], _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The maxima of windows at random positions. Graham, Fractional max-pooling, 2014."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], output_size: _int | Sequence[_int] | None = None, output_ratio: _float | Sequence[_float] | None = None, return_indices: _bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The maxima of windows at random positions, and their indices in the plane."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | _float, full: _bool = False, eps: _float = 1e-06, reduction: str = 'mean') -> Tensor:
    """(log var + (input - target)^2 / var) / 2, with var at least eps; `full` adds the constant. Nix, Weigend, 1994."""
def gelu(input: Tensor, *, approximate: str = 'none') -> Tensor:
    """x times the standard normal cumulative distribution function of x, or its approximation with tanh."""
def glu(input: Tensor, dim: _int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second half."""
def grid_sample(input: Tensor, grid: Tensor, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: _bool | None = None) -> Tensor:
    """Sample input (N, C, *sizes) at grid (N, *out, ndim) in [-1, 1], x first -> (N, C, *out)."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """Normalize groups of channels of (N, C, ...), then scale and shift each channel. Wu and He, 2018."""
def gumbel_softmax(logits: Tensor, tau: _float = 1, hard: _bool = False, eps: _float = 1e-10, dim: _int = -1) -> Tensor:
    """softmax((logits + Gumbel noise) / tau); `hard` returns one-hot vectors with that gradient."""
def hardshrink(input: Tensor, lambd: Any = 0.5) -> Tensor:
    """`x` where abs(x) > lambd, else 0."""
def hardsigmoid(input: Tensor, inplace: _bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
def hardswish(input: Tensor, inplace: _bool = False) -> Tensor:
    """x * relu6(x + 3) / 6. Howard et al., 2019."""
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: _bool = False) -> Tensor:
    """x clamped to [min_val, max_val]; integers stay integers. Raises ValueError if min_val > max_val."""
def hardtanh_(input: Tensor, min_val: Any = -1.0, max_val: Any = 1.0) -> Tensor:
    """In-place hardtanh. x clamped to [min_val, max_val]; integers stay integers. Raises ValueError if min_val > max_val."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """The distance where target is 1, max(0, margin - distance) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: str = 'mean', delta: _float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Half the square below `delta`, linear above. Huber, 1964."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: _bool = True, momentum: _float = 0.1, eps: _float = 1e-05) -> Tensor:
    """Normalize each channel of each image separately. Ulyanov, Vedaldi and Lempitsky, 2016."""
def interpolate(input: Tensor, size: _int | Sequence[_int] | None = None, scale_factor: _float | Sequence[_float] | None = None, mode: str = 'nearest', align_corners: _bool | None = None, recompute_scale_factor: _bool | None = None, antialias: _bool = False) -> Tensor:
    """Resize (N, C, *sizes)."""
def kl_div(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean', log_target: _bool = False) -> Tensor:
    """target * (log target - input), where input has log-probabilities."""
def l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Mean (or sum) of absolute differences; with a weight per element, the weighted mean."""
def layer_norm(input: Tensor, normalized_shape: _int | Sequence[_int], weight: Tensor | None = None, bias: Tensor | None = None, eps: _float = 1e-05) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes are `normalized_shape`."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01, inplace: _bool = False) -> Tensor:
    """`x` for x > 0, else negative_slope * x."""
def leaky_relu_(input: Tensor, negative_slope: Any = 0.01) -> Tensor:
    """In-place leaky_relu. `x` for x > 0, else negative_slope * x."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input (..., in) @ weight (out, in) transposed + bias (out,) -> (..., out)."""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: str = 'mean', ignore_index: _int | None = None, label_smoothing: _float = 0.0, options: Any = None) -> Tensor:
    """cross_entropy of input (N, in) or (in,) times linear_weight (C, ..., in), with target classes or probabilities."""
def local_response_norm(input: Tensor, size: _int, alpha: _float = 0.0001, beta: _float = 0.75, k: _float = 1.0) -> Tensor:
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta. Krizhevsky et al., 2012."""
def log_softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of softmax along a dimension."""
def logsigmoid(input: Any) -> Tensor:
    """log(sigmoid(x)), accurate for negative x."""
def lp_pool1d(input: Tensor, norm_type: _int | _float, kernel_size: _int, stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """The p-norm of each window: (sum of x ** p) ** (1 / p)."""
def lp_pool2d(input: Tensor, norm_type: _int | _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """The p-norm of each window: (sum of x ** p) ** (1 / p)."""
def lp_pool3d(input: Tensor, norm_type: _int | _float, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, ceil_mode: _bool = False) -> Tensor:
    """The p-norm of each window: (sum of x ** p) ** (1 / p)."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """max(0, -target * (input1 - input2) + margin): input1 should be larger where target is 1, smaller at -1."""
@overload
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: Literal[False] = False) -> Tensor:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
@overload
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """The maximum of each window, and its index in the plane."""
@overload
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: Literal[False] = False) -> Tensor:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
@overload
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
def max_pool2d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """The maximum of each window, and its index in the plane."""
@overload
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: Literal[False] = False) -> Tensor:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
@overload
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
def max_pool3d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> tuple[Tensor, Tensor]:
    """The maximum of each window, and its index in the plane."""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: _int | Sequence[_int] | None = None) -> Tensor:
    """Puts each element at its index in planes of `output_size`: a partial inverse of max pooling."""
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: _int | Sequence[_int] | None = None) -> Tensor:
    """Puts each element at its index in planes of `output_size`: a partial inverse of max pooling."""
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] | None = None, padding: _int | Sequence[_int] = 0, output_size: _int | Sequence[_int] | None = None) -> Tensor:
    """Puts each element at its index in planes of `output_size`: a partial inverse of max pooling."""
def mish(input: Tensor, inplace: _bool = False) -> Tensor:
    """x * tanh(softplus(x)). Misra, 2019."""
def mse_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Mean (or sum) of squared differences; with a weight per element, the weighted mean."""
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: _int, num_heads: _int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: _bool, dropout_p: _float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: _bool = True, key_padding_mask: Tensor | None = None, need_weights: _bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: _bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: _bool = True, is_causal: _bool = False) -> Tensor:
    """Multi-head attention over (L, N, E), (S, N, Ek), (S, N, Ev), or without N."""
def multi_margin_loss(input: Tensor, target: Tensor, p: _int = 1, margin: _float = 1.0, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """The mean over other classes of max(0, margin - x[target] + x[i]) ** p, for (N, C) or (C)."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """Sum over target classes j and other classes i of max(0, 1 - (x[j] - x[i])) / C, for (N, C) or (C)."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """The mean over classes of the binary cross-entropies of logits (..., C) with targets 0 and 1."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: _bool | None = None, ignore_index: _int = -100, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """-input[target] for log-probabilities (N, C, ...) or (C,) and class indices."""
def normalize(input: Tensor, p: _float = 2.0, dim: _int = 1, eps: _float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x divided by its norm along a dimension, or by eps if that is greater."""
def one_hot(tensor: Tensor, num_classes: _int = -1) -> Tensor:
    """int64 (..., num_classes): 1 at the index, otherwise 0."""
def pad(input: Tensor, pad: _int | Sequence[_int], mode: str = 'constant', value: _float | None = None) -> Tensor:
    """Pad by (left, right, top, bottom, ...), starting from the last dimension; negative sizes crop."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False) -> Tensor:
    """Norm of x1 - x2 + eps along the last dimension."""
def pdist(input: Tensor, p: _float = 2) -> Tensor:
    """p-norm distances of each row to those after it, (N, M) -> (N * (N - 1) / 2)."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(..., C r^2, H, W) -> (..., C, H r, W r). Shi et al., 2016."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """The inverse of `pixel_shuffle`."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool = True, full: _bool = False, size_average: _bool | None = None, eps: _float = 1e-08, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """-log of the Poisson probability of target at rate exp(input) (or input)."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, otherwise weight * x, with one weight or one per channel (dimension 1)."""
def relu(input: Tensor, inplace: _bool = False) -> Tensor:
    """max(x, 0)."""
def relu6(input: Tensor, inplace: _bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
def relu_(input: Tensor) -> Tensor:
    """In-place relu. max(x, 0)."""
def rms_norm(input: Tensor, normalized_shape: _int | Sequence[_int], weight: Tensor | None = None, eps: _float | None = None) -> Tensor:
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dimensions; eps defaults to the dtype's."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False, inplace: _bool = False) -> Tensor:
    """leaky_relu with a random slope per element in training, otherwise with the mean slope."""
def rrelu_(input: Tensor, lower: Any = 0.125, upper: Any = 0.3333333333333333, training: _bool = False) -> Tensor:
    """In-place rrelu. leaky_relu with a random slope per element in training, otherwise with the mean slope."""
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: _float = 0.0, is_causal: _bool = False, scale: _float | None = None, enable_gqa: _bool = False) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value for (..., L, E), (..., S, E), (..., S, Ev) -> (..., L, Ev)."""
def selu(input: Tensor, inplace: _bool = False) -> Tensor:
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha = 1.6733, scale = 1.0507. Klambauer et al., 2017."""
def selu_(input: Tensor) -> Tensor:
    """In-place selu. scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha = 1.6733, scale = 1.0507. Klambauer et al., 2017."""
def sigmoid(input: Any) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-input))."""
def silu(input: Tensor, inplace: _bool = False) -> Tensor:
    """x * sigmoid(x), also called swish."""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean', beta: _float = 1.0) -> Tensor:
    """Squared below `beta`, absolute above. Girshick, Fast R-CNN, 2015."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """log(1 + exp(-target * input)), where target is 1 or -1."""
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension."""
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: Any = None) -> Tensor:
    """softmax of -x along a dimension."""
def softplus(input: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta; `x` itself where beta * x > threshold."""
def softshrink(input: Tensor, lambd: Any = 0.5) -> Tensor:
    """sign(x) max(|x| - lambd, 0). Raises RuntimeError for a negative `lambd`."""
def softsign(input: Any) -> Tensor:
    """x / (1 + abs(x))."""
def tanh(input: Any) -> Tensor:
    """Hyperbolic tangent of each element."""
def tanhshrink(input: Any) -> Tensor:
    """x - tanh(x)."""
def threshold(input: Tensor, threshold: _float, value: _float, inplace: _bool = False) -> Tensor:
    """x where it is greater than `threshold`, otherwise `value`; integers stay integers."""
def threshold_(input: Tensor, threshold: Any, value: Any) -> Tensor:
    """In-place threshold. x where it is greater than `threshold`, otherwise `value`; integers stay integers."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2, eps: _float = 1e-06, swap: _bool = False, size_average: _bool | None = None, reduce: _bool | None = None, reduction: str = 'mean') -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: _float = 1.0, swap: _bool = False, reduction: str = 'mean') -> Tensor:
    """Triplet margin loss with any distance function."""
def unfold(input: Tensor, kernel_size: _int | Sequence[_int], dilation: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, stride: _int | Sequence[_int] = 1) -> Tensor:
    """Patches of (N, C, H, W) as columns: (N, C * taps, patches)."""
def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: Any = 'nearest', align_corners: Any = None) -> Tensor:
    """Deprecated name of `interpolate`."""
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: `interpolate` with mode "bilinear" and align_corners=True."""
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: `interpolate` with mode "nearest"."""
