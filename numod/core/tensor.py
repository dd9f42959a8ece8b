"""Tensor: a layout over a storage, with the state of autograd. Other files of `core` add the operations.

Every tensor has the fields `_storage` (shared with views), `_layout` and `_offset` (elements into the storage). Others
are set if they differ from the class's defaults: `_node` and `_output` (the tape's node that computed the tensor, and
the number of the result), `_base` (the base of a view).
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import Layout, Size, Storage
from ..device.device import Device
from ..device.storage import UncountedWrites
from ..dtypes import dtype as DType
from ..errors import normalize_dim, warn_caller
from . import changes
from .attribute_view import AttributeView


class DataVersionCounter(UncountedWrites):
    """The version counter of a tensor returned by `.data`: its writes are not counted by the storage."""

    __slots__ = ("storage", "writes")

    def __init__(self, storage: Storage) -> None:
        self.storage, self.writes = storage, 0

    @property
    def version(self) -> int:
        """The number of writes through the tensor and by the storage. A saved tensor is stale after either."""
        return self.writes + self.storage.version

    @version.setter
    def version(self, value: int) -> None:
        self.writes = value - self.storage.version
        self.note(self.storage)


class TensorBase:
    """The object whose dictionary holds a tensor's fields and the attributes that users set.

    `Tensor.__dict__` shows only the attributes, as in PyTorch.
    """


fields_of = vars(TensorBase)["__dict__"].__get__  # the whole dictionary of a tensor


class TensorAttributes(AttributeView):
    """The attributes that user code has set on a tensor."""

    __slots__ = ()

    def is_hidden(self, name: str, value: object) -> bool:
        return name in FIELDS or hasattr(Tensor, name)


class Tensor(TensorBase):
    """An n-dimensional array of one dtype on one device. Operations on it are recorded if it requires a gradient.

    Create tensors with `numod.tensor`, `numod.zeros` and similar functions. `Tensor(2, 3)` is uninitialised,
    `Tensor([1, 2])` holds the values.

    Example:

        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> (x @ x).sum().backward()
        >>> x.grad
        tensor([[ 7., 11.],
                [ 9., 13.]])
    """

    _offset = 0
    _requires_grad = False
    _grad: Tensor | None = None
    _node: object | None = None
    _output = 0
    _base: Tensor | None = None
    _hooks: dict | None = None
    _after_hooks: dict | None = None  # called with a leaf after accumulating its gradient
    _finish_early = False  # whether a backward pass accumulates the leaf's gradient before it ends
    _end: Callable | None = None  # returns the leaf's AccumulateGrad
    _inference = False
    _grad_dtype: tuple[DType | None] | None = None  # the value set as `grad_dtype`
    _retains_grad = False
    _seen = 0  # of a view: the storage's version at which its node was created
    _in_snapshot = False  # whether compiled functions depend on its memory
    # of a view whose writes cannot be recorded: True if it or its base view was created under `no_grad`, or the name of
    # the function that returned it with other views
    _unrecorded: bool | str = False
    # increments of the storage's version by assignments to `data`, which are no writes but invalidate saved values
    _unseen = 0
    _derived: dict | None = None  # values computed of its data, by `derived`
    _version_counter: DataVersionCounter | None = None  # the version counter of a tensor returned by `.data`
    __array_priority__ = 1000  # so that NumPy leaves `array + tensor` to `Tensor.__radd__`

    def __new__(cls, *arguments: object, **options: object) -> Tensor:
        return cls._construct(*arguments, **options)

    _construct: Callable  # set by `creation`
    _modes: object  # the thread's modes; set by `apply`

    @property
    def __dict__(self) -> dict[str, object]:
        """The attributes that user code has set on the tensor."""
        return TensorAttributes(fields_of(self))

    @__dict__.setter
    def __dict__(self, values: dict[str, object]) -> None:
        attributes, values = self.__dict__, dict(values)
        attributes.clear()
        attributes.update(values)

    # ---- shape, dtype and device

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return self._layout.shape

    def size(self, dim: int | None = None) -> Size | int:
        """All sizes, or the size of one dimension.

        Example:

            >>> torch.ones(2, 3).size(), torch.ones(2, 3).size(1)
            (numod.Size([2, 3]), 3)
        """
        return self._layout.shape if dim is None else self._layout.shape[_dim(dim, self)]

    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Strides of the dimensions, or of one, in elements.

        Example:

            >>> torch.ones(2, 3).stride()
            (3, 1)
        """
        return self._layout.strides if dim is None else self._layout.strides[_dim(dim, self)]

    def storage_offset(self) -> int:
        """Offset of the first element in the storage, in elements.

        Example:

            >>> torch.arange(4)[2:].storage_offset()
            2
        """
        return self._offset

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._layout.dtype

    @property
    def device(self) -> Device:
        """The device the elements are on."""
        return self._layout.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._layout.ndim

    def dim(self) -> int:
        """The number of dimensions.

        Example:

            >>> torch.ones(2, 3).dim()
            2
        """
        return self._layout.ndim

    def numel(self) -> int:
        """The number of elements.

        Example:

            >>> torch.numel(torch.ones(2, 3))
            6
        """
        return self._layout.size

    nelement = numel
    ndimension = dim

    def element_size(self) -> int:
        """Bytes per element.

        Example:

            >>> torch.ones(2).element_size()
            4
        """
        return self._layout.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self._layout.size * self._layout.dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return self._layout.dense

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating one.

        Example:

            >>> torch.is_floating_point(torch.tensor([1.0]))
            True
        """
        return self._layout.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex one.

        Example:

            >>> torch.is_complex(torch.tensor(1j))
            True
        """
        return self._layout.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers.

        Example:

            >>> torch.is_signed(torch.tensor([1], dtype=torch.uint8))
            False
        """
        return self._layout.dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a CUDA device."""
        return self._layout.device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        """Whether it is on the device `meta`: it has a shape and dtype, but no data."""
        return self._layout.device.type == "meta"

    def is_inference(self) -> bool:
        """Whether it was created in inference mode.

        Example:

            >>> torch.is_inference(torch.ones(2))
            False
        """
        return self._inference

    @property
    def _version(self) -> int:
        """Number of in-place writes to the storage, or through `.data` and its views."""
        if self._inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version - self._unseen if self._version_counter is None else self._version_counter.writes

    def data_ptr(self) -> int:
        """Address of the first element.

        Example:

            >>> torch.ones(2).data_ptr() % 4
            0
        """
        return self._storage.data_ptr() + self._offset * self._layout.dtype.itemsize

    # ---- autograd

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor. Can be set on leaves of floating or complex dtype."""
        return self._requires_grad or (self._node if self._base is None else self._made_by) is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        if self.grad_fn is not None and not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't "
                "require differentiation use var_no_grad = var.detach()."
            )
        if value and not self.dtype.differentiable:
            raise RuntimeError(
                f"only Tensors of floating point and complex dtype can require gradients, got {self.dtype}"
            )
        if value and self._inference and not Tensor._modes.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. Clone it first."
            )
        if self._in_snapshot and bool(value) is not self._requires_grad:
            changes.note()
        self._requires_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` and return self.

        Example:

            >>> torch.ones(2).requires_grad_()
            tensor([1., 1.], requires_grad=True)
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{type(requires_grad).__name__}"
            )
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it is not the result of a recorded operation."""
        return self._made_by is None

    @property
    def grad_fn(self) -> object | None:
        """The node that computed this tensor, of a class such as `AddBackward0`; None for leaves."""
        node = self._made_by
        return None if node is None else node.with_class_name()

    @property
    def _made_by(self) -> object | None:
        """The node that computed this tensor, of any class. Faster than `grad_fn`."""
        if self._base is not None and self._seen != (self._version_counter or self._storage).version:
            Tensor._renew(self)
        return self._node

    _renew: Callable  # updates a view's node after writes to its storage; set by `autograd`

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the results of its node."""
        return self._output

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a tensor with `retain_grad()`.

        For other tensors it is None, with a warning.
        """
        if self._grad is None and self._node is not None and not self._retains_grad:
            warn_caller(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being "
                "accessed. Its .grad attribute won't be populated during autograd.backward(). "
                "If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
                "non-leaf Tensor."
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value.shape != self.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                    f"'{list(self.shape)}'. "
                    "Please ensure that the gradient and the tensor are the same size"
                )
            (expected,) = self._grad_dtype or (self.dtype,)
            if (expected is not None and value.dtype is not expected) or value.device is not self.device:
                raise RuntimeError(
                    f"attempting to assign a gradient with dtype '{value.dtype}' on {value.device} to a tensor with "
                    f"grad_dtype '{expected}' on {self.device}; "
                    "set grad_dtype, or convert the gradient with .to()"
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def grad_dtype(self) -> DType | None:
        """The dtype of a leaf's gradient, its own unless it was set; None allows any."""
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
        return (self._grad_dtype or (self.dtype,))[0]

    @grad_dtype.setter
    def grad_dtype(self, value: DType | None) -> None:
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        if not (value is None or isinstance(value, DType)):
            raise RuntimeError(f"grad_dtype must be a numod.dtype or None, but got {type(value).__name__}")
        if value is not None and self._grad is not None and self._grad.dtype is not value:
            raise RuntimeError(
                f"Cannot set grad_dtype to '{value}' because there is already a gradient with dtype "
                f"'{self._grad.dtype}'. Please clear the gradient "
                "(.grad = None) before changing grad_dtype, or ensure the new grad_dtype matches the existing "
                "gradient's dtype."
            )
        self._grad_dtype = (value,)

    def _is_view(self) -> bool:
        return self._base is not None

    @property
    def retains_grad(self) -> bool:
        """Whether a computed tensor keeps its gradient."""
        return self._retains_grad

    @property
    def data(self) -> Tensor:
        """A detached tensor over the same memory, whose writes autograd does not notice.

        Assigning replaces memory, shape and dtype but keeps the tensor's identity.
        """
        result = self._alias(Tensor)
        result._version_counter = DataVersionCounter(self._storage)
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data must be a Tensor, got {type(value).__name__}")
        if self._requires_grad and not value.dtype.differentiable:
            raise RuntimeError(
                f"data set to a tensor that requires gradients must be floating point, got {value.dtype}"
            )
        changes.note()
        version = (self._version_counter or self._storage).version
        writes = self._storage.version - self._unseen if self._version_counter is None else self._version_counter.writes
        self._version_counter = None
        self._storage, self._layout, self._offset, self._base = value._storage, value._layout, value._offset, None
        value_version = self._storage.version
        self._storage.version = new_version = max(version, value_version) + 1  # values saved for backward become stale
        value._unseen += new_version - value_version
        self._unseen = new_version - writes

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def _alias(self, cls: type | None = None) -> Tensor:
        """A new tensor over the same memory and version counter, without history."""
        result = object.__new__(cls or Tensor)
        result._storage, result._layout, result._offset = self._storage, self._layout, self._offset
        if self._version_counter is not None:
            result._version_counter = self._version_counter
        return result

    @staticmethod
    def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Tensor:
        """An object of a subclass over the memory of `data`, without history."""
        return data._alias(cls).requires_grad_(require_grad)

    def detach(self) -> Tensor:
        """A tensor over the same memory, detached from the graph.

        Example:

            >>> torch.detach(torch.ones(2, requires_grad=True))
            tensor([1., 1.])
        """
        result = self._alias(Tensor) if self._layout.batch is None else self._layout.batch.detached(self)
        result._inference = self._inference
        return result

    def detach_(self) -> Tensor:
        """Detach this tensor itself from the graph.

        Example:

            >>> x = torch.ones(2, requires_grad=True) * 2
            >>> x.detach_().requires_grad
            False
        """
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead")
        self._node, self._requires_grad = None, False
        return self

    # ---- protocols

    def __len__(self) -> int:
        if not self._layout.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self._layout.shape[0]

    __hash__ = object.__hash__

    def __setstate__(self, fields: dict) -> None:
        fields_of(self).update(fields)


FIELDS = ("_storage", "_layout", "_offset")  # the fields that every tensor has in its dictionary


def own_attributes(tensor: Tensor) -> dict[str, object]:
    """A copy of the attributes that user code has set on the tensor."""
    return TensorAttributes(fields_of(tensor)).copy()


def _dim(dim: int, tensor: Tensor) -> int:
    return normalize_dim(dim, tensor._layout.ndim)


def wrap(storage: Storage, layout: Layout, offset: int) -> Tensor:
    """A tensor with this layout over a storage."""
    result = object.__new__(Tensor)
    result._storage, result._layout, result._offset = storage, layout, offset
    return result
