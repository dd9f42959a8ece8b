"""vmap: converts a function of one example into a function of a batch.

The function is called once, with batched tensors (`examples`). If it needs values that differ between examples, such as
for a branch, it is called for each example and the results are stacked, so any function can be batched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..core import Tensor, cat, stack
from ..core.apply import state
from ..core.listeners import listeners
from ..core.extensions import extensions
from .examples import Batch, DataDependentError, CreatedMemory, active, numbers_require_grad, rewind, undo, vmap_running
from .trees import leaves, map_leaves

__all__ = ["vmap"]


def _matched_dims(dims: Any, tree: Any, name: str) -> list[int | None]:
    """A dimension for each leaf of `tree`. `dims` has the tree's structure, with a number or None for a subtree."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        return [dims for _ in leaves(tree)]
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [matched_dim for key in tree for matched_dim in _matched_dims(dims[key], tree[key], name)]
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree):
        return [matched_dim for dim, part in zip(dims, tree) for matched_dim in _matched_dims(dim, part, name)]
    if name == "out_dims" and isinstance(dims, tuple) and len(dims) == 1 and not isinstance(tree, (tuple, list, dict)):
        return _matched_dims(dims[0], tree, name)
    raise ValueError(f"vmap: {name} is not compatible with the structure of the values: got {dims!r}")


def _batch_size(values: list[Any], dims: list[int | None]) -> int:
    """The common size of the mapped dimensions. Raises ValueError for invalid or different ones."""
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


def _mapped_inputs(args: tuple, in_dims: Any) -> tuple[list[Any], list[int | None], int]:
    """The leaves of the arguments, the mapped dimension of each, and the batch size."""
    if not args:
        raise ValueError("vmap: there are no inputs to map over")
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            "vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    values, dims = leaves(args), _matched_dims(in_dims, args, "in_dims")
    return values, dims, _batch_size(values, dims)


def _arguments(
    args: tuple, values: list[Any], dims: list[int | None], select: Callable[[Tensor, int], Tensor]
) -> tuple:
    """The arguments of a call, with `select` applied to each mapped tensor and its dimension."""
    parts = iter([value if dim is None else select(value, dim) for value, dim in zip(values, dims)])
    return map_leaves(lambda _: next(parts), args)


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """A function that maps `func` over slices of its arguments along `in_dims` and stacks the results along `out_dims`.

    `func` is called once, with batched tensors. If it needs a value that differs between slices, for a branch for
    example, it is called for each slice.

    A dimension is a number, None for unmapped arguments, or a structure like that of the arguments (or results) with a
    dimension per tensor. Keyword arguments are not mapped. `randomness="error"` rejects random ops; with "different" or
    "same" the slices draw different numbers or the same. `chunk_size` is the maximum number of slices per call. Raises
    ValueError for dimensions that do not match, RuntimeError for rejected random ops.

    Example:

        >>> from numod.func import vmap
        >>> vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
        tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        values, dims, size = _mapped_inputs(args, in_dims)
        step = size if chunk_size is None else chunk_size
        if step >= size:
            return _run(func, args, values, dims, size, kwargs, randomness, out_dims)
        chunks = []
        with _draws() as drawn:
            for first in range(0, size, step):
                if randomness == "same":
                    rewind(drawn)
                count = min(step, size - first)
                chunk_values = [
                    value if dim is None else value.narrow(dim, first, count) for value, dim in zip(values, dims)
                ]
                chunks.append(_run(func, args, chunk_values, dims, count, kwargs, randomness, out_dims))
        return _joined_chunks(chunks, out_dims)

    return batched


_DIFFERENT_RESULTS_ERROR = (
    "vmap: `func` can not return a BatchedTensor when out_dim is None: its results differ between examples; give "
    "out_dims a dimension to stack them along"
)


@contextmanager
def _draws() -> Iterator[dict]:
    """The generators that code in the block draws from, with their positions before the first draw."""
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
    """The results for `size` examples, from one call if possible."""
    with vmap_running():
        batch_and_result = _try_at_once(func, args, values, dims, size, kwargs, randomness)
        if batch_and_result is None:
            with _refusing_outside_writes([value for value, dim in zip(values, dims) if dim is not None]):
                return _stacked(_one_by_one(func, args, values, dims, size, kwargs, randomness), size, out_dims)
        batch, result = batch_and_result
        result_dims = _matched_dims(out_dims, result, "out_dims")
        _require_tensors(result, result_dims)
        dims_left = iter(result_dims)
        return map_leaves(lambda output: _with_batch_dim(output, batch, next(dims_left)), result)


def _try_at_once(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], size: int, kwargs: dict, randomness: str
) -> tuple[Batch, Any] | None:
    """The result of `_call_once`, or None, with all writes undone, if the function must run for each example."""
    active.written.append(written := {})
    try:
        with _draws() as drawn:
            batch_and_result = _call_once(func, args, values, dims, size, kwargs, randomness)
            _refuse_random(drawn, randomness)
            return batch_and_result
    except (DataDependentError, Exception):  # an error of the function is raised again by the example that causes it
        undo(written)
        _refuse_random(drawn, randomness)
        rewind(drawn)
        return None
    finally:
        active.written.pop()


@contextmanager
def _refusing_outside_writes(mapped_inputs: list[Tensor]) -> Iterator[None]:
    """Inside the block, only `mapped_inputs` and new tensors may be written to, since examples share others."""
    created = CreatedMemory(mapped_inputs)
    active.created.append(created)
    listeners.append(created)
    try:
        yield
    finally:
        listeners.remove(created)
        active.created.pop()


def _one_by_one(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], size: int, kwargs: dict, randomness: str
) -> list[Any]:
    """The results of one call per example."""
    if not size:
        return _example_of_zeros(func, args, values, dims, kwargs)
    results = []
    with _draws() as drawn:
        for number in range(size):
            if randomness == "same":
                rewind(drawn)
            select = lambda value, dim: value.select(dim, number)  # noqa: B023, E731  used at once
            results.append(func(*_arguments(args, values, dims, select), **kwargs))
            _refuse_random(drawn, randomness)
    return results


def _example_of_zeros(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], kwargs: dict
) -> list[Any]:
    """The result for an example of zeros, which determines the shapes of the results of an empty batch."""
    zeros = _arguments(args, values, dims, lambda value, dim: value.movedim(dim, 0).sum(0))
    with _draws() as drawn:
        result = func(*zeros, **kwargs)
        rewind(drawn)
    return [result]


def _call_once(
    func: Callable, args: tuple, values: list[Any], dims: list[int | None], size: int, kwargs: dict, randomness: str
) -> tuple[Batch, Any]:
    """The batch, and the results of one call for all its examples."""
    batch = Batch.of(size)
    # some ops depend on requires_grad
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


def _with_batch_dim(value: Any, batch: Batch, dim: int | None) -> Any:
    """A result with the batch dimension at `dim`. With None it must be equal for all examples."""
    if dim is None:
        if isinstance(value, Tensor) and value._layout.batch is batch:
            raise ValueError(_DIFFERENT_RESULTS_ERROR)
        return value
    numbers, is_batched = batch.numbers(value)
    return (numbers if is_batched else numbers.expand((batch.size, *numbers.shape)).clone()).movedim(0, dim)


def _joined_chunks(chunks: list[Any], out_dims: Any) -> Any:
    """The results of all chunks, concatenated leaf by leaf."""
    dims = iter(_matched_dims(out_dims, chunks[0], "out_dims"))
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
    """The results of `size` examples, stacked leaf by leaf. If `size` is 0, `results` has one example of zeros."""
    result_dims = _matched_dims(out_dims, results[0], "out_dims")
    _require_tensors(results[0], result_dims)
    dims = iter(result_dims)
    columns = iter(zip(*map(leaves, results)))

    def gathered(_: Tensor) -> Tensor:
        dim, column = next(dims), next(columns)
        if dim is not None:
            return stack(column, dim).narrow(dim, 0, size)
        if isinstance(column[0], Tensor) and any(
            value is not column[0] and not value.equal(column[0]) for value in column
        ):
            raise ValueError(_DIFFERENT_RESULTS_ERROR)
        return column[0]

    return map_leaves(gathered, results[0])


def _require_tensors(result: Any, dims: list[int | None]) -> None:
    for leaf, dim in zip(leaves(result), dims):
        if dim is not None and not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap: `func` must only return Tensors, got type {type(leaf)}. Did you mean to set out_dims= to None "
                "for output? "
                "Values that differ between examples must stay tensors: omit `.item()` and `float()`"
            )


class VmapInfo(NamedTuple):
    """The argument `info` of an autograd Function's `vmap`: the number of examples and the randomness mode."""

    batch_size: int
    randomness: str


def _batched(function: type, arguments: tuple) -> tuple[Callable, bool] | None:
    """The function that computes a Function's results with its own `vmap`, and whether its ops are recorded.

    Its ops are recorded instead of the Function if only gradients of the whole batch are needed. None if no argument is
    batched.
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
    outer_gradients = any(
        isinstance(argument, Tensor) and argument.requires_grad and not numbers_require_grad(argument)
        for argument in arguments
    )
    records_inside = not outer_gradients and all(depth <= batch.depth for depth in active.differentiated)
    if not records_inside and function.setup_context is None:
        raise RuntimeError(
            f"{function.__name__}: gradients of each example need setup_context, and forward without ctx, if "
            "it defines vmap"
        )

    def compute(*arguments: Any) -> Any:
        pairs = [batch.numbers(argument) for argument in arguments]
        info = VmapInfo(batch.size, active.randomness[batch.depth])
        dims = tuple([0 if is_batched else None for _, is_batched in pairs])
        with _outside_batch(batch):
            outputs, dims = function.vmap(info, dims, *[part for part, _ in pairs])
        dims_left = iter(_matched_dims(dims, outputs, "out_dims"))
        return map_leaves(lambda is_batched: _rewrapped(is_batched, batch, next(dims_left)), outputs)

    return compute, records_inside


@contextmanager
def _outside_batch(batch: Batch) -> Iterator[None]:
    """Inside the block, the call of a batch and the calls nested in it are inactive."""
    depth, saved = batch.depth, (active.batches, active.randomness)
    count = len(active.batches) - depth
    active.batches, active.randomness = active.batches[:depth], active.randomness[:depth]
    state.vmap_depth -= count
    try:
        yield
    finally:
        state.vmap_depth += count
        active.batches, active.randomness = saved


def _rewrapped(value: Any, batch: Batch, dim: int | None) -> Any:
    """A result with the batch dimension at `dim`, as a batched tensor."""
    return value if dim is None else batch.wrap(value.movedim(dim, 0)).requires_grad_(value.requires_grad)


def _map_rows(function: Callable, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    return vmap(function)(*columns) if len(columns[0]) > 1 else None


extensions.provide(batched_function=_batched, map_rows=_map_rows)
