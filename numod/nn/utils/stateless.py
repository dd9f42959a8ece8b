"""functional_call: a module called with other tensors in the places of its parameters and buffers, for that call
only.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    """The older place of `func.functional_call`, without its choice of several dictionaries."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated, `func.functional_call` is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
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

    Buffers that the call replaces are put in `tensors`.
    """
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced_tensors(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def replaced_tensors(
    module: Module, tensors: dict[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Inside, the module has `tensors` in place of its own; afterwards its own again, even after an error."""
    given = _with_tied_names(module, tensors) if tie_weights else dict(tensors)
    if strict:
        _check_names(module, given)
    own: dict[str, Any] = {}
    try:
        for name, tensor in given.items():
            own[name] = _swap(module, name, tensor)
        yield
    finally:
        left = {name: _swap(module, name, tensor) for name, tensor in reversed(own.items())}
        tensors.update({name: left[name] for name in tensors if name in left})


def _names_by_tensor(module: Module) -> list[list[str]]:
    """The dotted names of each parameter and buffer: several for one that is tied."""
    names: dict[int, list[str]] = {}
    for walk in (module.named_parameters, module.named_buffers):
        for name, tensor in walk(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    return list(names.values())


def _with_tied_names(module: Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """`tensors` under all the names that the module has for each."""
    result = dict(tensors)
    for names in _names_by_tensor(module):
        given = [tensors[name] for name in names if name in tensors]
        if any(each is not given[0] for each in given):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if given:
            result.update(dict.fromkeys(names, given[0]))
    return result


def _check_names(module: Module, given: dict[str, Tensor]) -> None:
    expected = {name for names in _names_by_tensor(module) for name in names}
    errors = []
    for what, names in (("Unexpected", given.keys() - expected), ("Missing", expected - given.keys())):
        if names:
            errors.append(f"{what} key(s): {', '.join(map(repr, sorted(names)))}.")
    if errors:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(errors)))


def _swap(module: Module, target: str, tensor: Any) -> Any:
    """Put `tensor` at a dotted name, registered there or not, and return what was there."""
    if tensor is not _NOTHING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of Tensor")
    path, _, name = target.rpartition(".")
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    owner = module.get_submodule(path)
    for registry in (owner._parameters, owner._buffers):
        if name in registry:
            own = registry[name]
            if tensor is _NOTHING:
                del registry[name]
            else:
                registry[name] = tensor
            return own
    own = getattr(owner, name, _NOTHING)
    if own is not _NOTHING and own is not None and not isinstance(own, Tensor):
        raise TypeError(f"attribute `{name}`: {own} is not an instance of Tensor")
    if tensor is not _NOTHING:
        setattr(owner, name, tensor)
    elif own is not _NOTHING:
        delattr(owner, name)
    return own
