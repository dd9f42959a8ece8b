"""`numod.library`: a library's own operators, Python functions that `numod.ops.<namespace>.<name>` finds.

Kernels in C++ cannot be registered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from .. import ops
from ..autograd import Function
from ..errors import name_only

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "impl", "register_autograd", "register_fake", "triton_op"]
_KERNELS = "an operator is a Python function: numod.library.custom_op"
Library, define, impl, triton_op, wrap_triton = (
    name_only(f"library.{_name}", _KERNELS) for _name in ("Library", "define", "impl", "triton_op", "wrap_triton")
)
_registered: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operator: a function, called as it is, or with the gradient of `register_autograd`."""

    def __init__(self, name: str, function: Callable) -> None:
        self._name, self._function, self._gradient = name, function, None
        self.default = self  # of PyTorch's overloads the only one

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._gradient is None:
            return self._function(*args, **kwargs)
        if kwargs:
            from inspect import signature

            bound = signature(self._function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        return self._gradient.apply(*args)

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Have backward(ctx, *gradients) give the inputs' gradients; setup_context(ctx, inputs, output) keeps what it
        needs.
        """
        keep = setup_context or (lambda ctx, inputs, output: None)
        methods = {"forward": self._function, "setup_context": keep, "backward": backward}
        self._gradient = type(
            self._name.rpartition("::")[2],
            (Function,),
            {name: staticmethod(method) for name, method in methods.items()},
        )

    def register_fake(self, fn: Callable, /) -> Callable:
        """The function: shapes are those of the results."""
        return fn


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Sequence[str] = (),
    device_types: object = None,
    schema: str | None = None,
    tags: object = None,
) -> Any:
    """An operator named "namespace::name" of a function, or a decorator that makes one.

    Raises ValueError for another name, or a namespace of numod's own.
    """
    if fn is None:
        return lambda function: custom_op(name, function)
    space, separator, own = name.partition("::")
    if not separator or not isinstance(vars(ops).get(space, SimpleNamespace()), SimpleNamespace):
        raise ValueError(
            f"custom_op: expected a name such as 'mylibrary::{own or space}', with a namespace of your own, got "
            f"{name!r}"
        )
    made = _registered[name] = CustomOpDef(name, fn)
    setattr(vars(ops).setdefault(space, SimpleNamespace()), own, made)
    return made


def _operator(op: str | CustomOpDef) -> CustomOpDef:
    found = _registered.get(op) if isinstance(op, str) else op
    if not isinstance(found, CustomOpDef):
        raise RuntimeError(f"there is no operator {op!r}; make it by numod.library.custom_op first")
    return found


def register_autograd(
    op: str | CustomOpDef, backward: Callable, /, *, setup_context: Callable | None = None, lib: object = None
) -> None:
    """Give an operator its gradient, as its method of this name."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: str | CustomOpDef, func: Callable | None = None, /, *, lib: object = None) -> Callable:
    """The function unchanged, or a decorator that returns it unchanged: shapes are taken from the results."""
    return (lambda function: function) if func is None else func


impl_abstract = register_fake
