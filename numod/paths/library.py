"""`numod.library`: a library's own operators, Python functions available as `numod.ops.<namespace>.<name>`.

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
    """An operator: a function, optionally with a gradient from `register_autograd`."""

    def __init__(self, name: str, function: Callable) -> None:
        self._name, self._function, self._gradient = name, function, None
        self.default = self  # the only overload

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
        """Set the gradient function, and a function that saves values for it.

        backward(ctx, *gradients) returns the inputs' gradients; setup_context(ctx, inputs, output) saves what it needs.
        """
        setup = setup_context or (lambda ctx, inputs, output: None)
        methods = {"forward": self._function, "setup_context": setup, "backward": backward}
        self._gradient = type(
            self._name.rpartition("::")[2],
            (Function,),
            {name: staticmethod(method) for name, method in methods.items()},
        )

    def register_fake(self, fn: Callable, /) -> Callable:
        """Return the function. It is not needed: shapes are those of the results."""
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
    """An operator named "namespace::name" from a function, or a decorator that creates one.

    Raises ValueError for another name, or for one of numod's own namespaces.
    """
    if fn is None:
        return lambda function: custom_op(name, function)
    space, separator, op_name = name.partition("::")
    if not separator or not isinstance(vars(ops).get(space, SimpleNamespace()), SimpleNamespace):
        raise ValueError(
            f"custom_op: expected a name such as 'mylibrary::{op_name or space}', with a namespace of your own, got "
            f"{name!r}"
        )
    definition = _registered[name] = CustomOpDef(name, fn)
    setattr(vars(ops).setdefault(space, SimpleNamespace()), op_name, definition)
    return definition


def _operator(op: str | CustomOpDef) -> CustomOpDef:
    definition = _registered.get(op) if isinstance(op, str) else op
    if not isinstance(definition, CustomOpDef):
        raise RuntimeError(f"there is no operator {op!r}; make it by numod.library.custom_op first")
    return definition


def register_autograd(
    op: str | CustomOpDef, backward: Callable, /, *, setup_context: Callable | None = None, lib: object = None
) -> None:
    """Set an operator's gradient; see `CustomOpDef.register_autograd`."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: str | CustomOpDef, func: Callable | None = None, /, *, lib: object = None) -> Callable:
    """The function unchanged, or a decorator that returns it unchanged: shapes are taken from the results."""
    return (lambda function: function) if func is None else func


impl_abstract = register_fake
