"""Functions that kernels call besides those of `math`: the registry of those in `library`, and of ops' own.

Their text is copied into each kernel that calls them.

Written for every target: plain arithmetic on numbers, or on a part of a flat array; no exceptions. Float literals take
the kernel's `real` type.
"""

from __future__ import annotations

functions: dict[str, object] = {}
wide: set[object] = set()  # functions whose float literals stay float64
inlined: set[object] = set()  # functions that a processor's kernels hold wherever they call them
shared: set[object] = set()  # functions that are compiled apart, once for all of a processor's kernels that call them


def scalar(function: object) -> object:
    """Make a function callable from kernels."""
    functions[function.__name__] = function
    return function


def wide_scalar(function: object) -> object:
    """Make a function callable from kernels that computes in float64 whatever the kernel's type."""
    wide.add(function)
    return scalar(function)


def inlined_scalar(function: object) -> object:
    """Make a function callable from kernels that LLVM finds too long to inline, though a loop around it becomes vectors
    only where it is.
    """
    inlined.add(function)
    return scalar(function)


def shared_scalar(function: object) -> object:
    """Make a function callable from kernels that is long, and takes long beside a call: a processor's kernels share its
    machine code.
    """
    shared.add(function)
    return scalar(function)
