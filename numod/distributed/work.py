"""Work: a collective that was begun. Waiting for one is bounded by the group's timeout."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..graph.capture.recorder import line
from .errors import DistBackendError

if TYPE_CHECKING:
    from .group import ProcessGroup

_SPINS = 50  # tests before the processor is given to others, which a late rank may need
_yield = getattr(os, "sched_yield", lambda: time.sleep(0))


def complete(
    request: Any, group: ProcessGroup, name: str, where: str = "", timeout: float | None = None,
    awaited: int | None = None,
) -> None:  # fmt: skip
    """Wait for a request. Raises DistBackendError after the timeout, with the ranks that have not arrived, or where a
    rank of this machine has ended: the awaited one, for a message of one rank.
    """
    test = request.Test
    try:
        for _ in range(_SPINS):
            if test():
                return
        start = time.monotonic()
        next_check = 1.0  # for ranks that have ended
        while not test():
            waited = time.monotonic() - start
            if waited > (group.timeout if timeout is None else timeout):
                raise DistBackendError(_late(group, name, where or line(), waited))
            if waited > next_check:
                next_check = waited + 1.0
                if group.board.ended(group, awaited) and not test():
                    raise DistBackendError(_late(group, name, where or line(), waited, is_late=False))
            if waited > 0.02:
                time.sleep(0.0002)
            else:
                _yield()
    except RuntimeError as error:
        if isinstance(error, DistBackendError):
            raise
        raise DistBackendError(
            f"{name} on rank {group.ranks[group.group_rank]} at {where or line()} failed: {error}"
        ) from error


def _late(group: ProcessGroup, name: str, where: str, waited: float, is_late: bool = True) -> str:
    outcome, advice = "cannot complete", ""
    if is_late:
        outcome, advice = "Timed out", ". init_process_group(timeout=...) sets the time"
    return (
        f"{name} on rank {group.ranks[group.group_rank]} of {group.ranks}: {outcome} after {waited:.1f} s at {where}: "
        f"{group.board.missing(group)}{advice}"
    )


class Work:
    """The handle of a collective with async_op=True. Its tensors are complete after `wait`."""

    def __init__(
        self,
        request: Any,
        group: ProcessGroup,
        name: str,
        finish: Callable[[], None],
        result: list[Tensor],
        source: Callable[[], int] | None = None,
    ) -> None:
        self._request, self._group, self._name, self._where = request, group, name, line()
        self._finish: Callable[[], None] | None = finish
        self._result, self._source, self._error = result, source, None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the tensors are complete. Returns True; raises DistBackendError after the timeout."""
        if self._finish is not None:
            seconds = timeout.total_seconds() if timeout else None
            try:
                complete(self._request, self._group, self._name, self._where, seconds)
            except DistBackendError as error:
                self._error = error
                raise
            self._end()
        return True

    def is_completed(self) -> bool:
        """Whether it has completed. Asking also lets MPI go on with the transfer."""
        if self._finish is not None and self._request.Test():
            self._end()
        return self._finish is None

    def _end(self) -> None:
        finish, self._finish = self._finish, None
        finish()

    def is_success(self) -> bool:
        """Whether it has completed without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The error that `wait` raised."""
        return self._error

    def source_rank(self) -> int:
        """The rank that a received tensor came from."""
        self.wait()
        return -1 if self._source is None else self._source()

    _source_rank = source_rank

    def result(self) -> list[Tensor]:
        """The tensors that it writes."""
        self.wait()
        return self._result

    def synchronize(self) -> None:
        """`wait`."""
        self.wait()

    def get_future(self) -> Any:
        """A `numod.futures.Future` of the result. Its `wait`, or that of a future made by `then`, waits for this."""
        from ..futures import Future

        future: Future = Future()

        def advance(waits: bool) -> None:
            try:
                if waits or self.is_completed():
                    future.set_result(self.result())
            except Exception as error:
                future.set_exception(error)

        future._source = advance
        return future
