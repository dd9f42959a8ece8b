"""`numod.__config__`: what runs the kernels, where PyTorch tells how it was built.

`python -m numod doctor` says more, and what is wrong.
"""

from __future__ import annotations

from importlib.metadata import version

from .. import __version__
from ..device.threads import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The versions of numod and of what compiles its kernels.

    It names no library of PyTorch's, such as MKL: none is used.
    """
    return "\n".join(
        (f"numod {__version__}", *(f"  - {name} {version(name)}" for name in ("numba", "llvmlite", "numpy")))
    )


def parallel_info() -> str:
    """The threads of a parallel kernel."""
    return f"numod.get_num_threads() : {get_num_threads()}"
