"""`numod.utils._pytree`: dicts, lists, tuples and what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import name_only
from ..func.trees import leaves, map_leaves, registered

PyTree = Any
SUPPORTED_NODES, LeafSpec, TreeSpec, _get_node_type = (
    name_only(f"utils._pytree.{_name}", "structures are trees of None; use tree_flatten and tree_unflatten")
    for _name in ("SUPPORTED_NODES", "LeafSpec", "TreeSpec", "_get_node_type")
)
__all__ = ["register_pytree_node", "tree_any", "tree_all", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_unflatten"]


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, **named: Any) -> None:
    """Have trees go on in instances of a class: flatten_fn(x) gives (list of parts, context), unflatten_fn(parts, context) an instance.

    Raises ValueError for a class that is registered. The keywords, for saved programs and paths of keys, have no effect.
    """
    if cls in registered:
        raise ValueError(f"{cls} is already registered as pytree node.")
    registered[cls] = flatten_fn, unflatten_fn


_register_pytree_node = register_pytree_node


def _dict_flatten(d: dict) -> tuple[list[Any], list[Any]]:
    """(values, keys), for classes derived from dictionaries."""
    return list(d.values()), list(d)


def _dict_unflatten(values: list[Any], context: list[Any]) -> dict:
    return dict(zip(context, values))


def _namedtuple_flatten(d: tuple) -> tuple[list[Any], type]:
    """(values, class), for named tuples."""
    return list(d), type(d)


def _namedtuple_unflatten(values: list[Any], context: type) -> tuple:
    return context(*values)


class MappingKey(NamedTuple):
    """Where a value of a dictionary is."""

    key: Any


def _dict_flatten_with_keys(d: dict) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """(values with where they are, keys)."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def tree_leaves(tree: Any) -> list[Any]:
    """What is in `tree`, from left to right."""
    return leaves(tree)


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """(what is in `tree`, its structure for `tree_unflatten`)."""
    return leaves(tree), map_leaves(lambda each: None, tree)


def tree_unflatten(found: list[Any], spec: Any) -> Any:
    """The tree of that structure with these in it."""
    parts = iter(found)
    return map_leaves(lambda each: next(parts), spec)


def tree_map(func: Callable, tree: Any, *rests: Any) -> Any:
    """The tree of func(what is in it), with what is at the same places of others."""
    others = [iter(leaves(each)) for each in rests]
    return map_leaves(lambda each: func(each, *map(next, others)), tree)


def tree_map_only(kind: type | tuple[type, ...], func: Callable, tree: Any) -> Any:
    """The same where what is in it is of a kind."""
    return map_leaves(lambda each: func(each) if isinstance(each, kind) else each, tree)


def tree_any(predicate: Callable, tree: Any) -> bool:
    """Whether it holds for anything in the tree."""
    return any(map(predicate, leaves(tree)))


def tree_all(predicate: Callable, tree: Any) -> bool:
    """Whether it holds for all in the tree."""
    return all(map(predicate, leaves(tree)))
