"""vmap: a function of one example as a function of a batch.

It is called once, with tensors that stand for each example (`examples`).

Where it asks for what differs from example to example (a branch on a value, a memory), or draws a random number for
each, it is called for each instead, and the results are stacked: so anything may be batched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..core import Tensor, cat, stack
from ..core.apply import listeners, state
from ..core.extensions import extensions
from .examples import Batch, DataDependentError, Made, active, numbers_require_grad, rewind, undo, vmap_running
from .trees import leaves, map_leaves

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
            raise ValueError(
                f"vmap: Got in_dim={dim} for an input but the input is of type {type(value)}. We "
                "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -value.ndim <= dim < value.ndim:
            raise ValueError(
                f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{value.ndim} so expected in_dim to satisfy -{value.ndim} <= in_dim < {value.ndim}."
            )
        sizes.add(value.shape[dim])
    if not sizes:
        raise ValueError("vmap: at least one input must have a dimension to map over, got in_dims=None for all")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)} for "
            "the mapped dimension"
        )
    return sizes.pop()


def _mapped(args: tuple, in_dims: Any) -> tuple[list[Any], list[int | None], int]:
    """The leaves of the arguments, the dimension of each that is mapped over, and its size."""
    if not args:
        raise ValueError("vmap: there are no inputs to map over")
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            "vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    values, dims = leaves(args), _matched(in_dims, args, "in_dims")
    return values, dims, _batch_size(values, dims)


def _arguments(args: tuple, values: list[Any], dims: list[int | None], of: Callable[[Tensor, int], Tensor]) -> tuple:
    """The arguments of a call: `of` each tensor and its dimension."""
    parts = iter([value if dim is None else of(value, dim) for value, dim in zip(values, dims)])
    return map_leaves(lambda _: next(parts), args)


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """The function that gives what `func` returns for each slice of the arguments along `in_dims`, stacked along
    `out_dims`.

    `func` is called once, with tensors that stand for all slices. If it needs a value that differs between slices (to
    branch on, say), it is called for each.

    A dimension is a number, None for what is passed whole, or the structure of the arguments (or results) with one for
    each tensor. Keyword arguments are passed whole. `randomness`: "error" refuses random ops, "different" and "same"
    say what the examples draw. `chunk_size`: for how many examples at most the function is called at once. Raises
    ValueError for dimensions that do not fit, RuntimeError for random ops that are refused.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        values, dims, size = _mapped(args, in_dims)
        step = size if chunk_size is None else chunk_size
        if step >= size:
            return _run(func, args, values, dims, size, kwargs, randomness, out_dims)
        chunks = []
        with _draws() as drawn:
            for first in range(0, size, step):
                if randomness == "same":
                    rewind(drawn)
                count = min(step, size - first)
                parts = [value if dim is None else value.narrow(dim, first, count) for value, dim in zip(values, dims)]
                chunks.append(_run(func, args, parts, dims, count, kwargs, randomness, out_dims))
        return _joined(chunks, out_dims)

    return batched


_DIFFERENT = (
    "vmap: `func` can not return a BatchedTensor when out_dim is None: its results differ by example; give "
    "out_dims a dimension to stack them along"
)


@contextmanager
def _draws() -> Iterator[dict]:
    """The generators that are drawn from inside the block, and the place each had in its stream before."""
    active.drawn.append(drawn := {})
    try:
        yield drawn
    finally:
        active.drawn.pop()


def _run(
    func: Callable,
    args: tuple,
    values: list[Any],
    dims: list[int | None],
    size: int,
    kwargs: dict,
    randomness: str,
    out_dims: Any,
) -> Any:
    """The results for `size` examples, of one call if that can be."""
    with vmap_running():
        found = _tried_at_once(func, args, values, dims, size, kwargs, randomness)
        if found is None:
            with _refused_outside([value for value, dim in zip(values, dims) if dim is not None]):
                return _stacked(_in_turn(func, args, values, dims, size, kwargs, randomness), size, out_dims)
        batch, result = found
        chosen = _matched(out_dims, result, "out_dims")
        _require_tensors(result, chosen)
        places = iter(chosen)
        return map_leaves(lambda each: _placed(each, batch, next(places)), result)


def _tried_at_once(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], size: int, kwargs: dict, randomness: str
) -> tuple[Batch, Any] | None:
    """What `_at_once` gives; None, with all as it was before, where the function must be called for each example."""
    active.written.append(written := {})
    try:
        with _draws() as drawn:
            found = _at_once(func, args, values, dims, size, kwargs, randomness)
            _refuse_random(drawn, randomness)
            return found
    except (DataDependentError, Exception):  # an error of the function's own comes again, from the example it is of
        undo(written)
        _refuse_random(drawn, randomness)
        rewind(drawn)
        return None
    finally:
        active.written.pop()


@contextmanager
def _refused_outside(batched: list[Tensor]) -> Iterator[None]:
    """Inside the block nothing writes to memory that was there before, but to that of `batched`: the next example would
    find what is of the last.
    """
    made = Made(batched)
    active.made.append(made)
    listeners.append(made)
    try:
        yield
    finally:
        listeners.remove(made)
        active.made.pop()


def _in_turn(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], size: int, kwargs: dict, randomness: str
) -> list[Any]:
    """The results of a call for each example."""
    if not size:
        return _of_no_examples(func, args, values, dims, kwargs)
    results = []
    with _draws() as drawn:
        for number in range(size):
            if randomness == "same":
                rewind(drawn)
            select = lambda value, dim: value.select(dim, number)  # noqa: B023, E731  used at once
            results.append(func(*_arguments(args, values, dims, select), **kwargs))
            _refuse_random(drawn, randomness)
    return results


def _of_no_examples(func: Callable, args: tuple, values: list[Any], dims: list[int | None], kwargs: dict) -> list[Any]:
    """What the results of each example would be like: tensors without examples are called for one of zeros."""
    zeros = _arguments(args, values, dims, lambda value, dim: value.movedim(dim, 0).sum(0))
    with _draws() as drawn:
        result = func(*zeros, **kwargs)
        rewind(drawn)
    return [result]


def _at_once(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], size: int, kwargs: dict, randomness: str
) -> tuple[Batch, Any]:
    """The batch, and the results of one call for all its examples."""
    batch = Batch.of(size)
    # some ops ask for it
    examples = _arguments(
        args, values, dims, lambda value, dim: batch.wrap(value.movedim(dim, 0)).requires_grad_(value.requires_grad)
    )
    active.batches.append(batch)
    active.randomness.append(randomness)
    try:
        result = func(*examples, **kwargs)
    finally:
        active.batches.pop()
        active.randomness.pop()
    return batch, result


def _placed(each: Any, batch: Batch, dim: int | None) -> Any:
    """A result with its examples along `dim`; those of None, which need not be tensors, are the same for all."""
    if dim is None:
        if isinstance(each, Tensor) and each._layout.batch is batch:
            raise ValueError(_DIFFERENT)
        return each
    numbers, apart = batch.numbers(each)
    return (numbers if apart else numbers.expand((batch.size, *numbers.shape)).clone()).movedim(0, dim)


def _joined(chunks: list[Any], out_dims: Any) -> Any:
    """The results of all chunks, leaf by leaf."""
    dims = iter(_matched(out_dims, chunks[0], "out_dims"))
    columns = iter(zip(*map(leaves, chunks)))

    def gathered(_: Tensor) -> Tensor:
        dim, column = next(dims), next(columns)
        return column[0] if dim is None else cat(column, dim)

    return map_leaves(gathered, chunks[0])


def _refuse_random(drawn: dict, randomness: str) -> None:
    if drawn and randomness == "error":
        rewind(drawn)
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
            "'different' randomness flags on vmap "
            "or perform the randomness operation out of vmap"
        )


def _stacked(results: list[Any], size: int, out_dims: Any) -> Any:
    """The results of all `size` examples, leaf by leaf.

    Of no examples `results` holds what those of one would be like.
    """
    chosen = _matched(out_dims, results[0], "out_dims")
    _require_tensors(results[0], chosen)
    dims = iter(chosen)
    columns = iter(zip(*map(leaves, results)))

    def gathered(_: Tensor) -> Tensor:
        dim, column = next(dims), next(columns)
        if dim is not None:
            return stack(column, dim).narrow(dim, 0, size)
        if isinstance(column[0], Tensor) and any(
            each is not column[0] and not each.equal(column[0]) for each in column
        ):
            raise ValueError(_DIFFERENT)
        return column[0]

    return map_leaves(gathered, results[0])


def _require_tensors(result: Any, dims: list[int | None]) -> None:
    for leave, dim in zip(leaves(result), dims):
        if dim is not None and not isinstance(leave, Tensor):
            raise ValueError(
                f"vmap: `func` must only return Tensors, got type {type(leave)}. Did you mean to set out_dims= to None "
                "for output? "
                "What differs by example has to stay a tensor: leave out `.item()` and `float()`"
            )


class VmapInfo(NamedTuple):
    """What an autograd Function's own `vmap` is told of the call: the number of examples, and what the examples
    draw.
    """

    batch_size: int
    randomness: str


def _batched(function: type, arguments: tuple) -> tuple[Callable, bool] | None:
    """What computes a Function's results by its own `vmap`, and whether gradients are those of all examples alone, so
    that ops inside are recorded; None where no argument stands for examples.
    """
    if function.generate_vmap_rule:
        raise RuntimeError(
            f"{function.__name__} has both generate_vmap_rule=True and a vmap staticmethod; remove one of them"
        )
    layouts = [
        argument._layout
        for argument in arguments
        if isinstance(argument, Tensor) and argument._layout.batch is not None
    ]
    if not layouts:
        return None
    batch = max((layout.batch for layout in layouts), key=lambda batch: batch.depth)
    own = any(
        isinstance(argument, Tensor) and argument.requires_grad and not numbers_require_grad(argument)
        for argument in arguments
    )
    alone = not own and all(depth <= batch.depth for depth in active.differentiated)
    if not alone and function.setup_context is None:
        raise RuntimeError(
            f"{function.__name__}: gradients of each example need setup_context, and forward without ctx, beside its "
            "own vmap"
        )

    def compute(*arguments: Any) -> Any:
        parts = [batch.numbers(argument) for argument in arguments]
        info = VmapInfo(batch.size, active.randomness[batch.depth])
        dims = tuple([0 if each else None for _, each in parts])
        with _outside(batch):
            outputs, dims = function.vmap(info, dims, *[part for part, _ in parts])
        places = iter(_matched(dims, outputs, "out_dims"))
        return map_leaves(lambda each: _standing(each, batch, next(places)), outputs)

    return compute, alone


@contextmanager
def _outside(batch: Batch) -> Iterator[None]:
    """Inside the block the calls of a batch, and those in it, are not active: it is given the numbers of all
    examples.
    """
    depth, inside = batch.depth, (active.batches, active.randomness)
    count = len(active.batches) - depth
    active.batches, active.randomness = active.batches[:depth], active.randomness[:depth]
    state.examples -= count
    try:
        yield
    finally:
        state.examples += count
        active.batches, active.randomness = inside


def _standing(each: Any, batch: Batch, dim: int | None) -> Any:
    """What stands for the examples that a result has along `dim`."""
    return each if dim is None else batch.wrap(each.movedim(dim, 0)).requires_grad_(each.requires_grad)


def _map_rows(function: Callable, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    return vmap(function)(*columns) if len(columns[0]) > 1 else None


extensions.provide(batched_function=_batched, map_rows=_map_rows)
