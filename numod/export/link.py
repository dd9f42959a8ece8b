"""The main function of an exported program: its kernel calls over addresses that are arguments.

No table in memory that a caller would have to fill.

Numbers that differ between the iterations of a loop are in a constant array of the object file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..graph.backend.link import Linker
from ..graph.backend.lower import Buffer, Call, CheckCall, Integer, Number
from ..kernel import bind

_OFFSETS = (1 << 63) - 1  # a generator's offset wraps there


@dataclass(frozen=True)
class Main:
    """The text of a function `kernel(*names)` whose arguments are addresses, the numbers of its constant array, and the
    functions that it calls.
    """

    text: str
    names: tuple[str, ...]
    table: tuple[int, ...]
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Stream:
    """Random numbers: where in the state seed and offset are, how many numbers are drawn before each draw, and by a
    run.
    """

    place: int
    before: dict[int, int]
    count: int


def main_function(
    calls: Sequence[Call | CheckCall],
    places: dict[Buffer, int],
    names: dict[Buffer, str],
    order: Sequence[str],
    stream: Stream | None = None,
    apart: bool = False,
) -> Main:
    """The function that runs the calls.

    `places`: byte offsets of buffers in what they lie in; `names`: the argument that is the address of that.

    `order`: the arguments. The result is 0 or the number of a failed check. `apart`: what one kernel writes is not
    known to be what another one reads, as in functions of `numod.compile`, so that both round alike.
    """
    return MainLinker(places, names, stream, apart).main(calls, order)


class MainLinker(Linker):
    """Writes calls over addresses that are arguments."""

    first = 0

    def __init__(self, places: dict[Buffer, int], names: dict[Buffer, str], stream: Stream | None, apart: bool) -> None:
        super().__init__(places, (), dynamic=False)
        self.names, self.stream, self.apart = names, stream, apart
        self.bases: dict[object, str] = {}  # of one call: names of addresses, by what they are the address of

    def main(self, calls: Sequence[Call | CheckCall], order: Sequence[str]) -> Main:
        lines = self._lines(calls)
        head = f"    table = view_int64(constant_address(), {len(self.slots)})\n" if self.slots else ""
        if self.stream is not None:
            head += f"    stream = view_int64(weights + {self.stream.place}, 2)\n"
        lines += self._advance()
        backend = next(call.kernel.device.backend for call in calls if isinstance(call, Call))
        return Main(
            bind.headed(self._text(order, head, lines), backend),
            tuple(order),
            tuple(self.slots),
            tuple(self.functions.values()),
        )

    def _advance(self) -> list[str]:
        """The statement that counts the random numbers of a run."""
        return [] if self.stream is None else [f"    stream[1] = (stream[1] + {self.stream.count}) & {_OFFSETS}"]

    def _argument(self, each: object) -> str:
        if not isinstance(each, (Number, Integer)):
            return super()._argument(each)
        return f"((stream[1] + {self.stream.before[each.source]}) & {_OFFSETS})" if each.index else "stream[0]"

    def _call(self, call: Call, arguments: list[str], indent: str) -> list[str]:
        return [*self._bases(indent), *super()._call(call, arguments, indent)]

    def _test(self, test: CheckCall, number: int) -> list[str]:
        lines = super()._test(test, number)
        return [*self._bases("    "), *lines]

    def _bases(self, indent: str) -> list[str]:
        made = [f"{indent}{name} = opaque({self.names[key[-1]]})" for key, name in self.bases.items()]
        self.bases = {}
        return made

    def _address(self, buffer: Buffer) -> str:
        name = self.names[buffer]
        if not self.apart or buffer.kind == "input":
            return name
        key = ("arena", buffer) if buffer.kind == "local" else (buffer,)
        for known, base in self.bases.items():
            if known == key or known[0] == key[0] == "arena":
                return base
        return self.bases.setdefault(key, f"base{len(self.bases)}")

    def _address_in_loop(self, turns: list[Buffer], cell: Callable[[list[int]], str]) -> str:
        found = list(dict.fromkeys(self.names[each] for each in turns))
        text = found[-1]
        if len(found) > 1:
            which = cell([found.index(self.names[each]) for each in turns])
            for number, name in reversed([*enumerate(found[:-1])]):
                text = f"({name} if {which} == {number} else {text})"
        return text
