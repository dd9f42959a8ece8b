"""Parametrization: a parameter or buffer of a module computed, at each use, from other tensors by modules of its own.

`register_parametrization` moves the tensor into `module.parametrizations.<name>` as `original` (or `original0`,
`original1` …) and puts a property in its place, so the module's forward does not notice. Ready-made parametrizations
are in `parametrizations.py`.
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
    """What this thread has computed inside `cached()`.

    Keyed by the list itself, which it keeps alive, so that no id is used twice.
    """

    depth = 0

    def __init__(self) -> None:
        self.values: dict[ParametrizationList, Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Inside it every parametrized tensor is computed once, at its first use, or once after each assignment to it."""
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
    """The parametrizations of one tensor, in the order they are applied, and the tensors the first of them starts from.

    They are the `right_inverse` of the former tensor: `original` if that gives one tensor, `original0`, `original1` …
    if it gives several.
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
        """`value` taken back through those that can."""
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
        """The tensor itself stays, with the inverse's data: an optimizer that has it goes on training it."""
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(inverse, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {getattr(original, what)}\nright_inverse(original).{what}: "
                    f"{getattr(inverse, what)}"
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
        """The tensors the first parametrization is given."""
        return (
            [self.original]
            if self.is_tensor
            else [getattr(self, f"original{number}") for number in range(self.ntensors)]
        )

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`: what an assignment to it does."""
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
    """A parametrization must give a tensor like the one it stands for."""
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    for what, expected in (("dtype", dtype), ("shape", shape)):
        if getattr(value, what) != expected:
            found = f"{before.format(what)}: {expected}\n{after.format(what)}: {getattr(value, what)}"
            raise ValueError(f"Registering a parametrization may not change the {what} of the {where}.\n{found}")


# ---- the module's part
# -------------------------------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.<tensor_name>`, a parameter or buffer, be computed by `parametrization`, after those it may have.

    Returns the module.

    A parametrization with a `right_inverse` can be assigned to, and says where training starts. It may change neither
    dtype nor shape (ValueError), unless `unsafe`, which also leaves out the call that finds that out.
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
    """One more parametrization must map the tensor to one like it, and back."""
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
    for what in ("dtype", "shape"):
        if getattr(inverse, what) != getattr(value, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as {tensor}, unless "
                "the `unsafe` flag "
                f"is enabled.\n{tensor}.{what}: {getattr(value, what)}\nreturned {what}: {getattr(inverse, what)}"
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
    """Whether the module has a parametrization, or one of that tensor."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again, with the value it has, or with `leave_parametrized=False` that of
    `original`.

    Raises ValueError where it has no parametrization, or where there are several originals to be left as they are.
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
    """What `module.<name>` is to be without its parametrizations. Of a single original, it is that tensor itself."""
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
    """Give `to_module` the parametrizations and originals of `from_module`, all or those of one tensor; they are
    shared. Returns `to_module`.
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
