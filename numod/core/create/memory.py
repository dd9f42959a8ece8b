"""New tensors over existing memory (arrays, buffers), or with explicit strides. Those from values are in `creation`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from mmap import ACCESS_COPY, ACCESS_WRITE, mmap

import numpy as np

from ...errors import warn_caller
from ... import dtypes
from ...device import Storage
from ...device.device import Device
from ...device.storage import ForeignStorage, SharedStorage, read_as
from ...dtypes import dtype as DType
from ...formats import layout as Layout, strided
from .creation import empty
from ..tensor import Tensor
from .values import as_tensor, from_array, is_exported


def asarray(
    obj: object,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """`obj` as a tensor; `copy=True` forces a copy, `copy=False` raises ValueError where one would be needed.

    The elements of a buffer or a storage are of `dtype`.

    `requires_grad` None keeps the history of a tensor, False detaches it.

    Example:

        >>> torch.asarray([1, 2, 3])
        tensor([1, 2, 3])
    """
    if isinstance(obj, (bytes, bytearray, memoryview)):
        obj = frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())
    if isinstance(obj, Storage):
        obj = as_tensor(read_as(obj, np.dtype(np.uint8)).data).view(
            dtypes.as_dtype(dtype) or dtypes.get_default_dtype()
        )
    elif is_exported(obj):
        obj = as_tensor(obj)
    result = as_tensor(obj, dtype=dtype, device=device)
    if copy and isinstance(obj, (Tensor, np.ndarray)) and _shares(result, obj):
        result = result.clone()
    if copy is False and not (isinstance(obj, (Tensor, np.ndarray)) and _shares(result, obj)):
        if isinstance(obj, np.generic):
            raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.")
        raise ValueError("can't alias arbitrary sequence into a tensor; pass copy=None or copy=True")
    if requires_grad is None:
        return result
    return result.requires_grad_() if requires_grad else result.detach()


def _shares(result: Tensor, source: Tensor | np.ndarray) -> bool:
    address = source.data_ptr() if isinstance(source, Tensor) else source.ctypes.data
    return result.data_ptr() == address


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    layout: Layout | None = strided,
    device: Device | str | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uninitialised memory with the given sizes and strides.

    Example:

        >>> torch.empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if min(stride, default=0) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    needed = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if prod(size) else 0
    result = empty(needed, dtype=dtype, device=device).as_strided(size, stride).detach()
    return result.requires_grad_() if requires_grad else result


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: object) -> Tensor:
    """Uninitialised memory in which the dimensions lie in the given order.

    Example:

        >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
        (12, 1, 3)
    """
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; got size {list(size)} "
            f"and layout {list(physical_layout)}"
        )
    order = sorted(range(len(size)), key=list(physical_layout).__getitem__)
    return empty([size[d] for d in physical_layout], **options).permute(order).detach()


def frombuffer(
    buffer: object, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """The memory of any object with Python's buffer protocol, in one dimension. Read-only memory is copied.

    Example:

        >>> torch.frombuffer(bytearray(b"ab"), dtype=torch.uint8)
        tensor([97, 98], dtype=numod.uint8)
    """
    size = memoryview(buffer).nbytes
    if not size or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({size}) minus 1, but got: {offset}"
        )
    if count < 0 and (size - offset) % dtype.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({dtype.itemsize})"
        )
    if count > 0 and offset + count * dtype.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset "
            f"({offset} bytes) must not be greater than actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(buffer, dtype.storage, count, offset)
    if not array.flags.writeable:
        warn_caller(
            "The given buffer is not writable: the tensor is a copy of it, and writes to the tensor do not reach the "
            "buffer."
        )
    result = from_array(array if array.flags.writeable else array.copy(), dtype, ForeignStorage)
    return result.requires_grad_() if requires_grad else result


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Device | str | None = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """The first `size` elements of a file, mapped: they are read when something looks at them.

    With `shared` writes go to the file, which is made where it is missing and as long as needed; otherwise they stay in
    memory. Raises RuntimeError for a file that cannot be opened or is too short.

    Example:

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
        >>> torch.from_file(path, shared=True, size=2).fill_(3.0)
        tensor([3., 3.])
    """
    dtype = dtypes.as_dtype(dtype) or dtypes.get_default_dtype()
    if not size:
        return empty(0, dtype=dtype, requires_grad=requires_grad)
    length = size * dtype.itemsize
    try:
        with open(filename, "a+b" if shared else "rb") as file:
            result = file.seek(0, 2)
            if result < length and not shared:
                raise RuntimeError(
                    f"from_file(): {size} elements of {dtype} are {length} bytes, but {filename} has {result}"
                )
            if result < length:
                file.truncate(length)
            memory = mmap(file.fileno(), length, access=ACCESS_WRITE if shared else ACCESS_COPY)
    except OSError as error:
        raise RuntimeError(
            f"unable to open file <{filename}> in {'read-write' if shared else 'read-only'} mode: {error}"
        ) from None
    result = frombuffer(memory, dtype=dtype)
    result = result if device is None else result.to(device=device)
    return result.requires_grad_() if requires_grad else result


def _storage_of_file(filename: str, shared: bool = False, nbytes: int = 0) -> Storage:
    """The first bytes of a file, mapped as by `from_file`."""
    return from_file(filename, shared, nbytes, dtype=dtypes.uint8)._storage


def _bytes_of(self: Storage, index: int | slice) -> int | Storage:
    """A byte, or a storage over a run of bytes."""
    whole = read_as(self, np.dtype(np.uint8))
    if not isinstance(index, slice):
        return int(whole.data[index])
    if index.step not in (None, 1):
        raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
    return SharedStorage(whole.data[index], whole.owner)


# what loaders of files call
Storage.from_file, Storage.__getitem__ = staticmethod(_storage_of_file), _bytes_of
Storage.untyped, Storage.tolist, Storage.element_size = (lambda self: self), (lambda self: [*self]), (lambda self: 1)
