"""Replacing the `__code__` of a function, which stays the same object for code that has imported it.

Profiling, autocast and overrides of functions thus cost nothing while they are not active.

A function may have two replacements: the outer one is by `overrides`, the inner one by a `profiler.exchange.Exchange`.
"""

from __future__ import annotations

from opcode import opmap
from types import CodeType, FunctionType

originals: dict[FunctionType, FunctionType] = {}  # overridable function -> a function with its original code
_numbers: dict[FunctionType, int] = {}


def original(function: FunctionType) -> FunctionType:
    """A function with the same code, defaults and closure."""
    result = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    result.__kwdefaults__, result.__annotations__ = function.__kwdefaults__, function.__annotations__
    result.__dict__.update(function.__dict__)
    return result


def recoded(function: FunctionType, body: FunctionType, /, **names: object) -> CodeType:
    """The code of `body` for use in `function`, which keeps its own defaults and closure.

    `names` are the values of globals that `body` uses. They are stored under generated names in the module of
    `function`, and stay there: removing one would invalidate the caches of all global lookups in the module.
    """
    number = _numbers.setdefault(function, len(_numbers))
    global_names = {name: f"_{function.__name__}_{number}_{body.__name__}_{name}" for name in names}
    function.__globals__.update({global_names[name]: value for name, value in names.items()})
    code, closure_variables = body.__code__, function.__code__.co_freevars
    code = code.replace(
        co_names=tuple([global_names.get(name, name) for name in code.co_names]), co_freevars=closure_variables
    )
    if not closure_variables:
        return code
    if code.co_exceptiontable:
        raise ValueError(
            f"{body.__name__}: the code for a closure may have no `try`, whose table would have to be moved"
        )
    # the instruction that passes the closure to the frame, without a line number: debuggers that read the frame's
    # variables crash without it
    return code.replace(
        co_code=bytes((opmap["COPY_FREE_VARS"], len(closure_variables))) + code.co_code,
        co_linetable=b"\xf8" + code.co_linetable,
    )
