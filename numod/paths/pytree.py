"""`numod.utils._pytree`: trees of dicts, lists, tuples and registered classes."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..func.trees import leaves, map_leaves, registered
from ..serialization.records import register_dataclass, register_namedtuple

PyTree = Context = Any
__all__ = [
    "GetAttrKey", "MappingKey", "SequenceKey", "key_get", "keystr", "register_dataclass", "register_pytree_node",
    "tree_all", "tree_any",
    "tree_flatten", "tree_flatten_with_path", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map",
    "tree_map_", "tree_map_only", "tree_map_with_path", "tree_unflatten",
]  # fmt: skip


class NodeDef(NamedTuple):
    """The functions that convert an instance of a class to (parts, context) and back."""

    flatten_fn: Callable
    unflatten_fn: Callable


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, **kwargs: Any) -> None:
    """Register a class as an inner node of trees.

    flatten_fn(x) returns (list of parts, context), and unflatten_fn(parts, context) returns an instance. Raises
    ValueError for a class that is already registered. The other keywords, for saved programs and paths of keys, have no
    effect.
    """
    if cls in registered:
        raise ValueError(f"{cls} is already registered as pytree node.")
    registered[cls] = NodeDef(flatten_fn, unflatten_fn)


_register_pytree_node, _register_namedtuple = register_pytree_node, register_namedtuple


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


_SEQUENCES = {
    kind: NodeDef(lambda d: (list(d), None), lambda values, context, kind=kind: kind(values)) for kind in (list, tuple)
}
SUPPORTED_NODES = ChainMap(registered, _SEQUENCES, {
    dict: NodeDef(_dict_flatten, _dict_unflatten), namedtuple: NodeDef(_namedtuple_flatten, _namedtuple_unflatten),
    OrderedDict: NodeDef(_dict_flatten, lambda values, context: OrderedDict(zip(context, values))),
})  # fmt: skip


def _get_node_type(tree: Any) -> Any:
    """The key of a tree in SUPPORTED_NODES, which has none for leaves."""
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else type(tree)


class TreeSpec:
    """A structure built by hand. A structure is the tree with None as its leaves, so the constructor returns that."""

    def __new__(cls, type: Any, context: Any, children_specs: list[Any]) -> Any:
        return SUPPORTED_NODES[type].unflatten_fn(children_specs, context)


class LeafSpec(TreeSpec):
    """The structure of a leaf: None."""

    def __new__(cls) -> None:
        return None


class MappingKey(NamedTuple):
    """The position of a value in a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: dict) -> Any:
        """The value at this position."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """The position of an item in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: list | tuple) -> Any:
        """The item at this position."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """The name of a field of a named tuple, or of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The value of this field."""
        return getattr(obj, self.name)


def _dict_flatten_with_keys(d: dict) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """(values with their positions, keys)."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of `tree`, from left to right."""
    return leaves(tree)


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """(leaves of `tree`, its structure for `tree_unflatten`)."""
    return leaves(tree), map_leaves(lambda _: None, tree)


def tree_structure(tree: Any) -> Any:
    """The structure of `tree`, as in the second result of `tree_flatten`."""
    return tree_flatten(tree)[1]


def tree_unflatten(leaves: list[Any], spec: Any) -> Any:
    """A tree of the structure `spec` with the leaves `leaves`."""
    parts = iter(leaves)
    return map_leaves(lambda _: next(parts), spec)


def tree_map(func: Callable, tree: Any, *rests: Any) -> Any:
    """A tree of `func(leaf, *leaves)`, for the leaves at the same positions in `tree` and `rests`."""
    others = [iter(leaves(rest)) for rest in rests]
    return map_leaves(lambda leaf: func(leaf, *map(next, others)), tree)


def tree_map_only(kind: type | tuple[type, ...], func: Callable, tree: Any) -> Any:
    """The tree with `func` applied to the leaves of type `kind`; other leaves stay as they are."""
    return map_leaves(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_any(predicate: Callable, tree: Any) -> bool:
    """Whether the predicate holds for any leaf."""
    return any(map(predicate, leaves(tree)))


def tree_all(predicate: Callable, tree: Any) -> bool:
    """Whether it holds for all in the tree."""
    return all(map(predicate, leaves(tree)))


def tree_iter(tree: Any) -> Iterator[Any]:
    """The leaves of `tree`, from left to right."""
    return iter(leaves(tree))


def tree_map_(func: Callable, tree: Any, *rests: Any) -> Any:
    """Call `func` as `tree_map` does, and return `tree` unchanged."""
    tree_map(func, tree, *rests)
    return tree


def tree_leaves_with_path(tree: Any) -> list[tuple[tuple, Any]]:
    """The leaves of `tree`, each with the tuple of keys that leads to it."""
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES:
        return [((), tree)]
    parts, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if isinstance(tree, dict):
        keys = map(MappingKey, context)
    elif kind is namedtuple:
        keys = map(GetAttrKey, tree._fields)
    else:
        keys = map(SequenceKey, range(len(parts)))
    return [((key, *path), leaf) for key, part in zip(keys, parts) for path, leaf in tree_leaves_with_path(part)]


def tree_flatten_with_path(tree: Any) -> tuple[list[tuple[tuple, Any]], Any]:
    """(leaves of `tree` with their paths, its structure for `tree_unflatten`)."""
    return tree_leaves_with_path(tree), tree_structure(tree)


def tree_map_with_path(func: Callable, tree: Any, *rests: Any) -> Any:
    """A tree of `func(path, leaf, *leaves)`, as `tree_map` with the tuple of keys that leads to each leaf."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree)])
    return tree_map(lambda *values: func(next(paths), *values), tree, *rests)


def keystr(kp: tuple) -> str:
    """The text of a path, such as `['layers'][0].weight`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple) -> Any:
    """The part of a tree at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
