"""`Module.state_dict` and `Module.load_state_dict`: conversion between a module tree and one flat dictionary.

Keys are the dotted names of `named_parameters` and `named_buffers`; a shared tensor is stored under each of its names.
`serialization/` reads and writes files.
"""

from __future__ import annotations

import os
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import warn_caller
from ..autograd import no_grad
from ..core import Tensor
from .parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from .module import Module

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The result of a load: keys missing from the state dict, and keys the module does not have."""

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


# ---- out
# ---------------------------------------------------------------------------------------------------------------


def collect(module: Module, destination: dict[str, Any] | None, prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Write the state of `module` and all submodules into `destination`."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    return run_post_hooks(module, destination, prefix, metadata) if module._state_dict_hooks else destination


def run_post_hooks(
    module: Module, destination: dict[str, Any], prefix: str, metadata: dict[str, Any]
) -> dict[str, Any]:
    """Run the post hooks. Public ones change the dictionary in place; the private method's may return another."""
    for number, hook in module._state_dict_hooks.items():
        replacement = hook(module, destination, prefix, metadata)
        if replacement is None:
            continue
        if number in module._state_dict_hooks_in_place:
            raise RuntimeError("state_dict post-hook must return None")
        destination = replacement
    return destination


def save_own(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Write the module's own parameters, persistent buffers and extra state, not its children's."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            destination[prefix + name] = _for_state_dict(parameter, keep_vars)
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            destination[prefix + name] = _for_state_dict(buffer, keep_vars)
    if overrides(module, "get_extra_state"):
        destination[prefix + EXTRA_STATE] = module.get_extra_state()


def _for_state_dict(tensor: Tensor, keep_vars: bool) -> Tensor:
    return tensor if keep_vars or is_lazy(tensor) else tensor.detach()


def own_state(module: Module) -> dict[str, Tensor]:
    """The module's own parameters and persistent buffers, without the entries that are None."""
    state = {name: parameter for name, parameter in module._parameters.items() if parameter is not None}
    non_persistent = module._non_persistent_buffers_set
    state.update(
        (name, buffer) for name, buffer in module._buffers.items() if buffer is not None and name not in non_persistent
    )
    return state


def left_to_subclasses(method: Callable) -> Callable:
    """Mark a method that Module declares for subclasses to define."""
    method.left_to_subclasses = True
    return method


def overrides(module: Module, method: str) -> bool:
    """Whether the module's class overrides Module's `method`."""
    return not hasattr(getattr(type(module), method), "left_to_subclasses")


# ---- in
# ----------------------------------------------------------------------------------------------------------------


def load(module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> _IncompatibleKeys:
    """Load `state_dict`, which is not modified, into `module`. All mismatches are collected and raised as one error."""
    if not isinstance(state_dict, Mapping):
        hint = (
            " Read the file first: load_state_dict(numod.load(path))."
            if isinstance(state_dict, (str, os.PathLike))
            else ""
        )
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.{hint}")
    state = OrderedDict(state_dict)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        state._metadata = metadata
    keys, errors = _IncompatibleKeys([], []), []
    _Loading(metadata or {}, assign, keys, errors).fill(module, state, "")
    if strict:
        errors[:0] = (
            _describe("Missing", keys.missing_keys)
            + _describe("Unexpected", keys.unexpected_keys)
            + (_hint_for_missing(keys, state_dict) or _hint_for_form(keys))
        )
    if errors:
        raise RuntimeError(
            "Error(s) in loading state_dict for {}:\n\t{}".format(type(module).__name__, "\n\t".join(errors))
        )
    return keys


def _describe(kind: str, keys: list[str]) -> list[str]:
    return ["{} key(s) in state_dict: {}. ".format(kind, ", ".join(f'"{key}"' for key in keys))] if keys else []


def _hint_for_missing(keys: _IncompatibleKeys, state_dict: Mapping[str, Any]) -> list[str]:
    """A hint about missing entries that exist in a nested dictionary or under a common prefix."""
    wanted = set(keys.missing_keys)
    for key, value in state_dict.items():
        if wanted and isinstance(value, Mapping) and wanted <= value.keys():
            return [f"The missing keys are in its entry {key!r}: load state_dict[{key!r}]. "]
    for key in keys.unexpected_keys:
        cut = next((cut for cut, letter in enumerate(key, 1) if letter == "." and key[cut:] in wanted), 0)
        if cut:
            return [
                f"Its keys begin with {key[:cut]!r}, as those of a wrapped module: "
                "nn.modules.utils.consume_prefix_in_state_dict_if_present removes it. "
            ]
    return []


_FORMS = {  # by form: what to do for a checkpoint of this form, and for a model of this form
    "quantized": (
        "quantize this model in the same way before loading",
        "load it into the float model, then quantize that",
    ),
    "prepared": (
        "prepare this model in the same way before loading, or save the model before it is prepared",
        "load it into the model before it is prepared",
    ),
    "pruned": (
        "prune this model in the same way before loading, or save after prune.remove",
        "load it before pruning",
    ),
    "parametrized": (
        "register the same parametrizations before loading, or save after parametrize.remove_parametrizations",
        "load it before parametrizations are registered",
    ),
}


def _form(keys: list[str]) -> str | None:
    """The form of a model that has these keys and not those of a plain one."""
    names = set(keys)
    parts = {part for key in keys for part in key.split(".")}
    if "weight_fake_quant" in parts or any(part.startswith("activation_post_process") for part in parts):
        return "prepared"
    if "_packed_params" in parts or any(_with_suffix(key, "packed", "scale") in names for key in keys):
        return "quantized"
    if any(_with_suffix(key, "zero_point", "scale") in names for key in keys):
        return "quantized"
    if any(_with_suffix(key, "_orig", "_mask") in names for key in keys):
        return "pruned"
    return "parametrized" if "parametrizations" in parts else None


def _with_suffix(key: str, suffix: str, other: str) -> str | None:
    """A key with another suffix in place of its own."""
    return key.removesuffix(suffix) + other if key.endswith(suffix) else None


def _hint_for_form(keys: _IncompatibleKeys) -> list[str]:
    """A hint about a checkpoint or a model that is quantized, prepared, pruned or parametrized, unlike the other."""
    of_checkpoint, of_model = _form(keys.unexpected_keys), _form(keys.missing_keys)
    if of_checkpoint:
        return [f"The checkpoint is of a {of_checkpoint} model: {_FORMS[of_checkpoint][0]}. "]
    if of_model:
        return [f"The model is {of_model}, and the checkpoint is of one that is not: {_FORMS[of_model][1]}. "]
    return []


class _Loading:
    """One traversal of the module tree that collects mismatches."""

    def __init__(self, metadata: Mapping[str, dict], assign: bool, keys: _IncompatibleKeys, errors: list[str]) -> None:
        self.metadata, self.assign, self.keys, self.errors = metadata, assign, keys, errors
        self.rebound: dict[int, Rebinding] = {}

    def fill(self, module: Module, state: dict[str, Any], prefix: str) -> None:
        metadata = dict(self.metadata.get(prefix[:-1], {}))  # a copy, so that the caller's metadata is not changed
        if self.assign:
            metadata.update(assign_to_params_buffers=True, rebound=self.rebound)
        module._load_from_state_dict(state, prefix, metadata, True, *self.keys, self.errors)
        parts = _split(state, prefix)
        for name, child in module._modules.items():
            if child is not None:
                self.fill(child, parts.get(name, {}), f"{prefix}{name}.")
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, self.keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values; "
                    "to change incompatible_keys, change its lists in place."
                )


def _split(state: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """The entries of each child, by the child's name. Keys keep their prefix."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        name, dot, _ = key[len(prefix) :].partition(".")
        if dot and key.startswith(prefix):
            parts.setdefault(name, {})[key] = value
    return parts


def load_own(
    module: Module,
    state_dict: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    errors: list[str],
) -> None:
    """Load the module's own parameters, buffers and extra state; collect missing keys, unexpected keys, errors."""
    for number, hook in module._load_state_dict_pre_hooks.items():
        owner = (module,) if number in module._load_state_dict_pre_hooks_with_module else ()
        hook(*owner, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, errors)
    state = own_state(module)
    for name, tensor in state.items():
        if prefix + name in state_dict:
            _fill_one(module, name, tensor, prefix + name, state_dict[prefix + name], metadata, errors)
        elif strict:
            missing_keys.append(prefix + name)
    _load_extra_state(module, state_dict, prefix + EXTRA_STATE, strict, missing_keys, unexpected_keys)
    if strict:
        unexpected_keys.extend(
            key for key in state_dict if key.startswith(prefix) and not _expected(module, state, key[len(prefix) :])
        )


def _expected(module: Module, state: dict[str, Tensor], name: str) -> bool:
    """Whether an entry `name` belongs to the module or may belong to one of its children."""
    first, dot, _ = name.partition(".")
    return first in module._modules if dot else name in state or name == EXTRA_STATE


def _load_extra_state(
    module: Module, state_dict: dict, key: str, strict: bool, missing_keys: list, unexpected_keys: list
) -> None:
    if overrides(module, "set_extra_state"):
        if key in state_dict:
            module.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)
    elif strict and key in state_dict:
        unexpected_keys.append(key)


def _fill_one(
    module: Module, name: str, tensor: Tensor, key: str, value: Any, metadata: dict[str, Any], errors: list[str]
) -> None:
    """Copy a value of a state dict into a parameter or buffer, or add an error."""
    if not isinstance(value, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected a Tensor from checkpoint but received {type(value)}'
        )
        return
    if is_lazy(tensor) and is_lazy(value):
        return  # meta tensors have no values
    if is_lazy(tensor):
        tensor.materialize(value.shape)
    if tensor.ndim == 0 and tuple(value.shape) == (1,):
        value = value[0]  # old checkpoints store scalars with shape (1,)
    if value.shape != tensor.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current "
            f"model is {tensor.shape}."
        )
        return
    try:
        if metadata.get("assign_to_params_buffers", False):
            _rebind(module, name, tensor, value, metadata.setdefault("rebound", {}))
        else:
            if tensor.is_meta and not value.is_meta:
                warn_caller(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
                    "current model, which is a no-op. "
                    "(Did you mean to pass `assign=True` to assign items in the state dictionary "
                    "to their corresponding key in the module instead of copying in place?)"
                )
            with no_grad():
                tensor.copy_(value)
    except Exception as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} and '
            f"whose dimensions in the checkpoint are {value.shape}, an exception occurred : {error.args}."
        )


class Rebinding:
    """A tensor that `assign=True` replaces, with all names it had: tied names stay tied and get the last value read."""

    def __init__(self, replaced: Tensor) -> None:
        self.replaced = replaced  # kept alive, so that its id is not reused
        self.owners: list[tuple[Module, str]] = []


def _rebind(module: Module, name: str, tensor: Tensor, value: Tensor, rebound: dict[int, Rebinding]) -> None:
    if isinstance(tensor, Parameter):
        value = value if isinstance(value, Parameter) else Parameter(value, requires_grad=tensor.requires_grad)
        value.requires_grad_(tensor.requires_grad)
    rebinding = rebound.setdefault(id(tensor), Rebinding(tensor))
    rebinding.owners.append((module, name))
    for owner, attribute in rebinding.owners:
        setattr(owner, attribute, value)
