"""Arguments and results as trees: dicts, lists, tuples and registered classes that contain leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# class -> (flatten: returns the parts and a context, unflatten: builds an instance from both)
registered: dict[type, tuple[Callable, Callable]] = {}


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `function` applied to its leaves. Inner nodes are dicts, lists, tuples and registered classes."""
    if type(tree) in registered:
        flatten, unflatten = registered[type(tree)]
        parts, context = flatten(tree)
        return unflatten([map_leaves(function, part) for part in parts], context)
    if isinstance(tree, dict):
        return type(tree)((name, map_leaves(function, value)) for name, value in tree.items())
    if isinstance(tree, (list, tuple)):
        parts = [map_leaves(function, item) for item in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of `tree`, from left to right."""
    result: list[Any] = []
    map_leaves(result.append, tree)
    return result
