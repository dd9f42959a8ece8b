"""Runs collectives: directly on the tensors' memory or, while a listener is active, as an op of the dispatch.

A compiled function records that op, so a collective is a step of its program, as is the wait for one begun with
async_op=True. Which MPI function a collective calls is in `calls`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..core import apply as dispatch
from ..core.listeners import active_listeners, listeners
from ..core.create.creation import empty
from ..core.tensor import Tensor
from ..device import Layout
from ..ops.op import Op, Plan
from .engine import mpi_operation, mpi_type
from .errors import DistBackendError
from .fingerprint import compare, debugging
from .group import ProcessGroup, current
from .reduce_op import ReduceOp
from .work import Work, complete

_REMEMBERED = 1000  # calls that a group caches; when it is full, the cache is cleared
_TESTS = 50  # about 5 us, in which a small all_reduce ends without the checks of `complete`
_tokens = itertools.count()
_begun: dict[int, tuple] = {}  # requests of recorded collectives that have begun and are not yet waited for


class Collective(Op):
    """`start(group, sends, receives, dtype, *details)` begins it on flat arrays and returns MPI's request.

    Parameters are (group, number of tensors sent, token or None to wait at once, details).
    """

    attributes = ("group", "sent", "token", "details")
    differentiable = upcasts_half = portable = repeatable = False
    reports = True

    def __init__(self, name: str, start: Callable) -> None:
        super().__init__(name)
        self.start = start

    def prepare_into(self, arguments: tuple, attributes: tuple, into: tuple, over: tuple) -> Plan:
        """The plan of a call on (*sent, *written) tensors, which are dense and on the CPU."""
        group, sent, token, details = attributes

        def launch(*buffers: np.ndarray) -> None:
            arrays = [buffer[: layout.size] for buffer, layout in zip(buffers, arguments)]
            specifications = [[a.view(a.dtype), kind(group, x)] for a, x in zip(arrays, arguments)]
            request = self.begin(group, specifications[:sent], specifications[sent:], arguments, details)
            if token is None:
                complete(request, group, self.name)
            else:
                _begun[token] = request, group, self.name, arrays

        return Plan(into, launch)

    def begin(self, group: ProcessGroup, sends: list, receives: list, layouts: tuple, details: tuple) -> Any:
        """Begin it, and count it on the board. With NUMOD_DISTRIBUTED_DEBUG=1 the ranks compare their calls first."""
        group.counts[group.slot] += 1
        if debugging():
            compare(group, self.name, layouts, details)
        try:
            return self.start(group, sends, receives, layouts[-1].dtype.name if layouts else "", *details)
        except RuntimeError as error:  # mpi4py's exceptions are
            raise DistBackendError(f"{self.name} on rank {group.ranks[group.group_rank]} failed: {error}") from error


class _Wait(Op):
    """Waits for the collective of a token; it writes the tensors."""

    attributes = ("token",)
    differentiable = upcasts_half = portable = repeatable = False
    reports = True

    def prepare_into(self, arguments: tuple, attributes: tuple, into: tuple, over: tuple) -> Plan:
        """The plan of waiting."""

        def launch(*buffers: np.ndarray) -> None:
            for buffer in buffers:
                buffer.dtype  # noqa: B018  (raises for the placeholders of the graph compiler)
            request, group, name, _ = _begun.pop(attributes[0])
            complete(request, group, name)

        return Plan(into, launch)


_wait = _Wait("wait_for_collective")


class RecordedWork(Work):
    """The handle of a collective that was recorded: waiting is a step of the program too."""

    def __init__(self, token: int, written: tuple, group: ProcessGroup, name: str, finish: Callable) -> None:
        super().__init__(None, group, name, finish, list(written))
        self._token, self._written = token, written

    def wait(self, timeout: object = None) -> bool:
        """Record the wait."""
        if self._finish is not None:
            with no_grad():
                dispatch.apply_into(_wait, self._written, self._written, (self._token,))
            self._end()
        return True

    def is_completed(self) -> bool:
        """Whether `wait` was called."""
        return self._finish is None


def kind(group: ProcessGroup, layout: Layout) -> Any:
    """MPI's type of a tensor's elements."""
    return mpi_type(layout.dtype.name, group.single)


def specification(tensor: Tensor, group: ProcessGroup) -> list:
    """MPI's description of a dense tensor's memory."""
    layout, data, offset = tensor._layout, tensor._storage.data, tensor._offset
    size = layout.size
    if offset or len(data) != size:
        data = data[offset : offset + size]
    return [data, mpi_type(layout.dtype.name, group.single)]


def remember(tensor: Tensor, op: ReduceOp, group: ProcessGroup) -> None:
    """Cache an all_reduce that was checked for `repeat`, if the tensor's memory can be used directly.

    `set_debug_level` empties the cache, so that `repeat` need not ask.
    """
    layout = tensor._layout
    if layout.dense and layout.device.type == "cpu" and layout.batch is None and not debugging():
        if len(group.remembered) > _REMEMBERED:
            group.remembered.clear()
        operation = mpi_operation(op, layout.dtype.name, group.single)
        group.remembered[layout, op] = kind(group, layout), operation, group.communicator.Iallreduce


def repeat(tensor: Tensor, op: ReduceOp, group: ProcessGroup | None) -> bool:
    """Run an all_reduce that `remember` cached; false if it did not.

    A small all_reduce takes MPI about as long as the checks and calls that this saves.
    """
    group = current.world if group is None else group
    if listeners or group.__class__ is not ProcessGroup or not isinstance(tensor, Tensor):
        return False
    prepared = group.remembered.get((tensor._layout, op))
    if prepared is None:
        return False
    datatype, operation, begin = prepared
    storage, offset, size = tensor._storage, tensor._offset, tensor._layout.size
    data = storage.data
    if offset or len(data) != size:
        data = data[offset : offset + size]
    try:
        request = begin(group.in_place, (data, datatype), operation)
    except RuntimeError as error:  # mpi4py's exceptions are
        raise DistBackendError(f"all_reduce on rank {group.ranks[group.group_rank]} failed: {error}") from error
    group.counts[group.slot] += 1  # while MPI works
    (tensor._version_counter or storage).version += 1
    test = request.Test
    for _ in range(_TESTS):
        if test():
            return True
    complete(request, group, "all_reduce")
    return True


def run(
    op: Collective,
    sent: tuple[Tensor, ...],
    written: tuple[Tensor, ...],
    group: ProcessGroup,
    details: tuple = (),
    async_op: bool = False,
    finish: Callable[[], None] | None = None,
) -> Work | None:
    """Run a collective that reads `sent` and reads or writes `written`. `finish` is called after it has completed."""
    staged = [_staged(tensor, op.name) for tensor in sent]
    targets = [_staged(tensor, op.name) for tensor in written]
    if listeners and active_listeners():
        return _run_as_op(op, tuple(staged), tuple(targets), written, group, details, async_op, finish)
    request = op.begin(
        group,
        [specification(tensor, group) for tensor in staged],
        [specification(tensor, group) for tensor in targets],
        tuple([tensor._layout for tensor in (*staged, *targets)]),
        details,
    )
    if not async_op:
        complete(request, group, op.name)
        _end(targets, written, finish)
        return None
    # the closure keeps the memory that MPI reads and writes alive
    return Work(request, group, op.name, lambda: (staged, _end(targets, written, finish)), list(written))


def _run_as_op(
    op: Collective,
    sent: tuple,
    targets: tuple,
    written: tuple,
    group: ProcessGroup,
    details: tuple,
    async_op: bool,
    finish: Callable | None,
) -> Work | None:
    """Run a collective as an op of the dispatch, for listeners; return its Work if it is asynchronous."""
    token = next(_tokens) if async_op else None
    # without a written tensor, passes could move the op
    sent, touched = (sent, targets) if targets else ((), sent or (empty(1),))
    with no_grad():
        dispatch.apply_into(op, (*sent, *touched), touched, (group, len(sent), token, details))
    if not async_op:
        _end(targets, written, finish, counted=True)
        return None
    return RecordedWork(token, touched, group, op.name, lambda: _end(targets, written, finish, counted=True))


def _staged(tensor: Tensor, name: str) -> Tensor:
    """The tensor itself if MPI can use its memory (dense, on the CPU), else a dense copy on the CPU."""
    layout = tensor._layout
    if layout.dense and layout.device.type == "cpu" and layout.batch is None:
        return tensor
    if layout.batch is not None or layout.device.type == "meta":
        raise RuntimeError(f"{name}: a tensor of {'vmap' if layout.batch else 'the device meta'} has no memory to send")
    with no_grad():
        return empty(layout.shape, dtype=layout.dtype, pin_memory=layout.device.type == "cuda").copy_(tensor)


def _end(targets: list | tuple, written: tuple, finish: Callable | None, counted: bool = False) -> None:
    """Copy results back to tensors that MPI could not use, bump their versions, and call `finish`."""
    for target, tensor in zip(targets, written):
        if target is not tensor:
            with no_grad():
                tensor.copy_(target)
        elif not counted:
            (tensor._version_counter or tensor._storage).version += 1
    if finish is not None:
        with no_grad():
            finish()
