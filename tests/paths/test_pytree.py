"""Trees of containers and of registered classes."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import pytest

import numod


def test_trees() -> None:
    from numod.utils._pytree import tree_flatten, tree_map, tree_unflatten

    tree = {"a": [1, (2, 3)], "b": 4}
    leaves, spec = tree_flatten(tree)
    assert leaves == [1, 2, 3, 4] and tree_unflatten([leaf * 2 for leaf in leaves], spec) == tree_map(
        lambda leaf: leaf * 2, tree
    ) == {"a": [2, (4, 6)], "b": 8}


def test_registered_classes_are_trees() -> None:
    from numod.utils import _pytree as pytree

    class Pair:
        def __init__(self, first: object, second: object) -> None:
            self.first, self.second = first, second

    pytree.register_pytree_node(Pair, lambda pair: ([pair.first, pair.second], None), lambda parts, _: Pair(*parts))
    doubled = pytree.tree_map(lambda x: 2 * x, {"a": Pair(1, [2, 3])})["a"]
    assert (doubled.first, doubled.second) == (2, [4, 6]) and pytree.tree_leaves([Pair(1, 2), 3]) == [1, 2, 3]
    slope = numod.func.grad(lambda pair: (pair.first * pair.second).sum())(Pair(numod.ones(2), numod.full((2,), 3.0)))
    assert slope.first.tolist() == [3, 3] and slope.second.tolist() == [1, 1]
    nodes, tree = pytree.SUPPORTED_NODES, OrderedDict(a=(1, [2]), b=Pair(3, 4))

    def structure(tree: object) -> object:
        kind = pytree._get_node_type(tree)
        if kind not in nodes:
            return pytree.LeafSpec()
        parts, context = nodes[kind].flatten_fn(tree)
        return pytree.TreeSpec(kind, context, [structure(part) for part in parts])

    made = pytree.tree_unflatten(pytree.tree_leaves(tree), structure(tree))
    assert type(made) is OrderedDict and made["a"] == (1, [2]) and (made["b"].first, made["b"].second) == (3, 4)
    triple = namedtuple("Triple", "a b c")
    parts, context = pytree._namedtuple_flatten(triple(1, 2, 3))
    assert parts == [1, 2, 3] and pytree._namedtuple_unflatten(parts, context) == triple(1, 2, 3)
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, list, list)
