"""`Module.to`, `half`, `cuda` and the like replace the data of parameters and buffers, but not the tensor objects.

A tensor reached twice, under two names or through two modules, is converted once, so that shared tensors stay shared.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from .. import dtypes
from ..autograd import no_grad
from ..core import Tensor, empty_like
from ..device import device as device_type

if TYPE_CHECKING:
    from .module import Module


on_conversion = SimpleNamespace(overwrite=False, swap=False)  # see `__future__`


class Conversion:
    """`convert`, applied to each tensor at most once.

    It is callable, so that it can be passed to an overridden `_apply(self, fn)`.
    """

    def __init__(self, convert: Callable[[Tensor], Tensor]) -> None:
        self.convert = convert
        # by id; the tensor is kept alive, so that its id is not reused
        self.done: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        """The converted tensor, for `_apply` methods that store tensors outside parameters and buffers."""
        return self.convert(tensor)

    def in_place(self, tensor: Tensor) -> Tensor:
        """`tensor` itself with converted data and gradient, or a new tensor for a non-leaf, which keeps its history."""
        if id(tensor) not in self.done:
            self.done[id(tensor)] = tensor, self._convert_in_place(tensor)
        return self.done[id(tensor)][1]

    def renewed(self, tensor: Tensor) -> Tensor:
        """A new object of the tensor's class with the converted data and gradient."""
        if id(tensor) not in self.done:
            with no_grad():
                result = type(tensor)(self.convert(tensor.detach()), requires_grad=tensor.requires_grad)
                result.grad = None if tensor.grad is None else self.convert(tensor.grad)
            self.done[id(tensor)] = tensor, result
        return self.done[id(tensor)][1]

    def _convert_in_place(self, tensor: Tensor) -> Tensor:
        if tensor.grad_fn is not None:
            return self.convert(tensor)
        gradient = tensor.grad
        with no_grad():
            _replace_data(tensor, self.convert(tensor))
            if gradient is not None:
                _replace_data(gradient, self.convert(gradient))
        return tensor


def _replace_data(tensor: Tensor, converted: Tensor) -> None:
    if converted is not tensor:
        tensor.data = converted


def convert_module(module: Module, fn: Callable[[Tensor], Tensor], recurse: bool) -> None:
    """Apply `fn` to the tensors of the module's children, then to its own."""
    conversion = fn if isinstance(fn, Conversion) else Conversion(fn)
    if recurse:
        for child in module.children():
            child._apply(conversion)
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            if tensor is not None:
                converted = (
                    conversion.renewed(tensor)
                    if on_conversion.overwrite and tensors is module._parameters
                    else conversion.in_place(tensor)
                )
                if converted is not tensor:
                    tensors[name] = converted


class Convertible:
    """The methods of Module that move and convert it. All work in place and return the module."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of parameters, gradients and buffers by `fn` of it. The tensors stay the same objects."""
        convert_module(self, fn, recurse)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or convert in place: `to(device)`, `to(dtype)`, `to(device, dtype)` or `to(tensor)`.
        Only floating and complex tensors are converted to a dtype, which must itself be floating or complex
        (TypeError). Parameters and buffers keep their identity, so optimizers stay valid and shared tensors stay
        shared.
        """
        target = parse_to(*args, **kwargs)
        dtype = target.pop("dtype", None)
        if dtype is not None and not dtype.differentiable:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        floating = target if dtype is None else {**target, "dtype": dtype}
        return self._apply(lambda tensor: tensor.to(**(floating if tensor.dtype.differentiable else target)))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to `device` without copying values, which are left undefined."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Move everything to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move everything to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def float(self) -> Self:
        """Convert floating parameters and buffers to float32."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self) -> Self:
        """Convert floating parameters and buffers to float64."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self) -> Self:
        """Convert floating parameters and buffers to float16."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self) -> Self:
        """Convert floating parameters and buffers to bfloat16."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, including integer ones, to a dtype or a type name."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def share_memory(self) -> Self:
        """Move everything into memory shared with processes forked later: an update by one is seen by all."""
        return self._apply(lambda tensor: tensor.share_memory_())


def parse_to(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """The arguments of `to(device, dtype)`, `to(dtype)` or `to(tensor)`, each with `non_blocking`, by name."""
    arguments: dict[str, Any] = {}
    for value in args:
        for name, part in _parts_of(value):
            if name in arguments:
                raise TypeError(f"to(): {name} given twice, {arguments[name]!r} and {part!r}")
            arguments[name] = part
    for name, value in kwargs.items():
        if name == "copy":
            raise RuntimeError(".to() does not accept copy argument")
        if name not in ("device", "dtype", "tensor", "non_blocking", "memory_format"):
            raise TypeError(
                f"to() got an unexpected keyword argument '{name}'; it takes device, dtype, tensor and non_blocking"
            )
        arguments.update(
            _parts_of(value) if name == "tensor" else {name: dtypes.as_dtype(value) if name == "dtype" else value}
        )
    arguments.pop("memory_format", None)  # a layout hint, without effect
    if isinstance(arguments.get("device"), str):
        arguments["device"] = device_type(
            arguments["device"]
        )  # so that a bad name raises even if there is nothing to move
    return {name: value for name, value in arguments.items() if value is not None}


def _parts_of(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Tensor):
        return [("device", value.device), ("dtype", value.dtype)]
    value = dtypes.as_dtype(value) if isinstance(value, type) else value
    if isinstance(value, dtypes.dtype):
        return [("dtype", value)]
    if isinstance(value, bool):
        return [("non_blocking", value)]
    if isinstance(value, (str, int, device_type)):
        return [("device", value)]
    if value is None:
        return []
    raise TypeError(
        f"to() received {type(value).__name__}; expected a device, a dtype or a Tensor, as in to('cpu') or to(float64)"
    )
