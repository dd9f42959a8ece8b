"""`ShapesCollection` and `AdditionalInputs`: `dynamic_shapes` by tensor, and from further example inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.tensor import Tensor
from ..serialization import records
from .dimensions import Dim
from .sizes import GuardFailed


def _named_arguments(m: Any, args: tuple, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments by name, as `dynamic_shapes` has them. Raises TypeError for arguments that do not fit."""
    from .capture import argument_names, signature_of_call  # here, since `export` takes collections

    kwargs = dict(kwargs or {})
    signature_of_call(m).bind(*args, **kwargs)
    return {**dict(zip(argument_names(m, args, kwargs), args)), **kwargs}


def _map(function: Callable, argument: Any, *others: Any) -> Any:
    """`function` of the leaves of structures of the same form, in the form of `dynamic_shapes`."""
    if any(type(other) is not type(argument) for other in others):
        return function(argument, *others)
    if records.is_record(argument):
        by_field = [records.fields(record) for record in (argument, *others)]
        names = [name for name, part in by_field[0].items() if isinstance(argument, tuple) or part is not None]
        parts = [_map(function, *[fields[name] for fields in by_field]) for name in names]
        return records.rebuilt(type(argument), dict(zip(names, parts))) if isinstance(argument, tuple) else parts
    if isinstance(argument, (tuple, list)) and all(len(other) == len(argument) for other in others):
        return type(argument)([_map(function, *parts) for parts in zip(argument, *others)])
    if isinstance(argument, dict) and all(other.keys() == argument.keys() for other in others):
        return {key: _map(function, part, *[other[key] for other in others]) for key, part in argument.items()}
    return function(argument, *others)


class ShapesCollection:
    """Dynamic shapes by tensor: `shapes[x] = {0: Dim("batch")}`, for `export(..., dynamic_shapes=shapes)`."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Tensor, Any]] = {}  # by the tensor's id; the tensor keeps the id in use

    def __setitem__(self, t: Tensor, shape: Any) -> None:
        assert isinstance(t, Tensor), f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}"
        _, known = self._shapes.setdefault(id(t), (t, shape))
        assert known == shape, f"Shapes assigned to input do not match: expected {known}, got {shape}"

    def __getitem__(self, t: Tensor) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The shapes in the form of the arguments. Raises ValueError if a tensor is not among them."""
        seen: set[int] = set()

        def shape_of(argument: Any) -> Any:
            seen.add(id(argument))
            return self._shapes.get(id(argument), (None, None))[1]

        shapes = _map(shape_of, _named_arguments(m, args, kwargs))
        if not self._shapes.keys() <= seen:
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                "passing them as args? Maybe such tensors are contained in classes that were not registered with "
                "pytree?"
            )
        return shapes


class AdditionalInputs:
    """Further example inputs: sizes in which they differ from the first ones are dynamic.

    Pass it to `export(..., dynamic_shapes=additional)`. `verify` checks that a program takes all of them; `export`
    does so, too.
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple, dict[str, Any] | None]] = []

    def add(self, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        """Add the arguments of a call."""
        assert type(args) is tuple, f"Representative args {args} must be a tuple"
        assert kwargs is None or type(kwargs) is dict, f"Representative kwargs {kwargs} must be None or a dict"
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The shapes in the form of the arguments. Raises ValueError for inputs that differ in more than sizes."""
        first, *others = [_named_arguments(m, *example) for example in ((args, kwargs), *self._examples)]
        return _map(_dynamic_sizes, first, *others)

    def verify(self, ep: Any) -> None:
        """Raise RuntimeError if the program does not take one of the inputs."""
        module = ep.module()
        for args, kwargs in self._examples:
            try:
                module._sizes(module._tensors([args, kwargs or {}]))
            except GuardFailed as problem:
                raise RuntimeError(
                    f"{problem}. If you meant for this dimension to be dynamic, please re-export and specify "
                    "dynamic_shapes (e.g. with Dim.DYNAMIC)"
                ) from None


def _dynamic_sizes(leaf: Any, *others: Any) -> Any:
    """The dynamic shape of a tensor, None for another argument."""
    if all(isinstance(one, Tensor) and one.ndim == leaf.ndim for one in (leaf, *others)):
        sizes = zip(leaf.shape, *[other.shape for other in others])
        return tuple([Dim.DYNAMIC if len({*across}) > 1 else None for across in sizes])
    if any(type(other) is not type(leaf) for other in others):
        raise ValueError(
            f"The following inputs were found to have differing types, so they cannot be marked as dynamic: "
            f"{(leaf, *others)}."
        )
    if isinstance(leaf, Tensor) or any(other != leaf for other in others):
        raise ValueError(
            "The following inputs were found to have differing values, but they cannot be marked as dynamic: "
            f"{(leaf, *others)}."
        )
    return None
