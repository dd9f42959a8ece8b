"""Comparison of the ranks' calls before each collective, with NUMOD_DISTRIBUTED_DEBUG=1.

Ranks that call different collectives, or the same with other shapes, would wait for each other or exchange garbage.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from .. import config
from ..graph.capture.recorder import line
from .engine import mpi_type
from .errors import DistBackendError
from .group import ProcessGroup, current
from .work import complete

_LENGTH = 512  # bytes of a description
_OWN_SHAPES = ("gather", "scatter", "all_to_all")  # only one rank has all tensors, or the ranks' shapes may differ


class DebugLevel(IntEnum):
    """How much is checked. DETAIL compares the ranks' calls; INFO is the same as OFF here."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def _level_of_environment() -> DebugLevel:
    return DebugLevel.DETAIL if config.distributed_debug() else DebugLevel.OFF


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level: NUMOD_DISTRIBUTED_DEBUG's, unless `set_debug_level` was called."""
    global _level
    if _level is None:
        _level = _level_of_environment()
    return _level


def set_debug_level(arg: DebugLevel) -> None:
    """Set the level, the same on all ranks. Raises TypeError for other values."""
    global _level
    if not isinstance(arg, DebugLevel):
        raise TypeError(f"set_debug_level: expected a member of DebugLevel such as DebugLevel.DETAIL, got {arg!r}")
    _level = arg
    for group in current.groups:
        group.remembered.clear()  # calls that skip the comparison


def set_debug_level_from_env() -> None:
    """Set the level from NUMOD_DISTRIBUTED_DEBUG as it is now."""
    set_debug_level(_level_of_environment())


def debugging() -> bool:
    """Whether the ranks' calls are compared."""
    return get_debug_level() is DebugLevel.DETAIL


def compare(group: ProcessGroup, name: str, layouts: tuple, details: tuple) -> None:
    """Raise DistBackendError on all ranks if their calls differ, with each rank's call and line."""
    if group.single:
        return
    shapes = [f"{x.dtype.name} {list(x.shape)}" for x in layouts] if not name.startswith(_OWN_SHAPES) else []
    numbers = [str(detail) for detail in details if not isinstance(detail, tuple)]
    call = f"{name}({', '.join([*shapes, *numbers])})"
    fingerprint = np.zeros(_LENGTH, np.uint8)
    text = f"{call}\0{line()}".encode()[:_LENGTH]
    fingerprint[: len(text)] = np.frombuffer(text, np.uint8)
    every, kind = np.empty((group.size(), _LENGTH), np.uint8), mpi_type("uint8", False)
    complete(group.communicator.Iallgather([fingerprint, kind], [every, kind]), group, name)
    calls = [row.tobytes().rstrip(b"\0").decode(errors="replace").split("\0") for row in every]
    if len({call for call, *_ in calls}) > 1:
        described = "; ".join(
            f"rank {rank} calls {call} at {''.join(at)}" for rank, (call, *at) in zip(group.ranks, calls)
        )
        raise DistBackendError(f"Detected mismatch between collectives on ranks: {described}")
