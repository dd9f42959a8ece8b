"""Batched tensors: the arguments of a function that `vmap` calls once for all examples.

A batched tensor has the shape of one example. Its layout is a `_BatchedLayout`, which refers to the `Batch`; its
storage, a `_BatchedTensor`, contains the numbers of all examples in one tensor. Views, detached and aliased tensors are
those of one example and need no batching rules. For other ops, dispatch calls `plan_batched` when it finds no plan for
the layouts. That plan takes the numbers of all examples, applies the op's batching rule and wraps the results. The
outer tape records tensors of one example, the inner one tensors of all, so gradients per example and gradients through
`vmap` can be nested.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import prod
from weakref import WeakSet

from ..autograd import no_grad
from ..core import apply as dispatch
from ..core.create import random
from ..core.extensions import extensions
from ..core.tensor import Tensor, wrap
from ..device import Layout, Storage
from ..device.layout import layout
from ..ops import view as v
from ..ops.op import Op, Plan
from ..ops.pointwise import broadcast_shapes

_MAX_LAYOUTS = 1 << 12  # layouts that a batch caches


class DataDependentError(BaseException):
    """The function needs a value that differs between examples, so it must be called for each example.

    It is not an Exception, so that `except Exception` in user code does not catch it.
    """


class _Active(threading.local):
    """The running calls of `vmap` in this thread, outermost first."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.randomness: list[str] = []  # the argument `randomness` of each call
        self.differentiated: list[int] = []  # for each running `grad` or similar call, the number of active batches
        # for each call, the contents before its writes, see `_before_write`
        self.written: list[dict[tuple, tuple]] = []
        self.created: list[
            CreatedMemory
        ] = []  # for each call that runs once per example, the memory that it may write to
        # for each call and all its chunks, the positions of generators before its first draw
        self.drawn: list[dict[random.Generator, tuple[int, int]]] = []


active = _Active()


class _BatchedLayout(Layout):
    """The layout of one example of a batch."""

    __slots__ = ("batch",)

    def __init__(self, example: Layout, batch: Batch) -> None:
        super().__init__(example.shape, example.strides, example.dtype, example.device)
        self.batch, self.is_host_number = batch, False


class Batch:
    """`size` examples of a call of `vmap` at some nesting depth.

    Calls of the same size and depth share one batch, so that its plans are reused.
    """

    _batches: dict[tuple[int, int], Batch] = {}

    def __init__(self, depth: int, size: int) -> None:
        self.depth, self.size, self.layouts = depth, size, {}

    @classmethod
    def of(cls, size: int) -> Batch:
        """The batch of a new call of `vmap` inside the active ones."""
        if len(cls._batches) >= _MAX_LAYOUTS:
            cls._batches.clear()
        key = len(active.batches), size
        return cls._batches.get(key) or cls._batches.setdefault(key, cls(*key))

    def layout(self, example_layout: Layout) -> Layout:
        """The batched form of a layout."""
        batched = self.layouts.get(example_layout)
        if batched is None:
            if len(self.layouts) >= _MAX_LAYOUTS:
                self.layouts.clear()
            new_layout = _BatchedLayout(example_layout, self)
            batched = self.layouts.setdefault(example_layout, new_layout)  # another thread may have added it
        return batched

    def wrap(self, numbers: Tensor, is_batched: bool = True) -> Tensor:
        """A batched tensor of `numbers` (size, *shape), or (*shape), equal for all examples, if not `is_batched`."""
        shape, storage = numbers.shape[1:] if is_batched else numbers.shape, object.__new__(_BatchedTensor)
        storage.numbers = numbers.reshape((self.size, prod(shape)) if is_batched else (prod(shape),))
        storage.is_batched = is_batched
        storage.apart = not numbers._layout.dense
        return wrap(storage, self.layout(layout(shape, numbers.dtype, numbers.device)), 0)

    def numbers(self, x: object) -> tuple[object, bool]:
        """(numbers of all examples with the batch dimension first, True), or (x, False) if x is equal for all."""
        if not isinstance(x, Tensor) or x._layout.batch is not self:
            return x, False
        return _part(x._storage, x._layout, x._offset), x._storage.is_batched

    def whole(self, x: Tensor) -> Tensor:
        """The numbers of all examples, (size, *shape), expanded if x is equal for all."""
        numbers, is_batched = self.numbers(x)
        return numbers if is_batched else numbers.expand((self.size, *numbers.shape))

    def detached(self, x: Tensor) -> Tensor:
        """A tensor over the same memory whose numbers have no history."""
        result, batched_storage = x._alias(Tensor), x._storage
        if batched_storage.numbers.requires_grad:
            result._storage = storage = object.__new__(_BatchedTensor)
            storage.numbers = batched_storage.numbers.detach()
            storage.is_batched = batched_storage.is_batched
            storage.apart = batched_storage.apart
        return result

    def common_value(self, x: Tensor) -> float | int | bool | complex:
        """The value of a one-element tensor. Raises DataDependentError if it differs between examples."""
        numbers = self.whole(x).detach().reshape(-1)
        first = numbers[0]
        if not bool(((numbers == first) | ((numbers != numbers) & (first != first))).all()):
            raise _data_dependent()
        return first.item()

    def as_batched(self, x: Tensor) -> Tensor:
        """A tensor as a batched tensor of this batch, or its alias if it is one already."""
        return x._alias(Tensor) if x._layout.batch is self else self.wrap(x, is_batched=False)


def _data_dependent() -> BaseException:
    """The error for code that needs one memory or number for all examples."""
    ended = (
        "this tensor stands for the examples of a call of vmap that has ended; return it from the function "
        "instead of keeping it"
    )
    return DataDependentError() if active.batches else RuntimeError(ended)


class _BatchedTensor(Storage):
    """The storage of a batched tensor: `numbers` (size, n), or (n,), equal for all examples, if not `is_batched`.

    `apart`: whether the numbers are a copy of the caller's tensor, so that a write would not change that.
    """

    __slots__ = ("numbers", "is_batched", "apart")

    @property
    def data(self) -> object:
        """Raises DataDependentError: code that reads memory must be called for each example."""
        raise _data_dependent()

    def nbytes(self) -> int:
        """The size of one example's numbers in bytes."""
        return self.numbers.shape[-1] * self.numbers.itemsize

    @property
    def version(self) -> int:
        """The version of the numbers' storage."""
        return (self.numbers._version_counter or self.numbers._storage).version

    @version.setter
    def version(self, count: int) -> None:
        """Does nothing, since the write to the numbers has incremented the version."""


def _part(storage: _BatchedTensor, view_layout: Layout, offset: int) -> Tensor:
    """The numbers that a layout covers, as a view.

    If they require a gradient, it is composed of views with cheap gradients where possible.
    """
    flat = storage.numbers
    *lead, n = flat.shape
    if view_layout.dense and view_layout.size == n and offset == 0:
        return flat.reshape((*lead, *view_layout.shape))
    if flat.requires_grad:
        dims = sorted(
            (d for d in range(view_layout.ndim) if view_layout.shape[d] != 1 and view_layout.strides[d]),
            key=lambda d: -view_layout.strides[d],
        )
        sizes = [view_layout.shape[d] for d in dims]
        if [view_layout.strides[d] for d in dims] == [
            prod(sizes[k + 1 :]) for k in range(len(sizes))
        ] and view_layout.size:
            view = flat.narrow(-1, offset, prod(sizes)).reshape((*lead, *sizes))
            first = len(lead)
            view = view.permute((*range(first), *(first + dims.index(d) for d in sorted(dims))))
            view = view.reshape((*lead, *(view_layout.shape[d] if d in dims else 1 for d in range(view_layout.ndim))))
            return view.expand((*lead, *view_layout.shape))
        flat = flat.contiguous()
    *across, step = flat._layout.strides  # an expanded or transposed argument has other strides
    strides = tuple([step * stride for stride in view_layout.strides])
    return dispatch.apply(v.as_strided, (flat,), ((*lead, *view_layout.shape), (*across, *strides), step * offset))


def _innermost_batch(layouts: tuple) -> Batch:
    return max(
        (layout.batch for layout in layouts if isinstance(layout, Layout) and layout.batch is not None),
        key=lambda batch: batch.depth,
    )


def plan_batched(op: Op, layouts: tuple, attributes: tuple) -> Plan:
    """The plan of an op with batched tensors among its inputs."""
    from .rules import rule_of  # rules use ops, which use plans

    batch = _innermost_batch(layouts)
    if op.is_view:
        (layout_of_view,) = layouts
        plan_of_numbers = op.plan(
            [layout(layout_of_view.shape, layout_of_view.dtype, layout_of_view.device, layout_of_view.strides)],
            attributes,
        )
        plan = Plan(batch.layout(plan_of_numbers.layout), None, offset=plan_of_numbers.offset)
        plan.run = dispatch.viewer(plan)
        return plan
    rule, plan = rule_of(op), Plan(None, None)

    def run(inputs: tuple) -> object:
        for x in inputs:
            if x.__class__ is random.Draw:
                _require_drawn(x.count, [input for input in inputs if isinstance(input, Tensor)])
        values, is_batched = zip(*map(batch.numbers, inputs))
        if differs := any(is_batched):
            outputs = rule(op, batch.size, values, is_batched, attributes)
        else:
            outputs = dispatch.apply(
                op, tuple([x.contiguous() if isinstance(x, Tensor) else x for x in values]), attributes
            )
        return (
            tuple([batch.wrap(output, differs) for output in outputs]) if op.outputs else batch.wrap(outputs, differs)
        )

    plan.run = run
    return plan


def plan_batched_into(op: Op, layouts: tuple, attributes: tuple) -> Plan:
    """The plan of an op that writes to targets, with batched tensors among inputs and targets."""
    from .rules import write_each

    batch, plan = _innermost_batch(layouts), Plan(None, None)

    def run(inputs: tuple, targets: tuple) -> None:
        for written_target in targets:
            if written_target._layout.batch is not batch:
                raise DataDependentError
            if written_target._storage.apart:
                raise DataDependentError
            if not written_target._storage.is_batched:
                written_target._storage.numbers = written_target._storage.numbers.expand((batch.size, -1)).clone()
                written_target._storage.is_batched = True
        written = tuple(batch.numbers(target)[0] for target in targets)
        values = [
            next(((whole, True) for whole, target in zip(written, targets) if target is x), None) or batch.numbers(x)
            for x in inputs
        ]
        write_each(
            op,
            batch.size,
            tuple(x for x, _ in values),
            tuple(written_target for _, written_target in values),
            written,
            attributes,
        )

    plan.run = run
    return plan


def numbers_require_grad(x: object) -> bool:
    """Whether x is a batched tensor whose numbers require a gradient outside of `vmap`."""
    return (
        isinstance(x, Tensor)
        and x._layout.batch is not None
        and (x._storage.numbers.requires_grad or numbers_require_grad(x._storage.numbers))
    )


def _varies_in(x: Tensor, batch: Batch) -> bool:
    """Whether a tensor differs between the examples of a batch, which need not be the innermost."""
    while x._layout.batch is not None:
        if x._layout.batch is batch:
            return x._storage.is_batched
        x = x._storage.numbers
    return False


def _random_tensor(make: Callable, shape: tuple) -> Tensor:
    """A random tensor, batched for the batches with randomness "different"."""
    batches = [batch for batch, randomness in zip(active.batches, active.randomness) if randomness == "different"]
    result = make((*(batch.size for batch in batches), *shape))
    for batch in batches:
        result = batch.wrap(result)
    return result


def _random_count(x: Tensor, in_place: bool) -> int:
    """How many random numbers an op draws for a tensor.

    Raises DataDependentError if examples would share numbers that have to differ, or the reverse.
    """
    count = x.numel()
    for batch, randomness in zip(active.batches, active.randomness):
        differs = _varies_in(x, batch)
        if (in_place and differs) or differs != (randomness == "different"):
            raise DataDependentError
        count *= batch.size if differs else 1
    return count


def _require_drawn(count: int, tensors: list[Tensor]) -> None:
    """Raises DataDependentError if an op, such as the gradient of dropout, would use other numbers than were drawn."""
    needed = prod(broadcast_shapes("vmap", [tensor.shape for tensor in tensors]))
    for batch in active.batches:
        needed *= batch.size if any(_varies_in(tensor, batch) for tensor in tensors) else 1
    if needed != count:
        raise DataDependentError


def _before_draw(generator: random.Generator) -> None:
    for drawn in active.drawn:
        drawn.setdefault(generator, (generator._seed, generator._offset))


def rewind(drawn: dict[random.Generator, tuple[int, int]]) -> None:
    """Reset generators to their positions before a call drew from them."""
    for generator, position in drawn.items():
        generator._restart(*position)


# ---- undoing the writes of an abandoned call


class CreatedMemory:
    """A listener that collects the storages a function creates, in addition to those of `writable` tensors."""

    def __init__(self, writable: Iterable[Tensor]) -> None:
        self.storages, self.thread = WeakSet(map(_memory, writable)), threading.get_ident()

    def __call__(self, op: Op, inputs: tuple, attributes: tuple, outputs: tuple, in_place: bool) -> None:
        if not (in_place or op.is_view):
            self.storages.update(map(_memory, outputs))

    def created(self, tensor: Tensor, how: str) -> None:
        """A tensor was created without an op."""
        self.storages.add(_memory(tensor))


def _memory(x: Tensor) -> Storage:
    """The storage of a tensor's numbers, through all levels of batching."""
    while x._layout.batch is not None:
        x = x._storage.numbers
    return x._storage


def _before_write(target: Tensor) -> None:
    """Save the memory and history that a write changes, or reject the write."""
    if active.created and not all(_memory(target) in memory.storages for memory in active.created):
        raise RuntimeError(
            "vmap: values that differ between examples cannot be written to a tensor that all examples share. A "
            "function that must be called for each example, since it reads values that differ, may not write to such "
            "a tensor at all. Pass the tensor as an argument with a batch dimension (in_dims), create it inside the "
            "function, or use an operation that is not in-place"
        )
    if not active.written:
        return
    key = (id(target._storage), target._offset, target._layout)
    owner = target if target._base is None else target._base
    if any(key not in written for written in active.written):
        with no_grad():
            # a write to a batched tensor writes to its numbers, which are saved then
            content = target.detach().clone() if target._layout.batch is None else None
        before = target.detach(), content, owner, owner._node, owner._output, owner._requires_grad
        for written in active.written:
            written.setdefault(key, before)


@contextmanager
def vmap_running() -> Iterator[None]:
    """Inside the block, this thread runs a call of `vmap`, and `_before_write` sees every in-place write."""
    dispatch.state.vmap_depth += 1  # a graph from outside the call is traversed for each example
    extensions.write_watchers.append(_before_write)
    try:
        yield
    finally:
        extensions.write_watchers.remove(_before_write)
        dispatch.state.vmap_depth -= 1


def undo(written: dict[tuple, tuple]) -> None:
    """Restore everything a call has written to, in reverse order."""
    for target, content, owner, *history in reversed(written.values()):
        if content is not None:
            with no_grad():
                target.copy_(content)
        owner._node, owner._output, owner._requires_grad = history


def _check_leaves(tensors: Iterable[object]) -> None:
    """Raises DataDependentError if a tensor requires gradients outside of `vmap`, which differ between examples."""
    if active.batches and any(
        isinstance(tensor, Tensor)
        and (numbers_require_grad(tensor) or tensor.requires_grad and tensor._layout.batch is not active.batches[-1])
        for tensor in tensors
    ):
        raise DataDependentError


extensions.provide(plan_batched=plan_batched, plan_batched_into=plan_batched_into, check_leaves=_check_leaves)
extensions.provide(random_tensor=_random_tensor, random_count=_random_count, before_draw=_before_draw)
