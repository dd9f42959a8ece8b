"""Tensors from values: numbers, nested sequences of these, arrays. Their dtypes are inferred as PyTorch infers them."""

from __future__ import annotations

import functools

import numpy as np

from ... import dtypes
from ...device import Layout, Storage
from ...device.device import Device, default_device
from ...device.layout import layout
from ...device.storage import ForeignStorage
from ...dtypes import dtype as DType
from ...errors import warn_caller
from ..apply import as_tensor_of
from ..listeners import listeners, notify_created
from ..tensor import Tensor, wrap
from .nested import NUMBERS, array_of, fitting, inferred

_CPU = Device("cpu")
_PLAIN_TYPES = NUMBERS | {list, tuple, np.ndarray}


def tensor(
    data: object,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor holding a copy of `data`: a number, nested sequences, an array or a tensor.

    Raises ValueError for ragged sequences.

    Example:

        >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
    """
    dtype = dtypes.as_dtype(dtype)
    # by `type`, since lazy scalars have the `__class__` of their number; these types need no further checks
    plain = type(data) in _PLAIN_TYPES
    if not plain and (number := of_number(data, dtype, device)) is not None:
        result = number.clone()
    elif isinstance(data, Tensor):
        warn_caller(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), "
            "rather than numod.tensor(sourceTensor)."
        )
        result = data.detach().clone().to(device=device or data.device, dtype=dtype or data.dtype)
    elif not plain and (hasattr(data, "__cuda_array_interface__") or is_exported(data)):
        result = as_tensor(data, dtype, device).clone()
    else:
        kinds: set[type | DType | np.dtype] = set()
        array, numpy = array_of(data, kinds, dtype), isinstance(data, (np.ndarray, np.generic))
        kind = dtype or (dtypes.from_numpy(array.dtype) if numpy else inferred(array, kinds))
        array = array if numpy else fitting(array, kind)
        compute_tensor = notify_created(
            _copied(array, kind.compute), "array" if isinstance(data, np.ndarray) else "values"
        )
        device = default_device() if device is None else device
        result = (
            compute_tensor if device is _CPU and kind is kind.compute else compute_tensor.to(device=device, dtype=kind)
        )
    result = result.pin_memory() if pin_memory else result
    if requires_grad is False:
        return result
    if not isinstance(requires_grad, (bool, np.bool_)):
        raise TypeError(f"tensor(): argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")
    return result.requires_grad_(bool(requires_grad))


def of_number(value: object, dtype: DType | None, device: Device | str | None) -> Tensor | None:
    """The tensor of a lazy scalar while a function is recorded, if the dtype can represent its type."""
    number = as_tensor_of(value)
    if number is None:
        return None
    dtype = dtypes.as_dtype(dtype) or (dtypes.get_default_dtype() if number.is_floating_point() else number.dtype)
    same = dtype in (dtypes.float32, dtypes.float64) or dtype is number.dtype
    return number.to(device=default_device() if device is None else device, dtype=dtype) if same else None


def as_tensor(data: object, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """`data` as a tensor, sharing memory where it can (an array of the right dtype, a tensor).

    Example:

        >>> torch.as_tensor([1.0, 2.0])
        tensor([1., 2.])
    """
    if isinstance(data, Tensor):
        return data if dtype is device is None else data.to(device=device, dtype=dtype)
    if (number := of_number(data, dtype, device)) is not None:
        return number
    if isinstance(data, np.ndarray):
        return as_tensor(from_numpy(data), dtype, device)
    if hasattr(data, "__cuda_array_interface__"):
        from ..convert.exchange import from_cuda_array

        return from_cuda_array(data).to(device=device, dtype=dtype)
    if is_exported(data):
        from ..convert.exchange import from_dlpack

        return from_dlpack(data).to(device=device, dtype=dtype)
    return tensor(data, dtype=dtype, device=device)


def is_exported(data: object) -> bool:
    """Whether an object offers its memory by DLPack alone, or is DLPack's capsule."""
    return type(data).__name__ == "PyCapsule" or (hasattr(data, "__dlpack__") and not hasattr(data, "__array__"))


def computed(array: np.ndarray, dtype: DType, device: Device) -> Tensor:
    """The numbers of an array that nobody else has, made from shapes alone: a recorded program repeats them."""
    return notify_created(_copied(array, dtype.compute), "values").to(device=device, dtype=dtype)


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """The array's memory as a tensor.

    Read-only arrays are copied. Raises TypeError for other objects and dtypes, ValueError for negative strides.

    Example:

        >>> import numpy as np
        >>> torch.from_numpy(np.array([1.0, 2.0], dtype=np.float32))
        tensor([1., 2.])
    """
    array = ndarray
    if type(array) is not np.ndarray:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
        array = np.asarray(array)  # of a subclass, or a stand-in while a compiled function is recorded
    shape = _layout_of(array.shape, array.strides, array.dtype)
    if not array.flags.writeable:
        warn_caller(
            "The given NumPy array is not writable: the tensor is a copy of it, and writes to the tensor do not reach "
            "the array."
        )
    if shape is None or not array.flags.behaved:
        kind = dtypes.from_numpy(array.dtype)
        result = from_array(np.array(array, dtype=kind.numpy, order="C", copy=True), kind, ForeignStorage)
    else:
        result = wrap(ForeignStorage(_memory(array, shape)), shape, 0)
    return notify_created(result, "array") if listeners else result


def from_array(array: np.ndarray, kind: DType, storage: type[Storage] = Storage) -> Tensor:
    """A tensor over a writeable, aligned array with non-negative strides of whole elements."""
    size = array.itemsize
    shape = layout(array.shape, kind, _CPU, tuple([s // size for s in array.strides]) if array.size else None)
    return wrap(storage(_memory(array, shape)), shape, 0)


@functools.lru_cache(maxsize=4096)
def _layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> Layout | None:
    """The layout of an array's memory; None where a tensor cannot have such strides or bytes in this order."""
    kind, size = dtypes.from_numpy(dtype), dtype.itemsize
    if min(strides, default=0) < 0:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "supported. Make a copy with array.copy()."
        )
    if any(s % size for n, s in zip(shape, strides) if n > 1) or not dtype.isnative:
        return None
    return layout(shape, kind, _CPU, tuple([s // size for s in strides]) if 0 not in shape else None)


def _memory(array: np.ndarray, array_layout: Layout) -> np.ndarray:
    """The memory range an array of this layout touches, as one flat array that keeps the array alive."""
    if array_layout.dense:
        return np.ndarray((array_layout.extent,), array_layout.storage, array)
    return np.lib.stride_tricks.as_strided(array.view(array_layout.storage), (array_layout.extent,), (array.itemsize,))


def _copied(array: np.ndarray, kind: DType) -> Tensor:
    """A tensor of `kind`, which NumPy has, with the numbers of an array; integers are taken modulo its range, as in
    PyTorch.
    """
    result_layout = layout(array.shape, kind, _CPU)
    memory = _CPU.empty(result_layout.size, result_layout.storage)
    numbers = (memory if result_layout.storage is kind.numpy else memory.view(kind.numpy)).reshape(array.shape)
    if array.dtype is kind.numpy:
        numbers[...] = array
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            numbers[...] = array
    return wrap(Storage(memory), result_layout, 0)
