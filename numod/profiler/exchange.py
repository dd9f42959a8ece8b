"""Exchange: functions that do something else for a while. Not what they do instead: that is `watch`'s.

What is looked up at each call (a method in its class, a function in its module) is replaced there. A function that others have imported by
name must stay the same object: it is given other code. So nobody pays while nothing is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType


class Exchange:
    """The exchanges of one watch; `undo` takes them back, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: type | ModuleType | object, name: str, make: Callable[[Callable], Callable]) -> None:
        """Put `make(original)` in the place of an attribute that `owner` itself holds."""
        original = vars(owner)[name]
        self._undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, make(original))

    def add(self, owner: type, name: str, function: Callable) -> None:
        """Give `owner` a method that it does not have."""
        setattr(owner, name, function)
        self._undo.append(lambda: delattr(owner, name))

    def recode(self, function: FunctionType, body: FunctionType, **names: object) -> None:
        """Give `function`, whoever holds it, the code of `body` with the same parameters, or any. In it `plain` is the original, `names` what they are given as.

        A function finds its globals where it was defined: there, what `body` names is put under names of our own. It keeps its closure, unread.
        """
        code, space = function.__code__, function.__globals__
        names["plain"] = plain = FunctionType(code, space, function.__name__, function.__defaults__, function.__closure__)
        plain.__kwdefaults__ = function.__kwdefaults__
        own = {name: f"_{function.__name__}_{name}" for name in names}
        space.update({own[name]: value for name, value in names.items()})  # they stay: a name that goes costs every look-up there
        self.exchange_code(function, body.__code__.replace(co_names=tuple(own.get(name, name) for name in body.__code__.co_names), co_freevars=code.co_freevars))

    def exchange_code(self, function: FunctionType, code: CodeType) -> None:
        """Give `function` a code of its own, such as `recode` gave it before: quickly."""
        before, function.__code__ = function.__code__, code
        self._undo.append(lambda: setattr(function, "__code__", before))

    def later(self, undo: Callable[[], object]) -> None:
        """Do this, too, when all is undone."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Everything as it was."""
        while self._undo:
            self._undo.pop()()
