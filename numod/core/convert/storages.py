"""A tensor's storage seen as elements of a dtype, and PyTorch's classes of such storages by dtype:

`FloatStorage(3)`, `LongStorage([1, 2])`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ... import dtypes
from ...device import Storage
from ...dtypes import dtype as DType
from ..create.creation import empty
from ..create.memory import frombuffer
from ..tensor import Tensor
from ..create.values import tensor


class TypedStorage:
    """A storage seen as elements of a dtype, as `Tensor.storage()` returns it.

    New code uses `untyped_storage()`, which counts bytes.
    """

    quantized: object = None  # the quantized dtype that a file has for the elements
    is_cuda, is_sparse = property(lambda self: self.device.type == "cuda"), False

    def __init__(self, tensor: Tensor) -> None:
        self._storage, self.dtype, self.device = tensor._storage, tensor.dtype, tensor.device
        self._count = tensor._storage.nbytes() // tensor.dtype.itemsize
        self.elements = tensor.detach().as_strided((self._count,), (1,), 0)

    data_ptr = property(lambda self: self._storage.data_ptr)
    nbytes = property(lambda self: self._storage.nbytes)

    def untyped(self) -> Storage:
        """The same memory as bytes."""
        return self._storage

    def size(self) -> int:
        """The number of elements."""
        return self._count

    __len__ = size

    def element_size(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    def tolist(self) -> list:
        """The elements as Python numbers."""
        return self.elements.tolist()

    def is_shared(self) -> bool:
        """Whether processes forked later share it."""
        return self.elements.is_shared()

    def type(self, dtype: str | type | None = None) -> str | TypedStorage:
        """The name of its class, or a copy of another class."""
        if dtype is None:
            return f"numod.{self.dtype.short}Storage"
        kind = BY_NAME[dtype.rpartition(".")[2]] if isinstance(dtype, str) else dtype
        return self.to(kind.dtype)

    def to(self, dtype: DType) -> TypedStorage:
        """A copy with elements of another dtype; itself where they are of this one."""
        return self if dtype is self.dtype else TypedStorage(self.elements.to(dtype))

    def cpu(self) -> TypedStorage:
        """A copy on the CPU; itself if it is there."""
        return self if self.device.type == "cpu" else TypedStorage(self.elements.cpu())

    def cuda(self, device: object = None) -> TypedStorage:
        """A copy on a CUDA device."""
        return TypedStorage(self.elements.cuda(device))

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(self.elements.clone())

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict) -> TypedStorage:
        return memo.setdefault(id(self), self.clone())

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Write the elements of a storage of the same size over these."""
        self.elements.copy_(source.elements)
        return self

    def fill_(self, value: float) -> TypedStorage:
        """Write a number over all elements."""
        self.elements.fill_(value)
        return self

    def __getitem__(self, index: int | slice) -> object:
        return self.elements[index].tolist()

    def __setitem__(self, index: int | slice, value: float) -> None:
        self.elements[index] = value

    def __iter__(self) -> Iterator:
        return iter(self.tolist())

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[numod.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self._count}]"


class _Class(type):
    """Metaclass of the classes by dtype: their instances are the typed storages of that dtype."""

    dtype: DType

    def __call__(cls, *arguments: object, wrap_storage: Storage | None = None) -> TypedStorage:
        """Of uninitialised elements, of a sequence's, or over the bytes of an untyped storage."""
        if len(arguments) > 1 or (arguments and wrap_storage is not None):
            raise RuntimeError(
                f"{cls.__name__} takes nothing, a size, a sequence, or wrap_storage, got {len(arguments)} arguments; "
                "convert elements first"
            )
        if wrap_storage is not None:
            return TypedStorage(empty(0, dtype=dtypes.uint8).set_(_bytes(wrap_storage)).view(cls.dtype))
        (argument,) = arguments or (0,)
        if isinstance(argument, int):
            return TypedStorage(empty(argument, dtype=cls.dtype))
        if not isinstance(argument, Sequence) or isinstance(argument, str):
            raise TypeError(
                f"{cls.__name__}: argument type not recognised: {type(argument).__name__}; give a size or a sequence "
                "of numbers"
            )
        return TypedStorage(tensor(argument, dtype=cls.dtype).reshape(-1))

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, TypedStorage) and value.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    def from_buffer(cls, buffer: object, byte_order: str = "native", count: int = -1, offset: int = 0) -> TypedStorage:
        """The memory of an object with Python's buffer protocol, as elements of this byte order."""
        buffer_tensor = frombuffer(bytearray(memoryview(buffer)), dtype=cls.dtype, count=count, offset=offset)
        values = buffer_tensor._storage.data
        order = {"native": "=", "little": "<", "big": ">"}[byte_order]
        values[...] = values.view(values.dtype.newbyteorder(order))
        return TypedStorage(buffer_tensor)


def _bytes(storage: Storage) -> Tensor:
    """The bytes of a storage as a tensor."""
    from ..create.memory import asarray

    return asarray(storage, dtype=dtypes.uint8)


def _conversion(dtype: DType) -> Callable[[TypedStorage], TypedStorage]:
    def convert(self: TypedStorage) -> TypedStorage:
        """A copy with elements of this dtype; itself where they are of it."""
        return self.to(dtype)

    return convert


for _name in "double float half long int short char byte bool bfloat16 complex_double complex_float".split():
    _dtype = next(value for value in dtypes.ALL.values() if value.short.lower() == _name.replace("_", ""))
    setattr(TypedStorage, _name, _conversion(_dtype))
BY_NAME = {
    f"{value.short}Storage": _Class(f"{value.short}Storage", (),
        {"dtype": value, "__module__": "numod", "__doc__": f"""Storages of {value} elements.

        Example:

            >>> torch.{value.short}Storage(2).dtype
            {value}
        """})
    for value in dtypes.ALL.values() if value.kind != "w"
}  # fmt: skip
globals().update(BY_NAME)
