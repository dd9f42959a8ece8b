"""Parameter and Buffer, which a Module registers on assignment, and their uninitialized forms for lazy modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..core import Tensor, empty
from ..core.overrides import _disabled_torch_function_impl, overrides
from ..core.tensor import FIELDS, fields_of, own_attributes

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


class _Marked(type):
    """The metaclass of Parameter and Buffer. Marked tensors of classes that override functions count as instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), cls) or (
            isinstance(instance, Tensor) and cls.__dict__.get("_mark") in fields_of(instance)
        )

    def _marked(cls, data: Tensor, requires_grad: bool) -> Tensor:
        """The detached data with the mark. Raises RuntimeError if `detach` returns another class."""
        result = data.detach().requires_grad_(requires_grad)
        if type(result) is not type(data):
            raise RuntimeError(
                f"Creating a {cls.__name__} from an instance of type {type(data).__name__} requires that detach() "
                "returns an instance of the same type, "
                f"but return type {type(result).__name__} was found instead"
            )
        fields_of(result)[cls._mark] = True
        return result


class Parameter(Tensor, metaclass=_Marked):
    """A trainable tensor: assigned to a Module, it becomes part of `parameters()`.

    It shares the memory of `data`, detached from its history. If the class of `data` overrides functions, the result
    has that class. Without data the shape is (0,). Raises RuntimeError if an integer tensor requires gradients.

    Example:

        >>> nn.Parameter(torch.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    __torch_function__ = _disabled_torch_function_impl  # results of operations on parameters are plain tensors

    _mark = "_is_param"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if overrides(type(data)) and isinstance(data, Tensor):
            return cls._marked(data, requires_grad)
        return _tensor_for(cls, data)._alias(cls).requires_grad_(requires_grad)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # `__new__` has done everything; Tensor's constructor must not see the arguments
        pass

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict) -> Parameter:
        """A Parameter with its own values; the gradient is not copied, as in PyTorch."""
        if id(self) not in memo:
            result = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = result
            fields_of(result).update(copy.deepcopy(own_attributes(self), memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        return _rebuild, (type(self), self._alias(Tensor), {"requires_grad": self.requires_grad}, own_attributes(self))


class Buffer(Tensor, metaclass=_Marked):
    """A tensor that is state but not trained: assigned to a Module, it becomes part of `buffers()`.

    `persistent=False` excludes it from `state_dict()`. `data` is shared, not copied.

    Example:

        >>> nn.Buffer(torch.zeros(2))
        tensor([0., 0.])
    """

    persistent: bool
    _mark = "_is_buffer"
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        marked = overrides(type(data)) and isinstance(data, Tensor)
        data = _tensor_for(cls, data)
        result = (
            cls._marked(data, data.requires_grad) if marked else data._alias(cls).requires_grad_(data.requires_grad)
        )
        result.persistent = persistent
        return result

    __init__ = Parameter.__init__

    def __deepcopy__(self, memo: dict) -> Buffer:
        if id(self) not in memo:
            result = type(self)(self.detach().clone(), persistent=self.persistent).requires_grad_(self.requires_grad)
            memo[id(self)] = result
            fields_of(result).update(copy.deepcopy(own_attributes(self), memo))
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        data = self._alias(Tensor).requires_grad_(self.requires_grad)
        return _rebuild, (type(self), data, {"persistent": self.persistent}, own_attributes(self))


def _tensor_for(cls: type, data: Any) -> Tensor:
    """The detached tensor for a new Parameter or Buffer."""
    if data is None:
        return empty(0)
    if not isinstance(data, Tensor):
        kind, name = type(data).__name__, cls.__name__
        raise AttributeError(
            f"'{kind}' object has no attribute 'detach': {name} expects a Tensor, got {kind}; try {name}(tensor(...))"
        )
    return data


def _rebuild(cls: type, data: Tensor, settings: dict[str, Any], attributes: dict[str, Any]) -> Tensor:
    result = cls(data, **settings)
    fields_of(result).update(attributes)
    return result


# ---- uninitialized tensors -------------------------------------------------------------------------------------------


class UninitializedTensorMixin:
    """A tensor with a dtype and device but no shape yet; lazy modules have them until their first call.

    It can be moved and converted. Any other use raises ValueError (RuntimeError for the shape), until `materialize`
    turns the same object into an ordinary tensor of class `cls_to_become`.
    """

    cls_to_become: type[Tensor]

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Turn into a tensor of this shape, with uninitialized values."""
        self.data = empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become

    @property
    def data(self) -> Tensor:
        """An empty tensor with the same dtype and device."""
        result = object.__new__(Tensor)
        fields_of(result).update({name: fields_of(self)[name] for name in FIELDS})
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        fields_of(self).update({name: getattr(value, name) for name in FIELDS})

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying "
            "to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters "
            "before accessing "
            "their attributes."
        )

    @property
    def _layout(self) -> Any:
        """Read by every operation; raises."""
        raise ValueError(
            f"Attempted to use an uninitialized {'parameter' if isinstance(self, Parameter) else 'buffer'}. This "
            "error happens when you are "
            f"using a `LazyModule` or explicitly manipulating `nn.parameter.{type(self).__name__}` objects. When "
            "using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling functions on them."
        )

    dtype = property(lambda self: self.data.dtype)
    device = property(lambda self: self.data.device)
    is_cuda = property(lambda self: self.data.is_cuda)

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict) -> Tensor:
        if id(self) not in memo:
            make, arguments = self.__reduce_ex__(4)
            memo[id(self)] = make(*arguments)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        return type(self), (self._requires_grad, str(self.device), self.dtype)


def _of_data(name: str) -> Callable:
    """A method that needs no shape: it runs on the empty `data`."""

    def method(self: UninitializedTensorMixin, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.data, name)(*args, **kwargs)

    method.__name__, method.__doc__ = name, getattr(Tensor, name).__doc__
    return method


for _name in "is_floating_point is_complex to cpu cuda float double half bfloat16 char short int long type".split():
    setattr(UninitializedTensorMixin, _name, _of_data(_name))


def is_lazy(param: Any) -> bool:
    """Whether a value is an UninitializedParameter or UninitializedBuffer."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter that gets its shape later, by `materialize(shape)`.

    Example:

        >>> nn.LazyLinear(3).weight.__class__.__name__
        'UninitializedParameter'
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        result = object.__new__(cls)
        result.data = empty(0, device=device, dtype=dtype)
        result._requires_grad = requires_grad
        return result


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A Buffer that gets its shape later, by `materialize(shape)`.

    Example:

        >>> nn.LazyBatchNorm1d().running_mean.__class__.__name__
        'UninitializedBuffer'
    """

    cls_to_become = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        result = object.__new__(cls)
        result.data = empty(0, device=device, dtype=dtype)
        result._requires_grad, result.persistent = requires_grad, persistent
        return result

    def __reduce_ex__(self, protocol: int) -> tuple:
        make, arguments = super().__reduce_ex__(protocol)
        return make, (*arguments, self.persistent)
