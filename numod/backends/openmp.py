"""`numod.backends.openmp`: whether parallel kernels can use OpenMP."""

from __future__ import annotations


def is_available() -> bool:
    """Whether Numba has its OpenMP threading layer here."""
    try:
        from numba.np.ufunc import omppool  # noqa: F401
    except ImportError:
        return False
    return True
