"""The main function of an exported program: its kernel calls over addresses that are arguments.

No table in memory that a caller would have to fill.

Numbers that differ between the iterations of a loop are in a constant array of the object file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..graph.backend.link import Linker
from ..graph.backend.lower import Buffer, Call, Test
from ..kernel import bind


@dataclass(frozen=True)
class Main:
    """The text of a function `kernel(*names)` whose arguments are addresses, the numbers of its constant array, and the
    functions that it calls.
    """

    text: str
    names: tuple[str, ...]
    table: tuple[int, ...]
    functions: tuple[str, ...]


def main_function(
    calls: Sequence[Call | Test], places: dict[Buffer, int], names: dict[Buffer, str], order: Sequence[str]
) -> Main:
    """The function that runs the calls.

    `places`: byte offsets of buffers in what they lie in; `names`: the argument that is the address of that.

    `order`: the arguments. The result is 0 or the number of a failed check.
    """
    return _Linker(places, names).main(calls, order)


class _Linker(Linker):
    first = 0

    def __init__(self, places: dict[Buffer, int], names: dict[Buffer, str]) -> None:
        super().__init__(places, (), dynamic=False)
        self.names = names

    def main(self, calls: Sequence[Call | Test], order: Sequence[str]) -> Main:
        lines = self._lines(calls)
        head = f"    table = view_int64(constant_address(), {len(self.slots)})\n" if self.slots else ""
        backend = next(call.kernel.device.backend for call in calls if isinstance(call, Call))
        return Main(
            bind.headed(self._text(order, head, lines), backend),
            tuple(order),
            tuple(self.slots),
            tuple(self.functions.values()),
        )

    def _address(self, buffer: Buffer) -> str:
        return self.names[buffer]

    def _address_in_loop(self, turns: list[Buffer], cell: Callable[[list[int]], str]) -> str:
        found = list(dict.fromkeys(self.names[each] for each in turns))
        text = found[-1]
        if len(found) > 1:
            which = cell([found.index(self.names[each]) for each in turns])
            for number, name in reversed([*enumerate(found[:-1])]):
                text = f"({name} if {which} == {number} else {text})"
        return text
