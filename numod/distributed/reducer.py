"""Reducer: averages the gradients of DistributedDataParallel over the ranks, in buckets, while backward goes on.

Parameters are put in buckets in reverse order, about the order in which backward completes their gradients. When all
gradients of a bucket are there, its all-reduce begins; buckets begin in the same order on all ranks. The end of the
backward pass waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..autograd import engine, no_grad
from ..autograd.tape import edge_to
from ..core.create.creation import zeros
from ..core.tensor import Tensor
from ..dtypes import int32
from ..futures import Future
from .collectives import all_reduce
from .comm_hooks import GradBucket, Hook
from .group import ProcessGroup
from .work import Work

_FINISH_FIRST = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that "
)
_UNUSED = (
    "your module has parameters that were not used in producing loss. You can enable unused parameter detection by "
    "passing the keyword argument `find_unused_parameters=True` to `numod.nn.parallel.DistributedDataParallel`, and by "
    "making sure all `forward` function outputs participate in calculating loss."
)
_NOW_UNUSED = (
    "your training graph has changed in this iteration, e.g., one parameter is used in first iteration, but then got "
    "unused in the second iteration. this is not compatible with static_graph set to True."
)
_TWICE = (
    "Expected to mark a variable ready only once. This error is caused by a parameter that is used by several backward "
    "passes of one forward call, or outside the `forward` function. Parameter at index {} has been marked as ready "
    "twice"
)
_NOW_USED = (
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but then got "
    "used in the second iteration. this is not compatible with static_graph set to True. "
)


class Bucket:
    """Parameters whose gradients are reduced together: `flat` holds them, `views` are its parts in their shapes."""

    def __init__(self, indices: list[int], parameters: list[Tensor]) -> None:
        self.indices = indices
        first = parameters[indices[0]]
        sizes = [parameters[index].numel() for index in indices]
        self.flat = zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self.views = {index: part.view(parameters[index].shape) for index, part in zip(indices, self.flat.split(sizes))}


class _HookWork:
    """A bucket that a hook reduces. Its result is copied to the bucket."""

    def __init__(self, future: Future, flat: Tensor) -> None:
        self.future, self.flat = future, flat

    def is_completed(self) -> bool:
        """Whether there is a result. Asking lets MPI go on."""
        return self.future.done()

    def wait(self) -> None:
        """Wait for the result. Raises the hook's error."""
        with no_grad():
            result = self.future.wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            if result is not self.flat:
                self.flat.copy_(result.view(self.flat.shape))


class _Pass:
    """The state of one backward pass."""

    def __init__(self, buckets: list[Bucket], unused: Iterable[int]) -> None:
        self.waiting = [set(bucket.indices) for bucket in buckets]
        self.works: list[Work | _HookWork] = []
        self.unused, self.began = frozenset(unused), False
        self.used_map: tuple[Tensor, Work] | None = None


class Reducer:
    """Reduces the gradients of `parameters`, which are the same on all ranks."""

    def __init__(
        self,
        parameters: list[Tensor],
        names: list[str],
        group: ProcessGroup,
        limits: list[int],
        find_unused: bool,
        as_view: bool,
        static_graph: bool,
    ) -> None:
        self.parameters, self.names, self.group = parameters, names, group
        self.find_unused, self.as_view, self.static_graph = find_unused or static_graph, as_view, static_graph
        self.divisor = group.size()
        self.buckets = _buckets(parameters, limits)
        self.home = {index: number for number, bucket in enumerate(self.buckets) for index in bucket.indices}
        self.hook: tuple[Any, Hook] | None = None  # reduces the buckets: (its state, the function)
        self.current: _Pass | None = None  # from the forward call to the end of its backward pass
        self.static_unused: frozenset[int] | None = None
        self.started = False  # whether an iteration has begun
        self.used: set[int] = set()  # the parameters that got gradients since the last reduction
        engine.finishing_early = True
        for index, parameter in enumerate(parameters):
            parameter._finish_early = True
            parameter.register_post_accumulate_grad_hook(partial(self._arrive, index))

    def check_finished(self) -> None:
        """Raise RuntimeError if the former backward pass left parameters without gradients."""
        late = self.current
        if late is not None and late.began and any(late.waiting):
            missing = sorted(index for waiting in late.waiting for index in waiting)
            names, rank = ", ".join(self.names[index] for index in missing), self.group.group_rank
            raise RuntimeError(
                f"{_FINISH_FIRST}{_NOW_UNUSED if self.static_graph else _UNUSED}\n"
                f"Parameter indices which did not receive grad for rank {rank}: {' '.join(map(str, missing))}\n"
                f"Parameters which did not receive grad for rank {rank}: {names}"
            )

    def prepare(self, outputs: Any) -> None:
        """Called after a forward call whose backward pass is to reduce. Finds the parameters that it did not use."""
        unused: frozenset[int] = frozenset()
        if self.find_unused:
            unused = self._unused(_roots(tensors_in(outputs))) if self.static_unused is None else self.static_unused
            self.static_unused = unused if self.static_graph else None
        self.current = _Pass(self.buckets, unused)
        if not self.started:
            self.started = True

    def cancel(self) -> None:
        """Called after a forward call whose backward pass is not to reduce."""
        self.current = None

    def reporter(self, tensors: list[Tensor], outputs: Any) -> Callable[[list[bool]], None]:
        """A function that is called with whether the loss uses each of the tensors, when backward begins.

        Parameters on which only unused tensors depend are then unused too. `outputs` are all outputs.
        """
        current, roots = self.current, [_roots([tensor]) for tensor in tensors]
        hidden = _roots(tensor for tensor in tensors_in(outputs) if all(tensor is not known for known in tensors))

        def report(is_used: list[bool]) -> None:
            if current is self.current and not current.began and not all(is_used):
                current.unused = self._unused(
                    hidden + [root for part, used in zip(roots, is_used) if used for root in part]
                )

        return report

    def _unused(self, roots: list) -> frozenset[int]:
        """The parameters on which no root of the graph depends."""
        stack, seen = list(roots), set()
        while stack:
            target = stack.pop()
            if target not in seen:
                seen.add(target)
                if not isinstance(target, Tensor):
                    stack += [edge[0] for edge in target.edges if edge is not None]
        return frozenset(index for index, parameter in enumerate(self.parameters) if parameter not in seen)

    def _arrive(self, index: int, parameter: Tensor) -> None:
        """A parameter's gradient is complete."""
        current = self.current
        self.used.add(index)
        if current is None:
            return
        if not current.began:
            self._begin(current)
        number = self.home[index]
        if index not in current.waiting[number]:
            raise RuntimeError((_NOW_USED if self.static_graph else "") + _TWICE.format(index))
        self._put(index)
        current.waiting[number].remove(index)
        self._start(current)

    def _put(self, index: int) -> None:
        """Write a parameter's gradient, divided, to its bucket; zeros if it has none."""
        parameter = self.parameters[index]
        view, gradient = self.buckets[self.home[index]].views[index], parameter._grad
        if gradient is None:
            view.zero_()
            return
        factor = 1.0 if self.hook is not None else 1.0 / self.divisor  # a hook divides
        with no_grad():
            if gradient._storage is not view._storage:
                view.copy_(gradient * factor if factor != 1.0 else gradient)
            elif factor != 1.0:
                view.mul_(factor)
            if self.as_view:
                parameter._grad = view

    def _begin(self, current: _Pass) -> None:
        """The first gradient of a backward pass has arrived."""
        current.began = True
        engine.running.passes[-1].at_end.append(self._finish)
        with no_grad():
            for index in sorted(current.unused):
                self._put(index)
                current.waiting[self.home[index]].discard(index)
            if self.find_unused:
                # also those of former passes in `no_sync`, whose gradients are reduced with this one's
                used = [index in self.used or index not in current.unused for index in range(len(self.parameters))]
                current.used_map = self._share_used(used)

    def _share_used(self, used: list[bool]) -> tuple[Tensor, Work]:
        """How many ranks use each parameter, once the collective has completed."""
        counts = zeros(len(used), dtype=int32)
        for index, is_used in enumerate(used):
            if is_used:
                counts[index] = 1
        return counts, all_reduce(counts, group=self.group, async_op=True)

    def _start(self, current: _Pass) -> None:
        """Begin the buckets whose turn it is; asking those under way lets MPI go on with them."""
        for work in current.works:
            work.is_completed()
        while len(current.works) < len(self.buckets) and not current.waiting[len(current.works)]:
            current.works.append(self._reduce(len(current.works)))

    def _reduce(self, number: int) -> Work | _HookWork:
        """Begin to reduce a bucket."""
        bucket = self.buckets[number]
        if self.hook is None:
            return all_reduce(bucket.flat, group=self.group, async_op=True)
        state, hook = self.hook
        parameters = [self.parameters[index] for index in bucket.indices]
        with no_grad():
            future = hook(state, GradBucket(number, bucket.flat, parameters, number + 1 == len(self.buckets)))
        if not isinstance(future, Future):
            raise RuntimeError(f"communication hook: expected it to return a Future, got {type(future).__name__}")
        return _HookWork(future, bucket.flat)

    def _finish(self) -> None:
        """At the end of the backward pass: wait, and store the averages in `.grad`."""
        current = self.current
        self._start(current)
        if len(current.works) < len(self.buckets):
            return  # the next forward call raises
        for work in current.works:
            work.wait()
        counts = None
        if current.used_map is not None:
            current.used_map[1].wait()
            counts = current.used_map[0].tolist() if current.unused else None
        self.current = None
        self.used.clear()
        for bucket in self.buckets:
            for index, view in bucket.views.items():
                if index not in current.unused or counts[index]:
                    self._give(self.parameters[index], view)

    def _give(self, parameter: Tensor, view: Tensor) -> None:
        if self.as_view:
            parameter._grad = view
        elif parameter._grad is None:
            parameter._grad = view.clone()
        else:
            with no_grad():
                parameter._grad.copy_(view)

    def shadow(self) -> None:
        """Take part in the collectives of other ranks' backward passes, with zeros."""
        works = [self._share_used([False] * len(self.parameters))[1]] if self.find_unused else []
        for number, bucket in enumerate(self.buckets):
            with no_grad():
                bucket.flat.zero_()
            works.append(self._reduce(number))
        for work in works:
            work.wait()


def _buckets(parameters: list[Tensor], limits: list[int]) -> list[Bucket]:
    """Buckets of at most so many bytes, the last number for all further ones; each of one dtype and device."""
    result, open_ones = [], {}
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        key = parameter.dtype, parameter.device
        members = open_ones.setdefault(key, [])
        members.append(index)
        size = sum(parameters[member].nbytes for member in members)
        if size >= limits[min(len(result), len(limits) - 1)]:
            result.append(Bucket(open_ones.pop(key), parameters))
    return result + [Bucket(members, parameters) for members in open_ones.values()]


def _roots(outputs: Iterable[Tensor]) -> list:
    """What the outputs' gradients go to."""
    return [edge_to(output)[0] for output in outputs if output.requires_grad]


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists, dicts and objects' attributes."""
    result, stack, seen = [], [value], {}
    while stack:
        value = stack.pop()
        if id(value) in seen:  # objects may refer to each other
            continue
        seen[id(value)] = value
        if isinstance(value, Tensor):
            result.append(value)
        elif isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, (tuple, list)):
            stack += value
        else:
            stack += getattr(value, "__dict__", {}).values()
    return result
