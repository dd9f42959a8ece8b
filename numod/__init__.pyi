# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .device.layout import Size as _Size
from .device.device import Device as _device
from .dtypes import dtype as _dtype
from .formats import layout as _layout, memory_format as _memory_format
from .paths import accelerator as accelerator
from . import amp as amp
from . import ao as ao
from . import array_api as array_api
from . import autograd as autograd
from . import backends as backends
from .paths import compiler as compiler
from . import config as config
from . import core as core
from .paths import cpu as cpu
from . import cuda as cuda
from . import distributed as distributed
from . import distributions as distributions
from . import dtypes as dtypes
from . import errors as errors
from . import export as export
from . import fft as fft
from . import formats as formats
from . import func as func
from .paths import functional as functional
from . import futures as futures
from .paths import fx as fx
from . import graph as graph
from .paths import hub as hub
from .paths import jit as jit
from . import kernel as kernel
from . import learner as learner
from .paths import library as library
from . import linalg as linalg
from .paths import masked as masked
from .paths import other_devices as _other_devices
from .paths import other_devices as _other_devices
from .paths import multiprocessing as multiprocessing
from . import nested as nested
from . import nn as nn
from . import notebook as notebook
from . import onnx as onnx
from . import ops as ops
from . import optim as optim
from .core import overrides as overrides
from . import paths as paths
from . import profiler as profiler
from .ao import quantization as quantization
from .paths import quasirandom as quasirandom
from . import random as random
from .core import return_types as return_types
from . import serialization as serialization
from .paths import signal as signal
from . import special as special
from .paths import storage as storage
from . import testing as testing
from . import version as _version
from . import tracebacks as tracebacks
from .paths import types as types
from . import utils as utils
from . import version as version
from . import weak_values as weak_values
from .paths import other_devices as _other_devices
from .cuda.streams import Event as Event
from .futures import Future as Future
from .core.create.random import Generator as Generator
from .amp.scaler import GradScaler as GradScaler
from .errors import OutOfMemoryError as OutOfMemoryError
from . import PyTorchFileReader as PyTorchFileReader
from .export.script import ScriptModule as ScriptModule
from .device.layout import Size as Size
from .cuda.streams import Stream as Stream
from . import SymBool as SymBool
from . import SymFloat as SymFloat
from . import SymInt as SymInt
from .core.tensor import Tensor as Tensor
from . import TensorType as TensorType
from .core.convert.storages import TypedStorage as TypedStorage
from .device.storage import Storage as _Storage
from .amp.autocast import autocast as autocast
from .device.device import Device as _Device
from .dtypes import dtype as dtype
from .autograd.modes import enable_grad as enable_grad
from .dtypes import finfo as finfo
from .dtypes import iinfo as iinfo
from .autograd.modes import inference_mode as inference_mode
from .formats import layout as layout
from .formats import memory_format as memory_format
from .autograd.modes import no_grad as no_grad
from .core.quantized.schemes import qscheme as qscheme
from .autograd.modes import set_grad_enabled as set_grad_enabled
from .nn.functional import alpha_dropout as alpha_dropout
from .backends.switches import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .core.create.values import as_tensor as as_tensor
from .core.create.memory import asarray as asarray
from .nn.functional import bilinear as bilinear
from .dtypes import can_cast as can_cast
from .nn.functional import celu as celu
from .nn.functional import channel_shuffle as channel_shuffle
from .core.quantized.optimized import choose_qparams_optimized as choose_qparams_optimized
from .amp.autocast import clear_autocast_cache as clear_autocast_cache
from .graph.compile import compile as compile
from .kernel.compile_report import compile_report as compile_report
from .nn.functional import cosine_similarity as cosine_similarity
from .core.quantized.functions import dequantize as dequantize
from .nn.functional import dropout as dropout
from .core.create.memory import empty_permuted as empty_permuted
from .core.create.memory import empty_strided as empty_strided
from .core.quantized.training import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
from .core.quantized.training import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
from .nn.functional import feature_alpha_dropout as feature_alpha_dropout
from .core.convert.exchange import from_dlpack as from_dlpack
from .core.create.memory import from_file as from_file
from .core.create.values import from_numpy as from_numpy
from .core.create.memory import frombuffer as frombuffer
from .core.quantized.training import fused_moving_avg_obs_fake_quant as fused_moving_avg_obs_fake_quant
from .amp.autocast import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .amp.autocast import get_autocast_dtype as get_autocast_dtype
from .amp.autocast import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .dtypes import get_default_dtype as get_default_dtype
from .backends.switches import get_deterministic_debug_mode as get_deterministic_debug_mode
from .paths.accelerator import get_device_module as get_device_module
from .backends.switches import get_float32_matmul_precision as get_float32_matmul_precision
from .backends.switches import get_num_interop_threads as get_num_interop_threads
from .device.threads import get_num_threads as get_num_threads
from .core.printing import get_printoptions as get_printoptions
from .core.create.generator import get_rng_state as get_rng_state
from .nn.functional import group_norm as group_norm
from .core.create.generator import initial_seed as initial_seed
from .autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
from .amp.autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
from .amp.autocast import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .amp.autocast import is_autocast_enabled as is_autocast_enabled
from .backends.switches import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from .autograd.modes import is_grad_enabled as is_grad_enabled
from .autograd.modes import is_inference_mode_enabled as is_inference_mode_enabled
from .errors import is_warn_always_enabled as is_warn_always_enabled
from .nn.functional import layer_norm as layer_norm
from .serialization.checkpoint import load as load
from .core.create.generator import manual_seed as manual_seed
from .core.create.random import normal as normal
from .nn.functional import pairwise_distance as pairwise_distance
from .nn.functional import pixel_shuffle as pixel_shuffle
from .nn.functional import pixel_unshuffle as pixel_unshuffle
from .nn.functional import prelu as prelu
from .dtypes import promote_types as promote_types
from .core.quantized.functions import quantize_per_channel as quantize_per_channel
from .core.quantized.functions import quantize_per_tensor as quantize_per_tensor
from .core.quantized.functions import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from .nn.functional import rms_norm as rms_norm
from .nn.functional import rrelu as rrelu
from .serialization.checkpoint import save as save
from .core.create.generator import seed as seed
from .autograd.anomaly import set_anomaly_enabled as set_anomaly_enabled
from .amp.autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
from .amp.autocast import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from .amp.autocast import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from .amp.autocast import set_autocast_dtype as set_autocast_dtype
from .amp.autocast import set_autocast_enabled as set_autocast_enabled
from .amp.autocast import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from .device.device import set_default_device as set_default_device
from .dtypes import set_default_dtype as set_default_dtype
from .backends.switches import set_deterministic_debug_mode as set_deterministic_debug_mode
from .backends.switches import set_float32_matmul_precision as set_float32_matmul_precision
from .backends.switches import set_flush_denormal as set_flush_denormal
from .backends.switches import set_num_interop_threads as set_num_interop_threads
from .device.threads import set_num_threads as set_num_threads
from .core.printing import set_printoptions as set_printoptions
from .core.create.generator import set_rng_state as set_rng_state
from .errors import set_warn_always as set_warn_always
from .paths.internal import sym_float as sym_float
from .paths.internal import sym_int as sym_int
from .paths.internal import sym_ite as sym_ite
from .paths.internal import sym_max as sym_max
from .paths.internal import sym_min as sym_min
from .paths.internal import sym_not as sym_not
from .paths.internal import sym_sum as sym_sum
from .core.create.values import tensor as tensor
from .core.convert.exchange import to_dlpack as to_dlpack
from .backends.switches import use_deterministic_algorithms as use_deterministic_algorithms
from .func.batching import vmap as vmap
from .version import __version__ as __version__

BFloat16Storage: Any
BFloat16Tensor: type[Tensor]
BoolStorage: Any
BoolTensor: type[Tensor]
ByteStorage: Any
ByteTensor: type[Tensor]
CharStorage: Any
CharTensor: type[Tensor]
ComplexDoubleStorage: Any
ComplexFloatStorage: Any
DoubleStorage: Any
DoubleTensor: type[Tensor]
FloatStorage: Any
FloatTensor: type[Tensor]
HalfStorage: Any
HalfTensor: type[Tensor]
IntStorage: Any
IntTensor: type[Tensor]
LongStorage: Any
LongTensor: type[Tensor]
ShortStorage: Any
ShortTensor: type[Tensor]
UntypedStorage = _Storage
bfloat16: _dtype
bool: _dtype
cdouble: _dtype
cfloat: _dtype
chalf: Any
channels_last: _memory_format
channels_last_3d: _memory_format
complex128: _dtype
complex32: Any
complex64: _dtype
contiguous_format: _memory_format
default_generator: Generator
device = _Device
double: _dtype
e: _float
float: _dtype
float16: _dtype
float32: _dtype
float64: _dtype
float8_e4m3fn: Any
float8_e4m3fnuz: Any
float8_e5m2: Any
float8_e5m2fnuz: Any
float8_e8m0fnu: Any
half: _dtype
inf: _float
int: _dtype
int1: Any
int16: _dtype
int2: Any
int3: Any
int32: _dtype
int4: Any
int5: Any
int6: Any
int64: _dtype
int7: Any
int8: _dtype
jagged: _layout
legacy_contiguous_format: _memory_format
long: _dtype
mps = _other_devices
mtia = _other_devices
nan: _float
newaxis: None
per_channel_affine: Any
per_channel_affine_float_qparams: Any
per_channel_symmetric: Any
per_tensor_affine: Any
per_tensor_symmetric: Any
pi: _float
preserve_format: _memory_format
qint32: Any
qint8: Any
quint2x4: Any
quint4x2: Any
quint8: Any
short: _dtype
sparse_bsc: _layout
sparse_bsr: _layout
sparse_coo: _layout
sparse_csc: _layout
sparse_csr: _layout
strided: _layout
torch_version = _version
uint1: Any
uint16: _dtype
uint2: Any
uint3: Any
uint32: _dtype
uint4: Any
uint5: Any
uint6: Any
uint64: _dtype
uint7: Any
uint8: _dtype
xpu = _other_devices

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Absolute value of each element; the magnitude of complex ones."""
def abs_(input: Tensor) -> Tensor:
    """In-place `abs`: overwrites the tensor and returns it. Absolute value of each element; the magnitude of complex ones."""
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Absolute value of each element; the magnitude of complex ones."""
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
def acos_(input: Tensor) -> Tensor:
    """In-place `acos`: overwrites the tensor and returns it. Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic cosine of each element; NaN below 1."""
def acosh_(input: Tensor) -> Tensor:
    """In-place `acosh`: overwrites the tensor and returns it. Inverse hyperbolic cosine of each element; NaN below 1."""
def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor:
    """Means of windows that divide the input evenly into `output_size`; None keeps a size."""
def adaptive_max_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> tuple[Tensor, Tensor]:
    """(maxima, indices)."""
def add(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other. Of masks the union, or with alpha = 0 the input."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * the sum of batch1 @ batch2 over the batch."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """`input + value * tensor1 / tensor2`."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """`input + value * tensor1 * tensor2`."""
@overload
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
@overload
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: _dtype, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * mat @ vec."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
    """In-place `addmv`: overwrites the tensor and returns it. beta * input + alpha * mat @ vec."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (the outer product of two vectors)."""
def adjoint(input: Tensor) -> Tensor:
    """The conjugate, transposed in its last two dimensions."""
def affine_grid_generator(theta: Tensor, size: Sequence[_int], align_corners: _bool) -> Tensor:
    """`nn.functional.affine_grid`."""
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `alias` returns."""
def all(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether all elements are true (not zero)."""
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
    """Whether all elements are close."""
def alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`nn.functional.alpha_dropout` in place."""
def amax(input: Tensor, dim: _int | Sequence[_int] = ..., keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Maximum over dimensions; the gradient is shared evenly between equal ones."""
def amin(input: Tensor, dim: _int | Sequence[_int] = ..., keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Minimum over dimensions; the gradient is shared evenly between equal ones."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Tensor | Sequence[Tensor] | None = None) -> return_types.aminmax:
    """(min, max) along a dimension, or of all; gradients are shared evenly between equal elements."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Angle of each element in radians: 0 or pi for real numbers, the argument for complex ones."""
def any(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether any element is true (not zero)."""
@overload
def arange(end: _float | _complex, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """`start, start + step, ...` below `end`: arange(end), arange(start, end), arange(start, end, step)."""
@overload
def arange(start: _float | _complex, end: _float | _complex, step: _float | _complex = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """`start, start + step, ...` below `end`: arange(end), arange(start, end), arange(start, end, step)."""
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
def arccos_(input: Tensor) -> Tensor:
    """In-place `acos`: overwrites the tensor and returns it. Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic cosine of each element; NaN below 1."""
def arccosh_(input: Tensor) -> Tensor:
    """In-place `acosh`: overwrites the tensor and returns it. Inverse hyperbolic cosine of each element; NaN below 1."""
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse sine of each element, in radians; NaN outside [-1, 1]."""
def arcsin_(input: Tensor) -> Tensor:
    """In-place `asin`: overwrites the tensor and returns it. Inverse sine of each element, in radians; NaN outside [-1, 1]."""
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic sine of each element."""
def arcsinh_(input: Tensor) -> Tensor:
    """In-place `asinh`: overwrites the tensor and returns it. Inverse hyperbolic sine of each element."""
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Angle of the point (other, input) in radians, in (-pi, pi]."""
def arctan_(input: Tensor) -> Tensor:
    """In-place `atan`: overwrites the tensor and returns it. Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
def arctanh_(input: Tensor) -> Tensor:
    """In-place `atanh`: overwrites the tensor and returns it. Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the greatest element along a dimension, or in the flattened tensor."""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the least element along a dimension, or in the flattened tensor."""
@overload
def argsort(input: Tensor, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None) -> Tensor:
    """The indices that sort along a dimension."""
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False) -> Tensor:
    """The indices that sort along a dimension."""
def argwhere(input: Tensor) -> Tensor:
    """Indices of the nonzero elements, (count, ndim), or with `as_tuple` a vector per dimension."""
def as_strided(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """A view of any sizes and strides over the storage. Raises RuntimeError if it would leave the storage."""
def as_strided_(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """In-place `as_strided`: overwrites the tensor and returns it. A view of any sizes and strides over the storage. Raises RuntimeError if it would leave the storage."""
def as_strided_copy(input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `as_strided` returns."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
    """A copy of input with the elements of as_strided(size, stride, storage_offset) replaced by src."""
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse sine of each element, in radians; NaN outside [-1, 1]."""
def asin_(input: Tensor) -> Tensor:
    """In-place `asin`: overwrites the tensor and returns it. Inverse sine of each element, in radians; NaN outside [-1, 1]."""
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic sine of each element."""
def asinh_(input: Tensor) -> Tensor:
    """In-place `asinh`: overwrites the tensor and returns it. Inverse hyperbolic sine of each element."""
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Angle of the point (other, input) in radians, in (-pi, pi]."""
def atan_(input: Tensor) -> Tensor:
    """In-place `atan`: overwrites the tensor and returns it. Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
def atanh_(input: Tensor) -> Tensor:
    """In-place `atanh`: overwrites the tensor and returns it. Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
def atleast_1d(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
    """Scalars as vectors of one element; other tensors unchanged."""
def atleast_2d(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
    """Scalars and vectors as a row of a matrix; other tensors unchanged."""
def atleast_3d(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
    """Scalars as (1, 1, 1), vectors as (1, n, 1), matrices as (m, n, 1); other tensors unchanged."""
def avg_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] = ..., padding: _int | Sequence[_int] = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """The mean of each window; padding counts as zeros unless `count_include_pad` is False."""
@overload
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, batches of matrices."""
@overload
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: _dtype, *, beta: _float | _complex = 1, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, batches of matrices."""
@overload
def bartlett_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """The triangle: 1 - |2 x - 1|."""
@overload
def bartlett_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """The triangle: 1 - |2 x - 1|."""
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> Tensor:
    """`nn.functional.batch_norm`."""
@overload
def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability given by each element, or `p` for all, else 0."""
@overload
def bernoulli(input: Tensor, p: _float, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability given by each element, or `p` for all, else 0."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: _int = 1) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with reduction 0, 1 or 2 for none, mean or sum."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """Number of occurrences of each value in a vector of non-negative integers, or their sums of weights; of at least `minlength` bins."""
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of binomial distributions: the successes among `count` trials, floats, of probability `prob` each, which broadcast."""
def bitwise_and(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Bitwise and of integers; logical and of bool."""
def bitwise_left_shift(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """`input << other` for integers."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bits inverted; of a bool, the opposite."""
def bitwise_or(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Bitwise or of integers; logical or of bool."""
def bitwise_right_shift(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """`input >> other` for integers; the sign is kept."""
def bitwise_xor(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Bitwise exclusive or of integers; logical exclusive or of bool."""
@overload
def blackman_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Blackman's window: 0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)."""
@overload
def blackman_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Blackman's window: 0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)."""
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the tensors (vectors as rows) along its diagonal, 0 elsewhere."""
@overload
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of matrices in equal batches, (B, M, K) @ (B, K, N)."""
@overload
def bmm(input: Tensor, mat2: Tensor, out_dtype: _dtype, *, out: Tensor | None = None) -> Tensor:
    """Products of matrices in equal batches, (B, M, K) @ (B, K, N)."""
def broadcast_shapes(*shapes: Any) -> tuple[_int, ...]:
    """The shape to which all shapes broadcast."""
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common broadcast shape; views, or the tensors themselves."""
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor:
    """Expanded to a size."""
def bucketize(input: Tensor | _float | _complex, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
    """The index of the bucket each value falls into, for sorted boundaries; with `right` a value equal to a boundary belongs above it."""
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """The Cartesian product of vectors, one combination per row; a single vector itself."""
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along a dimension. Empty one-dimensional tensors are skipped, as in PyTorch."""
def cdist(x1: Any, x2: Any, p: Any = 2.0, compute_mode: Any = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    """p-norm distances of all pairs of rows, (..., P, M) and (..., R, M) -> (..., P, R)."""
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Smallest integer that is not less than each element."""
def ceil_(input: Tensor) -> Tensor:
    """In-place `ceil`: overwrites the tensor and returns it. Smallest integer that is not less than each element."""
def celu_(input: Tensor, alpha: _float | _complex = 1.0) -> Tensor:
    """In-place `celu`: overwrites the tensor and returns it."""
def chain_matmul(*matrices: Any, out: Any = None) -> Tensor:
    """The product of matrices, multiplied in the cheapest order. Deprecated in favour of `linalg.multi_dot`."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The Cholesky factor of symmetric positive-definite matrices. Deprecated in favor of `linalg.cholesky`."""
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A, from its Cholesky factor."""
def cholesky_solve(input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """X with A X = B, for the Cholesky factor of A."""
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of equal size, the last perhaps smaller; views."""
def clamp(input: Tensor, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None, *, out: Tensor | None = None) -> Tensor:
    """Elements limited to [min, max]; either bound may be None, a number or a tensor."""
def clamp_(input: Tensor, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None) -> Tensor:
    """Limit to [min, max]; either bound may be None, a number or a tensor. Raises RuntimeError where both are None."""
def clamp_max(input: Tensor, max: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Minimum of each element and `max`."""
def clamp_max_(input: Tensor, max: Tensor | _float | _complex) -> Tensor:
    """In-place `clamp_max`: overwrites the tensor and returns it. Minimum of each element and `max`."""
def clamp_min(input: Tensor, min: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Maximum of each element and `min`."""
def clamp_min_(input: Tensor, min: Tensor | _float | _complex) -> Tensor:
    """In-place `clamp_min`: overwrites the tensor and returns it. Maximum of each element and `min`."""
def clip(input: Tensor, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None, *, out: Tensor | None = None) -> Tensor:
    """Elements limited to [min, max]; either bound may be None, a number or a tensor."""
def clip_(input: Tensor, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None) -> Tensor:
    """Limit to [min, max]; either bound may be None, a number or a tensor. Raises RuntimeError where both are None."""
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy with memory of its own."""
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along dimension 1, scalars and vectors as columns."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All combinations of r elements of a vector, in order, one per row."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + i imag, of two real tensors of one floating dtype, which broadcast."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along a dimension. Empty one-dimensional tensors are skipped, as in PyTorch."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along a dimension. Empty one-dimensional tensors are skipped, as in PyTorch."""
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, computed; a real tensor itself."""
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate, computed; a real tensor itself."""
def conj_physical_(input: Tensor) -> Tensor:
    """In-place `conj_physical`: overwrites the tensor and returns it. The complex conjugate, computed; a real tensor itself."""
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: _float | _complex = 0) -> Tensor:
    """`nn.functional.pad` with a constant."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Cross-correlation of input (N, C, *1 sizes) with weight (O, C / groups, *kernel) -> (N, O, *sizes). `padding` may be "same" or "valid"."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Cross-correlation of input (N, C, *2 sizes) with weight (O, C / groups, *kernel) -> (N, O, *sizes). `padding` may be "same" or "valid"."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] | str = 0, dilation: _int | Sequence[_int] = 1, groups: _int = 1) -> Tensor:
    """Cross-correlation of input (N, C, *3 sizes) with weight (O, C / groups, *kernel) -> (N, O, *sizes). `padding` may be "same" or "valid"."""
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor:
    """Convolution along the first dimension, (T, N, C) and weight (K, C, C_out) -> (T + 2 pad - K + 1, N, C_out)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of conv1d: input (N, C, *1 sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of conv2d: input (N, C, *2 sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: _int | Sequence[_int] = 1, padding: _int | Sequence[_int] = 0, output_padding: _int | Sequence[_int] = 0, groups: _int = 1, dilation: _int | Sequence[_int] = 1) -> Tensor:
    """The transpose of conv3d: input (N, C, *3 sizes), weight (C, O / groups, *kernel) -> (N, O, *sizes)."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[_int], padding: Sequence[_int], dilation: Sequence[_int], transposed: _bool, output_padding: Sequence[_int], groups: _int) -> Tensor:
    """Convolution, or transposed convolution, with a dimension for each of the weight's after its first two."""
def copysign(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Magnitude of `input` with the sign of `other`."""
def corrcoef(input: Tensor) -> Tensor:
    """Pearson correlation coefficients of variables (rows) by observations (columns)."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Cosine of each element, in radians."""
def cos_(input: Tensor) -> Tensor:
    """In-place `cos`: overwrites the tensor and returns it. Cosine of each element, in radians."""
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic cosine of each element."""
def cosh_(input: Tensor) -> Tensor:
    """In-place `cosh`: overwrites the tensor and returns it. Hyperbolic cosine of each element."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 1) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with reduction 0, 1 or 2 for none, mean or sum."""
def count_nonzero(input: Tensor, dim: _int | None = None) -> Tensor:
    """Number of elements that are not zero."""
def cov(input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariance matrix of variables (rows) by observations (columns), with whole-number and real weights of observations."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product along a dimension of size 3; by default the first such."""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Sequence[_int] | Tensor, target_lengths: Sequence[_int] | Tensor, blank: _int = 0, reduction: _int = 1, zero_infinity: _bool = False) -> Tensor:
    """`nn.functional.ctc_loss` with reduction 0, 1 or 2 for none, mean or sum."""
def cummax(input: Tensor, dim: _int, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.cummax:
    """(values, indices): the greatest element so far along a dimension, and its last place."""
def cummin(input: Tensor, dim: _int, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.cummin:
    """(values, indices): the least element so far along a dimension, and its last place."""
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Running product along a dimension; integers and bool give int64."""
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Running sum along a dimension; integers and bool give int64."""
@overload
def cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor:
    """Running area under y along a dimension by the trapezoidal rule."""
@overload
def cumulative_trapezoid(y: Tensor, *, dx: _float | _complex = 1, dim: _int = -1) -> Tensor:
    """Running area under y along a dimension by the trapezoidal rule."""
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees to radians."""
def deg2rad_(input: Tensor) -> Tensor:
    """In-place `deg2rad`: overwrites the tensor and returns it. Degrees to radians."""
def det(input: Tensor) -> Tensor:
    """Determinants of square matrices."""
def detach(input: Tensor) -> Tensor:
    """A tensor over the same memory, detached from the graph."""
def detach_(input: Tensor) -> Tensor:
    """Detach this tensor itself from the graph."""
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `detach` returns."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with a vector on a diagonal, or the diagonal of a matrix."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Matrices, in dimensions dim1 and dim2 of the result, with the last dimension of `input` on a diagonal and 0 elsewhere."""
def diagflat(input: Tensor, offset: _int = 0) -> Tensor:
    """The matrix with all elements of `input` on a diagonal."""
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """The diagonal of two dimensions, as the last dimension of a view."""
def diagonal_copy(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `diagonal` returns."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """A copy of input with a diagonal replaced by src."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """n-th differences of neighbours along a dimension; `prepend` and `append` are concatenated first."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Digamma function: the derivative of `lgamma`."""
def dist(input: Tensor, other: Tensor, p: _float | _complex = 2) -> Tensor:
    """The p-norm of input - other."""
def div(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
@overload
def divide(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
@overload
def divide(input: Tensor, other: Tensor, *, rounding_mode: str | None, out: Tensor | None = None) -> Tensor:
    """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two vectors."""
def dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`nn.functional.dropout` in place."""
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 2."""
@overload
def dsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 2."""
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along dimension 2."""
def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products over the subscripts of `equation`, such as "bij,bjk->bik"."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """`nn.functional.embedding`; -1 means no padding."""
@overload
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: _bool, mode: _int, sparse: _bool, per_sample_weights: Tensor | None, include_last_offset: _bool, padding_idx: _int | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` with mode 0, 1 or 2 for sum, mean or max. Returns the bags in a tuple of one."""
@overload
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: _bool = False, mode: _int = 0, sparse: _bool = False, per_sample_weights: Tensor | None = None, include_last_offset: _bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` with mode 0, 1 or 2 for sum, mean or max. Returns the bags in a tuple of one."""
@overload
def empty(size: Sequence[_int], *, memory_format: _memory_format | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor of uninitialised memory."""
@overload
def empty(*size: _int, memory_format: _memory_format | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor of uninitialised memory."""
def empty_like(input: Tensor, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor with the shape and memory order of `input`."""
def eq(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are equal: a bool tensor. NaN equals nothing."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether shapes and all elements agree."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0."""
def erf_(input: Tensor) -> Tensor:
    """In-place `erf`: overwrites the tensor and returns it. Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complementary error function, 1 - erf(input), accurate for large elements."""
def erfc_(input: Tensor) -> Tensor:
    """In-place `erfc`: overwrites the tensor and returns it. Complementary error function, 1 - erf(input), accurate for large elements."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of `erf` on (-1, 1); infinite at -1 and 1."""
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Exponential of each element, e ** input."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of each element."""
def exp2_(input: Tensor) -> Tensor:
    """In-place `exp2`: overwrites the tensor and returns it. 2 to the power of each element."""
def exp_(input: Tensor) -> Tensor:
    """In-place `exp`: overwrites the tensor and returns it. Exponential of each element, e ** input."""
def expand_copy(input: Tensor, size: Sequence[_int], *, implicit: _bool = False, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `expand` returns."""
def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-input))."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(input) - 1, accurate near 0."""
def expm1_(input: Tensor) -> Tensor:
    """In-place `expm1`: overwrites the tensor and returns it. exp(input) - 1, accurate near 0."""
@overload
def eye(n: _int, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """The identity matrix, (n, m)."""
@overload
def eye(n: _int, m: _int, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """The identity matrix, (n, m)."""
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` in place."""
def feature_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """Zero whole channels of (N, C, ...)."""
def feature_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`feature_dropout` in place."""
def fill(input: Tensor, value: Tensor | _float | _complex) -> Tensor:
    """A tensor of the shape and dtype of `input`, filled with `value`."""
def fill_(input: Tensor, value: Tensor | _float | _complex) -> Tensor:
    """Fill with `value`. Raises RuntimeError for a number that the dtype does not hold."""
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element rounded towards 0."""
def fix_(input: Tensor) -> Tensor:
    """In-place `trunc`: overwrites the tensor and returns it. Each element rounded towards 0."""
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """Dimensions start_dim to end_dim (inclusive) as one."""
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """Elements in reverse order along dimensions; a copy that keeps the memory order of a transposed tensor."""
def fliplr(input: Tensor) -> Tensor:
    """Left-right flip: dimension 1 in reverse order."""
def flipud(input: Tensor) -> Tensor:
    """Up-down flip: dimension 0 in reverse order."""
def float_power(input: Tensor | _float | _complex, exponent: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent in float64, or complex128."""
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Greatest integer that is not greater than each element."""
def floor_(input: Tensor) -> Tensor:
    """In-place `floor`: overwrites the tensor and returns it. Greatest integer that is not greater than each element."""
def floor_divide(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Quotient rounded towards minus infinity."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Larger of two elements; the number where the other one is NaN."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Smaller of two elements; the number where the other one is NaN."""
def fmod(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Remainder with the sign of `input`."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Fractional part of each element, with its sign."""
def frac_(input: Tensor) -> Tensor:
    """In-place `frac`: overwrites the tensor and returns it. Fractional part of each element, with its sign."""
def frexp(input: Tensor, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.frexp:
    """(mantissa, exponent) with input = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1; the exponent is int32."""
def frobenius_norm(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of squares."""
def full(size: Sequence[_int], fill_value: _float | _complex, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor filled with `fill_value`, whose type determines the dtype by default."""
def full_like(input: Tensor, fill_value: _float | _complex, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor filled with `fill_value`, with the shape of `input`."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on: shaped like `index`, which may not exceed input in other dimensions."""
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Greatest common divisor of integers."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """In-place `gcd`: overwrites the tensor and returns it. Greatest common divisor of integers."""
def ge(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input >= other`: a bool tensor."""
def geqrf(input: Tensor, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.geqrf:
    """(a, tau):"""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of elements of two vectors."""
def get_default_device() -> _device:
    """Where tensors are made when no device is named."""
def get_device(input: Tensor) -> _int:
    """Index of the tensor's CUDA device; -1 on the CPU."""
def gradient(input: Tensor, *, spacing: _float | _complex | None = None, dim: _int | None = None, edge_order: _int = 1) -> tuple[Tensor, ...]:
    """Estimated derivatives along dimensions (all by default): second-order accurate inside, of order `edge_order` at the ends."""
def greater(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input > other`: a bool tensor."""
def greater_equal(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input >= other`: a bool tensor."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`nn.functional.grid_sample` with numeric modes."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sampler` of images (N, C, H, W)."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sampler` of volumes (N, C, D, H, W)."""
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """The next h (N, H)."""
def gt(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input > other`: a bool tensor."""
@overload
def hamming_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Hamming's window: alpha - beta cos(2 pi x)."""
@overload
def hamming_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Hamming's window: alpha - beta cos(2 pi x)."""
@overload
def hamming_window(window_length: _int, periodic: _bool, alpha: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Hamming's window: alpha - beta cos(2 pi x)."""
@overload
def hamming_window(window_length: _int, periodic: _bool, alpha: _float, beta: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Hamming's window: alpha - beta cos(2 pi x)."""
@overload
def hann_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Hann's window: (1 - cos(2 pi x)) / 2."""
@overload
def hann_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Hann's window: (1 - cos(2 pi x)) / 2."""
def hardshrink(input: Tensor, lambd: _float | _complex = 0.5, *, out: Tensor | None = None) -> Tensor:
    """`x` where abs(x) > lambd, else 0."""
def hash_tensor(input: Tensor, dim: _int | Sequence[_int] = ..., *, keepdim: _bool = False, mode: _int = 0, out: Tensor | None = None) -> Tensor:
    """The exclusive or of the bits of all elements, or along dimensions, as float64 or int64."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Step function: 0 below 0, 1 above, `values` at 0."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, reduction: _int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with reduction 0, 1 or 2 for none, mean or sum."""
def histc(input: Tensor, bins: _int = 100, min: _float | _complex = 0, max: _float | _complex = 0, *, out: Tensor | None = None) -> Tensor:
    """Histogram of `bins` equal bins over [min, max], by default the data's range; elements outside are not counted."""
def histogram(input: Tensor, bins: _int = 100, *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Tensor | Sequence[Tensor] | None = None) -> return_types.histogram:
    """(hist, bin_edges): counts, or sums of weights, between edges or in `bins` equal parts of `range`."""
def histogramdd(input: Tensor, bins: _int | Sequence[_int] | Sequence[Tensor], range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> return_types.histogramdd:
    """(hist, bin_edges) of points (..., D): a D-dimensional histogram and D vectors of edges."""
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]:
    """`tensor_split` into columns: along dimension 1, or 0 of a vector."""
@overload
def hsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]:
    """`tensor_split` into columns: along dimension 1, or 0 of a vector."""
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along dimension 1, vectors along 0."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sqrt(input**2 + other**2), without overflow."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Modified Bessel function of the first kind, order 0."""
def i0_(input: Tensor) -> Tensor:
    """In-place `i0`: overwrites the tensor and returns it. Modified Bessel function of the first kind, order 0."""
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised lower incomplete gamma function P(input, other). There is no gradient for `input`."""
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other)."""
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, as a view."""
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with `alpha * source` added to the slices `index` of dimension `dim`."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` whose slices `index` of dimension `dim` are those of `source`."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _float | _complex) -> Tensor:
    """A copy of `input` with `value` in the slices `index` of dimension `dim`."""
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """A copy of input with values written (or added) at indices."""
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """self[indices] = values, or += with `accumulate` (repeated indices add up)."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """input with the slices of source reduced into those selected by a vector of indices, by prod, mean, amax or amin."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices of a dimension selected by a vector of indices."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimension of both; a number multiplies."""
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: _bool, momentum: _float, eps: _float, cudnn_enabled: _bool) -> Tensor:
    """`nn.functional.instance_norm`."""
def int_repr(input: Tensor) -> Any:
    """A copy of the integers; of less than 8 bits, of the bytes that hold them."""
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices (..., N, N). Raises LinAlgError for singular ones."""
def is_complex(input: Tensor) -> _bool:
    """Whether the dtype is a complex one."""
def is_conj(input: Tensor) -> _bool:
    """False: conjugates and negatives are computed at once here, never put off."""
def is_floating_point(input: Tensor) -> _bool:
    """Whether the dtype is a floating one."""
def is_inference(input: Tensor) -> _bool:
    """Whether it was created in inference mode."""
def is_neg(input: Tensor) -> _bool:
    """False: conjugates and negatives are computed at once here, never put off."""
def is_nonzero(input: Tensor) -> _bool:
    """Whether a tensor of one element is not zero. Raises RuntimeError for others."""
def is_same_size(input: Tensor, other: Tensor) -> _bool:
    """Whether the shapes are equal."""
def is_signed(input: Tensor) -> _bool:
    """Whether the dtype has negative numbers."""
def is_storage(obj: Any) -> _bool:
    """Whether `obj` is a tensor's storage."""
def is_tensor(obj: Any) -> _bool:
    """Whether `obj` is a Tensor."""
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
    """|input - other| <= atol + rtol * |other|, or equal infinities, or both NaN where `equal_nan`."""
def isfinite(input: Tensor) -> Tensor:
    """Whether elements are neither infinite nor NaN: a bool tensor."""
@overload
def isin(elements: Tensor, test_elements: Tensor, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor:
    """Whether each element is among `test_elements`."""
@overload
def isin(element: _float | _complex, test_elements: Tensor, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor:
    """Whether each element is among `test_elements`."""
@overload
def isin(elements: Tensor, test_element: _float | _complex, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor:
    """Whether each element is among `test_elements`."""
def isinf(input: Tensor) -> Tensor:
    """Whether elements are infinite: a bool tensor."""
def isnan(input: Tensor) -> Tensor:
    """Whether elements are NaN: a bool tensor."""
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are minus infinity: a bool tensor."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are plus infinity: a bool tensor."""
def isreal(input: Tensor) -> Tensor:
    """Whether each element's imaginary part is 0."""
def istft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
    """The signal of a short-time transform: overlapping frames are added and divided by the windows' squares (Griffin and Lim, 1984)."""
@overload
def kaiser_window(window_length: _int, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Kaiser's window: I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)."""
@overload
def kaiser_window(window_length: _int, periodic: _bool, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Kaiser's window: I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)."""
@overload
def kaiser_window(window_length: _int, periodic: _bool, beta: _float, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Kaiser's window: I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)."""
def kl_div(input: Tensor, target: Tensor, reduction: _int = 1, *, log_target: _bool = False) -> Tensor:
    """`nn.functional.kl_div` with reduction 0, 1 or 2 for none, mean or sum."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: every element of `input` times all of `other`."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.kthvalue:
    """(values, indices) of the k-th smallest element (from 1) along a dimension."""
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Least common multiple of integers."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """In-place `lcm`: overwrites the tensor and returns it. Least common multiple of integers."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * 2 ** other; with integers `other`, in the dtype of a floating `input`."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """In-place ldexp."""
def le(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input <= other`: a bool tensor."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Linear interpolation, `input + weight * (end - input)`."""
def less(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input < other`: a bool tensor."""
def less_equal(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input <= other`: a bool tensor."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function."""
@overload
def linspace(start: _float | _complex, end: _float | _complex, steps: _int | None = None, *, out: Tensor | None = None, dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """`steps` numbers from `start` to `end`, evenly spaced, both ends included."""
@overload
def linspace(start: Tensor | _float | _complex, end: Tensor | _float | _complex, steps: _int, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """`steps` numbers from `start` to `end`, evenly spaced, both ends included."""
def lobpcg(A: Tensor, k: _int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: _int | None = None, iK: Tensor | None = None, niter: _int | None = None, tol: _float | None = None, largest: _bool | None = None, method: str | None = None, tracker: None = None, ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None) -> tuple[Tensor, Tensor]:
    """(k eigenvalues, eigenvectors) of A x = λ B x for symmetric A and positive-definite B (..., N, N); the largest ones by default."""
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Natural logarithm of each element; NaN below 0, minus infinity at 0."""
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm to base 10 of each element."""
def log10_(input: Tensor) -> Tensor:
    """In-place `log10`: overwrites the tensor and returns it. Logarithm to base 10 of each element."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + input), accurate near 0."""
def log1p_(input: Tensor) -> Tensor:
    """In-place `log1p`: overwrites the tensor and returns it. log(1 + input), accurate near 0."""
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm to base 2 of each element."""
def log2_(input: Tensor) -> Tensor:
    """In-place `log2`: overwrites the tensor and returns it. Logarithm to base 2 of each element."""
def log_(input: Tensor) -> Tensor:
    """In-place `log`: overwrites the tensor and returns it. Natural logarithm of each element; NaN below 0, minus infinity at 0."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(softmax(x)) along a dimension, computed directly."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log2(2**input + 2**other), without overflow."""
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the running sum of exponentials along a dimension, without overflow."""
def logdet(input: Tensor) -> Tensor:
    """The logarithm of determinants; NaN for negative ones of real matrices."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements are nonzero: a bool tensor."""
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are zero: a bool tensor."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether at least one of two elements is nonzero: a bool tensor."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one of two elements is nonzero: a bool tensor."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given."""
def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """In-place `logit`: overwrites the tensor and returns it. log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given."""
@overload
def logspace(start: _float | _complex, end: _float | _complex, steps: _int | None = None, base: _float = 10.0, *, out: Tensor | None = None, dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """`steps` powers of `base`, the exponents evenly spaced from `start` to `end`."""
@overload
def logspace(start: Tensor | _float | _complex, end: Tensor | _float | _complex, steps: _int, base: _float = 10.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """`steps` powers of `base`, the exponents evenly spaced from `start` to `end`."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """log(sum(exp(x))) over dimensions, shifted by the maximum so that nothing overflows."""
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The next (h, c), (N, H) each."""
def lt(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether `input < other`: a bool tensor."""
def lu(A: Any, pivot: Any = True, get_infos: Any = False, out: Any = None) -> tuple[Tensor, ...]:
    """(L and U in one matrix, pivots), and infos if requested. Deprecated in favor of `linalg.lu_factor_ex`."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """X with A X = b, from `lu_factor` of A: the older order of arguments."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.lu_unpack:
    """(P, L, U) from `lu_factor`; tensors that are not requested are empty."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 1) -> Tensor:
    """`nn.functional.margin_ranking_loss` with reduction 0, 1 or 2 for none, mean or sum."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _float | _complex) -> Tensor:
    """`value` where mask is true, else `input`, in the dtype of input. The result is row-major, as PyTorch's."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of input, broadcast with mask, with the elements of source written where mask is true."""
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where mask is true, in one dimension."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product with PyTorch's broadcasting:"""
def matrix_exp(input: Tensor) -> Tensor:
    """1 + A + A^2 / 2! + ..., by scaling, a Padé approximant and squaring."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """A to the n-th power; of its inverse for negative n."""
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.max:
    """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
def max_pool1d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] = ..., padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False) -> Tensor:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
def max_pool1d_with_indices(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] = ..., padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False) -> tuple[Tensor, Tensor]:
    """(maxima, indices)."""
def max_pool2d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] = ..., padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False) -> Tensor:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
def max_pool3d(input: Tensor, kernel_size: _int | Sequence[_int], stride: _int | Sequence[_int] = ..., padding: _int | Sequence[_int] = 0, dilation: _int | Sequence[_int] = 1, ceil_mode: _bool = False) -> Tensor:
    """The maximum of each window; with `return_indices`, also its index in the plane."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Larger of two elements; NaN if one is NaN."""
@overload
def mean(input: Tensor, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over dimensions (all by default) of a floating tensor."""
@overload
def mean(input: Tensor, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over dimensions (all by default) of a floating tensor."""
@overload
def median(input: Tensor) -> Tensor:
    """The median (of an even number of elements the lower), NaN if there is one; with `dim`, (values, indices) along it."""
@overload
def median(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.median:
    """The median (of an even number of elements the lower), NaN if there is one; with `dim`, (values, indices) along it."""
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector along its own dimension, expanded to the grid's shape."""
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.min:
    """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Smaller of two elements; NaN if one is NaN."""
@overload
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices."""
@overload
def mm(input: Tensor, mat2: Tensor, out_dtype: _dtype, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.mode:
    """(values, indices): the most frequent element along a dimension (of several the smallest), and its last position."""
def moveaxis(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """Dimensions moved to other positions, the others in their order; a view."""
def movedim(input: Tensor, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
    """Dimensions moved to other positions, the others in their order; a view."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sorted along the first dimension."""
def mul(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Product of two tensors, or of a tensor and a number."""
def multinomial(input: Tensor, num_samples: _int, replacement: _bool = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Indices drawn with probabilities in proportion to a row of weights:"""
def multiply(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two tensors, or of a tensor and a number."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix times vector."""
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension p: log gamma(x - k / 2) summed over k < p, and p (p - 1) / 4 * log(pi)."""
def nan_to_num(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """NaN and infinities replaced, in both parts of complex numbers; by default by 0 and the greatest and least finite numbers."""
def nan_to_num_(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
    """In-place `nan_to_num`: overwrites the tensor and returns it. NaN and infinities replaced, in both parts of complex numbers; by default by 0 and the greatest and least finite numbers."""
def nanmean(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Mean over dimensions (all by default) of the elements that are not NaN."""
@overload
def nanmedian(input: Tensor) -> Tensor:
    """The median of the elements that are not NaN; with `dim`, (values, indices) along it."""
@overload
def nanmedian(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.nanmedian:
    """The median of the elements that are not NaN; with `dim`, (values, indices) along it."""
def nanquantile(input: Tensor, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = 'linear', out: Tensor | None = None) -> Tensor:
    """`quantile` of the elements that are not NaN."""
def nansum(input: Tensor, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum over dimensions (all by default) of the elements that are not NaN."""
def narrow(input: Tensor, dim: _int, start: Tensor | _int, length: _int) -> Tensor:
    """`length` elements of a dimension from `start` on."""
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `length` elements of a dimension from `start` on."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: _bool, momentum: _float, eps: _float, *, out: Tensor | Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(batch_norm, means, reciprocal standard deviations)."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: _int, C: _int, HxW: _int, group: _int, eps: _float) -> tuple[Tensor, Tensor, Tensor]:
    """(group_norm, means (N, group), reciprocal standard deviations (N, group))."""
def native_layer_norm(input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None, bias: Tensor | None, eps: _float) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm, means, reciprocal standard deviations)."""
def ne(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether elements differ: a bool tensor. NaN differs from everything."""
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Negative of each element."""
def neg_(input: Tensor) -> Tensor:
    """In-place `neg`: overwrites the tensor and returns it. Negative of each element."""
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Negative of each element."""
def negative_(input: Tensor) -> Tensor:
    """In-place `neg`: overwrites the tensor and returns it. Negative of each element."""
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next number of the tensor's dtype towards `other`."""
def nonzero(input: Tensor, *, as_tuple: Any = False, out: Tensor | None = None) -> Tensor:
    """Indices of the nonzero elements, (count, ndim), or with `as_tuple` a vector per dimension."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
    """Indices of the first `size` nonzero elements, (size, ndim), padded with `fill_value`."""
def norm(input: Any, p: _float | str | None = 'fro', dim: Any = None, keepdim: Any = False, out: Any = None, dtype: Any = None) -> Tensor:
    """The vector norm of all elements, or over dimensions; "nuc" the sum of singular values."""
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor:
    """Norms of the slices along a dimension, which is kept; the norm of all elements for dim -1."""
def not_equal(input: Tensor, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Whether elements differ: a bool tensor. NaN differs from everything."""
@overload
def nuclear_norm(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of singular values of matrices: nuclear_norm(input, dim, keepdim) or nuclear_norm(input, keepdim)."""
@overload
def nuclear_norm(input: Tensor, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of singular values of matrices: nuclear_norm(input, dim, keepdim) or nuclear_norm(input, keepdim)."""
def numel(input: Tensor) -> _int:
    """The number of elements."""
@overload
def ones(size: Sequence[_int], *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor filled with 1."""
@overload
def ones(*size: _int, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor filled with 1."""
def ones_like(input: Tensor, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor of ones with the shape of `input`."""
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of Householder reflections 1 - tau v v^H, with v below the diagonal of A."""
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Q @ other (or other @ Q), with Q, all its columns, from `geqrf`; or with Q^H."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of elements of two vectors."""
def pca_lowrank(A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of the principal components of the rows of A (..., M, N), whose mean is subtracted where `center`."""
def pdist(input: Tensor, p: _float = 2) -> Tensor:
    """p-norm distances of each row to those after it, (N, M) -> (N * (N - 1) / 2)."""
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """Dimensions in the given order; a view."""
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `permute` returns."""
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor:
    """The Moore-Penrose inverse; `numod.linalg.pinv` is the newer form."""
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of Poisson distributions with the elements as rates."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with reduction 0, 1 or 2 for none, mean or sum."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs * (cos(angle) + i sin(angle))."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma, element by element."""
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
def pow(input: Tensor | _float | _complex, exponent: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent. Raises RuntimeError for an integer to a negative integer number."""
@overload
def prod(input: Tensor, *, dtype: _dtype | None = None) -> Tensor:
    """Product over a dimension (all by default); integers and bool give int64."""
@overload
def prod(input: Tensor, dim: _int, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Product over a dimension (all by default); integers and bool give int64."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
    """A copy of `input` with the elements of `source` at the positions `index` of its elements in row-major order."""
def q_per_channel_axis(input: Tensor) -> Any:
    """The dimension of the channels."""
def q_per_channel_scales(input: Tensor) -> Any:
    """The scales of a per-channel scheme."""
def q_per_channel_zero_points(input: Tensor) -> Any:
    """The zero points of a per-channel scheme."""
def q_scale(input: Tensor) -> Any:
    """The scale of a per-tensor scheme."""
def q_zero_point(input: Tensor) -> Any:
    """The zero point of a per-tensor scheme."""
def qr(input: Tensor, some: _bool = True, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.qr:
    """(Q, R), reduced where `some`, else complete. Deprecated in favor of `linalg.qr`."""
def quantile(input: Tensor, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = 'linear', out: Tensor | None = None) -> Tensor:
    """Quantiles `q` (in [0, 1]) along a dimension or of all elements; NaN if any of these is NaN."""
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians to degrees."""
def rad2deg_(input: Tensor) -> Tensor:
    """In-place `rad2deg`: overwrites the tensor and returns it. Radians to degrees."""
@overload
def rand(size: Sequence[_int], *, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Uniform in [0, 1); of a complex number both parts."""
@overload
def rand(*size: _int, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Uniform in [0, 1); of a complex number both parts."""
@overload
def rand(size: Sequence[_int], *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Uniform in [0, 1); of a complex number both parts."""
@overload
def rand(*size: _int, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Uniform in [0, 1); of a complex number both parts."""
@overload
def rand_like(input: Tensor, *, generator: Generator | None, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random numbers, uniform in [0, 1), shaped like `input`."""
@overload
def rand_like(input: Tensor, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random numbers, uniform in [0, 1), shaped like `input`."""
@overload
def randint(low: _int, high: _int, size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
@overload
def randint(high: _int, size: Sequence[_int], *, generator: Generator | None = None, dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
@overload
def randint(high: _int, size: Sequence[_int], *, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
@overload
def randint(high: _int, size: Sequence[_int], *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
@overload
def randint(low: _int, high: _int, size: Sequence[_int], *, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
@overload
def randint(low: _int, high: _int, size: Sequence[_int], *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
@overload
def randint_like(input: Tensor, low: _int, high: _int, *, generator: Generator | None, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high) shaped like `input`: randint_like(input, high) or randint_like(input, low, high)."""
@overload
def randint_like(input: Tensor, low: _int, high: _int, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high) shaped like `input`: randint_like(input, high) or randint_like(input, low, high)."""
@overload
def randint_like(input: Tensor, high: Tensor | _int, *, generator: Generator | None, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high) shaped like `input`: randint_like(input, high) or randint_like(input, low, high)."""
@overload
def randint_like(input: Tensor, high: Tensor | _int, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random integers in [low, high) shaped like `input`: randint_like(input, high) or randint_like(input, low, high)."""
@overload
def randn(size: Sequence[_int], *, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Standard normal; a complex number's parts have half of the variance each."""
@overload
def randn(*size: _int, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Standard normal; a complex number's parts have half of the variance each."""
@overload
def randn(size: Sequence[_int], *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Standard normal; a complex number's parts have half of the variance each."""
@overload
def randn(*size: _int, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Standard normal; a complex number's parts have half of the variance each."""
@overload
def randn_like(input: Tensor, *, generator: Generator | None, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random numbers with standard normal distribution, shaped like `input`."""
@overload
def randn_like(input: Tensor, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Random numbers with standard normal distribution, shaped like `input`."""
@overload
def randperm(n: _int, *, generator: Generator | None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A random permutation of 0 .. n-1, drawn on the CPU and moved to `device`."""
@overload
def randperm(n: _int, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A random permutation of 0 .. n-1, drawn on the CPU and moved to `device`."""
def range(start: _float | _complex, end: _float | _complex, step: _float | _complex = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """Like arange, but `end` is included. Deprecated, as in PyTorch, since Python's range excludes `end`."""
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension; a view only where they lie one after the other."""
def real(input: Tensor) -> Tensor:
    """The real parts, as a view; a real tensor itself."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / input."""
def reciprocal_(input: Tensor) -> Tensor:
    """In-place `reciprocal`: overwrites the tensor and returns it. 1 / input."""
def relu(input: Tensor) -> Tensor:
    """Each element, or 0 if it is negative."""
def relu_(input: Tensor) -> Tensor:
    """In-place `relu`: overwrites the tensor and returns it. Each element, or 0 if it is negative."""
def remainder(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Remainder with the sign of `other`."""
def renorm(input: Tensor, p: _float | _complex, dim: _int, maxnorm: _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """Slices of a dimension whose p-norm exceeds `maxnorm` scaled down to it."""
@overload
def repeat_interleave(input: Tensor, repeats: Tensor | _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
    """Each element repeated `repeats` times (a number, or one per element) along a dimension, or of the flattened tensor."""
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None) -> Tensor:
    """Each element repeated `repeats` times (a number, or one per element) along a dimension, or of the flattened tensor."""
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor:
    """The same elements in another shape; a view where possible. One size may be -1."""
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor: conjugates and negatives are computed at once here, never put off."""
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor: conjugates and negatives are computed at once here, never put off."""
@overload
def result_type(tensor: Tensor, other: Tensor | _float | _complex) -> _dtype:
    """The dtype that arithmetic between two tensors or numbers results in."""
@overload
def result_type(scalar: _float | _complex, tensor: Tensor) -> _dtype:
    """The dtype that arithmetic between two tensors or numbers results in."""
@overload
def result_type(scalar1: _float | _complex, scalar2: _float | _complex) -> _dtype:
    """The dtype that arithmetic between two tensors or numbers results in."""
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """relu(W x + b + U h + c)."""
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """tanh(W x + b + U h + c)."""
def roll(input: Tensor, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] = ...) -> Tensor:
    """Elements shifted cyclically along dimensions; without dims, along the flattened tensor."""
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] | None = None) -> Tensor:
    """Rotated k times by 90 degrees in the plane of two dimensions, from the first towards the second."""
@overload
def round(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Nearest integer (or multiple of 10^-decimals), halves to even."""
@overload
def round(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor:
    """Nearest integer (or multiple of 10^-decimals), halves to even."""
@overload
def round_(input: Tensor) -> Tensor:
    """Round to the nearest integer (or multiple of 10^-decimals), halves to even."""
@overload
def round_(input: Tensor, *, decimals: _int) -> Tensor:
    """Round to the nearest integer (or multiple of 10^-decimals), halves to even."""
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along dimension 0, vectors as rows."""
def rrelu_(input: Tensor, lower: _float | _complex = 0.125, upper: _float | _complex = 0.3333333333333333, training: _bool = False, generator: Generator | None = None) -> Tensor:
    """`nn.functional.rrelu` in place."""
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / sqrt(input); infinite at 0, NaN below."""
def rsqrt_(input: Tensor) -> Tensor:
    """In-place `rsqrt`: overwrites the tensor and returns it. 1 / sqrt(input); infinite at 0, NaN below."""
def rsub(input: Tensor, other: _float | _complex, alpha: _float | _complex = 1) -> Tensor:
    """other - alpha * input."""
def scalar_tensor(s: _float | _complex, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A zero-dimensional tensor."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: str, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _float | _complex, *, reduce: str, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, value: _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with the elements of `src` added at the positions `index` along `dim`."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True, out: Tensor | None = None) -> Tensor:
    """Reduce src into input at index along a dimension, by sum, prod, mean, amax or amin."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _float | _complex, *, out_int32: _bool = False, right: _bool = False, side: str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Insertion points in sorted rows: how many elements are less than the value or, with `right`, not greater."""
def segment_reduce(data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None, axis: _int = 0, unsafe: _bool = False, initial: _float | _complex | None = None) -> Tensor:
    """Reduce segments of `data` (*batch, n, ...) by "sum", "mean", "max", "min" or "prod"."""
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """One index of a dimension, which is removed; a view."""
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `select` returns."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor:
    """A copy of input with one slice of a dimension replaced by src."""
def selu(input: Tensor) -> Tensor:
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha = 1.6733, scale = 1.0507. Klambauer et al., 2017."""
def selu_(input: Tensor) -> Tensor:
    """In-place `selu`: overwrites the tensor and returns it. scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha = 1.6733, scale = 1.0507. Klambauer et al., 2017."""
def set_default_tensor_type(t: object) -> None:
    """The default dtype and device by the name or class of an old tensor type, such as `FloatTensor` or `cuda.FloatTensor`."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The direction: x / |x| of a complex number, the sign of a real one, 0 of 0."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-input))."""
def sigmoid_(input: Tensor) -> Tensor:
    """In-place `sigmoid`: overwrites the tensor and returns it. Logistic sigmoid, 1 / (1 + exp(-input))."""
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sign of each element: -1, 0 or 1."""
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit is set, also of -0.0: a bool tensor."""
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sine of each element, in radians."""
def sin_(input: Tensor) -> Tensor:
    """In-place `sin`: overwrites the tensor and returns it. Sine of each element, in radians."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """In-place `sinc`: overwrites the tensor and returns it. sin(pi x) / (pi x), and 1 at 0."""
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic sine of each element."""
def sinh_(input: Tensor) -> Tensor:
    """In-place `sinh`: overwrites the tensor and returns it. Hyperbolic sine of each element."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy of input with every `step`-th slice from `start` to `end` of a dimension replaced by src."""
def slogdet(input: Tensor, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.slogdet:
    """(sign, logarithm of the absolute value) of determinants."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dimension."""
@overload
def sort(input: Tensor, *, stable: _bool | None, dim: _int = -1, descending: _bool = False, out: Tensor | Sequence[Tensor] | None = None) -> return_types.sort:
    """(values, indices) sorted along a dimension. NaN sorts as the largest; the order is always stable."""
@overload
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.sort:
    """(values, indices) sorted along a dimension. NaN sorts as the largest; the order is always stable."""
def split(tensor: Tensor, split_size_or_sections: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Parts of a given size (the last may be smaller), or of several sizes, along a dimension; views."""
def split_copy(input: Tensor, split_size: _int, dim: _int = 0, *, out: Sequence[Tensor] | None = None) -> None:
    """A copy of the view that `split` returns."""
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes along a dimension; views."""
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Sequence[Tensor] | None = None) -> None:
    """A copy of the view that `split_with_sizes` returns."""
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices."""
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Square root of each element; NaN below 0."""
def sqrt_(input: Tensor) -> Tensor:
    """In-place `sqrt`: overwrites the tensor and returns it. Square root of each element; NaN below 0."""
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Square of each element."""
def square_(input: Tensor) -> Tensor:
    """In-place `square`: overwrites the tensor and returns it. Square of each element."""
@overload
def squeeze(input: Tensor) -> Tensor:
    """Dimensions of size 1 removed, all or the given ones."""
@overload
def squeeze(input: Tensor, dim: _int | Sequence[_int]) -> Tensor:
    """Dimensions of size 1 removed, all or the given ones."""
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `squeeze` returns."""
@overload
def squeeze_copy(input: Tensor, dim: _int | Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `squeeze` returns."""
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of equal shape concatenated along a new dimension."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Square root of `var`, also of one beyond the dtype's range."""
@overload
def std(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _float | _complex | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
    """Square root of `var`, also of one beyond the dtype's range."""
@overload
def std(input: Tensor, unbiased: _bool = True) -> Tensor:
    """Square root of `var`, also of one beyond the dtype's range."""
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over dimensions."""
@overload
def std_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _float | _complex | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over dimensions."""
@overload
def std_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over dimensions."""
def stft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
    """Transforms of windowed frames of `n_fft` samples, `hop_length` apart: (T,) or (B, T) -> (B, frequencies, frames)."""
def sub(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other."""
@overload
def subtract(input: Tensor, other: Tensor, *, alpha: _float | _complex = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other."""
@overload
def subtract(input: Tensor, other: _float | _complex, alpha: _float | _complex = 1) -> Tensor:
    """input - alpha * other."""
@overload
def sum(input: Tensor, *, dtype: _dtype | None = None) -> Tensor:
    """Sum over dimensions (all by default); integers and bool give int64."""
@overload
def sum(input: Tensor, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Sum over dimensions (all by default); integers and bool give int64."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.svd:
    """(U, S, V) with input = U diag(S) V^H; V itself, not transposed. `numod.linalg.svd` is the newer form."""
def svd_lowrank(A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with A - M ≈ U diag(S) V^H, of q columns."""
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """Two dimensions swapped; a view."""
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions swapped; a view."""
def t(input: Tensor) -> Tensor:
    """A matrix transposed; a vector or scalar as it is; a view."""
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `t` returns."""
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements at indices of the flattened tensor; shaped like `index`."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """As gather, with input and indices broadcast in all other dimensions; without `dim` the flattened tensor is read."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Tangent of each element, in radians."""
def tan_(input: Tensor) -> Tensor:
    """In-place `tan`: overwrites the tensor and returns it. Tangent of each element, in radians."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic tangent of each element."""
def tanh_(input: Tensor) -> Tensor:
    """In-place `tanh`: overwrites the tensor and returns it. Hyperbolic tangent of each element."""
@overload
def tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """A number of nearly equal parts along a dimension, or the parts between indices; views."""
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """A number of nearly equal parts along a dimension, or the parts between indices; views."""
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """A number of nearly equal parts along a dimension, or the parts between indices; views."""
def tensordot(a: Any, b: Any, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Contract the last `dims` dimensions of a with the first of b, or the two lists of dimensions in `dims`."""
def threshold(input: Tensor, threshold: _float | _complex, value: _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """The element where it is above `threshold`, else `value`; integers stay integers."""
def threshold_(input: Tensor, threshold: _float | _complex, value: _float | _complex) -> Tensor:
    """In-place threshold."""
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor:
    """The tensor repeated along each dimension; with fewer repeats than dimensions, for the last dimensions."""
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.topk:
    """(values, indices) of the k largest (or smallest) elements along a dimension, in order if `sorted`."""
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two dimensions swapped; a view."""
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `transpose` returns."""
@overload
def trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor:
    """Area under y along a dimension by the trapezoidal rule, at points `x` or in steps of `dx` (1)."""
@overload
def trapezoid(y: Tensor, *, dx: _float | _complex = 1, dim: _int = -1) -> Tensor:
    """Area under y along a dimension by the trapezoidal rule, at points `x` or in steps of `dx` (1)."""
@overload
def trapz(y: Tensor, *, dx: _float = 1, dim: _int = -1) -> Tensor:
    """Area under y along a dimension by the trapezoidal rule, at points `x` or in steps of `dx` (1)."""
@overload
def trapz(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor:
    """Area under y along a dimension by the trapezoidal rule, at points `x` or in steps of `dx` (1)."""
def triangular_solve(input: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Tensor | Sequence[Tensor] | None = None) -> return_types.triangular_solve:
    """(X with A X = b, a copy of A). Deprecated in favor of `linalg.solve_triangular`."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Matrices (..., M, N) with 0 above a diagonal."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Rows and columns, (2, count), of the elements on and below a diagonal of a (row, col) matrix, row by row."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: _float = 1.0, p: _float = 2, eps: _float = 1e-06, swap: _bool = False, reduction: _int = 1) -> Tensor:
    """`nn.functional.triplet_margin_loss` with reduction 0, 1 or 2 for none, mean or sum."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Matrices (..., M, N) with 0 below a diagonal."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """Rows and columns, (2, count), of the elements on and above a diagonal of a (row, col) matrix, row by row."""
def true_divide(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Each element rounded towards 0."""
def trunc_(input: Tensor) -> Tensor:
    """In-place `trunc`: overwrites the tensor and returns it. Each element rounded towards 0."""
def typename(obj: Any) -> str:
    """The qualified name of a value's type; `Tensor.type()` for tensors; a class's own name."""
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension; views. Where gradients are recorded they cannot be written to."""
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Sequence[Tensor] | None = None) -> None:
    """A copy of the view that `unbind` returns."""
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor:
    """One dimension as several."""
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `unfold` returns."""
def unique(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements (or slices of a dimension), sorted."""
def unique_consecutive(input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Tensor | tuple[Tensor, ...]:
    """The first of each run of equal elements (or slices of a dimension), in order; further results as in `unique`."""
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Flat indices converted to a tuple of coordinates in a tensor of `shape`."""
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """The parts of `chunk`, as views that can be modified in place."""
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """The parts of `split`, as views that can be modified in place."""
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes, as views that autograd lets one write to."""
def unsqueeze(input: Tensor, dim: _int) -> Tensor:
    """A dimension of size 1 inserted before `dim`."""
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `unsqueeze` returns."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """Powers of each element of a vector (n) -> (n, N), in descending order unless `increasing`."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Variance over dimensions, divided by n - correction (1 by default)."""
@overload
def var(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _float | _complex | None = None, keepdim: _bool = False, out: Tensor | None = None) -> Tensor:
    """Variance over dimensions, divided by n - correction (1 by default)."""
@overload
def var(input: Tensor, unbiased: _bool = True) -> Tensor:
    """Variance over dimensions, divided by n - correction (1 by default)."""
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """(variance, mean) over dimensions."""
@overload
def var_mean(input: Tensor, dim: _int | Sequence[_int] | None = None, *, correction: _float | _complex | None = None, keepdim: _bool = False) -> tuple[Tensor, Tensor]:
    """(variance, mean) over dimensions."""
@overload
def var_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]:
    """(variance, mean) over dimensions."""
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two vectors, the first conjugated."""
def view_as_complex(input: Tensor) -> Tensor:
    """The same memory, (..., 2), as complex numbers."""
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `view_as_complex` returns."""
def view_as_real(input: Tensor) -> Tensor:
    """The same memory as real numbers, (..., 2): real and imaginary part."""
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `view_as_real` returns."""
@overload
def view_copy(input: Tensor, dtype: _dtype, *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `view` returns."""
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor:
    """A copy of the view that `view` returns."""
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]:
    """`tensor_split` into rows: along dimension 0."""
@overload
def vsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]:
    """`tensor_split` into rows: along dimension 0."""
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors concatenated along dimension 0, vectors as rows."""
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]:
    """`input` where condition is true, else `other`; with condition alone, the indices where it is true."""
@overload
def where(condition: Tensor, input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """`input` where condition is true, else `other`; with condition alone, the indices where it is true."""
def xlogy(input: Tensor | _float | _complex, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
    """input * log(other), and 0 where `input` is 0."""
def xlogy_(input: Tensor, other: Tensor | _float | _complex) -> Tensor:
    """In-place `xlogy`: overwrites the tensor and returns it. input * log(other), and 0 where `input` is 0."""
def zero_(input: Tensor) -> Tensor:
    """Fill with zeros."""
@overload
def zeros(size: Sequence[_int], *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor filled with 0."""
@overload
def zeros(*size: _int, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor filled with 0."""
def zeros_like(input: Tensor, *, memory_format: _memory_format | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
    """A tensor of zeros with the shape of `input`."""
