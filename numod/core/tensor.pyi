# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, overload

import numpy as np

from ..device.layout import Size as _Size
from ..device.device import Device as _device
from ..dtypes import dtype as _dtype
from ..formats import layout as _layout, memory_format as _memory_format
from . import return_types
from .create.generator import Generator

class Tensor:
    """An n-dimensional array of one dtype on one device. Operations on it are recorded if it requires a gradient."""

    def __init__(self, *arguments: Any, **named: Any) -> None: ...

    # ---- defined in autograd/__init__.py

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: Any = False, inputs: Any = None) -> None:
        """Add the gradients of this tensor to `.grad` of the leaves it was computed from. See `numod.autograd.backward`."""
    def register_hook(self, hook: Any) -> Any:
        """Call `hook(grad)` when this tensor's gradient is computed; a result other than None replaces the gradient."""
    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call `hook(self)` when a gradient has been added to this leaf's `.grad`. What it returns is not used."""
    def retain_grad(self) -> None:
        """Keep the gradient of a computed tensor in `.grad`."""

    # ---- defined in core/attributes.py

    def dense_dim(self) -> _int:
        """The number of dimensions."""
    def dequantize(self: Tensor) -> Tensor:
        """The tensor in float32. Quantized tensors return the values of their integers."""
    def dim_order(self, *, ambiguity_check: _bool | Sequence[_memory_format] = False) -> tuple[_int, ...]:
        """The dimensions ordered from the outermost to the innermost in memory."""
    def get_device(self) -> _int:
        """Index of the tensor's CUDA device; -1 on the CPU."""
    def int_repr(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    @property
    def is_cpu(self) -> _bool: ...
    def is_distributed(self) -> _bool:
        """False: a tensor lies on one device."""
    @property
    def is_ipu(self) -> _bool: ...
    @property
    def is_maia(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> _bool: ...
    @property
    def is_mps(self) -> _bool: ...
    @property
    def is_mtia(self) -> _bool: ...
    @property
    def is_nested(self) -> _bool: ...
    def is_pinned(self, device: _device | str | _int | None = None) -> _bool:
        """Whether the tensor lies in page-locked host memory."""
    @property
    def is_quantized(self) -> _bool: ...
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether the shapes are equal."""
    @property
    def is_sparse(self) -> _bool: ...
    @property
    def is_sparse_csr(self) -> _bool: ...
    @property
    def is_vulkan(self) -> _bool: ...
    @property
    def is_xla(self) -> _bool: ...
    @property
    def is_xpu(self) -> _bool: ...
    @property
    def layout(self) -> _layout: ...
    def module_load(self, other: Any, assign: Any = False) -> Tensor:
        """The tensor that `load_state_dict` stores for this parameter or buffer."""
    @overload
    def new(cls, *args: Any, device: _device | str | _int | None = None) -> Tensor:
        """PyTorch's old constructor, with this tensor's dtype and device."""
    @overload
    def new(cls, storage: Any) -> Tensor:
        """PyTorch's old constructor, with this tensor's dtype and device."""
    @overload
    def new(cls, other: Tensor) -> Tensor:
        """PyTorch's old constructor, with this tensor's dtype and device."""
    @overload
    def new(cls, size: Sequence[_int], *, device: _device | str | _int | None = None) -> Tensor:
        """PyTorch's old constructor, with this tensor's dtype and device."""
    def new_arange(self: Tensor, n: _int) -> Tensor:
        """0 .. n - 1 on the tensor's device; for gradients."""
    @overload
    def new_empty(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.empty, of this tensor's dtype and on its device."""
    @overload
    def new_empty(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.empty, of this tensor's dtype and on its device."""
    def new_empty_strided(self, size: Sequence[_int], stride: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.empty_strided, of this tensor's dtype and on its device."""
    def new_full(self, size: Sequence[_int], fill_value: _float | _complex, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.full, of this tensor's dtype and on its device."""
    def new_identity(self: Tensor, n: _int) -> Tensor:
        """The identity as a bool matrix on the tensor's device; for gradients."""
    @overload
    def new_ones(self, size: Sequence[_int], dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
        """As numod.ones, of this tensor's dtype and on its device."""
    @overload
    def new_ones(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.ones, of this tensor's dtype and on its device."""
    @overload
    def new_ones(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.ones, of this tensor's dtype and on its device."""
    def new_tensor(self, data: Any, dtype: _dtype | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
        """As numod.tensor, of this tensor's dtype and on its device."""
    @overload
    def new_zeros(self, size: Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.zeros, of this tensor's dtype and on its device."""
    @overload
    def new_zeros(self, *size: _int, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = False, requires_grad: _bool | None = False) -> Tensor:
        """As numod.zeros, of this tensor's dtype and on its device."""
    def pin_memory(self, device: _device | str | _int | None = None) -> Tensor:
        """A copy in page-locked host memory, from which copies to a CUDA device are asynchronous."""
    def q_per_channel_axis(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    def q_per_channel_scales(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    def q_per_channel_zero_points(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    def q_scale(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    def q_zero_point(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    def qscheme(self: Tensor) -> Any:
        """Raises NotImplementedError: quantized tensors have it."""
    def record_stream(self, s: Any) -> None:
        """Mark the tensor as used by another `numod.cuda.Stream`: its memory is not reused before that stream's pending work is done."""
    def sparse_dim(self) -> _int:
        """0: all tensors are dense."""
    def storage(self) -> Any:
        """The storage that the tensor shares with its views, as elements of its dtype."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = None) -> Tensor:
        """The tensor itself: all tensors are dense."""
    @overload
    def to_sparse(self, *, layout: _layout | None = None, blocksize: _int | Sequence[_int] | None = None, dense_dim: _int | None = None) -> Tensor:
        """Raises NotImplementedError: all tensors are dense."""
    @overload
    def to_sparse(self, sparse_dim: _int) -> Tensor:
        """Raises NotImplementedError: all tensors are dense."""
    def type_as(self, other: Tensor) -> Tensor:
        """The tensor with the dtype and device of another tensor."""
    def untyped_storage(self) -> Any:
        """The storage that the tensor shares with its views."""

    # ---- defined in core/convert/conversions.py

    def bfloat16(self) -> Tensor:
        """Converted to bfloat16; the tensor itself if it has that dtype."""
    def bool(self) -> Tensor:
        """Converted to bool; the tensor itself if it has that dtype."""
    def byte(self) -> Tensor:
        """Converted to uint8; the tensor itself if it has that dtype."""
    def cdouble(self: Any, memory_format: Any = None) -> Tensor:
        """Converted to complex128; the tensor itself if it has that dtype."""
    def cfloat(self: Any, memory_format: Any = None) -> Tensor:
        """Converted to complex64; the tensor itself if it has that dtype."""
    def char(self) -> Tensor:
        """Converted to int8; the tensor itself if it has that dtype."""
    def cpu(self, memory_format: _memory_format = ...) -> Tensor:
        """The tensor on the CPU; itself if it is there in that memory format."""
    def cuda(self, device: _device | str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format = ...) -> Tensor:
        """The tensor on a CUDA device; itself if it is there."""
    def double(self) -> Tensor:
        """Converted to float64; the tensor itself if it has that dtype."""
    def float(self) -> Tensor:
        """Converted to float32; the tensor itself if it has that dtype."""
    def half(self) -> Tensor:
        """Converted to float16; the tensor itself if it has that dtype."""
    def int(self) -> Tensor:
        """Converted to int32; the tensor itself if it has that dtype."""
    def long(self) -> Tensor:
        """Converted to int64; the tensor itself if it has that dtype."""
    def short(self) -> Tensor:
        """Converted to int16; the tensor itself if it has that dtype."""
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> str:
        """`type()`: the tensor type's name, such as "numod.FloatTensor" or "numod.cuda.FloatTensor"."""
    @overload
    def type(self, dtype: _dtype | str | type, non_blocking: _bool = False) -> Tensor:
        """`type()`: the tensor type's name, such as "numod.FloatTensor" or "numod.cuda.FloatTensor"."""

    # ---- defined in core/convert/copies.py

    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy with memory of its own."""
    def contiguous(self, memory_format: _memory_format = ...) -> Tensor:
        """The tensor itself if it is dense in row-major order (or in `memory_format`), else a dense copy."""
    def copy_(self, other: Tensor, non_blocking: _bool = False) -> Tensor:
        """Fill with `other`, which broadcasts and is converted; returns self."""
    @overload
    def to(self, dtype: _dtype, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """In another dtype and on another device: to(dtype), to(device), to(device, dtype), to(other)."""
    @overload
    def to(self, device: _device | str | _int | None = None, dtype: _dtype | None = None, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """In another dtype and on another device: to(dtype), to(device), to(device, dtype), to(other)."""
    @overload
    def to(self, other: Tensor, non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """In another dtype and on another device: to(dtype), to(device), to(device, dtype), to(other)."""

    # ---- defined in core/convert/exchange.py

    def to_device(self: Tensor, device: Any, *, stream: Any = None) -> Tensor:
        """The array API standard's `to`: the tensor on a device."""

    # ---- defined in core/convert/transfer.py

    def is_shared(self) -> _bool:
        """Whether the memory is shared with forked processes; always True on CUDA."""
    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
    def numpy(self, *, force: _bool = False) -> np.ndarray:
        """The memory as a NumPy array."""
    def share_memory_(self) -> Tensor:
        """Move the storage, with all views of it, into memory shared with processes forked later; nothing on CUDA."""
    def tolist(self) -> Any:
        """Nested lists of Python numbers."""

    # ---- defined in core/create/random.py

    @overload
    def bernoulli(self, *, generator: Generator | None = None) -> Tensor:
        """1 with the probability given by each element, or `p` for all, else 0."""
    @overload
    def bernoulli(self, p: _float, *, generator: Generator | None = None) -> Tensor:
        """1 with the probability given by each element, or `p` for all, else 0."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: Generator | None = None) -> Tensor:
        """Indices drawn with probabilities in proportion to a row of weights:"""

    # ---- defined in core/create/random_fills.py

    def bernoulli_(self, p: _float = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fill with 1 with probability `p` (a number or a tensor), else 0."""
    def cauchy_(self, median: _float = 0, sigma: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Fill with Cauchy distributed numbers."""
    def exponential_(self, lambd: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Fill with exponentially distributed numbers of rate `lambd`."""
    def geometric_(self, p: _float, *, generator: Generator | None = None) -> Tensor:
        """Fill with the number of trials until the first success of probability `p`."""
    def log_normal_(self, mean: _float = 1, std: _float = 2, *, generator: Generator | None = None) -> Tensor:
        """Fill with numbers whose logarithms are normal with this mean and standard deviation."""
    def normal_(self, mean: _float = 0, std: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Fill with normal numbers."""
    @overload
    def random_(self, *, generator: Generator | None = None) -> Tensor:
        """Fill with integers in [from_, to); `random_(to)` starts at 0."""
    @overload
    def random_(self, from_: _int, to: _int | None, *, generator: Generator | None = None) -> Tensor:
        """Fill with integers in [from_, to); `random_(to)` starts at 0."""
    @overload
    def random_(self, to: _int, *, generator: Generator | None = None) -> Tensor:
        """Fill with integers in [from_, to); `random_(to)` starts at 0."""
    def uniform_(self, from_: _float = 0, to: _float = 1, *, generator: Generator | None = None) -> Tensor:
        """Fill with uniform numbers in [from_, to); of a complex number both parts. PyTorch's keyword is `from`."""

    # ---- defined in core/index/indexing.py

    def index_put_(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """self[indices] = values, or += with `accumulate` (repeated indices add up)."""

    # ---- defined in core/index/scattering.py

    def as_strided_scatter(self, src: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """A copy of input with the elements of as_strided(size, stride, storage_offset) replaced by src."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A copy of input with a diagonal replaced by src."""
    def fill_diagonal_(self, fill_value: _float | _complex, wrap: _bool = False) -> Tensor:
        """Write a number on the main diagonal; with `wrap` it restarts below the square part of a tall matrix."""
    def index_put(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy of input with values written (or added) at indices."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """input with the slices of source reduced into those selected by a vector of indices, by prod, mean, amax or amin."""
    def index_reduce_(self, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """In-place `index_reduce`: overwrites the tensor and returns it. input with the slices of source reduced into those selected by a vector of indices, by prod, mean, amax or amin."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy of input, broadcast with mask, with the elements of source written where mask is true."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """Write the elements of source, in order, where mask (which broadcasts) is true."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1) -> Tensor:
        """Indices of the first `size` nonzero elements, (size, ndim), padded with `fill_value`."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy of `input` with the elements of `source` at the positions `index` of its elements in row-major order."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Write (or add) the elements of source at indices of the flattened tensor."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """Reduce src into input at index along a dimension, by sum, prod, mean, amax or amin."""
    def scatter_reduce_(self, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """In-place `scatter_reduce`: overwrites the tensor and returns it. Reduce src into input at index along a dimension, by sum, prod, mean, amax or amin."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """A copy of input with one slice of a dimension replaced by src."""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1) -> Tensor:
        """A copy of input with every `step`-th slice from `start` to `end` of a dimension replaced by src."""
    def take(self, index: Tensor) -> Tensor:
        """The elements at indices of the flattened tensor; shaped like `index`."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """As gather, with input and indices broadcast in all other dimensions; without `dim` the flattened tensor is read."""

    # ---- defined in core/index/selection.py

    def argwhere(self) -> Tensor:
        """Indices of the nonzero elements, (count, ndim), or with `as_tuple` a vector per dimension."""
    @overload
    def flip(self, dims: Sequence[_int]) -> Tensor:
        """Elements in reverse order along dimensions; a copy that keeps the memory order of a transposed tensor."""
    @overload
    def flip(self, *dims: _int) -> Tensor:
        """Elements in reverse order along dimensions; a copy that keeps the memory order of a transposed tensor."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """out[i][j] = input[index[i][j]][j] for dim 0, and so on: shaped like `index`, which may not exceed input in other dimensions."""
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _float | _complex = 1) -> Tensor:
        """A copy of `input` with `alpha * source` added to the slices `index` of dimension `dim`."""
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: _float | _complex = 1) -> Tensor:
        """self[index[k]] += alpha * source[k] along a dimension, in order."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """A copy of `input` whose slices `index` of dimension `dim` are those of `source`."""
    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """self[index[k]] = source[k] along a dimension, in order."""
    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _float | _complex) -> Tensor:
        """A copy of `input` with `value` in the slices `index` of dimension `dim`."""
    def index_fill_(self, dim: _int, index: Tensor, value: Tensor | _float | _complex) -> Tensor:
        """self[index[k]] = value along a dimension."""
    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """The slices of a dimension selected by a vector of indices."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where mask is true, in one dimension."""
    def nonzero(self, *, as_tuple: Any = False) -> Tensor:
        """Indices of the nonzero elements, (count, ndim), or with `as_tuple` a vector per dimension."""
    def roll(self, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] = ...) -> Tensor:
        """Elements shifted cyclically along dimensions; without dims, along the flattened tensor."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
    @overload
    def scatter(self, dim: _int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
        """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _float | _complex, *, reduce: str) -> Tensor:
        """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
    @overload
    def scatter(self, dim: _int, index: Tensor, value: _float | _complex) -> Tensor:
        """A copy of `input` with the elements of `src`, or a number, at the positions `index` along `dim`."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """self[index[i][j]][j] = src[i][j] for dim 0, and so on; `reduce` "add" or "multiply" combines."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
        """self[index[i][j]][j] = src[i][j] for dim 0, and so on; `reduce` "add" or "multiply" combines."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _float | _complex, *, reduce: str) -> Tensor:
        """self[index[i][j]][j] = src[i][j] for dim 0, and so on; `reduce` "add" or "multiply" combines."""
    @overload
    def scatter_(self, dim: _int, index: Tensor, value: _float | _complex) -> Tensor:
        """self[index[i][j]][j] = src[i][j] for dim 0, and so on; `reduce` "add" or "multiply" combines."""
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """A copy of `input` with the elements of `src` added at the positions `index` along `dim`."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """self[index[i][j]][j] += src[i][j] for dim 0, and so on, in order."""

    # ---- defined in core/linalg/contractions.py

    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """beta * input + alpha * the sum of batch1 @ batch2 over the batch."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """In-place `addbmm`: overwrites the tensor and returns it. beta * input + alpha * the sum of batch1 @ batch2 over the batch."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """beta * input + alpha * mat @ vec."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """In-place `addmv`: overwrites the tensor and returns it. beta * input + alpha * mat @ vec."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """beta * input + alpha * (the outer product of two vectors)."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """In-place `addr`: overwrites the tensor and returns it. beta * input + alpha * (the outer product of two vectors)."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """beta * input + alpha * batch1 @ batch2, batches of matrices."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """In-place `baddbmm`: overwrites the tensor and returns it. beta * input + alpha * batch1 @ batch2, batches of matrices."""
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """The cross product along a dimension of size 3; by default the first such."""
    def inner(self, other: Tensor) -> Tensor:
        """Sums of products over the last dimension of both; a number multiplies."""
    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product: every element of `input` times all of `other`."""

    # ---- defined in core/linalg/decompositions.py

    def cholesky(self, upper: _bool = False) -> Tensor:
        """The Cholesky factor of symmetric positive-definite matrices. Deprecated in favor of `linalg.cholesky`."""
    def geqrf(self) -> return_types.geqrf:
        """(a, tau):"""
    def lu(self, pivot: Any = True, get_infos: Any = False) -> tuple[Tensor, ...]:
        """(L and U in one matrix, pivots), and infos if requested. Deprecated in favor of `linalg.lu_factor_ex`."""
    def orgqr(self, input2: Tensor) -> Tensor:
        """The first columns of the product of Householder reflections 1 - tau v v^H, with v below the diagonal of A."""
    def ormqr(self, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False) -> Tensor:
        """Q @ other (or other @ Q), with Q, all its columns, from `geqrf`; or with Q^H."""
    def qr(self, some: _bool = True) -> return_types.qr:
        """(Q, R), reduced where `some`, else complete. Deprecated in favor of `linalg.qr`."""
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> return_types.svd:
        """(U, S, V) with input = U diag(S) V^H; V itself, not transposed. `numod.linalg.svd` is the newer form."""

    # ---- defined in core/linalg/linear_algebra.py

    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverse of A, from its Cholesky factor."""
    def cholesky_solve(self, input2: Tensor, upper: _bool = False) -> Tensor:
        """X with A X = B, for the Cholesky factor of A."""
    def det(self) -> Tensor:
        """Determinants of square matrices."""
    def inverse(self) -> Tensor:
        """The inverse of square matrices (..., N, N). Raises LinAlgError for singular ones."""
    def logdet(self) -> Tensor:
        """The logarithm of determinants; NaN for negative ones of real matrices."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """X with A X = b, from `lu_factor` of A: the older order of arguments."""
    def matrix_exp(self) -> Tensor:
        """1 + A + A^2 / 2! + ..., by scaling, a Padé approximant and squaring."""
    def matrix_power(self, n: _int) -> Tensor:
        """A to the n-th power; of its inverse for negative n."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """The Moore-Penrose inverse; `numod.linalg.pinv` is the newer form."""
    def slogdet(self) -> return_types.slogdet:
        """(sign, logarithm of the absolute value) of determinants."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False) -> return_types.triangular_solve:
        """(X with A X = b, a copy of A). Deprecated in favor of `linalg.solve_triangular`."""

    # ---- defined in core/linalg/products.py

    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """beta * input + alpha * mat1 @ mat2."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _float | _complex = 1, alpha: _float | _complex = 1) -> Tensor:
        """In-place `addmm`: overwrites the tensor and returns it. beta * input + alpha * mat1 @ mat2."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """Products of matrices in equal batches, (B, M, K) @ (B, K, N)."""
    def dot(self, tensor: Tensor) -> Tensor:
        """Product of two vectors."""
    def ger(self, vec2: Tensor) -> Tensor:
        """All products of elements of two vectors."""
    def log_softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """log(softmax(x)) along a dimension, computed directly."""
    def matmul(self, other: Tensor) -> Tensor:
        """Product with PyTorch's broadcasting:"""
    def mm(self, mat2: Tensor) -> Tensor:
        """Product of two matrices."""
    def mv(self, vec: Tensor) -> Tensor:
        """Matrix times vector."""
    def outer(self, vec2: Tensor) -> Tensor:
        """All products of elements of two vectors."""
    def softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """exp(x) / sum(exp(x)) along a dimension."""

    # ---- defined in core/math/arithmetic.py

    def float_power(self, exponent: Tensor | _float | _complex) -> Tensor:
        """input ** exponent in float64, or complex128."""
    def float_power_(self, exponent: Tensor | _float | _complex) -> Tensor:
        """In-place float_power, of a tensor that has the result's dtype: float64 or complex128."""
    def frexp(self) -> return_types.frexp:
        """(mantissa, exponent) with input = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1; the exponent is int32."""
    def ldexp(self, other: Tensor) -> Tensor:
        """input * 2 ** other; with integers `other`, in the dtype of a floating `input`."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """In-place ldexp."""
    def nextafter(self, other: Tensor) -> Tensor:
        """The next number of the tensor's dtype towards `other`."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """In-place `nextafter`: overwrites the tensor and returns it. The next number of the tensor's dtype towards `other`."""
    def positive(self) -> Tensor:
        """The tensor itself."""
    def rsub(input: Tensor, other: _float | _complex, alpha: _float | _complex = 1) -> Tensor:
        """other - alpha * input."""

    # ---- defined in core/math/complexes.py

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix, `x.H`."""
    def adjoint(self) -> Tensor:
        """The conjugate, transposed in its last two dimensions."""
    def conj(self) -> Tensor:
        """The complex conjugate, computed; a real tensor itself."""
    def conj_physical(self) -> Tensor:
        """The complex conjugate, computed; a real tensor itself."""
    def conj_physical_(self) -> Tensor:
        """In-place `conj_physical`: overwrites the tensor and returns it. The complex conjugate, computed; a real tensor itself."""
    @property
    def imag(self) -> Tensor:
        """The imaginary parts, as a view."""
    @imag.setter
    def imag(self, value: Tensor) -> None: ...
    def is_conj(self) -> _bool:
        """False: conjugates and negatives are computed at once here, never put off."""
    def is_neg(self) -> _bool:
        """False: conjugates and negatives are computed at once here, never put off."""
    def isreal(self) -> Tensor:
        """Whether each element's imaginary part is 0."""
    @property
    def mH(self) -> Tensor: ...
    @property
    def real(self) -> Tensor:
        """The real parts, as a view; a real tensor itself."""
    @real.setter
    def real(self, value: Tensor) -> None: ...
    def resolve_conj(self) -> Tensor:
        """The tensor: conjugates and negatives are computed at once here, never put off."""
    def resolve_neg(self) -> Tensor:
        """The tensor: conjugates and negatives are computed at once here, never put off."""
    def sgn(self) -> Tensor:
        """The direction: x / |x| of a complex number, the sign of a real one, 0 of 0."""
    def sgn_(self) -> Tensor:
        """In-place `sgn`: overwrites the tensor and returns it. The direction: x / |x| of a complex number, the sign of a real one, 0 of 0."""
    def vdot(self, other: Tensor) -> Tensor:
        """The product of two vectors, the first conjugated."""

    # ---- defined in core/math/cumulative.py

    def cummax(self, dim: _int) -> return_types.cummax:
        """(values, indices): the greatest element so far along a dimension, and its last place."""
    def cummin(self, dim: _int) -> return_types.cummin:
        """(values, indices): the least element so far along a dimension, and its last place."""
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """Running product along a dimension; integers and bool give int64."""
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """In-place `cumprod`: overwrites the tensor and returns it. Running product along a dimension; integers and bool give int64."""
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """Running sum along a dimension; integers and bool give int64."""
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """In-place `cumsum`: overwrites the tensor and returns it. Running sum along a dimension; integers and bool give int64."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """n-th differences of neighbours along a dimension; `prepend` and `append` are concatenated first."""
    def logcumsumexp(self, dim: _int) -> Tensor:
        """Logarithm of the running sum of exponentials along a dimension, without overflow."""

    # ---- defined in core/math/elementwise.py

    def add(self, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1, out: Tensor | None = None) -> Tensor:
        """input + alpha * other. Of masks the union, or with alpha = 0 the input."""
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Whether all elements are close."""
    def bitwise_not(self) -> Tensor:
        """Bits inverted; of a bool, the opposite."""
    def bitwise_not_(self) -> Tensor:
        """In-place `bitwise_not`: overwrites the tensor and returns it. Bits inverted; of a bool, the opposite."""
    def clamp(self, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None) -> Tensor:
        """Elements limited to [min, max]; either bound may be None, a number or a tensor."""
    def clip(self, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None) -> Tensor:
        """Elements limited to [min, max]; either bound may be None, a number or a tensor."""
    def div(self, other: Tensor | _float | _complex, *, rounding_mode: str | None = None) -> Tensor:
        """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    @overload
    def divide(self, other: Tensor | _float | _complex) -> Tensor:
        """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    @overload
    def divide(self, other: Tensor | _float | _complex, *, rounding_mode: str | None) -> Tensor:
        """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    def equal(self, other: Tensor) -> _bool:
        """Whether shapes and all elements agree."""
    def floor_divide(self, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
        """Quotient rounded towards minus infinity."""
    def fmod(self, other: Tensor | _float | _complex) -> Tensor:
        """Remainder with the sign of `input`."""
    def isclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """|input - other| <= atol + rtol * |other|, or equal infinities, or both NaN where `equal_nan`."""
    def logit(self, eps: _float | None = None) -> Tensor:
        """log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """In-place `logit`: overwrites the tensor and returns it. log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given."""
    def masked_fill(self, mask: Tensor, value: Tensor | _float | _complex) -> Tensor:
        """`value` where mask is true, else `input`, in the dtype of input. The result is row-major, as PyTorch's."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """NaN and infinities replaced, in both parts of complex numbers; by default by 0 and the greatest and least finite numbers."""
    def nan_to_num_(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """In-place `nan_to_num`: overwrites the tensor and returns it. NaN and infinities replaced, in both parts of complex numbers; by default by 0 and the greatest and least finite numbers."""
    def pow(self, exponent: Tensor | _float | _complex) -> Tensor:
        """input ** exponent. Raises RuntimeError for an integer to a negative integer number."""
    def pow_(self, exponent: Tensor | _float | _complex) -> Tensor:
        """In-place `pow`: overwrites the tensor and returns it. input ** exponent. Raises RuntimeError for an integer to a negative integer number."""
    def remainder(self, other: Tensor | _float | _complex) -> Tensor:
        """Remainder with the sign of `other`."""
    @overload
    def round(self) -> Tensor:
        """Nearest integer (or multiple of 10^-decimals), halves to even."""
    @overload
    def round(self, *, decimals: _int) -> Tensor:
        """Nearest integer (or multiple of 10^-decimals), halves to even."""
    def sub(self, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1, out: Tensor | None = None) -> Tensor:
        """input - alpha * other."""
    def subtract(self, other: _float | _complex, alpha: _float | _complex = 1) -> Tensor:
        """input - alpha * other."""
    def true_divide(self, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
        """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    def where(self, condition: Tensor, other: Tensor | _float | _complex) -> Tensor:
        """The tensor where condition is true, else `other`."""

    # ---- defined in core/math/in_place.py

    def add_(self, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1) -> Tensor:
        """In-place `add`: overwrites the tensor and returns it. input + alpha * other. Of masks the union, or with alpha = 0 the input."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _float | _complex = 1) -> Tensor:
        """`input + value * tensor1 / tensor2`."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _float | _complex = 1) -> Tensor:
        """In-place `addcdiv`: overwrites the tensor and returns it. `input + value * tensor1 / tensor2`."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _float | _complex = 1) -> Tensor:
        """`input + value * tensor1 * tensor2`."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _float | _complex = 1) -> Tensor:
        """In-place `addcmul`: overwrites the tensor and returns it. `input + value * tensor1 * tensor2`."""
    def clamp_(self, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None) -> Tensor:
        """Limit to [min, max]; either bound may be None, a number or a tensor. Raises RuntimeError where both are None."""
    def clip_(self, min: Tensor | None | _float | _complex = None, max: Tensor | None | _float | _complex = None) -> Tensor:
        """Limit to [min, max]; either bound may be None, a number or a tensor. Raises RuntimeError where both are None."""
    def div_(self, other: Tensor | _float | _complex, *, rounding_mode: str | None = None) -> Tensor:
        """Divide by `other`; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    @overload
    def divide_(self, other: Tensor | _float | _complex) -> Tensor:
        """Divide by `other`; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    @overload
    def divide_(self, other: Tensor | _float | _complex, *, rounding_mode: str | None) -> Tensor:
        """Divide by `other`; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    def fill_(self, value: Tensor | _float | _complex) -> Tensor:
        """Fill with `value`. Raises RuntimeError for a number that the dtype does not hold."""
    def floor_divide_(self, other: Tensor | _float | _complex) -> Tensor:
        """Divide by `other`, rounded towards minus infinity. Raises RuntimeError for an integer division by zero."""
    def fmod_(self, other: Tensor | _float | _complex) -> Tensor:
        """Replace by the remainder of a division by `other`, with the sign of `self`."""
    def masked_fill_(self, mask: Tensor, value: Tensor | _float | _complex) -> Tensor:
        """Write `value` where mask is true."""
    def remainder_(self, other: Tensor | _float | _complex) -> Tensor:
        """Replace by the remainder of a division by `other`, with the sign of `other`."""
    @overload
    def round_(self) -> Tensor:
        """Round to the nearest integer (or multiple of 10^-decimals), halves to even."""
    @overload
    def round_(self, *, decimals: _int) -> Tensor:
        """Round to the nearest integer (or multiple of 10^-decimals), halves to even."""
    def sub_(self, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1) -> Tensor:
        """In-place `sub`: overwrites the tensor and returns it. input - alpha * other."""
    def subtract_(self, other: _float | _complex, alpha: _float | _complex = 1) -> Tensor:
        """In-place `sub`: overwrites the tensor and returns it. input - alpha * other."""
    def true_divide_(self, other: Tensor | _float | _complex) -> Tensor:
        """Divide by `other`; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    def zero_(self) -> Tensor:
        """Fill with zeros."""

    # ---- defined in core/math/norms.py

    def norm(self, p: _float | str | None = 'fro', dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Tensor:
        """The vector norm of all elements, or over dimensions; "nuc" the sum of singular values."""

    # ---- defined in core/math/reductions.py

    def all(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Whether all elements are true (not zero)."""
    def amax(self, dim: _int | Sequence[_int] = ..., keepdim: _bool = False) -> Tensor:
        """Maximum over dimensions; the gradient is shared evenly between equal ones."""
    def amin(self, dim: _int | Sequence[_int] = ..., keepdim: _bool = False) -> Tensor:
        """Minimum over dimensions; the gradient is shared evenly between equal ones."""
    def any(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False) -> Tensor:
        """Whether any element is true (not zero)."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """Index of the greatest element along a dimension, or in the flattened tensor."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """Index of the least element along a dimension, or in the flattened tensor."""
    @overload
    def count_nonzero(self, dim: _int | None = None) -> Tensor:
        """Number of elements that are not zero."""
    @overload
    def count_nonzero(self, *dim: _int) -> Tensor:
        """Number of elements that are not zero."""
    def logsumexp(self, dim: _int | Sequence[_int], keepdim: _bool = False) -> Tensor:
        """log(sum(exp(x))) over dimensions, shifted by the maximum so that nothing overflows."""
    @overload
    def max(self) -> Tensor:
        """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
    @overload
    def max(self, other: Tensor) -> Tensor:
        """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
    @overload
    def max(self, dim: _int, keepdim: _bool = False) -> return_types.max:
        """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
    @overload
    def mean(self, *, dtype: _dtype | None = None) -> Tensor:
        """Mean over dimensions (all by default) of a floating tensor."""
    @overload
    def mean(self, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Mean over dimensions (all by default) of a floating tensor."""
    @overload
    def min(self) -> Tensor:
        """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
    @overload
    def min(self, other: Tensor) -> Tensor:
        """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
    @overload
    def min(self, dim: _int, keepdim: _bool = False) -> return_types.min:
        """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
    def nansum(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Sum over dimensions (all by default) of the elements that are not NaN."""
    @overload
    def prod(self, *, dtype: _dtype | None = None) -> Tensor:
        """Product over a dimension (all by default); integers and bool give int64."""
    @overload
    def prod(self, dim: _int, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Product over a dimension (all by default); integers and bool give int64."""
    @overload
    def std(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> Tensor:
        """Square root of `var`, also of one beyond the dtype's range."""
    @overload
    def std(self, dim: _int | Sequence[_int] | None = None, *, correction: _float | _complex | None = None, keepdim: _bool = False) -> Tensor:
        """Square root of `var`, also of one beyond the dtype's range."""
    @overload
    def std(self, unbiased: _bool = True) -> Tensor:
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
    @overload
    def sum(self, *, dtype: _dtype | None = None) -> Tensor:
        """Sum over dimensions (all by default); integers and bool give int64."""
    @overload
    def sum(self, dim: _int | Sequence[_int] | None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Sum over dimensions (all by default); integers and bool give int64."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None, unbiased: _bool = True, keepdim: _bool = False) -> Tensor:
        """Variance over dimensions, divided by n - correction (1 by default)."""
    @overload
    def var(self, dim: _int | Sequence[_int] | None = None, *, correction: _float | _complex | None = None, keepdim: _bool = False) -> Tensor:
        """Variance over dimensions, divided by n - correction (1 by default)."""
    @overload
    def var(self, unbiased: _bool = True) -> Tensor:
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

    # ---- defined in core/math/special.py

    def igamma(self, other: Tensor) -> Tensor:
        """Regularised lower incomplete gamma function P(input, other). There is no gradient for `input`."""
    def igamma_(self, other: Tensor) -> Tensor:
        """In-place `igamma`: overwrites the tensor and returns it. Regularised lower incomplete gamma function P(input, other). There is no gradient for `input`."""
    def igammac(self, other: Tensor) -> Tensor:
        """Regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other)."""
    def igammac_(self, other: Tensor) -> Tensor:
        """In-place `igammac`: overwrites the tensor and returns it. Regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other)."""
    def mvlgamma(self, p: _int) -> Tensor:
        """Logarithm of the multivariate gamma function of dimension p: log gamma(x - k / 2) summed over k < p, and p (p - 1) / 4 * log(pi)."""
    def mvlgamma_(self, p: _int) -> Tensor:
        """In-place `mvlgamma`: overwrites the tensor and returns it. Logarithm of the multivariate gamma function of dimension p: log gamma(x - k / 2) summed over k < p, and p (p - 1) / 4 * log(pi)."""
    def polygamma(self, n: _int) -> Tensor:
        """The n-th derivative of digamma, element by element."""
    def polygamma_(self, n: _int) -> Tensor:
        """In-place `polygamma`: overwrites the tensor and returns it. The n-th derivative of digamma, element by element."""

    # ---- defined in core/math/statistics.py

    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False) -> return_types.aminmax:
        """(min, max) along a dimension, or of all; gradients are shared evenly between equal elements."""
    def corrcoef(self) -> Tensor:
        """Pearson correlation coefficients of variables (rows) by observations (columns)."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Covariance matrix of variables (rows) by observations (columns), with whole-number and real weights of observations."""
    def dist(self, other: Tensor, p: _float | _complex = 2) -> Tensor:
        """The p-norm of input - other."""
    def nanmean(self, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """Mean over dimensions (all by default) of the elements that are not NaN."""
    def nanquantile(self, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = 'linear') -> Tensor:
        """`quantile` of the elements that are not NaN."""
    def quantile(self, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = 'linear') -> Tensor:
        """Quantiles `q` (in [0, 1]) along a dimension or of all elements; NaN if any of these is NaN."""
    def renorm(self, p: _float | _complex, dim: _int, maxnorm: _float | _complex) -> Tensor:
        """Slices of a dimension whose p-norm exceeds `maxnorm` scaled down to it."""
    def renorm_(self, p: _float | _complex, dim: _int, maxnorm: _float | _complex) -> Tensor:
        """In-place `renorm`: overwrites the tensor and returns it. Slices of a dimension whose p-norm exceeds `maxnorm` scaled down to it."""

    # ---- defined in core/overrides.py

    def as_subclass(self, cls: Any) -> Tensor:
        """The tensor as an object of a subclass: a view, which passes gradients on."""

    # ---- defined in core/queries.py

    def is_nonzero(self) -> _bool:
        """Whether a tensor of one element is not zero. Raises RuntimeError for others."""

    # ---- defined in core/search/searching.py

    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """Number of occurrences of each value in a vector of non-negative integers, or their sums of weights; of at least `minlength` bins."""
    @overload
    def hash_tensor(self, dim: _int | Sequence[_int] = ..., *, keepdim: _bool = False, mode: _int = 0) -> Tensor:
        """The exclusive or of the bits of all elements, or along dimensions, as float64 or int64."""
    @overload
    def hash_tensor(self, *dim: _int, keepdim: _bool = False, mode: _int = 0) -> Tensor:
        """The exclusive or of the bits of all elements, or along dimensions, as float64 or int64."""
    def histc(self, bins: _int = 100, min: _float | _complex = 0, max: _float | _complex = 0) -> Tensor:
        """Histogram of `bins` equal bins over [min, max], by default the data's range; elements outside are not counted."""
    def histogram(self, bins: _int = 100, *, range: Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False) -> return_types.histogram:
        """(hist, bin_edges): counts, or sums of weights, between edges or in `bins` equal parts of `range`."""

    # ---- defined in core/search/sorting.py

    @overload
    def argsort(self, *, stable: _bool, dim: _int = -1, descending: _bool = False) -> Tensor:
        """The indices that sort along a dimension."""
    @overload
    def argsort(self, dim: _int = -1, descending: _bool = False) -> Tensor:
        """The indices that sort along a dimension."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> return_types.kthvalue:
        """(values, indices) of the k-th smallest element (from 1) along a dimension."""
    @overload
    def median(self) -> Tensor:
        """The median (of an even number of elements the lower), NaN if there is one; with `dim`, (values, indices) along it."""
    @overload
    def median(self, dim: _int, keepdim: _bool = False) -> return_types.median:
        """The median (of an even number of elements the lower), NaN if there is one; with `dim`, (values, indices) along it."""
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> return_types.mode:
        """(values, indices): the most frequent element along a dimension (of several the smallest), and its last position."""
    def msort(self) -> Tensor:
        """Sorted along the first dimension."""
    @overload
    def nanmedian(self) -> Tensor:
        """The median of the elements that are not NaN; with `dim`, (values, indices) along it."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False) -> return_types.nanmedian:
        """The median of the elements that are not NaN; with `dim`, (values, indices) along it."""
    @overload
    def sort(self, *, stable: _bool | None, dim: _int = -1, descending: _bool = False) -> return_types.sort:
        """(values, indices) sorted along a dimension. NaN sorts as the largest; the order is always stable."""
    @overload
    def sort(self, dim: _int = -1, descending: _bool = False) -> return_types.sort:
        """(values, indices) sorted along a dimension. NaN sorts as the largest; the order is always stable."""
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> return_types.topk:
        """(values, indices) of the k largest (or smallest) elements along a dimension, in order if `sorted`."""

    # ---- defined in core/search/uniqueness.py

    def unique(self, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False, dim: Any = None) -> Tensor | tuple[Tensor, ...]:
        """The distinct elements (or slices of a dimension), sorted."""
    def unique_consecutive(self, return_inverse: Any = False, return_counts: Any = False, dim: Any = None) -> Tensor | tuple[Tensor, ...]:
        """The first of each run of equal elements (or slices of a dimension), in order; further results as in `unique`."""

    # ---- defined in core/shape/arrangement.py

    def fliplr(self) -> Tensor:
        """Left-right flip: dimension 1 in reverse order."""
    def flipud(self) -> Tensor:
        """Up-down flip: dimension 0 in reverse order."""
    def repeat_interleave(self, repeats: Tensor | _int, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Each element repeated `repeats` times (a number, or one per element) along a dimension, or flattened."""
    def rot90(self, k: _int = 1, dims: Sequence[_int] | None = None) -> Tensor:
        """Rotated k times by 90 degrees in the plane of two dimensions, from the first towards the second."""
    @overload
    def tile(self, dims: Sequence[_int]) -> Tensor:
        """The tensor repeated along each dimension; with fewer repeats than dimensions, for the last dimensions."""
    @overload
    def tile(self, *dims: _int) -> Tensor:
        """The tensor repeated along each dimension; with fewer repeats than dimensions, for the last dimensions."""

    # ---- defined in core/shape/formats.py

    def is_contiguous(self, memory_format: _memory_format = ...) -> _bool:
        """Whether the elements lie in row-major order, or that of a memory format, without gaps."""

    # ---- defined in core/shape/joining.py

    @overload
    def repeat(self, repeats: Sequence[_int]) -> Tensor:
        """A copy repeated along each dimension (new ones in front)."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor:
        """A copy repeated along each dimension (new ones in front)."""

    # ---- defined in core/shape/parts.py

    def as_strided(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """A view of any sizes and strides over the storage. Raises RuntimeError if it would leave the storage."""
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` parts of equal size, the last perhaps smaller; views."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """The diagonal of two dimensions, as the last dimension of a view."""
    @overload
    def dsplit(self, sections: _int) -> tuple[Tensor, ...]:
        """`tensor_split` along dimension 2."""
    @overload
    def dsplit(self, indices: Sequence[_int]) -> tuple[Tensor, ...]:
        """`tensor_split` along dimension 2."""
    @overload
    def dsplit(self, *indices: _int) -> tuple[Tensor, ...]:
        """`tensor_split` along dimension 2."""
    @overload
    def hsplit(self, sections: _int) -> tuple[Tensor, ...]:
        """`tensor_split` into columns: along dimension 1, or 0 of a vector."""
    @overload
    def hsplit(self, indices: Sequence[_int]) -> tuple[Tensor, ...]:
        """`tensor_split` into columns: along dimension 1, or 0 of a vector."""
    @overload
    def hsplit(self, *indices: _int) -> tuple[Tensor, ...]:
        """`tensor_split` into columns: along dimension 1, or 0 of a vector."""
    def narrow(self, dim: _int, start: Tensor | _int, length: _int) -> Tensor:
        """`length` elements of a dimension from `start` on."""
    def narrow_copy(self, dim: _int, start: _int, length: _int) -> Tensor:
        """A copy of `length` elements of a dimension from `start` on."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """One index of a dimension, which is removed; a view."""
    def split(self, split_size: Any, dim: Any = 0) -> tuple[Tensor, ...]:
        """Parts of a given size (the last may be smaller), or of several sizes, along a dimension; views."""
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Parts of the given sizes along a dimension; views."""
    @overload
    def tensor_split(self, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """A number of nearly equal parts along a dimension, or the parts between indices; views."""
    @overload
    def tensor_split(self, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
        """A number of nearly equal parts along a dimension, or the parts between indices; views."""
    @overload
    def tensor_split(self, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """A number of nearly equal parts along a dimension, or the parts between indices; views."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """The slices along a dimension; views. Where gradients are recorded they cannot be written to."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """The parts of `chunk`, as views that can be modified in place."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """The parts of `split`, as views that can be modified in place."""
    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Parts of the given sizes, as views that autograd lets one write to."""
    @overload
    def vsplit(self, sections: _int) -> tuple[Tensor, ...]:
        """`tensor_split` into rows: along dimension 0."""
    @overload
    def vsplit(self, indices: Sequence[_int]) -> tuple[Tensor, ...]:
        """`tensor_split` into rows: along dimension 0."""
    @overload
    def vsplit(self, *indices: _int) -> tuple[Tensor, ...]:
        """`tensor_split` into rows: along dimension 0."""

    # ---- defined in core/shape/reshaping.py

    def apply_(self, callable: Callable) -> Tensor:
        """Replace each element by a Python function of it; slow, and only on the CPU."""
    def as_strided_(self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """In-place `as_strided`: overwrites the tensor and returns it. A view of any sizes and strides over the storage. Raises RuntimeError if it would leave the storage."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both have the same storage, offset, sizes and strides."""
    def map_(self, other: Tensor, callable: Callable) -> Tensor:
        """Replace each element by a Python function of it and another tensor's element; slow, and only on the CPU."""
    @overload
    def resize_(self, size: Sequence[_int], *, memory_format: _memory_format | None = None) -> Tensor:
        """Resize in place to another shape, row-major from the tensor's first element on."""
    @overload
    def resize_(self, *size: _int, memory_format: _memory_format | None = None) -> Tensor:
        """Resize in place to another shape, row-major from the tensor's first element on."""
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
        """`resize_` to the shape of another tensor."""
    @overload
    def set_(self, source: Any, storage_offset: _int, size: Sequence[_int], stride: Sequence[_int]) -> Tensor:
        """Refer to the storage, sizes and strides of another tensor, or to a storage with those given; without arguments, to no elements."""
    @overload
    def set_(self, source: Any) -> Tensor:
        """Refer to the storage, sizes and strides of another tensor, or to a storage with those given; without arguments, to no elements."""
    @overload
    def squeeze_(self, dim: _int | Sequence[_int]) -> Tensor:
        """In-place `squeeze`: overwrites the tensor and returns it. Dimensions of size 1 removed, all or the given ones."""
    @overload
    def squeeze_(self, *dim: _int) -> Tensor:
        """In-place `squeeze`: overwrites the tensor and returns it. Dimensions of size 1 removed, all or the given ones."""
    def swapaxes_(self, axis0: _int, axis1: _int) -> Tensor:
        """In-place `swapaxes`: overwrites the tensor and returns it. Two dimensions swapped; a view."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """In-place `transpose`: overwrites the tensor and returns it. Two dimensions swapped; a view."""
    def t_(self) -> Tensor:
        """In-place `t`: overwrites the tensor and returns it. A matrix transposed; a vector or scalar as it is; a view."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """In-place `transpose`: overwrites the tensor and returns it. Two dimensions swapped; a view."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """All windows of `size` neighbours along a dimension, every `step`-th; a view with the windows as a last dimension."""
    def unsqueeze_(self, dim: _int) -> Tensor:
        """In-place `unsqueeze`: overwrites the tensor and returns it. A dimension of size 1 inserted before `dim`."""
    @overload
    def view(self, dtype: _dtype) -> Tensor:
        """The same memory in another shape, or read as another dtype."""
    @overload
    def view(self, size: Sequence[_int]) -> Tensor:
        """The same memory in another shape, or read as another dtype."""
    @overload
    def view(self, *size: _int) -> Tensor:
        """The same memory in another shape, or read as another dtype."""

    # ---- defined in core/shape/shapes.py

    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order; a view."""
    @overload
    def broadcast_to(self, size: Sequence[_int]) -> Tensor:
        """Expanded to a size."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor:
        """Expanded to a size."""
    @overload
    def expand(self, size: Sequence[_int], *, implicit: _bool = False) -> Tensor:
        """Dimensions of size 1 expanded without copying; -1 keeps a size."""
    @overload
    def expand(self, *size: _int, implicit: _bool = False) -> Tensor:
        """Dimensions of size 1 expanded without copying; -1 keeps a size."""
    def expand_as(self, other: Tensor) -> Tensor:
        """Expanded to the shape of `other`."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """Dimensions start_dim to end_dim (inclusive) as one."""
    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped; a view. Raises RuntimeError for a vector."""
    def moveaxis(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """Dimensions moved to other positions, the others in their order; a view."""
    def movedim(self, source: _int | Sequence[_int], destination: _int | Sequence[_int]) -> Tensor:
        """Dimensions moved to other positions, the others in their order; a view."""
    @overload
    def permute(self, dims: Sequence[_int]) -> Tensor:
        """Dimensions in the given order; a view."""
    @overload
    def permute(self, *dims: _int) -> Tensor:
        """Dimensions in the given order; a view."""
    def ravel(self) -> Tensor:
        """All elements in one dimension; a view only where they lie one after the other."""
    @overload
    def reshape(self, shape: Sequence[_int]) -> Tensor:
        """The same elements in another shape; a view where possible. One size may be -1."""
    @overload
    def reshape(self, *shape: _int) -> Tensor:
        """The same elements in another shape; a view where possible. One size may be -1."""
    def reshape_as(self, other: Tensor) -> Tensor:
        """Reshaped to the shape of `other`."""
    @overload
    def squeeze(self, dim: _int | Sequence[_int]) -> Tensor:
        """Dimensions of size 1 removed, all or the given ones."""
    @overload
    def squeeze(self, *dim: _int) -> Tensor:
        """Dimensions of size 1 removed, all or the given ones."""
    @overload
    def sum_to_size(self, size: Sequence[_int]) -> Tensor:
        """Summed over the dimensions along which a tensor of `size` would be broadcast (the reverse of `broadcast_to`)."""
    @overload
    def sum_to_size(self, *size: _int) -> Tensor:
        """Summed over the dimensions along which a tensor of `size` would be broadcast (the reverse of `broadcast_to`)."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """Two dimensions swapped; a view."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions swapped; a view."""
    def t(self) -> Tensor:
        """A matrix transposed; a vector or scalar as it is; a view."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Two dimensions swapped; a view."""
    def unflatten(self, dim: Any, sizes: Any) -> Tensor:
        """One dimension as several."""
    def unsqueeze(self, dim: _int) -> Tensor:
        """A dimension of size 1 inserted before `dim`."""
    def view_as(self, other: Tensor) -> Tensor:
        """A view with the shape of `other`."""

    # ---- defined in core/shape/triangles.py

    def diag(self, diagonal: _int = 0) -> Tensor:
        """A matrix with a vector on a diagonal, or the diagonal of a matrix."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Matrices, in dimensions dim1 and dim2 of the result, with the last dimension of `input` on a diagonal and 0 elsewhere."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """The matrix with all elements of `input` on a diagonal."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix."""
    def tril(self, diagonal: _int = 0) -> Tensor:
        """Matrices (..., M, N) with 0 above a diagonal."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """In-place `tril`: overwrites the tensor and returns it. Matrices (..., M, N) with 0 above a diagonal."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """Matrices (..., M, N) with 0 below a diagonal."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """In-place `triu`: overwrites the tensor and returns it. Matrices (..., M, N) with 0 below a diagonal."""

    # ---- defined in core/signal/spectrograms.py

    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
        """The signal of a short-time transform: overlapping frames are added and divided by the windows' squares (Griffin and Lim, 1984)."""
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor:
        """Transforms of windowed frames of `n_fft` samples, `hop_length` apart: (T,) or (B, T) -> (B, frequencies, frames)."""

    # ---- defined in core/tensor.py

    @property
    def data(self) -> Tensor:
        """A detached tensor over the same memory, whose writes autograd does not notice."""
    @data.setter
    def data(self, value: Tensor) -> None: ...
    def data_ptr(self) -> _int:
        """Address of the first element."""
    def detach(self) -> Tensor:
        """A tensor over the same memory, detached from the graph."""
    def detach_(self) -> Tensor:
        """Detach this tensor itself from the graph."""
    @property
    def device(self) -> _device:
        """The device the elements are on."""
    def dim(self) -> _int:
        """The number of dimensions."""
    @property
    def dtype(self) -> _dtype:
        """The type of the elements."""
    def element_size(self) -> _int:
        """Bytes per element."""
    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a tensor with `retain_grad()`."""
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    @property
    def grad_dtype(self) -> _dtype | None:
        """The dtype of a leaf's gradient, its own unless it was set; None allows any."""
    @grad_dtype.setter
    def grad_dtype(self, value: _dtype | None) -> None: ...
    @property
    def grad_fn(self) -> Any:
        """The node that computed this tensor, of a class such as `AddBackward0`; None for leaves."""
    def is_complex(self) -> _bool:
        """Whether the dtype is a complex one."""
    @property
    def is_cuda(self) -> _bool:
        """Whether it is on a CUDA device."""
    def is_floating_point(self) -> _bool:
        """Whether the dtype is a floating one."""
    def is_inference(self) -> _bool:
        """Whether it was created in inference mode."""
    @property
    def is_leaf(self) -> _bool:
        """Whether it is not the result of a recorded operation."""
    @property
    def is_meta(self) -> _bool:
        """Whether it is on the device `meta`: it has a shape and dtype, but no data."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative numbers."""
    @property
    def itemsize(self) -> _int:
        """Bytes per element."""
    @property
    def nbytes(self) -> _int:
        """Size of all elements in bytes."""
    @property
    def ndim(self) -> _int:
        """The number of dimensions."""
    def ndimension(self) -> _int:
        """The number of dimensions."""
    def nelement(self) -> _int:
        """The number of elements."""
    def numel(self) -> _int:
        """The number of elements."""
    @property
    def output_nr(self) -> _int:
        """The index of this tensor among the results of its node."""
    @property
    def requires_grad(self) -> _bool:
        """Whether gradients are computed for this tensor. Can be set on leaves of floating or complex dtype."""
    @requires_grad.setter
    def requires_grad(self, value: _bool) -> None: ...
    def requires_grad_(self: Tensor, requires_grad: _bool = True) -> Tensor:
        """Set `requires_grad` and return self."""
    @property
    def retains_grad(self) -> _bool:
        """Whether a computed tensor keeps its gradient."""
    @property
    def shape(self) -> _Size:
        """Sizes of the dimensions."""
    @overload
    def size(self, dim: None = None) -> _Size:
        """All sizes, or the size of one dimension."""
    @overload
    def size(self, dim: _int) -> _int:
        """All sizes, or the size of one dimension."""
    def storage_offset(self) -> _int:
        """Offset of the first element in the storage, in elements."""
    def stride(self, dim: None = None) -> Sequence[_int]:
        """Strides of the dimensions, or of one, in elements."""

    # ---- defined in nn/functional/activation.py

    def prelu(self, weight: Tensor) -> Tensor:
        """x where positive, otherwise weight * x, with one weight or one per channel (dimension 1)."""

    # ---- defined in ops/table.py

    def abs(self) -> Tensor:
        """Absolute value of each element; the magnitude of complex ones."""
    def abs_(self) -> Tensor:
        """In-place `abs`: overwrites the tensor and returns it. Absolute value of each element; the magnitude of complex ones."""
    def absolute(self) -> Tensor:
        """Absolute value of each element; the magnitude of complex ones."""
    def absolute_(self) -> Tensor:
        """In-place `abs`: overwrites the tensor and returns it. Absolute value of each element; the magnitude of complex ones."""
    def acos(self) -> Tensor:
        """Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
    def acos_(self) -> Tensor:
        """In-place `acos`: overwrites the tensor and returns it. Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine of each element; NaN below 1."""
    def acosh_(self) -> Tensor:
        """In-place `acosh`: overwrites the tensor and returns it. Inverse hyperbolic cosine of each element; NaN below 1."""
    def angle(self) -> Tensor:
        """Angle of each element in radians: 0 or pi for real numbers, the argument for complex ones."""
    def angle_(self) -> Tensor:
        """In-place `angle`: overwrites the tensor and returns it. Angle of each element in radians: 0 or pi for real numbers, the argument for complex ones."""
    def arccos(self) -> Tensor:
        """Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
    def arccos_(self) -> Tensor:
        """In-place `acos`: overwrites the tensor and returns it. Inverse cosine of each element, in radians; NaN outside [-1, 1]."""
    def arccosh(self) -> Tensor:
        """Inverse hyperbolic cosine of each element; NaN below 1."""
    def arccosh_(self) -> Tensor:
        """In-place `acosh`: overwrites the tensor and returns it. Inverse hyperbolic cosine of each element; NaN below 1."""
    def arcsin(self) -> Tensor:
        """Inverse sine of each element, in radians; NaN outside [-1, 1]."""
    def arcsin_(self) -> Tensor:
        """In-place `asin`: overwrites the tensor and returns it. Inverse sine of each element, in radians; NaN outside [-1, 1]."""
    def arcsinh(self) -> Tensor:
        """Inverse hyperbolic sine of each element."""
    def arcsinh_(self) -> Tensor:
        """In-place `asinh`: overwrites the tensor and returns it. Inverse hyperbolic sine of each element."""
    def arctan(self) -> Tensor:
        """Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
    def arctan2(self, other: Tensor) -> Tensor:
        """Angle of the point (other, input) in radians, in (-pi, pi]."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """In-place `atan2`: overwrites the tensor and returns it. Angle of the point (other, input) in radians, in (-pi, pi]."""
    def arctan_(self) -> Tensor:
        """In-place `atan`: overwrites the tensor and returns it. Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
    def arctanh(self) -> Tensor:
        """Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
    def arctanh_(self) -> Tensor:
        """In-place `atanh`: overwrites the tensor and returns it. Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
    def asin(self) -> Tensor:
        """Inverse sine of each element, in radians; NaN outside [-1, 1]."""
    def asin_(self) -> Tensor:
        """In-place `asin`: overwrites the tensor and returns it. Inverse sine of each element, in radians; NaN outside [-1, 1]."""
    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine of each element."""
    def asinh_(self) -> Tensor:
        """In-place `asinh`: overwrites the tensor and returns it. Inverse hyperbolic sine of each element."""
    def atan(self) -> Tensor:
        """Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
    def atan2(self, other: Tensor) -> Tensor:
        """Angle of the point (other, input) in radians, in (-pi, pi]."""
    def atan2_(self, other: Tensor) -> Tensor:
        """In-place `atan2`: overwrites the tensor and returns it. Angle of the point (other, input) in radians, in (-pi, pi]."""
    def atan_(self) -> Tensor:
        """In-place `atan`: overwrites the tensor and returns it. Inverse tangent of each element, in radians, in (-pi/2, pi/2)."""
    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
    def atanh_(self) -> Tensor:
        """In-place `atanh`: overwrites the tensor and returns it. Inverse hyperbolic tangent of each element; infinite at -1 and 1."""
    def bitwise_and(self, other: Tensor | _float | _complex) -> Tensor:
        """Bitwise and of integers; logical and of bool."""
    def bitwise_and_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `bitwise_and`: overwrites the tensor and returns it. Bitwise and of integers; logical and of bool."""
    def bitwise_left_shift(self, other: Tensor | _float | _complex) -> Tensor:
        """`input << other` for integers."""
    def bitwise_left_shift_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `bitwise_left_shift`: overwrites the tensor and returns it. `input << other` for integers."""
    def bitwise_or(self, other: Tensor | _float | _complex) -> Tensor:
        """Bitwise or of integers; logical or of bool."""
    def bitwise_or_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `bitwise_or`: overwrites the tensor and returns it. Bitwise or of integers; logical or of bool."""
    def bitwise_right_shift(self, other: Tensor | _float | _complex) -> Tensor:
        """`input >> other` for integers; the sign is kept."""
    def bitwise_right_shift_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `bitwise_right_shift`: overwrites the tensor and returns it. `input >> other` for integers; the sign is kept."""
    def bitwise_xor(self, other: Tensor | _float | _complex) -> Tensor:
        """Bitwise exclusive or of integers; logical exclusive or of bool."""
    def bitwise_xor_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `bitwise_xor`: overwrites the tensor and returns it. Bitwise exclusive or of integers; logical exclusive or of bool."""
    def ceil(self) -> Tensor:
        """Smallest integer that is not less than each element."""
    def ceil_(self) -> Tensor:
        """In-place `ceil`: overwrites the tensor and returns it. Smallest integer that is not less than each element."""
    def celu_(input: Tensor, alpha: _float | _complex = 1.0) -> Tensor:
        """In-place `celu`: overwrites the tensor and returns it."""
    def clamp_max(self, max: Tensor | _float | _complex) -> Tensor:
        """Minimum of each element and `max`."""
    def clamp_max_(self, max: Tensor | _float | _complex) -> Tensor:
        """In-place `clamp_max`: overwrites the tensor and returns it. Minimum of each element and `max`."""
    def clamp_min(self, min: Tensor | _float | _complex) -> Tensor:
        """Maximum of each element and `min`."""
    def clamp_min_(self, min: Tensor | _float | _complex) -> Tensor:
        """In-place `clamp_min`: overwrites the tensor and returns it. Maximum of each element and `min`."""
    def copysign(self, other: Tensor | _float | _complex) -> Tensor:
        """Magnitude of `input` with the sign of `other`."""
    def copysign_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `copysign`: overwrites the tensor and returns it. Magnitude of `input` with the sign of `other`."""
    def cos(self) -> Tensor:
        """Cosine of each element, in radians."""
    def cos_(self) -> Tensor:
        """In-place `cos`: overwrites the tensor and returns it. Cosine of each element, in radians."""
    def cosh(self) -> Tensor:
        """Hyperbolic cosine of each element."""
    def cosh_(self) -> Tensor:
        """In-place `cosh`: overwrites the tensor and returns it. Hyperbolic cosine of each element."""
    def deg2rad(self) -> Tensor:
        """Degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """In-place `deg2rad`: overwrites the tensor and returns it. Degrees to radians."""
    def digamma(self) -> Tensor:
        """Digamma function: the derivative of `lgamma`."""
    def digamma_(self) -> Tensor:
        """In-place `digamma`: overwrites the tensor and returns it. Digamma function: the derivative of `lgamma`."""
    def eq(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether elements are equal: a bool tensor. NaN equals nothing."""
    def eq_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `eq`: overwrites the tensor and returns it. Whether elements are equal: a bool tensor. NaN equals nothing."""
    def erf(self) -> Tensor:
        """Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0."""
    def erf_(self) -> Tensor:
        """In-place `erf`: overwrites the tensor and returns it. Error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0."""
    def erfc(self) -> Tensor:
        """Complementary error function, 1 - erf(input), accurate for large elements."""
    def erfc_(self) -> Tensor:
        """In-place `erfc`: overwrites the tensor and returns it. Complementary error function, 1 - erf(input), accurate for large elements."""
    def erfinv(self) -> Tensor:
        """Inverse of `erf` on (-1, 1); infinite at -1 and 1."""
    def erfinv_(self) -> Tensor:
        """In-place `erfinv`: overwrites the tensor and returns it. Inverse of `erf` on (-1, 1); infinite at -1 and 1."""
    def exp(self) -> Tensor:
        """Exponential of each element, e ** input."""
    def exp2(self) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """In-place `exp2`: overwrites the tensor and returns it. 2 to the power of each element."""
    def exp_(self) -> Tensor:
        """In-place `exp`: overwrites the tensor and returns it. Exponential of each element, e ** input."""
    def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Logistic sigmoid, 1 / (1 + exp(-input))."""
    def expit_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        """In-place `sigmoid`: overwrites the tensor and returns it. Logistic sigmoid, 1 / (1 + exp(-input))."""
    def expm1(self) -> Tensor:
        """exp(input) - 1, accurate near 0."""
    def expm1_(self) -> Tensor:
        """In-place `expm1`: overwrites the tensor and returns it. exp(input) - 1, accurate near 0."""
    def fix(self) -> Tensor:
        """Each element rounded towards 0."""
    def fix_(self) -> Tensor:
        """In-place `trunc`: overwrites the tensor and returns it. Each element rounded towards 0."""
    def floor(self) -> Tensor:
        """Greatest integer that is not greater than each element."""
    def floor_(self) -> Tensor:
        """In-place `floor`: overwrites the tensor and returns it. Greatest integer that is not greater than each element."""
    def fmax(self, other: Tensor) -> Tensor:
        """Larger of two elements; the number where the other one is NaN."""
    def fmax_(self, other: Tensor) -> Tensor:
        """In-place `fmax`: overwrites the tensor and returns it. Larger of two elements; the number where the other one is NaN."""
    def fmin(self, other: Tensor) -> Tensor:
        """Smaller of two elements; the number where the other one is NaN."""
    def fmin_(self, other: Tensor) -> Tensor:
        """In-place `fmin`: overwrites the tensor and returns it. Smaller of two elements; the number where the other one is NaN."""
    def frac(self) -> Tensor:
        """Fractional part of each element, with its sign."""
    def frac_(self) -> Tensor:
        """In-place `frac`: overwrites the tensor and returns it. Fractional part of each element, with its sign."""
    def gcd(self, other: Tensor) -> Tensor:
        """Greatest common divisor of integers."""
    def gcd_(self, other: Tensor) -> Tensor:
        """In-place `gcd`: overwrites the tensor and returns it. Greatest common divisor of integers."""
    def ge(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input >= other`: a bool tensor."""
    def ge_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `ge`: overwrites the tensor and returns it. Whether `input >= other`: a bool tensor."""
    def greater(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input > other`: a bool tensor."""
    def greater_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `greater`: overwrites the tensor and returns it. Whether `input > other`: a bool tensor."""
    def greater_equal(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input >= other`: a bool tensor."""
    def greater_equal_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `greater_equal`: overwrites the tensor and returns it. Whether `input >= other`: a bool tensor."""
    def gt(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input > other`: a bool tensor."""
    def gt_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `gt`: overwrites the tensor and returns it. Whether `input > other`: a bool tensor."""
    def hardshrink(self, lambd: _float | _complex = 0.5) -> Tensor:
        """`x` where abs(x) > lambd, else 0."""
    def heaviside(self, values: Tensor) -> Tensor:
        """Step function: 0 below 0, 1 above, `values` at 0."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """In-place `heaviside`: overwrites the tensor and returns it. Step function: 0 below 0, 1 above, `values` at 0."""
    def hypot(self, other: Tensor) -> Tensor:
        """sqrt(input**2 + other**2), without overflow."""
    def hypot_(self, other: Tensor) -> Tensor:
        """In-place `hypot`: overwrites the tensor and returns it. sqrt(input**2 + other**2), without overflow."""
    def i0(self) -> Tensor:
        """Modified Bessel function of the first kind, order 0."""
    def i0_(self) -> Tensor:
        """In-place `i0`: overwrites the tensor and returns it. Modified Bessel function of the first kind, order 0."""
    def isfinite(self) -> Tensor:
        """Whether elements are neither infinite nor NaN: a bool tensor."""
    def isinf(self) -> Tensor:
        """Whether elements are infinite: a bool tensor."""
    def isnan(self) -> Tensor:
        """Whether elements are NaN: a bool tensor."""
    def isneginf(self) -> Tensor:
        """Whether elements are minus infinity: a bool tensor."""
    def isposinf(self) -> Tensor:
        """Whether elements are plus infinity: a bool tensor."""
    def lcm(self, other: Tensor) -> Tensor:
        """Least common multiple of integers."""
    def lcm_(self, other: Tensor) -> Tensor:
        """In-place `lcm`: overwrites the tensor and returns it. Least common multiple of integers."""
    def le(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input <= other`: a bool tensor."""
    def le_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `le`: overwrites the tensor and returns it. Whether `input <= other`: a bool tensor."""
    def lerp(self, end: Tensor, weight: Tensor | _float | _complex) -> Tensor:
        """Linear interpolation, `input + weight * (end - input)`."""
    def lerp_(self, end: Tensor, weight: Tensor | _float | _complex) -> Tensor:
        """In-place `lerp`: overwrites the tensor and returns it. Linear interpolation, `input + weight * (end - input)`."""
    def less(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input < other`: a bool tensor."""
    def less_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `less`: overwrites the tensor and returns it. Whether `input < other`: a bool tensor."""
    def less_equal(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input <= other`: a bool tensor."""
    def less_equal_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `less_equal`: overwrites the tensor and returns it. Whether `input <= other`: a bool tensor."""
    def lgamma(self) -> Tensor:
        """Logarithm of the absolute value of the gamma function."""
    def lgamma_(self) -> Tensor:
        """In-place `lgamma`: overwrites the tensor and returns it. Logarithm of the absolute value of the gamma function."""
    def log(self) -> Tensor:
        """Natural logarithm of each element; NaN below 0, minus infinity at 0."""
    def log10(self) -> Tensor:
        """Logarithm to base 10 of each element."""
    def log10_(self) -> Tensor:
        """In-place `log10`: overwrites the tensor and returns it. Logarithm to base 10 of each element."""
    def log1p(self) -> Tensor:
        """log(1 + input), accurate near 0."""
    def log1p_(self) -> Tensor:
        """In-place `log1p`: overwrites the tensor and returns it. log(1 + input), accurate near 0."""
    def log2(self) -> Tensor:
        """Logarithm to base 2 of each element."""
    def log2_(self) -> Tensor:
        """In-place `log2`: overwrites the tensor and returns it. Logarithm to base 2 of each element."""
    def log_(self) -> Tensor:
        """In-place `log`: overwrites the tensor and returns it. Natural logarithm of each element; NaN below 0, minus infinity at 0."""
    def logaddexp(self, other: Tensor) -> Tensor:
        """log(exp(input) + exp(other)), without overflow."""
    def logaddexp2(self, other: Tensor) -> Tensor:
        """log2(2**input + 2**other), without overflow."""
    def logaddexp2_(self, other: Tensor) -> Tensor:
        """In-place `logaddexp2`: overwrites the tensor and returns it. log2(2**input + 2**other), without overflow."""
    def logaddexp_(self, other: Tensor) -> Tensor:
        """In-place `logaddexp`: overwrites the tensor and returns it. log(exp(input) + exp(other)), without overflow."""
    def logical_and(self, other: Tensor) -> Tensor:
        """Whether both elements are nonzero: a bool tensor."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """In-place `logical_and`: overwrites the tensor and returns it. Whether both elements are nonzero: a bool tensor."""
    def logical_not(self) -> Tensor:
        """Whether elements are zero: a bool tensor."""
    def logical_not_(self) -> Tensor:
        """In-place `logical_not`: overwrites the tensor and returns it. Whether elements are zero: a bool tensor."""
    def logical_or(self, other: Tensor) -> Tensor:
        """Whether at least one of two elements is nonzero: a bool tensor."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """In-place `logical_or`: overwrites the tensor and returns it. Whether at least one of two elements is nonzero: a bool tensor."""
    def logical_xor(self, other: Tensor) -> Tensor:
        """Whether exactly one of two elements is nonzero: a bool tensor."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """In-place `logical_xor`: overwrites the tensor and returns it. Whether exactly one of two elements is nonzero: a bool tensor."""
    def lt(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether `input < other`: a bool tensor."""
    def lt_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `lt`: overwrites the tensor and returns it. Whether `input < other`: a bool tensor."""
    def maximum(self, other: Tensor) -> Tensor:
        """Larger of two elements; NaN if one is NaN."""
    def maximum_(self, other: Tensor) -> Tensor:
        """In-place `maximum`: overwrites the tensor and returns it. Larger of two elements; NaN if one is NaN."""
    def minimum(self, other: Tensor) -> Tensor:
        """Smaller of two elements; NaN if one is NaN."""
    def minimum_(self, other: Tensor) -> Tensor:
        """In-place `minimum`: overwrites the tensor and returns it. Smaller of two elements; NaN if one is NaN."""
    def mul(self, other: Tensor | _float | _complex, *, out: Tensor | None = None) -> Tensor:
        """Product of two tensors, or of a tensor and a number."""
    def mul_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `mul`: overwrites the tensor and returns it. Product of two tensors, or of a tensor and a number."""
    def multiply(self, other: Tensor | _float | _complex) -> Tensor:
        """Product of two tensors, or of a tensor and a number."""
    def multiply_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `mul`: overwrites the tensor and returns it. Product of two tensors, or of a tensor and a number."""
    def ne(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether elements differ: a bool tensor. NaN differs from everything."""
    def ne_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `ne`: overwrites the tensor and returns it. Whether elements differ: a bool tensor. NaN differs from everything."""
    def neg(self) -> Tensor:
        """Negative of each element."""
    def neg_(self) -> Tensor:
        """In-place `neg`: overwrites the tensor and returns it. Negative of each element."""
    def negative(self) -> Tensor:
        """Negative of each element."""
    def negative_(self) -> Tensor:
        """In-place `neg`: overwrites the tensor and returns it. Negative of each element."""
    def not_equal(self, other: Tensor | _float | _complex) -> Tensor:
        """Whether elements differ: a bool tensor. NaN differs from everything."""
    def not_equal_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `not_equal`: overwrites the tensor and returns it. Whether elements differ: a bool tensor. NaN differs from everything."""
    def rad2deg(self) -> Tensor:
        """Radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """In-place `rad2deg`: overwrites the tensor and returns it. Radians to degrees."""
    def reciprocal(self) -> Tensor:
        """1 / input."""
    def reciprocal_(self) -> Tensor:
        """In-place `reciprocal`: overwrites the tensor and returns it. 1 / input."""
    def relu(self) -> Tensor:
        """Each element, or 0 if it is negative."""
    def relu_(self) -> Tensor:
        """In-place `relu`: overwrites the tensor and returns it. Each element, or 0 if it is negative."""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(input); infinite at 0, NaN below."""
    def rsqrt_(self) -> Tensor:
        """In-place `rsqrt`: overwrites the tensor and returns it. 1 / sqrt(input); infinite at 0, NaN below."""
    def selu_(input: Tensor) -> Tensor:
        """In-place `selu`: overwrites the tensor and returns it. scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha = 1.6733, scale = 1.0507. Klambauer et al., 2017."""
    def sigmoid(self) -> Tensor:
        """Logistic sigmoid, 1 / (1 + exp(-input))."""
    def sigmoid_(self) -> Tensor:
        """In-place `sigmoid`: overwrites the tensor and returns it. Logistic sigmoid, 1 / (1 + exp(-input))."""
    def sign(self) -> Tensor:
        """Sign of each element: -1, 0 or 1."""
    def sign_(self) -> Tensor:
        """In-place `sign`: overwrites the tensor and returns it. Sign of each element: -1, 0 or 1."""
    def signbit(self) -> Tensor:
        """Whether the sign bit is set, also of -0.0: a bool tensor."""
    def sin(self) -> Tensor:
        """Sine of each element, in radians."""
    def sin_(self) -> Tensor:
        """In-place `sin`: overwrites the tensor and returns it. Sine of each element, in radians."""
    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0."""
    def sinc_(self) -> Tensor:
        """In-place `sinc`: overwrites the tensor and returns it. sin(pi x) / (pi x), and 1 at 0."""
    def sinh(self) -> Tensor:
        """Hyperbolic sine of each element."""
    def sinh_(self) -> Tensor:
        """In-place `sinh`: overwrites the tensor and returns it. Hyperbolic sine of each element."""
    def sqrt(self) -> Tensor:
        """Square root of each element; NaN below 0."""
    def sqrt_(self) -> Tensor:
        """In-place `sqrt`: overwrites the tensor and returns it. Square root of each element; NaN below 0."""
    def square(self) -> Tensor:
        """Square of each element."""
    def square_(self) -> Tensor:
        """In-place `square`: overwrites the tensor and returns it. Square of each element."""
    def tan(self) -> Tensor:
        """Tangent of each element, in radians."""
    def tan_(self) -> Tensor:
        """In-place `tan`: overwrites the tensor and returns it. Tangent of each element, in radians."""
    def tanh(self) -> Tensor:
        """Hyperbolic tangent of each element."""
    def tanh_(self) -> Tensor:
        """In-place `tanh`: overwrites the tensor and returns it. Hyperbolic tangent of each element."""
    def trunc(self) -> Tensor:
        """Each element rounded towards 0."""
    def trunc_(self) -> Tensor:
        """In-place `trunc`: overwrites the tensor and returns it. Each element rounded towards 0."""
    def xlogy(self, other: Tensor | _float | _complex) -> Tensor:
        """input * log(other), and 0 where `input` is 0."""
    def xlogy_(self, other: Tensor | _float | _complex) -> Tensor:
        """In-place `xlogy`: overwrites the tensor and returns it. input * log(other), and 0 where `input` is 0."""

    # ---- operators, defined in core/operators.py

    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __add__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
    def __lshift__(self, other: Any) -> Tensor: ...
    def __rshift__(self, other: Any) -> Tensor: ...
    def __rlshift__(self, other: Any) -> Tensor: ...
    def __rrshift__(self, other: Any) -> Tensor: ...
    def __iadd__(self, other: Any) -> Self: ...
    def __isub__(self, other: Any) -> Self: ...
    def __imul__(self, other: Any) -> Self: ...
    def __itruediv__(self, other: Any) -> Self: ...
    def __ifloordiv__(self, other: Any) -> Self: ...
    def __imod__(self, other: Any) -> Self: ...
    def __ipow__(self, other: Any) -> Self: ...
    def __iand__(self, other: Any) -> Self: ...
    def __ior__(self, other: Any) -> Self: ...
    def __ixor__(self, other: Any) -> Self: ...
    def __ilshift__(self, other: Any) -> Self: ...
    def __irshift__(self, other: Any) -> Self: ...
    def __neg__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __len__(self) -> _int: ...
    def __bool__(self) -> _bool: ...
    def __int__(self) -> _int: ...
    def __float__(self) -> _float: ...
    def __index__(self) -> _int: ...
    def __hash__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, value: Any) -> _bool: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> np.ndarray: ...

def wrap(storage: Any, layout: Any, offset: _int) -> Tensor: ...
