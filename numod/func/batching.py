"""vmap: a function of one example as a function of a batch. The function is called once for each example and the results are stacked.

So anything may be batched (own Functions, data-dependent code, another vmap, gradients per example), and nothing runs faster than the loop it
is. Where speed matters, write the batch dimension into the function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..autograd import engine
from ..core import Tensor, stack
from ..core.random import default_generator, get_rng_state, set_rng_state
from ..core.transfer import raw
from .gradients import leaves, map_leaves

__all__ = ["vmap"]


def _matched(dims: Any, tree: Any, name: str) -> list[int | None]:
    """A dimension for each leaf of `tree`: `dims` is a number or None for all below, or of the tree's structure."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        return [dims for _ in leaves(tree)]
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [each for key in tree for each in _matched(dims[key], tree[key], name)]
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree):
        return [each for dim, part in zip(dims, tree) for each in _matched(dim, part, name)]
    if name == "out_dims" and isinstance(dims, tuple) and len(dims) == 1 and not isinstance(tree, (tuple, list, dict)):
        return _matched(dims[0], tree, name)
    raise ValueError(f"vmap: {name} is not compatible with the structure of what it is for: got {dims!r}")


def _batch_size(values: list[Any], dims: list[int | None]) -> int:
    sizes = set()
    for value, dim in zip(values, dims):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(f"vmap: Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim")
        if not -value.ndim <= dim < value.ndim:
            raise ValueError(f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.ndim} so expected in_dim to satisfy -{value.ndim} <= in_dim < {value.ndim}.")
        sizes.add(value.shape[dim])
    if not sizes:
        raise ValueError("vmap: at least one input must have a dimension to map over, got in_dims=None for all")
    if len(sizes) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)} for the mapped dimension")
    return sizes.pop()


def _examples(args: tuple, in_dims: Any) -> Iterator[tuple]:
    """The arguments of each call."""
    if not args:
        raise ValueError("vmap: there are no inputs to map over")
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}.")
    values, dims = leaves(args), _matched(in_dims, args, "in_dims")
    for number in range(_batch_size(values, dims)):
        parts = iter([value if dim is None else value.select(dim, number) for value, dim in zip(values, dims)])
        yield map_leaves(lambda _: next(parts), args)  # noqa: B023  used up before the next


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Callable:
    """The function that calls `func` on each slice of the arguments along `in_dims`, and stacks what it returns along `out_dims`.

    A dimension is a number, None for what is passed whole, or the structure of the arguments (or results) with one for each tensor. Keyword
    arguments are passed whole. `randomness`: "error" refuses random ops, "different" and "same" say what the examples draw.
    `chunk_size` changes nothing here. Raises ValueError for dimensions that do not fit, RuntimeError for random ops that are refused.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        results = []
        before = get_rng_state()
        engine.retaining += 1  # a graph from outside, which `func` may walk, serves all examples
        try:
            for example in _examples(args, in_dims):
                if randomness == "same":
                    set_rng_state(before)
                results.append(func(*example, **kwargs))
                if randomness == "error":
                    _refuse_random(before)
        finally:
            engine.retaining -= 1
        return _stacked(results, out_dims)

    return batched


def _refuse_random(before: Tensor) -> None:
    seed, offset = raw(before)
    if (default_generator._seed % (1 << 64), default_generator._offset) != (int(seed) % (1 << 64), offset):
        set_rng_state(before)
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap "
            "or perform the randomness operation out of vmap"
        )


def _stacked(results: list[Any], out_dims: Any) -> Any:
    """The results of all examples, leaf by leaf. A batch of none has no structure to give."""
    if not results:
        raise ValueError("vmap: the mapped dimension has size 0, and the function was never called")
    for each in leaves(results[0]):
        if not isinstance(each, Tensor):
            raise ValueError(f"vmap: `func` must only return Tensors, got type {type(each)}. Did you mean to set out_dims= to None for output?")
    dims = iter(_matched(out_dims, results[0], "out_dims"))
    columns = iter(zip(*map(leaves, results)))

    def gathered(_: Tensor) -> Tensor:
        dim, column = next(dims), next(columns)
        return column[0] if dim is None else stack(column, dim)

    return map_leaves(gathered, results[0])
