"""PyTorch's exceptions of process groups, and the message for a missing MPI."""

from __future__ import annotations

from ..errors import DistError

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "INSTALL", "QueueEmptyError"]
INSTALL = 'it needs mpi4py and an MPI: pip install "numod[mpi]" (or pip install mpi4py mpich)'


class DistBackendError(DistError):
    """A collective failed or timed out."""


class DistNetworkError(DistError):
    """The processes cannot reach each other."""


class DistStoreError(DistError):
    """A key of a store was not set within the timeout."""


class QueueEmptyError(DistStoreError):
    """There is nothing to pop from a store's queue."""
