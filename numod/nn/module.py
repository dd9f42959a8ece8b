"""Module: the base class of layers and networks. It holds parameters, buffers and submodules, and can be called.

Modules form a tree, and most operations traverse it. This file defines the module and its traversals; hooks are in
`hooks.py` and `calling.py`, state dicts in `state.py`, moving and converting in `conversion.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from .. import notebook
from ..core import Tensor, changes
from ..core.listeners import notify_dropped, with_gradients
from ..errors import warn_caller
from ..graph.compile import compile_in_place
from . import calling, registry, state
from .conversion import Convertible
from .hooks import *  # PyTorch has the registration of global hooks here
from .hooks import KINDS, Hookable, Hooks, passed_through
from .parameter import Buffer, Parameter, is_lazy
from .registry import fields_of
from .state import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys  # noqa: F401  libraries read the key

__all__ = ["Module"]


class Module(Hookable, Convertible, registry.ModuleBase):
    """Base class of all neural network modules.

    Assigning a Parameter, Buffer or Module to an attribute registers it, in `_parameters`, `_buffers` or `_modules`, in
    the order of assignment; `None` may be registered as a placeholder. Call `super().__init__()` before assigning any,
    and define `forward`. `training` is True in training mode, False in evaluation mode.

    Example:

        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 2)
        ...
        ...     def forward(self, x):
        ...         return self.out(torch.relu(self.hidden(x)))
        >>> net = Net()
        >>> net(torch.ones(3, 4)).shape
        numod.Size([3, 2])
        >>> [name for name, _ in net.named_parameters()]
        ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    """

    training: bool
    dump_patches: bool = False  # a deprecated attribute of PyTorch; nothing reads it
    # whether Module.__init__ passes its arguments on to the next class, for multiple inheritance
    call_super_init: bool = False
    __dict__ = registry.visible_attributes
    _version: int = 1  # saved in `_metadata`, so that `_load_from_state_dict` can recognise older state dicts

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise TypeError(_unexpected_arguments(type(self).__name__, args, kwargs))
        fields = fields_of(self)
        fields["training"] = True
        for name in registry.NAMES:
            registry.adopt(self, name, {})
        fields["_non_persistent_buffers_set"] = set()
        fields["_is_full_backward_hook"] = None
        for name in KINDS:
            fields[name] = Hooks()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        registry.show_visible_attributes(cls)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output. Every subclass defines it.

        Call the module itself, not `forward`, so that hooks run.
        """
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if Hooks.in_use and calling.watch_calls(self):
                return calling.call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except calling.NOTED as error:
            calling.note_module(error, Module.__call__.__code__)
            raise

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's `forward` in place, with the arguments of `numod.compile`."""
        compile_in_place(self, *args, **kwargs)

    # ---- attributes --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        changes.note(name)
        fields = fields_of(self)
        if "_modules" not in fields:
            if isinstance(value, (Parameter, Buffer, Module)):
                if isinstance(value, Parameter):
                    kind = "parameters"
                elif isinstance(value, Buffer):
                    kind = "buffer"
                else:
                    kind = "module"
                raise AttributeError(
                    f"cannot assign {kind} before Module.__init__() call; begin __init__ with super().__init__()"
                )
            super().__setattr__(name, value)
        elif ((tensor := isinstance(value, Tensor)) and isinstance(value, Parameter)) or name in fields["_parameters"]:
            # the isinstance check is the slower one
            self._set_parameter(name, value)
        elif isinstance(value, Module) or name in fields["_modules"]:
            self._set_module(name, value)
        elif (tensor and isinstance(value, Buffer)) or name in fields["_buffers"]:
            self._set_buffer(name, value)
        elif isinstance(value, (list, dict)):
            self._set_container(name, value)
        else:
            super().__setattr__(name, value)

    def _set_parameter(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Parameter):
            kind = type(value).__name__
            message = f"cannot assign '{kind}' as parameter '{name}' (nn.Parameter or None expected)"
            raise TypeError(f"{message}; wrap it in nn.Parameter, or change the values in place: {name}.copy_(...)")
        self._forget(name, "_parameters")
        self.register_parameter(name, value)

    def _set_module(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Module):
            raise TypeError(
                f"cannot assign '{type(value).__name__}' as child module '{name}' (nn.Module or None expected); del "
                "it first"
            )
        self._forget(name, "_modules")
        self._modules[name] = passed_through("module", self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            kind = type(value).__name__
            raise TypeError(
                f"cannot assign '{kind}' as buffer '{name}' (nn.Buffer, Tensor or None expected); del it first"
            )
        if value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set:
            self.register_buffer(name, value)
        else:
            self.register_buffer(name, value, persistent=False)

    def _set_container(self, name: str, value: list | dict) -> None:
        if name in registry.NAMES:  # user code does replace these
            registry.adopt(self, name, value)
            return
        super().__setattr__(name, value)
        if type(value) in (list, dict) and not name.startswith("__"):
            registry.notice_container(self, name, value, (Module, Parameter))

    def _forget(self, name: str, keep: str) -> None:
        """Remove an attribute or entry called `name`, before it becomes an entry of the registry `keep`."""
        fields = fields_of(self)
        for kind in registry.NAMES:
            if kind != keep and name in fields[kind]:
                del fields[kind][name]
        fields["_non_persistent_buffers_set"].discard(name)
        if name in fields and fields[name] is not fields[keep].get(name, fields):
            del fields[name]

    def __getattr__(self, name: str) -> Any:
        """Called only if ordinary lookup fails, as for a missing name or a property that raised AttributeError."""
        fields = fields_of(self)
        for kind in registry.NAMES:
            if name in fields.get(kind, ()):
                return fields[kind][name]
        if hasattr(type(self), name):
            # a property that raised AttributeError: raise its error again
            return object.__getattribute__(self, name)
        hint = "" if "_modules" in fields or name.startswith("__") else "; has super().__init__() been called?"
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __delattr__(self, name: str) -> None:
        changes.note()
        for kind in registry.NAMES:
            if name in fields_of(self).get(kind, ()):
                del fields_of(self)[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    # ---- registration ------------------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, accessible as an attribute; None is a placeholder.

        Raises KeyError for an invalid or existing name.
        """
        self._check_entry("parameter", name)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type(param).__name__}' object to parameter '{name}' (nn.Parameter or None "
                    "required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Parameters are made, not computed; "
                    f"to have '{name}' as a function of another tensor, compute it in forward()."
                )
            param = passed_through("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; None is a placeholder.

        `persistent=False` excludes it from `state_dict`.
        """
        self._check_entry("buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (Tensor or None required)"
            )
        self._buffers[name] = passed_through("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, accessible as an attribute; None is a placeholder.

        Raises KeyError for an invalid or existing name.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_entry("module", name)
        self._modules[name] = passed_through("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """An alias of `add_module`."""
        self.add_module(name, module)

    def _check_entry(self, kind: str, name: str) -> None:
        fields = fields_of(self)
        if "_modules" not in fields:
            raise AttributeError(
                f"cannot assign {kind} before Module.__init__() call; begin __init__ with super().__init__()"
            )
        _check_name(kind, name)
        if name not in fields[f"_{kind}s"] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ---- traversals --------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all submodules with their dotted names, parents first. Modules in `memo` are skipped."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all submodules, each once, parents first."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The immediate submodules with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The immediate submodules, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        members: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """The entries that `members` returns for each module, with dotted names, without None."""
        seen = set()
        for path, module in (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        ):
            for name, member in members(module):
                if member is not None and id(member) not in seen:
                    if remove_duplicate:
                        seen.add(id(member))
                    yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names. A shared one comes once, unless `remove_duplicate=False`."""
        registry.notice_filled_containers((Module, Parameter))
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once, as optimizers expect them; `recurse=False` excludes those of submodules."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted names. A shared one comes once, unless `remove_duplicate=False`."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module with a dotted name; `""` is this one. Raises AttributeError if there is none."""
        module = self
        for name in target.split(".") if target else ():
            module = module._get_part(name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted name whose parent exists; with `strict` it must replace a module."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(parent._get_part(name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with a dotted name. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        parameter = self.get_submodule(path)._get_part(name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with a dotted name. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = module._get_part(name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def _get_part(self, name: str) -> Any:
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        return getattr(self, name)

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every submodule, children first, and on this module last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` on this module and all submodules. Dropout and normalization layers depend on it."""
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        if getattr(self, "training", None) is not mode:  # compiled functions check their state again after a write
            self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode; equivalent to `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters: `requires_grad_(False)` freezes the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero with `set_to_none=False`."""
        for parameter in self.parameters():
            if set_to_none:
                notify_dropped(parameter)
                parameter.grad = None
            elif with_gradients([parameter]):
                if parameter.grad.requires_grad:
                    parameter.grad = parameter.grad.detach()
                parameter.grad.zero_()

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers under their dotted names, sharing memory with the module.

        They are detached unless `keep_vars`. `destination` is filled and returned if given.
        """
        if args:  # deprecated, in the order of the keywords
            warn_caller("Positional args are being deprecated, use kwargs instead.", FutureWarning)
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        return state.collect(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values by name, or use the dictionary's tensors themselves with `assign=True`. Tied tensors stay tied.

        With `strict` the keys must match exactly. Raises one RuntimeError that lists all missing, unexpected and
        mismatched keys.
        """
        return state.load(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Write this module's own state; overridden by modules with a different format."""
        state.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Read this module's own state; overridden by modules with a different format."""
        state.load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    @state.left_to_subclasses
    def get_extra_state(self) -> Any:
        """Additional state of a subclass for the state dict. Define it together with `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} defines set_extra_state but not get_extra_state; define both")

    @state.left_to_subclasses
    def set_extra_state(self, state: Any) -> None:
        """Restore the state that `get_extra_state` returned."""
        raise RuntimeError(f"{type(self).__name__} defines get_extra_state but not set_extra_state; define both")

    # ---- copies ------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        fields = dict(fields_of(self))
        for kind in registry.NAMES:
            fields[kind] = dict(fields.get(kind, {}))
            for name, value in fields[kind].items():
                registry.remove_copy(fields, name, value)
        return fields

    def __setstate__(self, state: dict[str, Any]) -> None:
        fields = fields_of(self)
        fields.update(state)
        for kind in registry.NAMES:
            registry.adopt(self, kind, fields.get(kind, {}))
        for kind in KINDS:
            fields.setdefault(kind, Hooks())
        fields.setdefault("_non_persistent_buffers_set", set())

    def __deepcopy__(self, memo: dict) -> Self:
        """A copy with its own tensors. Non-leaf tensors kept from a call are copied without their history."""
        detach_computed(fields_of(self), memo)
        make, arguments, values, *_ = (*self.__reduce_ex__(4), None)
        result = make(*copy.deepcopy(arguments, memo))
        memo[id(self)] = result
        if values is not None:
            result.__setstate__(copy.deepcopy(values, memo))
        return result

    # ---- text --------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the parentheses of the module's repr; one line, or several."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n")
        children = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        if not children and len(extra) == 1:
            return f"{self._get_name()}({extra[0]})"
        return "\n  ".join([f"{self._get_name()}(", *(extra if extra != [""] else []), *children]) + "\n)"

    def _repr_html_(self) -> str:
        return self._as_tree("")

    def _as_tree(self, name: str) -> str:
        """The module and its submodules for a notebook; the submodules of the first level are open."""
        count = sum(parameter.numel() for parameter in self.parameters() if not is_lazy(parameter))
        children = [(key, module) for key, module in self._modules.items() if module is not None]
        title = f"{name and f'({name}) '}{self._get_name()}({self.extra_repr()})"
        inner = "".join(module._as_tree(key) for key, module in children)
        return notebook.tree(title + (f"  {count:,} parameters" if count else ""), inner, is_open=not name)


def indent(text: str) -> str:
    """`text` with every line but the first indented by two spaces."""
    first, *rest = text.split("\n")
    return "\n".join([first, *("  " + line if line.strip() else "" for line in rest)])


def _check_name(kind: str, name: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _unexpected_arguments(name: str, args: tuple, kwargs: dict[str, Any]) -> str:
    if kwargs:
        return f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
    return f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"


def detach_computed(fields: dict[str, Any], memo: dict) -> None:
    """Put detached copies into a deepcopy's memo for all non-leaf tensors in `fields` and its containers."""
    seen, waiting = set(), [fields]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            if value.grad_fn is not None and id(value) not in memo:
                memo[id(value)] = value.detach().clone()
        elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value.values() if isinstance(value, dict) else value)
