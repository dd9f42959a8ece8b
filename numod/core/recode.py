"""Another code for a function that others hold: it stays the same object.

So what watches, casts or overrides functions costs nothing while nobody does.

A function may have two codes over its own: that of `overrides`, always the outermost, and one of a
`profiler.exchange.Exchange`.
"""

from __future__ import annotations

from opcode import opmap
from types import CodeType, FunctionType

behind: dict[FunctionType, FunctionType] = {}  # what is called behind a function that classes may override
_numbers: dict[FunctionType, int] = {}


def original(function: FunctionType) -> FunctionType:
    """A function of the same code, with the same defaults and closure."""
    result = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    result.__kwdefaults__, result.__annotations__ = function.__kwdefaults__, function.__annotations__
    result.__dict__.update(function.__dict__)
    return result


def recoded(function: FunctionType, body: FunctionType, /, **names: object) -> CodeType:
    """The code of `body` for `function`, which keeps its parameters' defaults and its closure, unread.

    `names`: what the globals are that `body` names.

    A function finds its globals where it was defined: there, they are put under names of our own. They stay: removing
    one would invalidate the caches of every global lookup there.
    """
    number = _numbers.setdefault(function, len(_numbers))
    own = {name: f"_{function.__name__}_{number}_{body.__name__}_{name}" for name in names}
    function.__globals__.update({own[name]: value for name, value in names.items()})
    code, free = body.__code__, function.__code__.co_freevars
    code = code.replace(co_names=tuple([own.get(name, name) for name in code.co_names]), co_freevars=free)
    if not free:
        return code
    if code.co_exceptiontable:
        raise ValueError(
            f"{body.__name__}: the code for a closure may have no `try`, whose table would have to be moved"
        )
    # the instruction that hands a frame its closure, without a line: a debugger that looks at the frame's variables
    # finds no memory without it
    return code.replace(
        co_code=bytes((opmap["COPY_FREE_VARS"], len(free))) + code.co_code, co_linetable=b"\xf8" + code.co_linetable
    )
