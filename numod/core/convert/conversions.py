"""Methods that convert a tensor: `float()` and the other dtypes by name, `type`, `cpu`, `cuda`. All go through `to`."""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...device.device import Device
from ...formats import memory_format as MemoryFormat, preserve_format
from ..convert.copies import to
from ..tensor import Tensor

METHODS = "cpu cuda type=type_"


def _conversion(kind: dtypes.dtype) -> Callable:
    def method(self: Tensor, memory_format: object = preserve_format) -> Tensor:
        return (
            self
            if self._layout.dtype is kind and memory_format is preserve_format
            else to(self, kind, memory_format=memory_format)
        )

    method.__doc__ = f"""Converted to {kind.name}; the tensor itself if it has that dtype.

    Example:

        >>> torch.tensor([1, 0]).to(torch.{kind.name}).dtype
        {kind}
    """
    return method


for _name, _kind in {
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "half": "float16",
    "bfloat16": "bfloat16",
    "cfloat": "complex64",
    "cdouble": "complex128",
}.items():
    setattr(Tensor, _name, _conversion(dtypes.ALL[_kind]))


def cpu(self: Tensor, memory_format: MemoryFormat = preserve_format) -> Tensor:
    """The tensor on the CPU; itself if it is there in that memory format.

    Example:

        >>> torch.ones(2).cpu().device
        device(type='cpu')
    """
    return (
        self
        if self._layout.device.type == "cpu" and memory_format is preserve_format
        else to(self, device="cpu", memory_format=memory_format)
    )


def cuda(
    self: Tensor, device: Device | str | int | None = None, non_blocking: bool = False, **kwargs: object
) -> Tensor:
    """The tensor on a CUDA device; itself if it is there.

    From pinned memory with `non_blocking` the program does not wait for the copy.
    """
    return to(self, device="cuda" if device is None else device, non_blocking=non_blocking, **kwargs)


def type_(self: Tensor, dtype: object = None, non_blocking: bool = False) -> str | Tensor:
    """`type()`: the tensor type's name, such as "numod.FloatTensor" or "numod.cuda.FloatTensor".

    `type(dtype)`: the tensor converted to a dtype.

    A type, by name or as a constructor such as `numod.FloatTensor`, says the device too. Raises ValueError for an
    unknown name.

    Example:

        >>> torch.ones(2).type()
        'numod.FloatTensor'
    """
    if dtype is None:
        return f"numod.{'' if self.device.type == 'cpu' else f'{self.device.type}.'}{self.dtype.short}Tensor"
    device = None if dtype is Tensor else getattr(dtype, "device", None)
    dtype = dtypes.get_default_dtype() if dtype is Tensor else getattr(dtype, "dtype", dtype)
    if isinstance(dtype, str):
        kwargs = {f"{value.short}Tensor": value for value in dtypes.ALL.values() if value.kind != "w"}
        module, _, name = dtype.rpartition(".")  # also "torch.FloatTensor"
        if name not in kwargs or not module:
            raise ValueError(
                f"invalid type: {dtype!r}; there are {', '.join(f'numod.{key}' for key in kwargs)}, and numod.cuda's"
            )
        device, dtype = "cuda" if module.endswith(".cuda") else "cpu", kwargs[name]
    return to(self, device=device, dtype=dtype, non_blocking=non_blocking)
