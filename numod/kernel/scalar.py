"""The registry of functions, besides those of `math`, that kernels call.

Their text is copied into each kernel that calls them. They work on every target: plain arithmetic on numbers, or on a
part of a flat array; no exceptions. Float literals have the kernel's `real` type.
"""

from __future__ import annotations

from types import FunctionType

functions: dict[str, object] = {}
wide: set[object] = set()  # functions whose float literals stay float64
inlined: set[object] = set()  # functions that CPU kernels inline
shared: set[object] = set()  # functions that are compiled once for all CPU kernels
rolled: set[object] = set()  # those whose loops LLVM does not unroll


def scalar(function: object) -> object:
    """Make a function callable from kernels, by its name: two modules cannot both define one."""
    known = functions.setdefault(function.__name__, function)
    if known.__module__ != function.__module__:
        raise NameError(
            f"{known.__module__} already defines the scalar {function.__name__}; rename that of {function.__module__}"
        )
    functions[function.__name__] = function
    return function


def filled(function: FunctionType, name: str, **values: object) -> FunctionType:
    """The function as another one, called `name`, with these values of its compile-time parameters."""
    other = FunctionType(function.__code__, function.__globals__, name)
    other.__kwdefaults__, other.__annotations__ = values, function.__annotations__
    return other


def wide_scalar(function: object) -> object:
    """Make a function callable from kernels that computes in float64 for all kernels."""
    wide.add(function)
    return scalar(function)


def inlined_scalar(function: object) -> object:
    """Make a function callable from kernels and always inline it, so that loops around it are vectorised."""
    inlined.add(function)
    return scalar(function)


def shared_scalar(function: object) -> object:
    """Make a function callable from kernels and compile it once for all CPU kernels.

    For long functions, which take longer than a call.
    """
    shared.add(function)
    return scalar(function)


def rolled_scalar(function: object) -> object:
    """Make a function callable from kernels like `shared_scalar`; LLVM does not unroll its loops.

    For long functions that spend little time in loops that LLVM could unroll. For a Zen 4 it would unroll loops of
    hundreds of instructions, and take up to twice as long for such a function.
    """
    rolled.add(function)
    return scalar(function)
