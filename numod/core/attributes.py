"""Further properties and methods of Tensor: unsupported kinds (sparse, quantized), memory, `new_*`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NoReturn

from ..device import Storage
from ..device.device import Device
from ..device.layout import layout
from ..dtypes import bool_, dtype as DType
from ..errors import warn_caller
from ..formats import memory_format as MemoryFormat, strided
from .create import creation, memory, ranges, values
from .convert.storages import TypedStorage
from .tensor import Tensor, fields_of, wrap

METHODS = """
    get_device is_pinned pin_memory is_same_size is_distributed new new_empty new_zeros new_ones new_full
    new_tensor new_empty_strided new_arange new_identity untyped_storage storage dim_order to_dense to_sparse
    dense_dim sparse_dim type_as record_stream module_load dequantize int_repr q_scale q_zero_point
    q_per_channel_scales q_per_channel_zero_points q_per_channel_axis qscheme
"""
FUNCTIONS = "get_device is_same_size"

for _name in "sparse sparse_csr quantized mkldnn nested mps mtia xpu xla ipu maia vulkan".split():
    setattr(Tensor, f"is_{_name}", property(lambda self: False, doc=f"False: there are no {_name} tensors."))
Tensor.is_cpu = property(lambda self: self.device.type == "cpu", doc="Whether it is on the CPU.")
Tensor.layout = property(lambda self: strided, doc="numod.strided.")


def get_device(self: Tensor) -> int:
    """Index of the tensor's CUDA device; -1 on the CPU.

    Example:

        >>> torch.get_device(torch.ones(2))
        -1
    """
    return self.device.index if self.device.type == "cuda" else -1


class PinnedStorage(Storage):
    """Page-locked host memory, which a CUDA device reads directly."""

    __slots__ = ()


def _warn_of_device(name: str, device: object) -> None:
    if device is not None:
        warn_caller(
            f"The argument 'device' of Tensor.{name}() is deprecated. Please do not pass this argument.",
            DeprecationWarning,
        )


def is_pinned(self: Tensor, device: object = None) -> bool:
    """Whether the tensor lies in page-locked host memory."""
    _warn_of_device("is_pinned", device)
    return isinstance(self._storage, PinnedStorage)


def pin_memory(self: Tensor, device: object = None) -> Tensor:
    """A copy in page-locked host memory, from which copies to a CUDA device are asynchronous.

    A pinned tensor is returned itself. Raises RuntimeError without a CUDA device.
    """
    _warn_of_device("pin_memory", device)
    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin a tensor of {self.device}: only dense CPU tensors can be pinned")
    backend = Device("cuda").backend
    if not backend.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available: pin_memory() needs a CUDA device.")
    if self.is_pinned():
        return self
    data = backend.pinned(self.numel(), self._layout.storage)
    return wrap(PinnedStorage(data), layout(self.shape, self.dtype, self.device), 0).copy_(self.detach())


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    Example:

        >>> torch.is_same_size(torch.ones(2, 3), torch.zeros(2, 3))
        True
    """
    return self.shape == other.shape


def is_distributed(self: Tensor) -> bool:
    """False: a tensor lies on one device."""
    return False


def untyped_storage(self: Tensor) -> Storage:
    """The storage that the tensor shares with its views.

    Example:

        >>> torch.ones(2).untyped_storage().nbytes()
        8
    """
    return self._storage


def storage(self: Tensor) -> TypedStorage:
    """The storage that the tensor shares with its views, as elements of its dtype."""
    return TypedStorage(self)


def dim_order(self: Tensor, *, ambiguity_check: bool | list[MemoryFormat] = False) -> tuple[int, ...]:
    """The dimensions ordered from the outermost to the innermost in memory.

    With `ambiguity_check`, RuntimeError where sizes of 1 or equal strides allow several orders; a list of memory
    formats allows them if the tensor is in exactly one of these.

    Example:

        >>> torch.ones(2, 3).t().dim_order()
        (1, 0)
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, (bool, list)) or not all(
        isinstance(format_, MemoryFormat) for format_ in formats
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides = self.stride()
    is_ambiguous = 1 in self.shape or any(stride == next_stride for stride, next_stride in pairwise(strides))
    if (
        ambiguity_check is not False
        and is_ambiguous
        and sum(self.is_contiguous(memory_format=format_) for format_ in formats) != 1
    ):
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
        )
    return tuple(sorted(range(self.ndim), key=lambda d: (-strides[d], d)))


def record_stream(self: Tensor, s: object) -> None:
    """Mark the tensor as used by another `numod.cuda.Stream`: its memory is not reused before that stream's pending
    work is done.
    """
    if self.device.type != "cuda":
        raise NotImplementedError(f"record_stream(): only CUDA tensors belong to streams, got one on {self.device}")
    self.device.backend.record_stream(self._storage.data, s._raw)


def copied(self: Tensor) -> Tensor:
    """The result of `copy.copy`: another tensor of this class over the same memory."""
    result = object.__new__(type(self))
    fields_of(result).update(fields_of(self))
    return result


def to_dense(self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself: all tensors are dense."""
    return self.to(dtype=dtype)


def to_sparse(self: Tensor, *arguments: object, **kwargs: object) -> NoReturn:
    """Raises NotImplementedError: all tensors are dense."""
    raise NotImplementedError(
        "numod has no Tensor.to_sparse: all tensors are dense, and products and sums give the same values without the "
        "call; to save memory keep the places x.nonzero() and the values x[x != 0], and sum products by index_add"
    )


def dequantize(self: Tensor) -> Tensor:
    """The tensor in float32. Quantized tensors return the values of their integers."""
    return self.float()


def refuse_plain(name: str, value: object) -> NoReturn:
    """Raise the error of a function of quantized tensors, such as "'aten::q_scale'", for another value."""
    raise NotImplementedError(
        f"Could not run {name} with arguments from the 'CPU' backend: it needs a quantized tensor, got "
        f"{getattr(value, 'dtype', type(value).__name__)}; make one by numod.quantize_per_tensor"
    )


def _of_quantized(name: str) -> Callable:
    def method(self: Tensor) -> NoReturn:
        refuse_plain(f"'aten::{name}'", self)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = "Raises NotImplementedError: quantized tensors have it."
    return method


int_repr, q_scale, q_zero_point, q_per_channel_scales, q_per_channel_zero_points, q_per_channel_axis, qscheme = map(
    _of_quantized,
    "int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis qscheme".split(),
)


def dense_dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self.ndim


def sparse_dim(self: Tensor) -> int:
    """0: all tensors are dense."""
    return 0


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor with the dtype and device of another tensor.

    Example:

        >>> torch.tensor([1, 2]).type_as(torch.ones(1))
        tensor([1., 2.])
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"type_as(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return self.to(other)


# ---- new tensors of the same dtype and device


def _creation_method(make: Callable) -> Callable:
    """A creation function as a method, with the tensor's dtype and device by default."""

    def method(
        self: Tensor,
        *arguments: object,
        dtype: DType | None = None,
        device: Device | str | None = None,
        **options: object,
    ) -> Tensor:
        result = make(*arguments, dtype=dtype or self.dtype, device=device or self.device, **options)
        return result if self._layout.batch is None else self._layout.batch.as_batched(result)

    method.__name__ = f"new_{make.__name__}"
    method.__doc__ = f"As numod.{make.__name__}, of this tensor's dtype and on its device."
    if make.__name__ in ("empty", "ones", "zeros"):
        example = f">>> torch.tensor([1]).new_{make.__name__}(2).dtype\n    numod.int64"
        method.__doc__ += f"\n\nExample:\n\n    {example}\n"
    return method


new_empty, new_zeros, new_ones, new_full, new_tensor, new_empty_strided = map(
    _creation_method,
    (creation.empty, creation.zeros, creation.ones, creation.full, values.tensor, memory.empty_strided),
)


def new(
    self: Tensor, *arguments: object, device: Device | str | None = None, size: tuple[int, ...] | None = None
) -> Tensor:
    """PyTorch's old constructor, with this tensor's dtype and device.

    Example:

        >>> torch.ones(2).new([3.0])
        tensor([3.])
    """
    arguments = arguments if size is None else tuple(size)
    return Tensor._construct(*arguments, dtype=self.dtype, device=device or self.device)


def new_arange(self: Tensor, n: int) -> Tensor:
    """0 .. n - 1 on the tensor's device; for gradients."""
    return ranges.arange(n, device=self.device)


def new_identity(self: Tensor, n: int) -> Tensor:
    """The identity as a bool matrix on the tensor's device; for gradients."""
    return creation.eye(n, dtype=bool_, device=self.device)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """The tensor that `load_state_dict` stores for this parameter or buffer.

    `other`, detached, with `assign`, else this tensor with other's values.
    """
    return other.detach() if assign else self.copy_(other).detach()


Tensor.__copy__ = copied
