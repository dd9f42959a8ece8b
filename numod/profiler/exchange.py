"""Exchange: temporary replacement of functions (monkey patching). By what they are replaced is decided in `watch`.

Attributes that are looked up at each call (methods in classes, functions in modules) are replaced there. A function that other modules have
imported by name must stay the same object: its code object is replaced. So there is no overhead while nothing is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType


class Exchange:
    """A set of replacements; `undo` reverts them, the last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: type | ModuleType | object, name: str, make: Callable[[Callable], Callable]) -> None:
        """Replace an attribute in the `__dict__` of `owner` by `make(original)`."""
        original = vars(owner)[name]
        self._undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, make(original))

    def add(self, owner: type, name: str, function: Callable) -> None:
        """Add a method to `owner`."""
        setattr(owner, name, function)
        self._undo.append(lambda: delattr(owner, name))

    def recode(self, function: FunctionType, body: FunctionType, **names: object) -> None:
        """Give `function`, whoever holds it, the code of `body` with the same parameters, or any. In it `plain` is the original, `names` what they are given
        as.

        A function finds its globals where it was defined: there, what `body` names is put under names of our own. It keeps its closure, unread.
        """
        code, space = function.__code__, function.__globals__
        names["plain"] = plain = FunctionType(code, space, function.__name__, function.__defaults__, function.__closure__)
        plain.__kwdefaults__ = function.__kwdefaults__
        own = {name: f"_{function.__name__}_{name}" for name in names}
        # the names stay: removing one would invalidate the caches of every global lookup there
        space.update({own[name]: value for name, value in names.items()})
        self.exchange_code(
            function, body.__code__.replace(co_names=tuple(own.get(name, name) for name in body.__code__.co_names), co_freevars=code.co_freevars)
        )

    def exchange_code(self, function: FunctionType, code: CodeType) -> None:
        """Set a function's code object again to one that `recode` made before: faster."""
        before, function.__code__ = function.__code__, code
        self._undo.append(lambda: setattr(function, "__code__", before))

    def later(self, undo: Callable[[], object]) -> None:
        """Also call this in `undo`."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Revert all replacements."""
        while self._undo:
            self._undo.pop()()
