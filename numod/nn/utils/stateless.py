"""functional_call: call a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...errors import warn_caller
from ...core import Tensor
from ..module import Module

__all__ = ["functional_call"]

_NOTHING = object()


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated form of `func.functional_call`, which supports one dictionary."""
    warn_caller(
        "`nn.utils.stateless.functional_call` is deprecated, `func.functional_call` is a drop-in replacement.",
        FutureWarning,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


def call_with(
    module: Module,
    tensors: dict[str, Tensor],
    args: Any,
    kwargs: dict[str, Any] | None,
    tie_weights: bool,
    strict: bool,
) -> Any:
    """`module(*args, **kwargs)` with `tensors` in place of its own, by dotted name.

    Buffers that the call replaces are stored in `tensors`.
    """
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced_tensors(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def replaced_tensors(
    module: Module, tensors: dict[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """A context in which the module has `tensors` in place of its own. They are restored even after an error."""
    replacements = _with_tied_names(module, tensors) if tie_weights else dict(tensors)
    if strict:
        _check_names(module, replacements)
    originals: dict[str, Any] = {}
    try:
        for name, tensor in replacements.items():
            originals[name] = _swap(module, name, tensor)
        yield
    finally:
        updated = {name: _swap(module, name, tensor) for name, tensor in reversed(originals.items())}
        tensors.update({name: updated[name] for name in tensors if name in updated})


def _names_by_tensor(module: Module) -> list[list[str]]:
    """The dotted names of each parameter and buffer; a tied tensor has several."""
    names: dict[int, list[str]] = {}
    for walk in (module.named_parameters, module.named_buffers):
        for name, tensor in walk(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    return list(names.values())


def _with_tied_names(module: Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """`tensors` under all names that the module has for each of them."""
    result = dict(tensors)
    for names in _names_by_tensor(module):
        values = [tensors[name] for name in names if name in tensors]
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if values:
            result.update(dict.fromkeys(names, values[0]))
    return result


def _check_names(module: Module, replacements: dict[str, Tensor]) -> None:
    expected = {name for names in _names_by_tensor(module) for name in names}
    errors = []
    for kind, names in (("Unexpected", replacements.keys() - expected), ("Missing", expected - replacements.keys())):
        if names:
            errors.append(f"{kind} key(s): {', '.join(map(repr, sorted(names)))}.")
    if errors:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(errors)))


def _swap(module: Module, target: str, tensor: Any) -> Any:
    """Put `tensor` at a dotted name, registered or not, and return the previous value."""
    if tensor is not _NOTHING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of Tensor")
    path, _, name = target.rpartition(".")
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    owner = module.get_submodule(path)
    for registry in (owner._parameters, owner._buffers):
        if name in registry:
            original = registry[name]
            if tensor is _NOTHING:
                del registry[name]
            else:
                registry[name] = tensor
            return original
    original = getattr(owner, name, _NOTHING)
    if original is not _NOTHING and original is not None and not isinstance(original, Tensor):
        raise TypeError(
            f"attribute `{name}`: {original} is not an instance of Tensor; only parameters and buffers can be "
            "replaced. Load other entries of a state dict, such as those of quantized layers, with load_state_dict"
        )
    if tensor is not _NOTHING:
        setattr(owner, name, tensor)
    elif original is not _NOTHING:
        delattr(owner, name)
    return original
