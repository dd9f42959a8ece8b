"""Parametrization: a module's parameter or buffer is computed, at each use, from other tensors by modules.

`register_parametrization` moves the tensor to `module.parametrizations.<name>` as `original` (or `original0`,
`original1`, ...) and replaces it with a property, so the module's forward does not change. `parametrizations.py` has
ready-made parametrizations.
"""

from __future__ import annotations

import copy
import copyreg
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ...autograd import no_grad
from ...core import Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module, detach_computed
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

# ---- each value computed once
# ------------------------------------------------------------------------------------------


class _Cache(threading.local):
    """The values that this thread has computed inside `cached()`.

    The keys are the lists themselves, which are thus kept alive, so that no id is reused.
    """

    depth = 0

    def __init__(self) -> None:
        self.values: dict[ParametrizationList, Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """A context in which every parametrized tensor is computed once, and once more after each assignment to it."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


# ---- the parametrizations of one tensor
# --------------------------------------------------------------------------------


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order of application, and the tensors that the first one starts from.

    They are the `right_inverse` of the former tensor: `original` for one tensor, `original0`, `original1`, ... for
    several.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        inverse = self._inverse_of(original)
        self.is_tensor = isinstance(inverse, Tensor)
        self.ntensors = 1 if self.is_tensor else len(inverse)
        if self.is_tensor:
            self._keep_one(original, inverse)
        else:
            self._keep_several(original, inverse)
        if not unsafe:
            value = self()
            _check_result(
                value, shape, dtype, "tensor, unless `unsafe` flag is enabled", "unparametrized {}", "parametrized {}"
            )

    @no_grad()
    def _inverse_of(self, value: Any) -> Tensor | Sequence[Tensor]:
        """`value` after the `right_inverse` of the parametrizations that have one."""
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    pass
        if not isinstance(value, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(value).__name__}"
            )
        return value

    def _keep_one(self, original: Tensor, inverse: Tensor) -> None:
        """Keep the tensor itself, with the inverse's data, so that an optimizer continues to train it."""
        for attribute in ("dtype", "device"):
            if getattr(original, attribute) != getattr(inverse, attribute):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {attribute}.\n"
                    f"original.{attribute}: {getattr(original, attribute)}\nright_inverse(original).{attribute}: "
                    f"{getattr(inverse, attribute)}"
                )
        _replace_data(original, inverse)
        _register_tensor(self, "original", original)

    def _keep_several(self, original: Tensor, inverse: Sequence[Tensor]) -> None:
        for number, part in enumerate(inverse):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {number} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            _register_tensor(self, f"original{number}", part.requires_grad_(original.requires_grad))

    def originals(self) -> list[Tensor]:
        """The arguments of the first parametrization."""
        return (
            [self.original]
            if self.is_tensor
            else [getattr(self, f"original{number}") for number in range(self.ntensors)]
        )

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`; assignment calls it."""
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        parts = [value] if self.is_tensor else value
        if self.is_tensor:
            self._check_one(value)
        else:
            self._check_several(parts)
        for original, part in zip(self.originals(), parts):
            _replace_data(original, part)

    def _check_one(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            kinds = f"has dtype {value.dtype} while `original` has dtype {self.original.dtype}"
            raise ValueError(f"The tensor returned by `right_inverse` {kinds}")

    def _check_several(self, parts: Any) -> None:
        if not isinstance(parts, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(parts).__name__}.")
        if len(parts) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                f"length {len(parts)}."
            )
        for number, (part, original) in enumerate(zip(parts, self.originals())):
            if not isinstance(part, Tensor):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got element {number} of type "
                    f"{type(part).__name__}"
                )
            if part.dtype != original.dtype:
                kinds = f"has dtype {part.dtype} while `original{number}` has dtype {original.dtype}"
                raise ValueError(f"Tensor {number} returned by `right_inverse` {kinds}")

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        value = self[0](*self.originals())
        for parametrization in islice(self, 1, None):
            value = parametrization(value)
        return value


def _register_tensor(module: Module, name: str, tensor: Tensor) -> None:
    (module.register_parameter if isinstance(tensor, Parameter) else module.register_buffer)(name, tensor)


@no_grad()
def _replace_data(tensor: Tensor, new: Tensor) -> None:
    if new is not tensor:
        tensor.data = new


def _check_result(value: Any, shape: Any, dtype: Any, where: str, before: str, after: str) -> None:
    """Raise unless a parametrization's result has the type, dtype and shape of the tensor that it replaces."""
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for attribute, expected in (("dtype", dtype), ("shape", shape)):
        if getattr(value, attribute) != expected:
            details = f"{before.format(attribute)}: {expected}\n{after.format(attribute)}: {getattr(value, attribute)}"
            raise ValueError(f"Registering a parametrization may not change the {attribute} of the {where}.\n{details}")


# ---- the module's part
# -------------------------------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `module.<tensor_name>`, a parameter or buffer, by `parametrization`, after existing ones.

    A parametrization with a `right_inverse` can be assigned to, and determines the start of training. It may not change
    dtype or shape (ValueError) unless `unsafe`, which also skips the check. Returns the module.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parametrizations = module.parametrizations[tensor_name]
        if not unsafe:
            _check_addition(getattr(module, tensor_name), tensor_name, parametrization)
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
        _cache.values.pop(parametrizations, None)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        base = type_before_parametrizations(module)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = parametrizations
        module.__class__ = _parametrized_class(base, module.parametrizations)
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_addition(value: Tensor, name: str, parametrization: Module) -> None:
    """Raise unless an additional parametrization preserves dtype and shape, and so does its inverse."""
    result, tensor = parametrization(value), f"module.{name}"
    where = "tensor, unless the `unsafe` flag is enabled"
    _check_result(result, value.shape, value.dtype, where, tensor + ".{}", f"parametrization({tensor})" + ".{}")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    for attribute in ("dtype", "shape"):
        if getattr(inverse, attribute) != getattr(value, attribute):
            expected, returned = getattr(value, attribute), getattr(inverse, attribute)
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {attribute} as {tensor}, "
                f"unless the `unsafe` flag is enabled.\n{tensor}.{attribute}: {expected}\nreturned {attribute}: "
                f"{returned}"
            )


def _parametrized_class(base: type[Module], names: Iterable[str]) -> type[Module]:
    """A subclass of `base` with a property for each name.

    It never changes, since deep copies of a module share its class.
    """
    members: dict[str, Any] = {"__getstate__": _refuse_pickling} | {name: _property(name) for name in names}
    if base.__deepcopy__ is Module.__deepcopy__:
        members["__deepcopy__"] = _deepcopy
    return type(f"Parametrized{base.__name__}", (base,), members)


def _property(name: str) -> property:
    def get(self: Module) -> Tensor:
        parametrizations = self.parametrizations[name]
        if not _cache.depth:
            return parametrizations()
        if parametrizations not in _cache.values:
            _cache.values[parametrizations] = parametrizations()
        return _cache.values[parametrizations]

    def assign(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)
        _cache.values.pop(self.parametrizations[name], None)

    return property(get, assign)


def _refuse_pickling(self: Module) -> None:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): save that, and load it into a "
        "module with the same parametrizations."
    )


def _deepcopy(self: Module, memo: dict) -> Module:
    replica = memo[id(self)] = object.__new__(type(self))
    detach_computed(self.__dict__, memo)
    replica.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
    for slot in copyreg._slotnames(type(self)):
        if hasattr(self, slot):
            setattr(replica, slot, copy.deepcopy(getattr(self, slot), memo))
    return replica


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module, or its tensor `tensor_name`, has a parametrization."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again.

    It keeps its value, or with `leave_parametrized=False` that of `original`. Raises ValueError if it has no
    parametrization, or if there are several originals and `leave_parametrized=False`.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    tensor = _tensor_left(module, tensor_name, leave_parametrized)
    base = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    if is_parametrized(module):
        module.__class__ = _parametrized_class(base, module.parametrizations)
    else:
        del module.parametrizations
        module.__class__ = base
    _register_tensor(module, tensor_name, tensor)
    return module


def _tensor_left(module: Module, name: str, leave_parametrized: bool) -> Tensor:
    """The tensor `module.<name>` after removal of its parametrizations; a single original stays the same tensor."""
    parametrizations = module.parametrizations[name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _replace_data(original, getattr(module, name))
        return original
    if not leave_parametrized:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    value = getattr(module, name)
    return Parameter(value) if value.requires_grad else value


def type_before_parametrizations(module: Module) -> type:
    """The class the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations and originals of `from_module`, all or those of one tensor, to `to_module`.

    The originals are shared. Returns `to_module`.
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for kind in ("_parameters", "_buffers"):
            for original, tensor in getattr(source, kind).items():
                setattr(target, original, tensor)
    return to_module
