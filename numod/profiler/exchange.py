"""Exchange: temporary replacement of functions (monkey patching). `watch` selects the functions and their replacements.

Attributes that are looked up at each call (methods in classes, functions in modules) are replaced in place. A function
that other modules have imported by name must stay the same object, so its code object is replaced. There is no overhead
while nothing is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType

from ..core.function_code import original, originals, recoded


class Exchange:
    """A set of replacements. `undo` reverts them in reverse order."""

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

    def replace_code(self, function: FunctionType, body: FunctionType, **names: object) -> CodeType:
        """Give `function` the code of `body`, wherever the function is referenced, and return the code.

        `body` has the same parameters, or `*args, **kwargs`. In it `plain` is the original function, and `names` are
        globals.
        """
        function = originals.get(function, function)
        code = recoded(function, body, plain=original(function), **names)
        self.exchange_code(function, code)
        return code

    def exchange_code(self, function: FunctionType, code: CodeType) -> None:
        """Set a function's code object to one that `replace_code` returned before; this is faster."""
        inner = originals.get(function, function)
        before, inner.__code__ = inner.__code__, code
        # by then the original may be stored behind another trampoline
        self._undo.append(lambda: setattr(originals.get(function, function), "__code__", before))

    def later(self, undo: Callable[[], object]) -> None:
        """Call `undo` when the replacements are reverted."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Revert all replacements."""
        while self._undo:
            self._undo.pop()()
