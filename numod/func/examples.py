"""Tensors that stand for each example of a batch: what `vmap` gives the function it calls once.

Such a tensor has the shape of one example, and a layout of its own class, which names the `Batch`. Its storage holds
the numbers of all examples, one after the other, in a tensor; so views of it, detached and aliased ones, are views of
one example, and need no rules. An op finds no plan for such a layout, and asks `planned`: that gives one whose run
takes the numbers of all examples, has a rule compute on them, by ordinary ops, and wraps what comes. The tape above
sees tensors of one example, the one below all of them, so that gradients per example and gradients through `vmap` nest.
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

_LIMIT = 1 << 12  # layouts a batch remembers


class DataDependentError(BaseException):
    """What the function asks has no single answer for all examples: it must be called for each.

    No user's `except Exception` may take it.
    """


class _Active(threading.local):
    """The batches of the calls of `vmap` that are running, the outermost first."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.randomness: list[str] = []  # of each, as `vmap` was told
        self.differentiated: list[int] = []  # of each running call of `grad` and its like, how many batches were active
        # of each, what was there before it wrote to it, see `_before_write`
        self.written: list[dict[tuple, tuple]] = []
        self.made: list[Made] = []  # of each call for one example after the other, the memory that it may write to
        # of each, and of all its chunks, where generators were before it drew from them
        self.drawn: list[dict[random.Generator, tuple[int, int]]] = []


active = _Active()


class _ExampleLayout(Layout):
    """The layout of one example of a batch."""

    __slots__ = ("batch",)


class Batch:
    """`size` examples, at a depth of calls of `vmap` in one another.

    Calls of the same size and depth share one batch, so that its plans are used again.
    """

    _known: dict[tuple[int, int], Batch] = {}

    def __init__(self, depth: int, size: int) -> None:
        self.depth, self.size, self.layouts = depth, size, {}

    @classmethod
    def of(cls, size: int) -> Batch:
        """The batch of a call of `vmap` inside those that are active."""
        if len(cls._known) >= _LIMIT:
            cls._known.clear()
        key = len(active.batches), size
        return cls._known.get(key) or cls._known.setdefault(key, cls(*key))

    def layout(self, own: Layout) -> Layout:
        """The same layout, of one example of this batch."""
        found = self.layouts.get(own)
        if found is None:
            if len(self.layouts) >= _LIMIT:
                self.layouts.clear()
            made = _ExampleLayout(own.shape, own.strides, own.dtype, own.device)
            made.batch = self
            found = self.layouts.setdefault(own, made)  # that of another thread, where this was later
        return found

    def wrap(self, numbers: Tensor, each: bool = True) -> Tensor:
        """A tensor of one example, of dense or other `numbers` (size, *shape), or where not `each`, (*shape), the same
        for all.
        """
        shape, storage = numbers.shape[1:] if each else numbers.shape, object.__new__(_BatchedTensor)
        storage.numbers, storage.each = numbers.reshape((self.size, prod(shape)) if each else (prod(shape),)), each
        storage.apart = not numbers._layout.dense
        return wrap(storage, self.layout(layout(shape, numbers.dtype, numbers.device)), 0)

    def numbers(self, x: object) -> tuple[object, bool]:
        """(the numbers of all examples, with a dimension for these in front; True), or (x, False) for what is the same
        for all of them.
        """
        if not isinstance(x, Tensor) or x._layout.batch is not self:
            return x, False
        return _part(x._storage, x._layout, x._offset), x._storage.each

    def whole(self, x: Tensor) -> Tensor:
        """The numbers of all examples, (size, *shape), also of what is the same for all."""
        numbers, each = self.numbers(x)
        return numbers if each else numbers.expand((self.size, *numbers.shape))

    def detached(self, x: Tensor) -> Tensor:
        """A tensor over the same memory without the history of its numbers."""
        result, own = x._alias(Tensor), x._storage
        if own.numbers.requires_grad:
            result._storage = storage = object.__new__(_BatchedTensor)
            storage.numbers, storage.each, storage.apart = own.numbers.detach(), own.each, own.apart
        return result

    def agreed(self, x: Tensor) -> float | int | bool | complex:
        """The number of a tensor of one element, where it is the same for all examples: else raises Disagreement."""
        numbers = self.whole(x).detach().reshape(-1)
        first = numbers[0]
        if not bool(((numbers == first) | ((numbers != numbers) & (first != first))).all()):
            raise _no_answer()
        return first.item()

    def alike(self, x: Tensor) -> Tensor:
        """A tensor that is the same for all examples, as one of this batch; one of this batch over the same memory."""
        return x._alias(Tensor) if x._layout.batch is self else self.wrap(x, each=False)


def _no_answer() -> BaseException:
    """What to raise where there is no single memory or number."""
    ended = (
        "this tensor stands for the examples of a call of vmap that has ended; return it from the function "
        "instead of keeping it"
    )
    return DataDependentError() if active.batches else RuntimeError(ended)


class _BatchedTensor(Storage):
    """The numbers of all examples, (size, n), or where not `each`, (n,), the same for all until one is written to.

    `apart`: they are a copy of what the caller holds.
    """

    __slots__ = ("numbers", "each", "apart")

    @property
    def data(self) -> object:
        """Raises Disagreement: each example has its own memory, so code that needs a memory must be called for each."""
        raise _no_answer()

    def nbytes(self) -> int:
        """The size of one example's numbers in bytes."""
        return self.numbers.shape[-1] * self.numbers.itemsize

    @property
    def version(self) -> int:
        """That of the numbers' own storage."""
        return (self.numbers._own or self.numbers._storage).version

    @version.setter
    def version(self, count: int) -> None:
        """Nothing: the write to the numbers has counted."""


def _part(storage: _BatchedTensor, own: Layout, offset: int) -> Tensor:
    """The numbers at the places that a layout names, as a view.

    Where a gradient may come, of views whose gradients are views too, if these give it.
    """
    flat = storage.numbers
    *lead, n = flat.shape
    if own.dense and own.size == n and offset == 0:
        return flat.reshape((*lead, *own.shape))
    if flat.requires_grad:
        places = sorted(
            (d for d in range(own.ndim) if own.shape[d] != 1 and own.strides[d]), key=lambda d: -own.strides[d]
        )
        sizes = [own.shape[d] for d in places]
        if [own.strides[d] for d in places] == [prod(sizes[k + 1 :]) for k in range(len(sizes))] and own.size:
            part = flat.narrow(-1, offset, prod(sizes)).reshape((*lead, *sizes))
            first = len(lead)
            part = part.permute((*range(first), *(first + places.index(d) for d in sorted(places))))
            part = part.reshape((*lead, *(own.shape[d] if d in places else 1 for d in range(own.ndim))))
            return part.expand((*lead, *own.shape))
        flat = flat.contiguous()
    *across, step = flat._layout.strides  # those of an expanded or transposed argument are its own
    strides = tuple([step * stride for stride in own.strides])
    return dispatch.apply(v.as_strided, (flat,), ((*lead, *own.shape), (*across, *strides), step * offset))


def _innermost(layouts: tuple) -> Batch:
    return max(
        (layout.batch for layout in layouts if isinstance(layout, Layout) and layout.batch is not None),
        key=lambda batch: batch.depth,
    )


def planned(op: Op, layouts: tuple, parameters: tuple) -> Plan:
    """The plan of an op on tensors some of which stand for examples."""
    from .rules import rule_of  # which compute with ops, and these with plans

    batch = _innermost(layouts)
    if op.is_view:
        (own,) = layouts
        found = op.plan([layout(own.shape, own.dtype, own.device, own.strides)], parameters)
        plan = Plan(batch.layout(found.layout), None, offset=found.offset)
        plan.run = dispatch.viewer(plan)
        return plan
    rule, plan = rule_of(op), Plan(None, None)

    def run(inputs: tuple) -> object:
        for x in inputs:
            if x.__class__ is random.Draw:
                _require_drawn(x.count, [input for input in inputs if isinstance(input, Tensor)])
        given, each = zip(*map(batch.numbers, inputs))
        if differs := any(each):
            found = rule(op, batch.size, given, each, parameters)
        else:
            found = dispatch.apply(
                op, tuple([x.contiguous() if isinstance(x, Tensor) else x for x in given]), parameters
            )
        return tuple([batch.wrap(one, differs) for one in found]) if op.outputs else batch.wrap(found, differs)

    plan.run = run
    return plan


def planned_into(op: Op, layouts: tuple, parameters: tuple) -> Plan:
    """The plan of an op that writes over tensors, where some of all stand for examples."""
    from .rules import write_each

    batch, plan = _innermost(layouts), Plan(None, None)

    def run(inputs: tuple, targets: tuple) -> None:
        for each in targets:
            if each._layout.batch is not batch:
                raise DataDependentError
            if each._storage.apart:
                raise DataDependentError
            if not each._storage.each:
                each._storage.numbers, each._storage.each = each._storage.numbers.expand((batch.size, -1)).clone(), True
        written = tuple(batch.numbers(target)[0] for target in targets)
        given = [
            next(((whole, True) for whole, target in zip(written, targets) if target is x), None) or batch.numbers(x)
            for x in inputs
        ]
        write_each(op, batch.size, tuple(x for x, _ in given), tuple(each for _, each in given), written, parameters)

    plan.run = run
    return plan


def numbers_require_grad(x: object) -> bool:
    """Whether a tensor stands for examples whose numbers something outside of `vmap` wants the gradient of."""
    return (
        isinstance(x, Tensor)
        and x._layout.batch is not None
        and (x._storage.numbers.requires_grad or numbers_require_grad(x._storage.numbers))
    )


def _stands_for(x: Tensor, batch: Batch) -> bool:
    """Whether a tensor's numbers differ by example of a batch, which need not be the innermost."""
    while x._layout.batch is not None:
        if x._layout.batch is batch:
            return x._storage.each
        x = x._storage.numbers
    return False


def _made(make: Callable, shape: tuple) -> Tensor:
    """A random tensor, for each example of the batches whose examples are to differ."""
    batches = [batch for batch, randomness in zip(active.batches, active.randomness) if randomness == "different"]
    result = make((*(batch.size for batch in batches), *shape))
    for batch in batches:
        result = batch.wrap(result)
    return result


def _count(x: Tensor, in_place: bool) -> int:
    """How many numbers an op draws for a tensor.

    Raises Disagreement where examples would share what is to differ, or the reverse.
    """
    count = x.numel()
    for batch, randomness in zip(active.batches, active.randomness):
        differs = _stands_for(x, batch)
        if (in_place and differs) or differs != (randomness == "different"):
            raise DataDependentError
        count *= batch.size if differs else 1
    return count


def _require_drawn(count: int, tensors: list[Tensor]) -> None:
    """Raises Disagreement where an op, a gradient of dropout say, would take other numbers for an example than were
    drawn for it.
    """
    wanted = prod(broadcast_shapes("vmap", [tensor.shape for tensor in tensors]))
    for batch in active.batches:
        wanted *= batch.size if any(_stands_for(tensor, batch) for tensor in tensors) else 1
    if wanted != count:
        raise DataDependentError


def _before_draw(generator: random.Generator) -> None:
    for drawn in active.drawn:
        drawn.setdefault(generator, (generator._seed, generator._offset))


def rewind(drawn: dict[random.Generator, tuple[int, int]]) -> None:
    """Put generators back to where they were before a call drew from them."""
    for generator, place in drawn.items():
        generator._restart(*place)


# ---- what a call that is given up must not leave behind
# -----------------------------------------------------------------


class Made:
    """Listens at the waist for what a function makes: `storages` are those of that and of the tensors `own`."""

    def __init__(self, own: Iterable[Tensor]) -> None:
        self.storages, self.thread = WeakSet(map(_memory, own)), threading.get_ident()

    def __call__(self, op: Op, inputs: tuple, parameters: tuple, outputs: tuple, in_place: bool) -> None:
        if not (in_place or op.is_view):
            self.storages.update(map(_memory, outputs))

    def made(self, tensor: Tensor, how: str) -> None:
        """A tensor came to be without an op."""
        self.storages.add(_memory(tensor))


def _memory(x: Tensor) -> Storage:
    """The storage that has a tensor's numbers, or those of the examples that it stands for."""
    while x._layout.batch is not None:
        x = x._storage.numbers
    return x._storage


def _before_write(target: Tensor) -> None:
    """Keep what a write changes while a call is for all examples: memory, and the history of the tensor that has it."""
    if active.made and not all(_memory(target) in made.storages for made in active.made):
        raise RuntimeError(
            "vmap: an in-place write of values that differ by example is not possible in a tensor that is the same "
            "for all examples, nor any write to one in "
            "a function that must be called for each, as it reads what differs; give the tensor as an argument that "
            "has a dimension for the examples "
            "(in_dims), make it inside the function, or use an operation that is not in-place"
        )
    if not active.written:
        return
    place = (id(target._storage), target._offset, target._layout)
    owner = target if target._base is None else target._base
    if any(place not in written for written in active.written):
        with no_grad():
            # else the write to the numbers comes here too
            content = target.detach().clone() if target._layout.batch is None else None
        before = target.detach(), content, owner, owner._node, owner._output, owner._requires_grad
        for written in active.written:
            written.setdefault(place, before)


@contextmanager
def vmap_running() -> Iterator[None]:
    """Inside the block, this thread runs a call of `vmap`, and `_before_write` sees every in-place write."""
    dispatch.state.examples += 1  # a graph from outside, which the function may walk, serves all examples
    extensions.write_watchers.append(_before_write)
    try:
        yield
    finally:
        extensions.write_watchers.remove(_before_write)
        dispatch.state.examples -= 1


def undo(written: dict[tuple, tuple]) -> None:
    """Give back what a call has written to, the latest first."""
    for target, content, owner, *history in reversed(written.values()):
        if content is not None:
            with no_grad():
                target.copy_(content)
        owner._node, owner._output, owner._requires_grad = history


def _require_own(tensors: Iterable[object]) -> None:
    """Raises Disagreement where something outside of `vmap` wants gradients of a tensor: what is to happen with these
    happens with those of each example.
    """
    if active.batches and any(
        isinstance(tensor, Tensor)
        and (numbers_require_grad(tensor) or tensor.requires_grad and tensor._layout.batch is not active.batches[-1])
        for tensor in tensors
    ):
        raise DataDependentError


extensions.provide(plan_batched=planned, plan_batched_into=planned_into, check_leaves=_require_own)
extensions.provide(random_tensor=_made, random_count=_count, before_draw=_before_draw)
