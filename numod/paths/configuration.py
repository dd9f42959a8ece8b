"""`numod.__config__`: the versions that run the kernels. `python -m numod doctor` reports more, and problems."""

from __future__ import annotations

from importlib.metadata import version

from .. import __version__
from ..device.threads import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of numod and of the packages that compile its kernels. Libraries such as MKL are not used."""
    return "\n".join(
        (f"numod {__version__}", *(f"  - {name} {version(name)}" for name in ("numba", "llvmlite", "numpy")))
    )


def parallel_info() -> str:
    """The number of threads of a parallel kernel."""
    return f"numod.get_num_threads() : {get_num_threads()}"
