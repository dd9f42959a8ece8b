"""Arguments and results as trees: dicts, lists and tuples of tensors, and classes that were registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# class -> (flatten: its parts and a context, unflatten: an instance from both)
registered: dict[type, tuple[Callable, Callable]] = {}


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree`, of dicts, lists, tuples, registered classes and what is in them, with `function` applied to what is in
    them.
    """
    if type(tree) in registered:
        flatten, unflatten = registered[type(tree)]
        parts, context = flatten(tree)
        return unflatten([map_leaves(function, part) for part in parts], context)
    if isinstance(tree, dict):
        return type(tree)((name, map_leaves(function, each)) for name, each in tree.items())
    if isinstance(tree, (list, tuple)):
        parts = [map_leaves(function, each) for each in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """What is in `tree`, from left to right."""
    found: list[Any] = []
    map_leaves(found.append, tree)
    return found
